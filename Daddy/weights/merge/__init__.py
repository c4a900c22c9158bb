"""Making a version.

merger         one merge: look, lease, inputs, version, effects
merge_inputs   everything a merge needs, read once after the lease
contributions  contributions on disk: of jobs, of friends' jobs, and of laptops in the inbox
judging        from the inputs to the version: verdicts, shares, the new state
admission      the rules of the gate, each refusal with its reason (pure)
fencing        contributions that an older holder of a slot offers too late
weighting      shares of a version, and when to merge (pure)
retention      removal of what no version needs any more
"""
