"""Stores one horizon of experience (a rollout) and cuts the steps into minibatches.

A rollout belongs to one version of the policy: the loop adopts versions between rollouts only.
A rollout that a stop left partial is part of the checkpoint and is completed later as if there had
been no stop. Pictures of the emulator's four shades are stored at 2 bits a pixel and read back
unchanged; a picture with any other value switches its store to whole bytes.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Space
from numpy.typing import NDArray
from torch import Tensor

from Daddy.core.hyperparameters import PpoSettings
from Daddy.learning.interfaces import EpisodeEnd
from Daddy.learning.vector_rows import VectorEnv

_SHADES = (0, 85, 153, 255)
"""The emulator's four greys; the two high bits of each are its number."""


class ObservationStore:
    """Stores one observation key (T, N, *shape), pictures of four shades packed 4 pixels a byte."""

    def __init__(self, shape: tuple[int, int], space: Space[object]) -> None:
        self._shape = space.shape or ()
        size = int(np.prod(self._shape))
        picture = space.dtype == np.uint8 and len(self._shape) >= 2  # noqa: PLR2004
        self.packed = picture and size % 4 == 0
        self._steps_envs = shape
        self._dtype = np.dtype(space.dtype)
        self._array = (
            np.zeros((*shape, size // 4), np.uint8)
            if self.packed
            else np.zeros((*shape, *self._shape), self._dtype)
        )

    def store(self, t: int, values: NDArray[Any], envs: slice = slice(None)) -> None:
        """Store `values` (n, *shape) as step `t` of the environments `envs`."""
        if self.packed and not _four_shades(values):
            self._unpack_all()
        values = pack_pixels(values.reshape(len(values), -1)) if self.packed else values
        self._array[t, envs] = values

    def gather(
        self, steps: NDArray[np.int64], envs: NDArray[np.int64], device: torch.device
    ) -> Tensor:
        """Return the entries at steps (T', B) of environments (B,): a tensor (T', B, *shape)."""
        chosen = torch.from_numpy(self._array[steps, envs[None, :]]).to(device)
        if not self.packed:
            return chosen
        return unpack_pixels(chosen).view(*steps.shape, *self._shape)

    def stored_steps(self, steps: int) -> NDArray[Any]:
        """Return the first `steps` steps in their stored form, for `restore_steps`."""
        return self._array[:steps]

    def restore_steps(self, stored: NDArray[Any]) -> None:
        """Restore the first steps from the result of `stored_steps`."""
        if self.packed and stored.shape[1:] != self._array.shape[1:]:
            self._unpack_all()
        self._array[: len(stored)] = stored

    def _unpack_all(self) -> None:
        """Convert the array to whole bytes per pixel, and store further steps likewise."""
        whole = unpack_pixels(torch.from_numpy(self._array)).numpy()
        self._array = whole.reshape(*self._steps_envs, *self._shape)
        self.packed = False


def _four_shades(values: NDArray[np.uint8]) -> bool:
    return not values.tobytes().translate(None, bytes(_SHADES))


def pack_pixels(pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Pack shades (..., 4n) uint8 into their numbers (..., n) uint8, leftmost in the high bits.

    Four pixels are shifted at once, as one number of 32 bits: a seventh of the time (measured).
    """
    quads = np.ascontiguousarray(pixels).view("<u4") & np.uint32(0xC0C0C0C0)
    packed: NDArray[np.uint8] = (quads | quads >> 10 | quads >> 20 | quads >> 30).astype(np.uint8)
    return packed


def unpack_pixels(packed: Tensor) -> Tensor:
    """Unpack the result of `pack_pixels`, on any device: (..., n) uint8 → (..., 4n) uint8."""
    quads = torch.index_select(_quads(packed.device), 0, packed.flatten().int())
    return quads.view(torch.uint8).view(*packed.shape[:-1], -1)


@cache
def _quads(device: torch.device) -> Tensor:
    """Return a table of each byte's four pixels, (256,) int32: faster than shifts (measured)."""
    shifts = torch.tensor([6, 4, 2, 0], dtype=torch.uint8)
    numbers = (torch.arange(256, dtype=torch.uint8).unsqueeze(-1) >> shifts) & 3
    pixels = torch.tensor(_SHADES, dtype=torch.uint8)[numbers.long()].contiguous()
    return pixels.view(torch.int32).flatten().to(device)


@dataclass(frozen=True)
class Minibatch:
    """Holds B sequences of T steps: tensors (T, B, ...) on the device, lstm_state (2, B, M)."""

    observations: dict[str, Tensor]
    lstm_state: Tensor
    starts: Tensor
    actions: Tensor
    log_probs: Tensor
    values: Tensor
    advantages: Tensor
    returns: Tensor


class Rollout:
    """Holds one horizon's arrays (T, N, ...), allocated once, overwritten by every rollout."""

    def __init__(self, vector: VectorEnv, settings: PpoSettings, memory: int) -> None:
        shape = (settings.horizon, vector.num_envs)
        self.sequences = settings.sequences
        spaces = vector.observation_space.spaces
        self.observations = {key: ObservationStore(shape, space) for key, space in spaces.items()}
        self.starts = np.zeros(shape, bool)
        self.dones = np.zeros(shape, bool)
        self.truncations = np.zeros(shape, bool)
        self.actions = np.zeros(shape, np.int64)
        self.log_probs = np.zeros(shape, np.float32)
        self.values = np.zeros(shape, np.float32)
        self.rewards = np.zeros(shape, np.float32)
        self.last_values = np.zeros(shape[1], np.float32)
        per_env = shape[0] // self.sequences.length
        self.lstm_states = torch.zeros(per_env, 2, shape[1], memory)
        self.advantages = np.zeros(shape, np.float32)
        self.returns = np.zeros(shape, np.float32)
        self.episodes: list[EpisodeEnd] = []
        self.filled = 0
        """Steps of a partial rollout; 0 between rollouts."""
        self.completed = False
        """True once this process has filled the rollout to its end."""

    def partial_state(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        """Return a partial rollout as tensors and JSON facts; both empty between rollouts."""
        if not self.filled:
            return {}, {}
        tensors = {name: torch.from_numpy(array[: self.filled]) for name, array in self._arrays()}
        for key, store in self.observations.items():
            tensors[f"observations.{key}"] = torch.from_numpy(store.stored_steps(self.filled))
        tensors["states"] = self.lstm_states[: self.filled // self.sequences.length]
        ended = [[end.env, end.episode_return, end.length] for end in self.episodes]
        facts = {"filled": self.filled, "shape": list(self.starts.shape), "episodes": ended}
        return tensors, {**facts, "length": self.sequences.length}

    def load_partial(self, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
        """Restore `partial_state`'s result, unless its shape is not that of this rollout."""
        shape = [*self.starts.shape, self.sequences.length]
        if not facts or [*facts["shape"], facts["length"]] != shape:
            return
        self.filled = int(facts["filled"])
        for name, array in self._arrays():
            array[: self.filled] = tensors[name].numpy()
        for key, store in self.observations.items():
            store.restore_steps(tensors[f"observations.{key}"].numpy())
        self.lstm_states[: len(tensors["states"])] = tensors["states"]
        self.episodes = [EpisodeEnd(*end) for end in facts["episodes"]]

    def _arrays(self) -> list[tuple[str, NDArray[Any]]]:
        names = ("starts", "dones", "actions", "log_probs", "values", "rewards")
        return [(name, getattr(self, name)) for name in names]

    def minibatches(self, generator: torch.Generator, device: torch.device) -> Iterator[Minibatch]:
        """Yield minibatches of all sequences in random order, equal in size within one sequence."""
        sequences = self.lstm_states.shape[0] * self.starts.shape[1]
        order = torch.randperm(sequences, generator=generator)
        for chosen in torch.tensor_split(order, self.sequences.minibatches(len(order))):
            yield self._gather(chosen.numpy(), device)

    def last_sequence(self, device: torch.device) -> Minibatch:
        """Return the last sequence of every environment in the rollout, as one minibatch."""
        envs = self.starts.shape[1]
        first = (self.lstm_states.shape[0] - 1) * envs
        return self._gather(np.arange(first, first + envs), device)

    def spread_sample(self, steps: int, device: torch.device) -> Minibatch:
        """Return sequences of about `steps` steps in all (at least 2), evenly over the rollout."""
        total = self.lstm_states.shape[0] * self.starts.shape[1]
        count = min(total, max(2, steps // self.sequences.length))
        return self._gather(np.arange(count) * total // count, device)

    def _gather(self, chosen: NDArray[np.int64], device: torch.device) -> Minibatch:
        """Return the sequences `chosen`, by number: s · N + n is part s of environment n."""
        part, env = np.divmod(chosen, self.starts.shape[1])
        length = self.sequences.length
        steps = part[None, :] * length + np.arange(length)[:, None]

        def gather(array: NDArray[Any]) -> Tensor:
            return torch.from_numpy(array[steps, env[None, :]]).to(device)

        return Minibatch(
            {key: store.gather(steps, env, device) for key, store in self.observations.items()},
            self.lstm_states[part, :, env].permute(1, 0, 2).contiguous().to(device),
            gather(self.starts),
            gather(self.actions),
            gather(self.log_probs),
            gather(self.values),
            gather(self.advantages),
            gather(self.returns),
        )
