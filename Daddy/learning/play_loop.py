"""Playing a policy without learning: many environments at once, or one for showing and judging.

Promises the learner's own way of playing (the same collector, memory and sampling): a measured step
is a real one, and equal weights, seeds and observations give equal actions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from Daddy.core.clock import SystemClock
from Daddy.core.errors import WeightsError
from Daddy.learning.collector import new_collector, sample
from Daddy.learning.hyperparameters import seed_for
from Daddy.learning.learner_parts import Parts
from Daddy.learning.loop import Outcome, adopt_newer, begin, collect, stop_reason
from Daddy.learning.policy import misfit
from Daddy.learning.rollout_buffer import Rollout
from Daddy.learning.run_log import record

if TYPE_CHECKING:
    from Daddy.learning.hyperparameters import PpoSettings
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.vector_rows import VectorEnv


class Agent:
    """Draws each action from the policy's distribution, exactly as the learner's collector does."""

    def __init__(self, policy: ActorCritic) -> None:
        self._policy = policy.eval()
        self.begin(0)

    def begin(self, seed: int) -> None:
        """A new episode: an empty memory and dice of its own."""
        self._state = self._policy.initial_state(1)
        self._starts = torch.ones(1, dtype=torch.bool)
        self._generator = torch.Generator().manual_seed(seed_for(seed, "playing"))

    @torch.inference_mode()
    def act(self, observation: Mapping[str, NDArray[Any]]) -> int:
        """The next action for an observation of the single environment."""
        seen = {key: torch.from_numpy(np.array(one))[None] for key, one in observation.items()}
        logits, _, self._state = self._policy.step(seen, self._state, self._starts)
        self._starts = torch.zeros(1, dtype=torch.bool)
        return int(sample(logits, torch.rand(1, generator=self._generator))[0][0])


class Mashing:
    """Presses any of `actions` buttons, each as often as the others: what learning must beat."""

    def __init__(self, actions: int) -> None:
        self._actions = actions
        self.begin(0)

    def begin(self, seed: int) -> None:
        """A new episode with dice of its own."""
        self._generator = np.random.default_rng(seed_for(seed, "mashing"))

    def act(self, observation: Mapping[str, NDArray[Any]]) -> int:  # noqa: ARG002 - it does not look
        """The next action."""
        return int(self._generator.integers(self._actions))


def agent_of(policy: ActorCritic, weights: Mapping[str, torch.Tensor], what: str) -> Agent:
    """An agent with these weights; WeightsError naming `what` when they are another network's."""
    if odd := misfit(policy.state_dict(), weights):
        raise WeightsError(
            f"{what} is of another network: {odd}",
            "play it with the release of the code and the workload it was trained with",
        )
    policy.load_state_dict(dict(weights))
    return Agent(policy)


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
        self._collector = new_collector(vector, policy, settings, seed, SystemClock())
        seeds = [seed_for(seed, "environment", env=env) for env in range(vector.num_envs)]
        self._collector.observations = vector.reset(seeds)

    def step(self) -> int:
        """Play one short horizon everywhere; returns how many environment steps that was."""
        self._collector.collect(self._rollout, lambda: None)
        return int(self._rollout.rewards.size)
