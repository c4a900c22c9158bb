"""One horizon of experience: its storage, how it is played, and its minibatches.

Promises that what is stored belongs to one version of the policy: the loop adopts between rollouts
only. The collector's state (memory, episode starts) is part of every checkpoint.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from Daddy.learning.device import mixed_precision
from Daddy.learning.normalise import RewardNormaliser
from Daddy.learning.policy import ActorCritic
from Daddy.learning.ports import EpisodeEnd, Transition, VectorEnv
from Daddy.learning.settings import PpoSettings
from Daddy.learning.storage import ObservationStore

if TYPE_CHECKING:
    from Daddy.learning.ports import Observations


@dataclass(frozen=True)
class Minibatch:
    """B sequences of T steps: tensors (T, B, ...) on the learner's device, state (2, B, M)."""

    observations: dict[str, Tensor]
    state: Tensor
    starts: Tensor
    actions: Tensor
    log_probs: Tensor
    advantages: Tensor
    targets: Tensor


class Rollout:
    """Arrays of one horizon (T, N, ...), allocated once and written again and again."""

    def __init__(self, vector: VectorEnv, settings: PpoSettings, memory: int) -> None:
        shape = (settings.horizon, vector.num_envs)
        self.cut = settings.cut
        spaces = vector.observation_space.spaces
        self.observations = {key: ObservationStore(shape, space) for key, space in spaces.items()}
        self.starts = np.zeros(shape, bool)
        self.dones = np.zeros(shape, bool)
        self.actions = np.zeros(shape, np.int64)
        self.log_probs = np.zeros(shape, np.float32)
        self.values = np.zeros(shape, np.float32)
        self.rewards = np.zeros(shape, np.float32)
        self.last_values = np.zeros(shape[1], np.float32)
        sequences = shape[0] // self.cut.length
        self.states = torch.zeros(sequences, 2, shape[1], memory)
        self.advantages = np.zeros(shape, np.float32)
        self.targets = np.zeros(shape, np.float32)
        self.episodes: list[EpisodeEnd] = []

    def minibatches(self, generator: torch.Generator, device: torch.device) -> Iterator[Minibatch]:
        """Every sequence once, in random order."""
        order = torch.randperm(self.states.shape[0] * self.starts.shape[1], generator=generator)
        for chosen in torch.split(order, self.cut.per_batch):
            yield self._gather(chosen.numpy(), device)

    def last_sequence(self, device: torch.device) -> Minibatch:
        """The newest sequence of every environment: what the memory is rebuilt from."""
        envs = self.starts.shape[1]
        first = (self.states.shape[0] - 1) * envs
        return self._gather(np.arange(first, first + envs), device)

    def _gather(self, chosen: NDArray[np.int64], device: torch.device) -> Minibatch:
        """Sequence number s · N + n is part s of environment n."""
        part, env = np.divmod(chosen, self.starts.shape[1])
        steps = part[None, :] * self.cut.length + np.arange(self.cut.length)[:, None]

        def take(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array[steps, env[None, :]]).to(device)

        return Minibatch(
            {key: store.take(steps, env, device) for key, store in self.observations.items()},
            self.states[part, :, env].permute(1, 0, 2).contiguous().to(device),
            take(self.starts),
            take(self.actions),
            take(self.log_probs),
            take(self.advantages),
            take(self.targets),
        )


@dataclass
class Collector:
    """Plays the policy in the environments; owns what lies between two steps."""

    vector: VectorEnv
    policy: ActorCritic
    normaliser: RewardNormaliser
    generator: torch.Generator
    settings: PpoSettings
    observations: Observations
    state: Tensor
    starts: NDArray[np.bool_]
    after_step: Callable[[], None] = field(default=lambda: None)

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stop: Callable[[], object]) -> bool:
        """Fill `rollout` with the next horizon of every environment.

        False, and a rollout that must not be learnt from, when `stop` answered meanwhile.
        """
        rollout.episodes = []
        for t in range(len(rollout.rewards)):
            if t % rollout.cut.length == 0:
                if t and stop():
                    return False
                rollout.states[t // rollout.cut.length] = self.state.cpu()
            self._play(rollout, t)
            self.after_step()
        rollout.last_values[:] = self._policy_step()[1].cpu().numpy()
        return True

    def _play(self, rollout: Rollout, t: int) -> None:
        logits, values, self.state = self._policy_step()
        actions, log_probs = sample(logits.cpu(), self.generator)
        for key, store in rollout.observations.items():
            store.put(t, self.observations[key])
        rollout.starts[t] = self.starts
        rollout.actions[t] = actions
        rollout.log_probs[t] = log_probs
        rollout.values[t] = values.cpu().numpy()
        self._record(rollout, t, self.vector.step(rollout.actions[t]))

    def _record(self, rollout: Rollout, t: int, transition: Transition) -> None:
        """Store the outcome.

        A cut-off episode goes on in the critic's eyes: its last reward gets the discounted value,
        taken one step early because the final observation is not kept.
        """
        dones = transition.terminated | transition.truncated
        cut_off = transition.truncated & ~transition.terminated
        rewards = self.normaliser(transition.rewards, dones)
        rollout.rewards[t] = rewards + self.settings.gamma * rollout.values[t] * cut_off
        rollout.dones[t] = dones
        rollout.episodes += transition.episodes
        self.observations = transition.observations
        self.starts = dones

    def _policy_step(self) -> tuple[Tensor, Tensor, Tensor]:
        device = self.state.device
        seen = {key: torch.from_numpy(value).to(device) for key, value in self.observations.items()}
        starts = torch.from_numpy(self.starts).to(device)
        with mixed_precision(device, self.settings.mixed_precision):
            return self.policy.step(seen, self.state, starts)


def sample(
    logits: Tensor, generator: torch.Generator
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """Draw an action (N,) int64 from each row of logits (N, A), with its log-probability (N,)."""
    log_probs = torch.log_softmax(logits, -1)
    actions = torch.multinomial(log_probs.exp(), 1, generator=generator)
    return actions.squeeze(-1).numpy(), log_probs.gather(-1, actions).squeeze(-1).numpy()
