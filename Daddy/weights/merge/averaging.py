"""Pure. Computes the share by which each contribution moves the weights, and when to merge.

The rule is Polyak averaging without the term that undoes others' work. A contribution with weights
W and base B = S moves S by t (W - B) for its share t, which is Polyak's step to (1 - t) S + t W. A
stale one (B older than S) moves S by the same t (W - B), and does not also drag it back by t (S -
B).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

STALENESS_DISCOUNT = 0.25
"""Discount by lag s: weight / (1 + 0.25 s), a fifth less for one version; stronger ones did not
help."""

LAPTOP_TRUST = 0.25
"""Weight of a laptop's environment step, where a job's is 1."""

ONE_LAPTOP, ALL_LAPTOPS, ALL_FRIENDS = 0.10, 0.20, 0.50
"""Largest share of a version: of one laptop, of all laptops, of all friends' accounts."""

RHYTHM_S = 60.0
"""Seconds of lag that count as one version: a laptop pulls, learns and pushes once a minute."""


@dataclass(frozen=True, slots=True)
class WeightedOffer:
    """One contribution as the weighting sees it; ``staleness`` is a laptop's ``laptop_lag``.
    ``friend``: it comes from an account other than the run's owner's.
    """

    peer: str
    env_steps: int
    staleness: int
    laptop: bool
    friend: bool = False


def laptop_lag(versions: int, seconds: float) -> int:
    """Return a laptop's lag in versions, at most one for each minute that passed."""
    return min(versions, math.ceil(max(0.0, seconds) / RHYTHM_S))


def contribution_weight(offer: WeightedOffer) -> float:
    """Return the environment steps, discounted by staleness and by trust for a laptop."""
    fresh = offer.env_steps / (1.0 + STALENESS_DISCOUNT * offer.staleness)
    return fresh * (LAPTOP_TRUST if offer.laptop else 1.0)


def round_weight(offers: Sequence[WeightedOffer], live_jobs: int, previous: float) -> float:
    """Return the weight that all live jobs would have together: their mean times their number. A
    single early contribution is divided by it: it moves the weights by its share, not by its whole
    delta, and the sum over a round equals the mean. With laptops alone ``previous`` is returned.
    """
    jobs = _per_peer([offer for offer in offers if not offer.laptop])
    return sum(jobs) / len(jobs) * max(live_jobs, len(jobs)) if jobs else previous


def _per_peer(offers: Sequence[WeightedOffer]) -> list[float]:
    """Return the mean weight of each peer: two offers of one peer count as one share."""
    by_peer: dict[str, list[float]] = defaultdict(list)
    for offer in offers:
        by_peer[offer.peer].append(contribution_weight(offer))
    return [sum(weights) / len(weights) for _, weights in sorted(by_peer.items())]


def offer_shares(offers: Sequence[WeightedOffer], full: float) -> tuple[tuple[float, ...], float]:
    """Return each offer's share, in the order given, and the weight that they were divided by. A
    share is the offer's weight over max(one round's sum, ``full``); laptops and friends are capped.
    Claims of laptops shrink the jobs' shares by no more than ``ALL_LAPTOPS``.
    """
    jobs = sum(_per_peer([offer for offer in offers if not offer.laptop]))
    laptops = sum(_per_peer([offer for offer in offers if offer.laptop]))
    if max(jobs, full) > 0.0:
        laptops = min(laptops, max(jobs, full) * ALL_LAPTOPS / (1.0 - ALL_LAPTOPS))
    denominator = max(jobs + laptops, full)
    if denominator <= 0.0:
        return (0.0,) * len(offers), 0.0
    shares = [contribution_weight(offer) / denominator for offer in offers]
    return tuple(_capped(offers, shares)), denominator


def _capped(offers: Sequence[WeightedOffer], shares: Sequence[float]) -> list[float]:
    """Return the shares within the bounds of one laptop, of all laptops and of all friends."""
    laptops: dict[str, float] = defaultdict(float)
    for offer, share in zip(offers, shares, strict=True):
        if offer.laptop:
            laptops[offer.peer] += share
    scale = {peer: _scale(total, ONE_LAPTOP) for peer, total in laptops.items()}
    together = _scale(sum(laptops[peer] * scale[peer] for peer in laptops), ALL_LAPTOPS)
    shares = [
        share * scale[offer.peer] * together if offer.laptop else share
        for offer, share in zip(offers, shares, strict=True)
    ]
    friends = sum(share for offer, share in zip(offers, shares, strict=True) if offer.friend)
    return [
        share * _scale(friends, ALL_FRIENDS) if offer.friend else share
        for offer, share in zip(offers, shares, strict=True)
    ]


def _scale(total: float, most: float) -> float:
    return min(1.0, most / total) if total else 1.0


def is_due(published: int, live_jobs: int, oldest_s: float, period_s: float, laptops: int) -> bool:
    """Return True if all live jobs but one have published, or an offer is a period old.
    ``published`` counts jobs with a pending contribution, ``laptops`` contributions of laptops;
    ``oldest_s`` is the age of the oldest in seconds, on the reading process's own clock.
    """
    if not published and not laptops:
        return False
    return published >= max(1, live_jobs - 1) or oldest_s >= period_s
