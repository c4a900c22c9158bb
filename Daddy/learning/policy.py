"""The networks: an encoder per kind of observation, an optional LSTM, an actor and a critic.

Promises eager networks: every parameter exists when the constructor returns, so optimizer and
checkpoint see all of them. The LSTM's state is forgotten where an episode starts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from math import prod, sqrt

import torch
from gymnasium.spaces import Dict as DictSpace
from torch import Tensor, nn

from Daddy.learning.device import full_precision
from Daddy.learning.encoders import Encoder, PixelEncoder, VectorEncoder, kind_of


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


def parameter_count(policy: nn.Module) -> int:
    """How many numbers are learnt."""
    return sum(prod(parameter.shape) for parameter in policy.parameters())
