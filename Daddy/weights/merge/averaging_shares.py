"""Pure. Computes the share by which each contribution moves the weights, and when to merge.

A contribution with weights W, learnt from the version B, moves the shared weights S by its share t:

    setting "delta" (default)   S <- S + t (W - B)
    setting "polyak"            S <- (1 - t) S + t W

Both agree while B = S. Once others have moved S, "polyak" also undoes the part t of their progress:
B = 0, S = 2, W = 1 and t = 0.5 give 2.5 by "delta" and 1.5 by "polyak". Under "polyak" t is the
setting ``alpha``, and the shares computed here are only limits for laptops and friends.

Example: four live jobs of 1000 steps each make a full round of 4000. A fresh contribution gets the
share t = 1000 / 4000 = 0.25, whether it is merged alone or with the other three.
"""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

STALENESS_DISCOUNT = 0.25
"""Discount by lag s: weight / (1 + 0.25 s), a fifth less for one version; stronger ones did not
help."""

LAPTOP_TRUST = 0.25
"""Weight of a laptop's environment step, where a job's is 1."""

MAX_SHARE_ONE_LAPTOP = 0.10
MAX_SHARE_ALL_LAPTOPS = 0.20
MAX_SHARE_ALL_FRIENDS = 0.50
"""Largest share of a version: of one laptop, of all laptops, of all jobs of friends' accounts."""

LAPTOP_PERIOD_S = 60.0
"""Seconds between two contributions of a laptop, which count as a lag of one version."""


@dataclass(frozen=True, slots=True)
class WeightedOffer:
    """A contribution's facts from which its share is computed. ``staleness`` counts versions since
    its base (``laptop_lag`` for laptops); ``friend``: from another account than the run owner's.
    """

    peer: str
    env_steps: int
    staleness: int
    laptop: bool
    friend: bool = False


def laptop_lag(versions: int, seconds: float) -> int:
    """Return a laptop's lag in versions, at most one for each minute that passed."""
    return min(versions, math.ceil(max(0.0, seconds) / LAPTOP_PERIOD_S))


def contribution_weight(offer: WeightedOffer) -> float:
    """Return the environment steps, discounted by staleness and by trust for a laptop."""
    discounted = offer.env_steps / (1.0 + STALENESS_DISCOUNT * offer.staleness)
    return discounted * (LAPTOP_TRUST if offer.laptop else 1.0)


def round_weight(
    offers: Sequence[WeightedOffer], live_jobs: int, previous_round_weight: float
) -> float:
    """Return the weight of a full round: the mean job's weight times the number of live jobs.
    Dividing by it keeps one early contribution from counting as the whole round. With laptops alone
    there is no job to measure, and ``previous_round_weight`` is returned.
    """
    job_weights = _mean_weights([offer for offer in offers if not offer.laptop])
    if not job_weights:
        return previous_round_weight
    return sum(job_weights) / len(job_weights) * max(live_jobs, len(job_weights))


def _mean_weights(offers: Sequence[WeightedOffer]) -> list[float]:
    """Return the mean weight of each peer: two offers of one peer count as one share."""
    by_peer: dict[str, list[float]] = defaultdict(list)
    for offer in offers:
        by_peer[offer.peer].append(contribution_weight(offer))
    return [sum(weights) / len(weights) for _, weights in sorted(by_peer.items())]


def offer_shares(
    offers: Sequence[WeightedOffer], full_round_weight: float
) -> tuple[tuple[float, ...], float]:
    """Return each offer's share, in the order given, and the weight that they were divided by:
    that of all offers, at least ``full_round_weight``. Laptops and friends are limited, and steps
    that laptops claim shrink the jobs' shares by no more than ``MAX_SHARE_ALL_LAPTOPS``.
    """
    jobs = sum(_mean_weights([offer for offer in offers if not offer.laptop]))
    laptops = sum(_mean_weights([offer for offer in offers if offer.laptop]))
    without_laptops = max(jobs, full_round_weight)
    if without_laptops > 0.0:
        most = without_laptops * MAX_SHARE_ALL_LAPTOPS / (1.0 - MAX_SHARE_ALL_LAPTOPS)
        laptops = min(laptops, most)
    denominator = max(jobs + laptops, full_round_weight)
    if denominator <= 0.0:
        return (0.0,) * len(offers), 0.0
    shares = [contribution_weight(offer) / denominator for offer in offers]
    return tuple(_limit_shares(offers, shares)), denominator


def _limit_shares(offers: Sequence[WeightedOffer], shares: Sequence[float]) -> list[float]:
    """Return the shares within the limits of one laptop, of all laptops and of all friends."""
    for peer in {offer.peer for offer in offers if offer.laptop}:
        chosen = [offer.laptop and offer.peer == peer for offer in offers]
        shares = _limit_sum(shares, chosen, MAX_SHARE_ONE_LAPTOP)
    shares = _limit_sum(shares, [offer.laptop for offer in offers], MAX_SHARE_ALL_LAPTOPS)
    return _limit_sum(shares, [offer.friend for offer in offers], MAX_SHARE_ALL_FRIENDS)


def _limit_sum(shares: Sequence[float], chosen: Sequence[bool], limit: float) -> list[float]:
    """Scale the chosen shares down, where needed, until their sum is ``limit``."""
    total = sum(itertools.compress(shares, chosen))
    factor = min(1.0, limit / total) if total else 1.0
    return [
        share * factor if scaled else share for share, scaled in zip(shares, chosen, strict=True)
    ]


def is_due(
    *, waiting_jobs: int, waiting_others: int, live_jobs: int, oldest_s: float, period_s: float
) -> bool:
    """Return True if all live own jobs but one wait for a merge, or a contribution is a period old.
    A merge does not wait for the last job, so the slowest holds nobody up: its contribution goes
    into the next version. No merge waits for laptops or friends (``waiting_others``). ``oldest_s``
    is measured in seconds on the reading process's own clock.
    """
    if not waiting_jobs and not waiting_others:
        return False
    return waiting_jobs >= max(1, live_jobs - 1) or oldest_s >= period_s
