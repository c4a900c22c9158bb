"""PPO over any workload's environments; torch is allowed here.

Reading order: `loop` is THE loop, one scroll. Around it `interfaces` (interfaces to the outside),
`learner_parts` (from a configuration to parts), `learner_state` (state between the loop's steps,
and checkpoints of it) and `run_log` (events, curves, pictures). One iteration: `collector` fills a
`rollout_buffer` with the `policy`, `gae` and `ppo` learn from it. `make_vector` runs the
environments side by side. `preloading` and `env_benchmark` run before torch is loaded and do
without it.
"""
