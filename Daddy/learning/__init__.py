"""Trains a policy by PPO in any workload's environments; these modules may import torch.

Reading order: `loop.train` is the training loop. `interfaces` declares the parts that it calls,
`learner_parts` builds a learner from a configuration, `learner_state` holds and checkpoints it,
`learner_reporting` writes its events, curves and pictures. In each iteration `collector` fills a
`rollout_buffer` with the `policy`, and `gae` and `ppo` learn from it. `make_vector` runs the
environments in parallel. `startup_preloading` runs before torch is loaded.
"""
