"""Which contributions count, each refusal with its reason; who works against the others.

admission  the gate's rules: which contributions count, each refusal with its reason (pure)
fences     what a slot's older holders offer too late
usual      what the other jobs' contributions tell is usual, and which claims are believed (pure)
agreement  cosines between jobs' steps (pure)
conduct    which jobs work against the others, and who is shut out for how long (pure)
sights     how the jobs' newest steps look beside one another
judging    the gate at work on one: record and file
hearing    the gate at work on all of a version: values, beside one another
"""
