"""The networks: an encoder per kind of observation, an optional LSTM, an actor and a critic.

Promises eager networks: every parameter exists when the constructor returns, so optimizer and
checkpoint see all of them. The LSTM's state is forgotten where an episode starts.

Keys are told apart by their space alone, so any workload with such a space is encoded:
pictures  uint8, (H, W) or (H, W, C), all of one size: channels of one convolution
bits      uint8, (n,): eight flags a byte, least significant first; many are condensed first
numbers   other integers from 0 on: entries of a catalogue, looked up in its key's part of a table
scalars   everything else, taken as floats near [-1, 1]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from math import sqrt
from typing import Any

import numpy as np
import torch
from gymnasium.spaces import Box, Space
from gymnasium.spaces import Dict as DictSpace
from torch import Tensor, nn

from Daddy.learning.device import full_precision

KINDS = ("pictures", "bits", "numbers", "scalars")
_FLAT = 2
"""Dimensions of a picture of one channel."""
_FEW_BITS = 64
"""Up to so many flags of one key join as they are; more go through a layer of their own."""
_CONDENSED = 16
"""Features that many flags are condensed to."""
_LOOKED_UP = 4
"""Features of a number of a catalogue."""


class Encoder(nn.Module):
    """Maps {key: (B, *shape)} to (B, features)."""

    features: int


class VectorEncoder(Encoder):
    """Two layers of tanh over all keys as one vector."""

    def __init__(self, space: DictSpace, features: int) -> None:
        super().__init__()
        self.features = features
        self._keys = sorted(space.spaces)
        width = sum(_size(space[key]) for key in self._keys)
        self.layers = nn.Sequential(
            nn.Linear(width, features), nn.Tanh(), nn.Linear(features, features), nn.Tanh()
        )

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        parts = [observations[key].flatten(1).float() for key in self._keys]
        encoded: Tensor = self.layers(torch.cat(parts, 1))
        return encoded


class PixelEncoder(Encoder):
    """Three small convolutions (16, 32, 32 channels) beside flags, numbers and scalars."""

    first: Tensor

    def __init__(self, space: DictSpace, features: int) -> None:
        super().__init__()
        self.features = features
        keys = {
            kind: [key for key in sorted(space) if kind_of(space[key]) == kind] for kind in KINDS
        }
        self._pictures, self._bits, self._numbers, self._scalars = (keys[kind] for kind in KINDS)
        height, width = (space[self._pictures[0]].shape or ())[:2]
        channels = sum(_channels(space[key]) for key in self._pictures)
        self.convolutions = _convolutions(channels)
        with torch.no_grad():
            flat = self.convolutions(torch.zeros(1, channels, height, width)).shape[1]
        bits = {key: 8 * _size(space[key]) for key in self._bits}
        self.condense = nn.ModuleDict(
            {key: nn.Linear(many, _CONDENSED) for key, many in bits.items() if many > _FEW_BITS}
        )
        side = sum(_CONDENSED if key in self.condense else few for key, few in bits.items())
        first, entries = _places([space[key] for key in self._numbers])
        self.register_buffer("first", first, persistent=False)
        self.table = nn.Embedding(entries, _LOOKED_UP) if entries else None
        side += _LOOKED_UP * len(first)
        side += sum(_size(space[key]) for key in self._scalars)
        self.join = nn.Linear(flat + side, features)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        pictures = [_planes(observations[key]) for key in self._pictures]
        planes = torch.cat(pictures, 1).contiguous(memory_format=torch.channels_last)
        parts = [self.convolutions(planes.float().mul_(1.0 / 255.0))]
        parts += [self._flags(key, observations[key]) for key in self._bits]
        if self.table is not None:
            numbers = torch.cat([observations[key] for key in self._numbers], 1)
            parts.append(self.table(numbers.int() + self.first).flatten(1))
        parts += [observations[key].flatten(1).float() for key in self._scalars]
        return torch.relu(self.join(torch.cat(parts, 1)))

    def _flags(self, key: str, packed: Tensor) -> Tensor:
        flags = unpack_bits(packed)
        return torch.relu(self.condense[key](flags)) if key in self.condense else flags


def _convolutions(channels: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(channels, 16, 8, 4),
        nn.ReLU(),
        nn.Conv2d(16, 32, 4, 2),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, 1),
        nn.ReLU(),
        nn.Flatten(),
    )


def unpack_bits(packed: Tensor) -> Tensor:
    """Bytes (B, n) → flags (B, 8n) as 0.0 and 1.0, least significant bit of each byte first."""
    places = torch.arange(8, device=packed.device, dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> places) & 1).flatten(1).float()


def _planes(picture: Tensor) -> Tensor:
    """(B, H, W) or (B, H, W, C) → (B, C, H, W)."""
    return picture.unsqueeze(1) if picture.ndim == _FLAT + 1 else picture.permute(0, 3, 1, 2)


def kind_of(box: Space[Any]) -> str:
    """One of `KINDS`."""
    if box.dtype != np.uint8:
        return "numbers" if np.issubdtype(box.dtype, np.integer) else "scalars"
    return "pictures" if len(box.shape or ()) >= _FLAT else "bits"


def _channels(box: Space[Any]) -> int:
    shape = box.shape or ()
    return int(shape[_FLAT]) if len(shape) > _FLAT else 1


def _places(boxes: Sequence[Space[Any]]) -> tuple[Tensor, int]:
    """Where in one table each number's entries begin, int32, and how many the table has."""
    first, entries = [], 0
    for box in boxes:
        first += [entries] * _size(box)
        entries += int(np.max(box.high)) + 1 if isinstance(box, Box) else 0
    return torch.tensor(first, dtype=torch.int32), entries


def _size(box: Space[Any]) -> int:
    return int(np.prod(box.shape or ()))


class ActorCritic(nn.Module):
    """Policy and value of one workload.

    Observations are a mapping of tensors (..., *shape) in the environment's own dtypes. The state
    of the memory is (2, N, memory) float32: hidden and cell; memory 0 has a state of no elements.
    """

    def __init__(self, encoder: Encoder, actions: int, memory: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.memory = memory
        self.lstm = nn.LSTM(encoder.features, memory) if memory else None
        width = memory or encoder.features
        self.actor = nn.Linear(width, actions)
        self.critic = nn.Linear(width, 1)
        _initialise(self)
        _channels_last(self)

    def initial_state(self, num_envs: int) -> Tensor:
        """An empty memory (2, num_envs, memory) on the policy's device."""
        return torch.zeros(2, num_envs, self.memory, device=self.actor.weight.device)

    def step(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """One step of N environments → logits (N, A), values (N,), the next state.

        `starts` (N,) bool: where this observation is the first of an episode.
        """
        logits, values, state = self(
            {key: value.unsqueeze(0) for key, value in observations.items()},
            state,
            starts.unsqueeze(0),
        )
        return logits[0], values[0], state

    def forward(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """T steps of B sequences: (T, B, *shape) → logits (T, B, A), values (T, B), state."""
        features, state = self.features(observations, state, starts)
        return *self.judge(features), state

    def features(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """What actor and critic judge by, (T, B, F) float32, and the next state."""
        steps, width = starts.shape
        flat = {key: value.flatten(0, 1) for key, value in observations.items()}
        features = self.encoder(flat).view(steps, width, -1)
        features, state = self._remember(features, state, starts)
        return features.float(), state

    def judge(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Logits and values in full precision, whatever the layers below were computed in.

        bfloat16 has eight bits: a value of 100 would be known to 0.5, a probability to 3 %.
        """
        with full_precision(features.device):
            return self.actor(features), self.critic(features).squeeze(-1)

    def _remember(self, features: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Run the LSTM, cut where any sequence starts an episode; its state is zero there."""
        if self.lstm is None:
            return features, state
        cuts = starts.any(1).nonzero().flatten().tolist()
        edges = sorted({0, *cuts, len(starts)})
        parts = []
        for first, last in pairwise(edges):
            kept = state * ~starts[first].view(1, -1, 1)
            part, (hidden, cell) = self.lstm(features[first:last], (kept[:1], kept[1:]))
            state = torch.cat([hidden, cell]).float()
            parts.append(part)
        return torch.cat(parts), state


def _initialise(policy: ActorCritic) -> None:
    """Orthogonal weights, zero biases, small tables; a nearly uniform first policy."""
    for name, parameter in policy.named_parameters():
        if parameter.ndim < 2:  # noqa: PLR2004 - vectors are biases
            nn.init.zeros_(parameter)
        elif "table" in name:
            nn.init.normal_(parameter, std=0.1)
        else:
            nn.init.orthogonal_(parameter, 1.0 if "lstm" in name else sqrt(2.0))
    nn.init.orthogonal_(policy.actor.weight, 0.01)
    nn.init.orthogonal_(policy.critic.weight, 1.0)


def _channels_last(policy: nn.Module) -> None:
    """Convolutions in the memory order that saves a third of an update on a CPU (measured)."""
    for parameter in policy.parameters():
        if parameter.ndim == 4:  # noqa: PLR2004 - kernels
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def make_policy(space: DictSpace, actions: int, features: int, memory: int) -> ActorCritic:
    """The policy that fits an observation space: convolutions if it holds pictures."""
    pictures = any(kind_of(box) == "pictures" for box in space.spaces.values())
    encoder = PixelEncoder(space, features) if pictures else VectorEncoder(space, features)
    return ActorCritic(encoder, actions, memory)


def misfit(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """The first tensor of `theirs` that has another shape than in `ours`; "" where all fit."""
    for name in {**ours, **theirs}:
        here, there = (tuple(of[name].shape) if name in of else None for of in (ours, theirs))
        if here != there:
            return f"{name}: {there}, here {here}"
    return ""
