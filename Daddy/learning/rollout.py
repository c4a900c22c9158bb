"""One horizon of experience: its storage and its minibatches.

Promises that what is stored belongs to one version of the policy: the loop adopts between rollouts
only. A rollout that a stop found half full is part of the checkpoint and is filled up later as if
nothing had happened.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from Daddy.learning.ports import EpisodeEnd, VectorEnv
from Daddy.learning.settings import PpoSettings
from Daddy.learning.storage import ObservationStore


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
        self.cut_off = np.zeros(shape, bool)
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

    def spread(self, steps: int, device: torch.device) -> Minibatch:
        """Sequences of about so many steps in all, evenly from the whole rollout: at least two."""
        there = self.states.shape[0] * self.starts.shape[1]
        wanted = min(there, max(2, steps // self.cut.length))
        return self._gather(np.arange(wanted) * there // wanted, device)

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
