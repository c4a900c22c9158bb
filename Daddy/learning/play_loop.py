"""Plays a policy without learning: in many environments, or in one to show or evaluate it.

Uses the learner's collector, LSTM state and sampling: the same actions, at the same cost.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from Daddy.core.clock import SystemClock
from Daddy.core.errors import WeightsError
from Daddy.core.hyperparameters import seed_for
from Daddy.learning import loop
from Daddy.learning.collector import new_collector, sample
from Daddy.learning.learner_parts import Parts
from Daddy.learning.learner_reporting import record_iteration
from Daddy.learning.policy import find_mismatch
from Daddy.learning.rollout_buffer import Rollout

if TYPE_CHECKING:
    from Daddy.core.hyperparameters import PpoSettings
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.vector_rows import VectorEnv


class Agent:
    """Samples each action from the policy, exactly as the learner's collector does."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy.eval()
        self.start_episode(0)

    def start_episode(self, seed: int) -> None:
        """Start an episode: zero the LSTM state and seed the random generator with `seed`."""
        self._lstm_state = self._policy.initial_state(1)
        self._starts = torch.ones(1, dtype=torch.bool)
        self._generator = torch.Generator().manual_seed(seed_for(seed, "playing"))

    @torch.inference_mode()
    def act(self, observation: Mapping[str, NDArray[Any]]) -> int:
        """Return the next action for an observation of a single environment."""
        batch = {key: torch.from_numpy(np.array(v))[None] for key, v in observation.items()}
        logits, _, self._lstm_state = self._policy.step(batch, self._lstm_state, self._starts)
        self._starts = torch.zeros(1, dtype=torch.bool)
        return int(sample(logits, torch.rand(1, generator=self._generator))[0][0])


def make_agent(policy: ActorCritic, weights: Mapping[str, torch.Tensor], label: str) -> Agent:
    """Load `weights` into `policy` and return its agent; WeightsError if the shapes differ."""
    if mismatch := find_mismatch(policy.state_dict(), weights):
        raise WeightsError(
            f"{label} has weights of another network: {mismatch}",
            "play with the release and the workload that the weights were trained with",
        )
    policy.load_state_dict(dict(weights))
    return Agent(policy)


def play(parts: Parts) -> loop.TrainingOutcome:
    """Play the newest version until a stop reason; adopt newer versions between rollouts."""
    learner = loop.start_learner(parts)
    while (stop := loop.stop_reason(learner)) is None:
        loop.adopt_newer(learner, learns=False)
        if loop.collect_rollout(learner):
            learner.counters.iterations += 1
            record_iteration(learner)
    return loop.TrainingOutcome(*stop, learner.counters.env_steps)


class BenchmarkPlayer:
    """Plays a policy in N environments, to measure the speed; learns and saves nothing."""

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
        self._collector = new_collector(vector, policy, settings, seed, SystemClock())
        seeds = [seed_for(seed, "environment", env=env) for env in range(vector.num_envs)]
        self._collector.observations = vector.reset(seeds)

    def step(self) -> int:
        """Play one horizon in every environment; return the number of steps of all together."""
        self._collector.collect(self._rollout, lambda: None)
        return int(self._rollout.rewards.size)
