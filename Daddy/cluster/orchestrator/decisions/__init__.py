"""Pure. Makes the decisions that ``planner`` combines, each with its reason.

``plan_input``: the input of all decisions · ``job_cap``: number of jobs and chaining of successors
· ``job_submission``: jobs to submit, hold, shorten and cancel · ``release_rollout``: the release of
each slot · ``circuit_breaker``: slots that stay empty after failures · ``node_exclusion``: nodes to
avoid · ``run_pauses``: reasons to submit nothing · ``job_ending``: running jobs to signal and
cancel · ``controller_failover``: the job that makes the passes while no controller lives.
"""
