"""Defines the policy network: an encoder, an optional LSTM, an actor and a critic.

Every parameter exists when the constructor ends, so optimizer and checkpoint hold all parameters.
The LSTM's state is reset at the start of an episode.

An observation key is encoded by its space alone, so the network fits any workload:
pictures  uint8, (H, W) or (H, W, C), all of one size: channels of one convolution
bits      uint8, (n,): eight flags a byte, least significant first; many flags get a linear layer
numbers   integers from 0 on of any other type: indices into an embedding table
scalars   every other type, as floats near [-1, 1]
"""

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
_GREY = 2
"""Dimensions of a picture of one channel."""
_FEW_BITS = 64
"""Flags of one key up to which they are used directly; more go through a linear layer."""
_CONDENSED = 16
"""Outputs of that linear layer."""
_EMBEDDED = 4
"""Features of an embedded number."""


class Encoder(nn.Module):
    """Maps {key: (B, *shape)} to (B, features)."""

    features: int


class VectorEncoder(Encoder):
    """Encodes all observation keys, joined to one vector, by two tanh layers."""

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
    """Encodes pictures by three convolutions, joined with bits, numbers and scalars."""

    offsets: Tensor

    def __init__(self, space: DictSpace, features: int) -> None:
        super().__init__()
        self.features = features
        keys = {
            kind: [key for key in sorted(space) if observation_kind(space[key]) == kind]
            for kind in KINDS
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
        offsets, entries = _table_offsets([space[key] for key in self._numbers])
        self.register_buffer("offsets", offsets, persistent=False)
        self.table = nn.Embedding(entries, _EMBEDDED) if entries else None
        side += _EMBEDDED * len(offsets)
        side += sum(_size(space[key]) for key in self._scalars)
        self.join = nn.Linear(flat + side, features)

    def forward(self, observations: Mapping[str, Tensor]) -> Tensor:
        pictures = [_with_channels(observations[key]) for key in self._pictures]
        planes = torch.cat(pictures, -1).permute(0, 3, 1, 2)  # channels last in memory
        parts = [self.convolutions(planes.float().mul_(1.0 / 255.0))]
        parts += [self._flags(key, observations[key]) for key in self._bits]
        if self.table is not None:
            numbers = torch.cat([observations[key] for key in self._numbers], 1)
            parts.append(self.table(numbers.int() + self.offsets).flatten(1))
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
    """Unpack bytes (B, n) into flags (B, 8n), 0.0 or 1.0, least significant bit first."""
    shifts = torch.arange(8, device=packed.device, dtype=torch.uint8)
    return ((packed.unsqueeze(-1) >> shifts) & 1).flatten(1).float()


def _with_channels(picture: Tensor) -> Tensor:
    """Turn (B, H, W) into (B, H, W, 1); keep (B, H, W, C)."""
    return picture.unsqueeze(-1) if picture.ndim == _GREY + 1 else picture


def observation_kind(box: Space[Any]) -> str:
    """Return the kind of an observation key, one of `KINDS`."""
    if box.dtype != np.uint8:
        return "numbers" if np.issubdtype(box.dtype, np.integer) else "scalars"
    return "pictures" if len(box.shape or ()) >= _GREY else "bits"


def _channels(box: Space[Any]) -> int:
    shape = box.shape or ()
    return int(shape[_GREY]) if len(shape) > _GREY else 1


def _table_offsets(boxes: Sequence[Space[Any]]) -> tuple[Tensor, int]:
    """Return the offset of each number's entries in one table, int32, and the table's length."""
    offsets, entries = [], 0
    for box in boxes:
        offsets += [entries] * _size(box)
        entries += int(np.max(box.high)) + 1 if isinstance(box, Box) else 0
    return torch.tensor(offsets, dtype=torch.int32), entries


def _size(box: Space[Any]) -> int:
    return int(np.prod(box.shape or ()))


class ActorCritic(nn.Module):
    """Computes action logits and values from observations and the LSTM state.

    Observations map keys to tensors (..., *shape) in the environment's own dtypes. The LSTM state
    is (2, N, memory) float32: hidden and cell. Without an LSTM `memory` is 0.
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
        """Return a zero LSTM state (2, num_envs, memory) on the policy's device."""
        return torch.zeros(2, num_envs, self.memory, device=self.actor.weight.device)

    def step(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits (N, A), values (N,) and the next LSTM state for one step of N environments.

        `starts` (N,) bool: True if the environment's observation is the first of an episode.
        """
        features, state = self._step_lstm(self.encoder(observations), state, starts)
        return *self.apply_heads(features.float()), state

    def forward(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return logits (T, B, A), values (T, B) and LSTM state for T steps of B sequences."""
        features, state = self.features(observations, state, starts)
        return *self.apply_heads(features), state

    def features(
        self, observations: Mapping[str, Tensor], state: Tensor, starts: Tensor
    ) -> tuple[Tensor, Tensor]:
        """Return the inputs of actor and critic, (T, B, F) float32, and the next LSTM state."""
        steps, width = starts.shape
        flat = {key: value.flatten(0, 1) for key, value in observations.items()}
        features = self.encoder(flat).view(steps, width, -1)
        features, state = self._run_lstm(features, state, starts)
        return features.float(), state

    def apply_heads(self, features: Tensor) -> tuple[Tensor, Tensor]:
        """Return logits and values in float32, even if the layers below ran in bfloat16.

        With the eight bits of bfloat16 a value of 100 has an error of 0.5, a probability of 3 %.
        """
        with full_precision(features.device):
            return self.actor(features), self.critic(features).squeeze(-1)

    def _step_lstm(self, features: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Run one step of the LSTM; on a CPU by its cell alone, in a third of the time."""
        if self.lstm is None or features.device.type != "cpu":
            outputs, state = self._run_lstm(features.unsqueeze(0), state, starts.unsqueeze(0))
            return outputs[0], state
        hidden, cell = state * ~starts.view(1, -1, 1)
        state = torch.stack(torch.lstm_cell(features, (hidden, cell), *self.lstm.all_weights[0]))
        return state[0], state

    def _run_lstm(self, features: Tensor, state: Tensor, starts: Tensor) -> tuple[Tensor, Tensor]:
        """Run the LSTM in parts between episode starts, with a zero state at each start."""
        if self.lstm is None:
            return features, state
        cuts = starts.any(1).nonzero().flatten().tolist()
        edges = sorted({0, *cuts, len(starts)})
        parts = []
        for first, last in pairwise(edges):
            start = state * ~starts[first].view(1, -1, 1)
            part, (hidden, cell) = self.lstm(features[first:last], (start[:1], start[1:]))
            state = torch.cat([hidden, cell]).float()
            parts.append(part)
        return torch.cat(parts), state


def _initialise(policy: ActorCritic) -> None:
    """Set orthogonal weights, zero biases, small embeddings: a nearly uniform first policy."""
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
    """Store convolution kernels channels last, which saves a third of an update on a CPU."""
    for parameter in policy.parameters():
        if parameter.ndim == 4:  # noqa: PLR2004 - kernels
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)


def make_policy(space: DictSpace, actions: int, features: int, memory: int) -> ActorCritic:
    """Return an ActorCritic for an observation space, with convolutions if it has pictures."""
    pictures = any(observation_kind(box) == "pictures" for box in space.spaces.values())
    encoder = PixelEncoder(space, features) if pictures else VectorEncoder(space, features)
    return ActorCritic(encoder, actions, memory)


def find_mismatch(ours: Mapping[str, Tensor], theirs: Mapping[str, Tensor]) -> str:
    """Return the name and both shapes of the first tensor of another shape; "" if none."""
    for name in {**ours, **theirs}:
        shapes = (tuple(state[name].shape) if name in state else None for state in (ours, theirs))
        our_shape, their_shape = shapes
        if our_shape != their_shape:
            return f"{name}: {their_shape}, here {our_shape}"
    return ""
