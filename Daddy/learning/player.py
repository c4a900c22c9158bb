"""Playing a policy without learning: what a laptop does, and what `autotune` measures.

Promises the learner's own way of playing (the same collector, memory and sampling), so that a
measured step is a real one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from Daddy.core.seeds import seed_for
from Daddy.learning.collector import Collector
from Daddy.learning.loop import adopt_newer, begin, collect, stop_reason
from Daddy.learning.normalise import RewardNormaliser
from Daddy.learning.parts import Outcome, Parts
from Daddy.learning.record import record
from Daddy.learning.rollout import Rollout

if TYPE_CHECKING:
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.ports import VectorEnv
    from Daddy.learning.settings import PpoSettings


def play(parts: Parts) -> Outcome:
    """Play the newest version until told to stop; adopt newer ones between rollouts."""
    session = begin(parts)
    while (stop := stop_reason(session)) is None:
        adopt_newer(session, learns=False)
        if collect(session):
            session.counters.iterations += 1
            record(session)
    return Outcome(*stop, session.counters.env_steps)


class Player:
    """A policy in N environments, for measuring: nothing is kept and nothing is learnt."""

    def __init__(
        self,
        vector: VectorEnv,
        policy: ActorCritic,
        settings: PpoSettings,
        device: torch.device,
        seed: int,
    ) -> None:
        policy = policy.to(device)
        self._rollout = Rollout(vector, settings, policy.memory)
        seeds = [seed_for(seed, "environment", env=env) for env in range(vector.num_envs)]
        self._collector = Collector(
            vector=vector,
            policy=policy,
            normaliser=RewardNormaliser(vector.num_envs, settings.gamma),
            generator=torch.Generator().manual_seed(seed_for(seed, "playing")),
            settings=settings,
            observations=vector.reset(seeds),
            state=policy.initial_state(vector.num_envs),
            starts=np.ones(vector.num_envs, bool),
        )

    def step(self) -> int:
        """Play one short horizon everywhere; returns how many environment steps that was."""
        self._collector.collect(self._rollout, lambda: None)
        return int(self._rollout.rewards.size)
