"""Pure. The questions that ``planner`` puts together, each answered with its reason.

``plan_input`` the moment as every decision reads it · ``job_cap`` number and chaining of successors
· ``job_submission`` jobs submitted, held back, shortened and taken out again · ``release_rollout``
the release of each slot · ``circuit_breaker`` slots that stay empty after failures ·
``node_exclusion`` nodes that are left out · ``submit_blocks`` reasons to submit nothing ·
``draining`` running jobs that are asked to leave and ended · ``sidecar_takeover`` the job that
makes the passes while no controller lives.
"""
