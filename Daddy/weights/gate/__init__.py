"""Which contributions count, each refusal with its reason; who works against the others.

fences     what a slot's older holders offer too late
judging    the gate at work on one: record and file
hearing    the gate at work on all of a version: values, beside one another
"""
