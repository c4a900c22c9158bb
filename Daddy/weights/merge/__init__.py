"""Making a version of the shared weights from the contributions of jobs and laptops.

merger             one merge: read inputs, take the lease, commit a version, clean up
merge_inputs       everything that a merge needs, read once after the lease
contributions      contributions on disk: of jobs, of friends' jobs, of laptops in the inbox
compute_version    from the inputs to the version: verdicts, shares, the new state
admission          the rules by which a contribution is admitted or refused (pure)
slot_fencing       refusal of contributions by an older holder of a slot
step_counts        steps of laptops and friends, bounded (pure)
averaging_shares   shares of a version, and the time at which a merge is due (pure)
cleanup            removal of files that no version needs any more
"""
