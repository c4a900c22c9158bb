"""How far a learner goes along when the shared weights move: all the way, unless its policy would
jump.

PPO takes for granted that two policies in a row are alike. So the way is shortened until they are,
by their KL divergence on what was seen last; the rate is warmed up again after a shortened one. The
critic, which belongs to weights that were left, is fitted part of the way to the returns that are
known, where that helps much: PPO learns as well as its critic knows.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from Daddy.learning.policy import ActorCritic
    from Daddy.learning.ports import StateDict
    from Daddy.learning.rollout import Minibatch

SHARES = (1.0, 0.5, 0.25, 0.1)
"""Shares of the way that are tried, in this order."""
MOST_KL = 0.05
"""Nats between the policy before and after. Healthy adoptions of four learners lie at 0.002 to
0.008 in our pilot, those that hurt above 0.1: it acts in trouble only."""
CRITIC_STEPS = 2048
"""Steps of the newest rollout that a critic is judged on, and fitted to, after an adoption."""
RIDGE = 1.0
"""Weight of staying where one is, as a share of the features' mean square, in that fit: a nearly
free fit follows one rollout's luck, and was most of what the game's learners contributed."""
SURE = 0.8
"""Share of the squared error that may be left, on the half that was not fitted, for a fit to be
worth leaving the critic's own learning for."""


@dataclass(frozen=True, slots=True)
class Stride:
    """A share of the way, and the KL divergence in nats from the policy before to that after."""

    share: float
    kl: float


def longest(divergence: Callable[[float], float]) -> Stride:
    """The longest stride whose `divergence` is small enough; the shortest where none is."""
    kl = float("nan")
    for share in SHARES:
        kl = divergence(share)
        if kl <= MOST_KL:
            return Stride(share, kl)
    return Stride(SHARES[-1], kl)


def between(own: StateDict, other: StateDict, share: float) -> StateDict:
    """`share` of the way from `own` to `other`; what is counted, not learnt, is the other's."""
    return {
        name: torch.lerp(one, other[name], share) if one.is_floating_point() else other[name]
        for name, one in own.items()
    }


@torch.inference_mode()
def log_probs(policy: ActorCritic, weights: StateDict, batch: Minibatch) -> Tensor:
    """What the policy would do with these weights on `batch`: (T, B, A), whatever it holds now."""
    from torch.func import functional_call  # a tenth of a second that a boot need not wait for

    device = batch.starts.device
    there = {name: one.to(device) for name, one in weights.items()}
    seen = (batch.observations, batch.state, batch.starts)
    logits, _, _ = functional_call(policy, there, seen)
    return torch.log_softmax(logits, -1)


def divergence(before: Tensor, after: Tensor) -> float:
    """Mean KL divergence in nats from the first policy to the second; arguments (..., A)."""
    return float((before.exp() * (before - after)).sum(-1).mean())


@dataclass
class Follower:
    """One adoption by a learner that holds `own`; `seen` gives what it saw last.

    `stride` tells how far it went, None where nobody asked.
    """

    policy: ActorCritic
    own: StateDict
    seen: Callable[[], Minibatch]
    stride: Stride | None = None

    def __call__(self, offered: StateDict) -> StateDict:
        """The weights to take: `offered`, or what lies on the way to them."""
        batch = self.seen()
        before = log_probs(self.policy, self.own, batch)

        def jump(share: float) -> float:
            there = between(self.own, offered, share)
            return divergence(before, log_probs(self.policy, there, batch))

        self.stride = longest(jump)
        share = self.stride.share
        return offered if share == 1.0 else between(self.own, offered, share)


@torch.no_grad()
def guard_critic(policy: ActorCritic, batch: Minibatch) -> bool:
    """Fit the critic to the returns of `batch` if that is sure to help; whether it was.

    Sure: fitted to one half of the sequences it leaves less than ``SURE`` of the squared error on
    the other half. Fewer than two sequences say nothing.
    """
    features, _ = policy.features(batch.observations, batch.state, batch.starts)
    halves = [(features[:, half].flatten(0, 1), batch.targets[:, half].flatten())
              for half in (slice(0, None, 2), slice(1, None, 2))]  # fmt: skip
    if not len(halves[1][1]):
        return False
    kept = policy.critic.weight.clone(), policy.critic.bias.clone()
    before = sum(_squares(policy, *half) for half in halves)
    after = 0.0
    for fitted, other in (halves, halves[::-1]):
        fit_critic(policy, *fitted)
        after += _squares(policy, *other)
        policy.critic.weight.copy_(kept[0])
        policy.critic.bias.copy_(kept[1])
    if not after < SURE * before:
        return False
    fit_critic(policy, features.flatten(0, 1), batch.targets.flatten())
    return True


def _squares(policy: ActorCritic, features: Tensor, targets: Tensor) -> float:
    """The sum of the critic's squared errors."""
    return float((policy.judge(features)[1] - targets).square().sum())


@torch.no_grad()
def fit_critic(policy: ActorCritic, features: Tensor, targets: Tensor) -> None:
    """Move the critic's last layer to what was returned, no further than the ridge lets it.

    features (S, F), targets (S,), both of the same S samples.
    """
    ones = torch.ones(len(features), 1)
    known = torch.cat([features.cpu(), ones], -1).double()  # an Apple GPU has no float64
    head = torch.cat([policy.critic.weight[0], policy.critic.bias]).cpu().double()
    square = known.T @ known
    stay = RIDGE * float(square.diagonal().mean())
    lack = known.T @ (targets.cpu().double() - known @ head)
    square.diagonal().add_(stay)
    fitted = (head + torch.linalg.solve(square, lack)).float()
    if fitted.isfinite().all():
        policy.critic.weight.copy_(fitted[None, :-1])
        policy.critic.bias.copy_(fitted[-1:])
