"""One horizon of experience: its storage and its minibatches.

Promises that what is stored belongs to one version of the policy: the loop adopts between rollouts
only. A rollout that a stop found half full is part of the checkpoint and is filled up later as if
nothing had happened. Pictures of four shades are kept at 2 bits a pixel; what comes out equals what
went in, byte for byte, and a picture with any other value is kept as it is.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray
from torch import Tensor

from Daddy.learning.hyperparameters import PpoSettings
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.vector_rows import VectorEnv

_SHADES = (0, 85, 153, 255)
"""The emulator's four greys; the two high bits of each are its number."""


class ObservationStore:
    """An array (T, N, *shape) that may hold pictures packed."""

    def __init__(self, shape: tuple[int, int], space: Space[object]) -> None:
        self._shape = space.shape or ()
        size = int(np.prod(self._shape))
        picture = space.dtype == np.uint8 and len(self._shape) >= 2  # noqa: PLR2004
        self.packed = picture and size % 4 == 0
        self._plain = shape
        self._dtype = np.dtype(space.dtype)
        self._array = (
            np.zeros((*shape, size // 4), np.uint8)
            if self.packed
            else np.zeros((*shape, *self._shape), self._dtype)
        )

    def put(self, t: int, values: NDArray[Any], envs: slice = slice(None)) -> None:
        """Store step `t` of some environments: values (n, *shape)."""
        if self.packed and not _four_shades(values):
            self._unpack_all()
        self._array[t, envs] = pack(values.reshape(len(values), -1)) if self.packed else values

    def take(
        self, steps: NDArray[np.int64], envs: NDArray[np.int64], device: torch.device
    ) -> Tensor:
        """The entries at steps (T', B) of environments (B,) as a tensor (T', B, *shape)."""
        chosen = torch.from_numpy(self._array[steps, envs[None, :]]).to(device)
        return unpack(chosen).view(*steps.shape, *self._shape) if self.packed else chosen

    def first(self, steps: int) -> NDArray[Any]:
        """The first `steps` as they are kept, for `refill`."""
        return self._array[:steps]

    def refill(self, kept: NDArray[Any]) -> None:
        """Take over what `first` gave."""
        if self.packed and kept.shape[1:] != self._array.shape[1:]:
            self._unpack_all()
        self._array[: len(kept)] = kept

    def _unpack_all(self) -> None:
        """Some value is no shade: keep bytes from now on, those already stored included."""
        whole = unpack(torch.from_numpy(self._array)).numpy()
        self._array = whole.reshape(*self._plain, *self._shape)
        self.packed = False


def _four_shades(values: NDArray[np.uint8]) -> bool:
    return not values.tobytes().translate(None, bytes(_SHADES))


def pack(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Shades (..., 4n) uint8 → their numbers (..., n) uint8, leftmost in the high bits.

    Four pixels are moved at once, as one number of 32 bits: a seventh of the time (measured).
    """
    quads = np.ascontiguousarray(pixels).view("<u4") & np.uint32(0xC0C0C0C0)
    packed: NDArray[np.uint8] = (quads | quads >> 10 | quads >> 20 | quads >> 30).astype(np.uint8)
    return packed


def unpack(packed: Tensor) -> Tensor:
    """The inverse of `pack` on any device: (..., n) uint8 → (..., 4n) uint8."""
    quads = torch.index_select(_quads(packed.device), 0, packed.flatten().int())
    return quads.view(torch.uint8).view(*packed.shape[:-1], -1)


@cache
def _quads(device: torch.device) -> Tensor:
    """(256,) int32: the four pixels of every packed byte as one number.

    One look-up per byte is twenty times faster than shifting (measured).
    """
    places = torch.tensor([6, 4, 2, 0], dtype=torch.uint8)
    numbers = (torch.arange(256, dtype=torch.uint8).unsqueeze(-1) >> places) & 3
    pixels = torch.tensor(_SHADES, dtype=torch.uint8)[numbers.long()].contiguous()
    return pixels.view(torch.int32).flatten().to(device)


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
