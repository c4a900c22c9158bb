"""One horizon of experience: its storage, how it is played, and its minibatches.

Promises that what is stored belongs to one version of the policy: the loop adopts between rollouts
only. The collector's state (memory, episode starts) is part of every checkpoint, and so is a
rollout that a stop found half full: it is filled up later as if nothing had happened.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from Daddy.core.clock import SystemClock
from Daddy.learning.device import mixed_precision
from Daddy.learning.gauges import Watch
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
    values: Tensor
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
        self.filled = 0
        """Steps that stand in it already; 0 between rollouts."""
        self.played = False
        """Whether it was ever filled to its end by this process."""

    def begun(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """What a stop found played of a rollout, for the checkpoint; nothing between rollouts."""
        if not self.filled:
            return {}, {}
        tensors = {name: torch.from_numpy(array[: self.filled]) for name, array in self._played()}
        for key, store in self.observations.items():
            tensors[f"observations.{key}"] = torch.from_numpy(store.first(self.filled))
        tensors["states"] = self.states[: self.filled // self.cut.length]
        ended = [[end.env, end.episode_return, end.length] for end in self.episodes]
        facts = {"filled": self.filled, "shape": list(self.starts.shape), "episodes": ended}
        return tensors, {**facts, "length": self.cut.length}

    def go_on(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Take over what `begun` gave; nothing of it where rollouts have another shape now."""
        shape = [*self.starts.shape, self.cut.length]
        if not facts or [*facts["shape"], facts["length"]] != shape:
            return
        self.filled = int(facts["filled"])
        for name, array in self._played():
            array[: self.filled] = tensors[name].numpy()
        for key, store in self.observations.items():
            store.refill(tensors[f"observations.{key}"].numpy())
        self.states[: len(tensors["states"])] = tensors["states"]
        self.episodes = [EpisodeEnd(*end) for end in facts["episodes"]]

    def _played(self) -> list[tuple[str, NDArray[Any]]]:
        names = ("starts", "dones", "actions", "log_probs", "values", "rewards")
        return [(name, getattr(self, name)) for name in names]

    def minibatches(self, generator: torch.Generator, device: torch.device) -> Iterator[Minibatch]:
        """Every sequence once, in random order; sizes differ by at most one sequence."""
        order = torch.randperm(self.states.shape[0] * self.starts.shape[1], generator=generator)
        for chosen in torch.tensor_split(order, self.cut.batches(len(order))):
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
            take(self.values),
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
    watch: Watch = field(default_factory=lambda: Watch(SystemClock()))
    after_step: Callable[[], None] = field(default=lambda: None)

    @torch.inference_mode()
    def collect(self, rollout: Rollout, stop: Callable[[], object]) -> bool:
        """Fill `rollout` with the next horizon of every environment, or with the rest of one.

        False, and a rollout that must not be learnt from yet, when `stop` answered meanwhile.
        """
        if not rollout.filled:
            rollout.episodes = []
        for t in range(rollout.filled, len(rollout.rewards)):
            if t % rollout.cut.length == 0:
                if t and stop():
                    rollout.filled = t
                    return False
                rollout.states[t // rollout.cut.length] = self.state.cpu()
            self._play(rollout, t)
            self.after_step()
        rollout.last_values[:] = self._policy_step()[1].cpu().numpy()
        rollout.filled, rollout.played = 0, True
        return True

    def _play(self, rollout: Rollout, t: int) -> None:
        with self.watch.on("inference"):
            logits, values, self.state = self._policy_step()
            actions, log_probs = sample(logits.cpu(), self.generator)
        for key, store in rollout.observations.items():
            store.put(t, self.observations[key])
        rollout.starts[t] = self.starts
        rollout.actions[t] = actions
        rollout.log_probs[t] = log_probs
        rollout.values[t] = values.cpu().numpy()
        with self.watch.on("emulation"):
            transition = self.vector.step(rollout.actions[t])
        self._record(rollout, t, transition)

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
