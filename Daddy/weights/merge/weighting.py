"""Pure: how far each contribution moves the shared weights, and when it is time to merge.

The rule is Polyak averaging without the term that undoes others' work. A fresh writer (base B = S)
with share t moves S by t (W - B), which is to (1 - t) S + t W: exactly Polyak's step. A stale one
moves S by the same t (W - B) instead of also dragging it back by t (S - B).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.weights.settings import Limits

STALENESS_DISCOUNT = 0.25
"""One version of lag costs a fifth of the weight, 1 / (1 + 0.25 s); stronger ones did not help."""

RHYTHM_S = 60.0
"""A laptop pulls, learns and pushes about once a minute, however fast versions come."""


@dataclass(frozen=True, slots=True)
class Offer:
    """What the weighting sees of one contribution; ``staleness`` is a laptop's ``own_lag``.

    ``friend``: it comes from an account that is not the run's owner's.
    """

    peer: str
    env_steps: int
    staleness: int
    laptop: bool
    friend: bool = False


@dataclass(frozen=True, slots=True)
class Shares:
    """The share of each offer, in the order given, and what they were divided by."""

    shares: tuple[float, ...]
    denominator: float


def own_lag(versions: int, seconds: float) -> int:
    """How far a laptop is behind in its own rhythm: where versions come faster, time counts."""
    return min(versions, math.ceil(max(0.0, seconds) / RHYTHM_S))


def weigh(offer: Offer, trust: float) -> float:
    """Environment steps, discounted by staleness, times trust for a laptop."""
    fresh = offer.env_steps / (1.0 + STALENESS_DISCOUNT * offer.staleness)
    return fresh * (trust if offer.laptop else 1.0)


def complete_set(offers: Sequence[Offer], live_jobs: int, previous: float) -> float:
    """The weight that all live jobs would have together: the mean job's, times their number.

    A single early contributor is divided by it and so moves the weights by its share, not by its
    whole delta; the sum over a round then equals the mean. With laptops alone ``previous`` holds.
    """
    jobs = _per_peer([offer for offer in offers if not offer.laptop], 1.0)
    if not jobs:
        return previous
    return sum(jobs) / len(jobs) * max(live_jobs, len(jobs))


def _per_peer(offers: Sequence[Offer], trust: float) -> list[float]:
    """The mean weight of each peer's offers: two of one peer are two rounds, no double share."""
    by_peer: dict[str, list[float]] = {}
    for offer in offers:
        by_peer.setdefault(offer.peer, []).append(weigh(offer, trust))
    return [sum(weights) / len(weights) for _, weights in sorted(by_peer.items())]


def share_out(offers: Sequence[Offer], full: float, limits: Limits) -> Shares:
    """Each offer's share: its weight over max(one round's sum, ``full``); laptops, friends capped.

    Nor does what laptops claim shrink the jobs' shares by more than ``limits.together``.
    """
    jobs = sum(_per_peer([one for one in offers if not one.laptop], 1.0))
    laptops = sum(_per_peer([one for one in offers if one.laptop], limits.trust))
    if max(jobs, full) > 0.0:
        laptops = min(laptops, max(jobs, full) * limits.together / (1.0 - limits.together))
    denominator = max(jobs + laptops, full)
    if denominator <= 0.0:
        return Shares(tuple(0.0 for _ in offers), 0.0)
    shares = [weigh(offer, limits.trust) / denominator for offer in offers]
    shares = _cap_friends(offers, _cap_laptops(offers, shares, limits), limits.friends)
    return Shares(tuple(shares), denominator)


def _cap_laptops(offers: Sequence[Offer], shares: list[float], limits: Limits) -> list[float]:
    """One laptop at most ``limits.one`` over all its offers, all laptops ``limits.together``."""
    by_peer: dict[str, float] = {}
    for offer, share in zip(offers, shares, strict=True):
        if offer.laptop:
            by_peer[offer.peer] = by_peer.get(offer.peer, 0.0) + share
    single = {peer: min(1.0, limits.one / total) for peer, total in by_peer.items() if total}
    total = sum(by_peer[peer] * scale for peer, scale in single.items())
    group = min(1.0, limits.together / total) if total else 1.0
    return [
        share * single.get(offer.peer, 1.0) * group if offer.laptop else share
        for offer, share in zip(offers, shares, strict=True)
    ]


def _cap_friends(offers: Sequence[Offer], shares: list[float], most: float) -> list[float]:
    """All friends' accounts together at most ``most``, however many there are."""
    total = sum(share for offer, share in zip(offers, shares, strict=True) if offer.friend)
    scale = min(1.0, most / total) if total else 1.0
    return [
        share * scale if offer.friend else share
        for offer, share in zip(offers, shares, strict=True)
    ]


@dataclass(frozen=True, slots=True)
class Due:
    """Whether to merge now, and why or why not."""

    now: bool
    reason: str


def is_due(published: int, live_jobs: int, oldest_s: float, period_s: float, laptops: int) -> Due:
    """Merge when all live jobs but one have published, or the oldest offer is a period old.

    ``published`` counts jobs with a pending contribution, ``laptops`` contributions of laptops;
    ``oldest_s`` is how long the oldest has been seen pending (on the judge's own clock).
    """
    if not published and not laptops:
        return Due(now=False, reason="nothing is pending")
    said = f"{published} of {live_jobs} live jobs have published"
    if published >= max(1, live_jobs - 1):
        return Due(now=True, reason=said)
    if oldest_s >= period_s:
        return Due(now=True, reason=f"the oldest contribution has waited {oldest_s:.1f} s")
    return Due(now=False, reason=said)
