"""Pure. The gate: verdicts on contributions, each refusal with a reason its author gets to see.

Three stages, cheap first: the record alone, the file's size and hash, the values. A refusal is
either "late" (the author keeps its progress and offers it again with the next contribution),
"values" (the author drops it, because the numbers themselves are bad) or "reverted" (it drops it
without blame: what it stood on was taken back). Waiting is none of these: look again later.

The yardstick of a job is the other jobs: each has one voice, the median of what it contributed to
the last versions and offers now, and what is usual is the median of those voices.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from Daddy.core.assist_rules import missing_assists
from Daddy.weights.encoding.tensor_layout import INT8, PLAIN
from Daddy.weights.store.weight_records import Contribution, Input, Version, is_reverted

OTHERS_NEEDED = 3
"""Other jobs that must be there before anybody is called an outlier."""

STEPS_LIMIT = 1 << 30
"""Environment steps one contribution may claim; an hour of the fastest learner is a hundredth."""

CLIP_FACTOR = 2.0
REFUSE_FACTOR = 5.0
JOB_REFUSE_FACTOR = 25.0
"""Norm of a delta, as a multiple of the usual one: beyond the first it is scaled down, beyond the
second (for our own jobs the third) refused: docs/decisions/15."""

LAPTOP_GROWTH = 10.0
JOB_GROWTH = 4.0
"""Largest growth of a usual delta by the optimizer steps that are claimed for it."""

SHARE_FACTOR = 4.0
"""Times the usual steps that a job's share of a version may stand for: honest jobs of one run
differ in speed, but none outweighs all the others because it says so."""

COUNT_FACTOR = 16.0
"""Times the usual steps, for each version since its last contribution, that are added to a job's
total."""

NORM_HISTORY = 16
NORMS_NEEDED = 4
WITNESSES = 2
"""Accepted norms of jobs that are remembered, and how many it takes before a job's is judged at
all, or how many other jobs. A laptop's waits for one norm, because nobody vouches for it."""


class Fault(str, Enum):
    """Cause of a refusal: its time, its numbers, or a rollback of its base."""

    LATE = "late"
    VALUES = "values"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """Admitted, or not and why. ``scale`` is the clip in (0, 1]; ``wait``: look again later."""

    admitted: bool
    reason: str
    fault: Fault = Fault.LATE
    scale: float = 1.0
    wait: bool = False


ADMITTED = AdmissionVerdict(admitted=True, reason="")


def make_refusal(reason: str, fault: Fault = Fault.LATE, *, wait: bool = False) -> AdmissionVerdict:
    """A refusal, or with ``wait`` no verdict yet."""
    return AdmissionVerdict(admitted=False, reason=reason, fault=fault, wait=wait)


def _bad(reason: str) -> AdmissionVerdict:
    return make_refusal(reason, Fault.VALUES)


def judge_record(
    offer: Contribution, head: Version, base: Version | None, lag: int, max_staleness: int
) -> AdmissionVerdict:
    """First stage: identity, sequence, base, claims and size; no file has been opened yet.

    ``base`` is the commit record of the offer's base, as far as it is there; ``lag`` the versions
    that it counts as behind ``head``.
    """
    return (
        _flaw_of_identity(offer, head)
        or _flaw_of_base(offer, head, base, lag, max_staleness)
        or _flaw_of_claims(offer, head)
        or ADMITTED
    )


def _flaw_of_identity(offer: Contribution, head: Version) -> AdmissionVerdict | None:
    if offer.run_id != head.run_id:
        return _bad(f"belongs to run {offer.run_id}, this is run {head.run_id}")
    if offer.schema != head.schema:
        return _bad("its tensors have other names or shapes than this run's (schema hash differs)")
    if foreign := missing_assists(offer.assists, head.assists):
        return _bad(f"it was learnt with the assists {foreign}, which this run does not use")
    if offer.sequence <= head.judged(offer.author):
        return make_refusal(f"sequence {offer.sequence} was judged before")
    return None


def _flaw_of_base(
    offer: Contribution, head: Version, base: Version | None, lag: int, max_staleness: int
) -> AdmissionVerdict | None:
    number, behind = offer.base_version, head.version - offer.base_version
    if behind < 0:
        return _bad(f"base v{number} does not exist, the newest is v{head.version}")
    if is_reverted(number, head.reverted):
        return make_refusal(
            f"base v{number} was taken back: go on from the newest version", Fault.REVERTED
        )
    if lag > max_staleness:
        return make_refusal(
            f"base v{number} is {behind} versions old, the limit is {max_staleness}"
        )
    if base is None:
        return make_refusal(f"base v{number} has no commit record any more")
    if base.state != offer.base_state:
        return _bad(f"its base is not this run's v{number} (hash differs)")
    return None


def _flaw_of_claims(offer: Contribution, head: Version) -> AdmissionVerdict | None:
    if not 0 < offer.env_steps <= STEPS_LIMIT or offer.new_steps > offer.env_steps:
        return _bad(f"claims {offer.env_steps} environment steps, {offer.new_steps} of them new")
    if offer.optimizer_steps == 0:
        return _bad("no optimizer step was made: nothing was learnt")
    # Compressed int8 may be nearly nothing, and of a small policy is mostly the list of its tensors
    sizes = {PLAIN: (head.size // 3, head.size + head.size // 2), INT8: (64, head.size + 4096)}
    if offer.form not in sizes:
        return make_refusal(f"it is written as {offer.form!r}, which this run does not read")
    smallest, largest = sizes[offer.form]
    if not smallest <= offer.size <= largest:
        return _bad(f"{offer.size} bytes, a delta of this run has {smallest} to {largest}")
    return None


def judge_file(offer: Contribution, size: int, sha256: str) -> AdmissionVerdict:
    """Second stage: the bytes that were read are the bytes that were promised.

    Damage on the way is nobody's fault: the author still has the progress and offers it again.
    """
    if size != offer.size:
        return make_refusal(f"the file has {size} bytes, its record says {offer.size} (truncated?)")
    if sha256 != offer.blob:
        return make_refusal("the file's hash is not the one in its record (damaged)")
    return ADMITTED


@dataclass(frozen=True, slots=True)
class TypicalOffer:
    """The usual contribution of ``jobs`` other jobs."""

    norm: float
    optimizer_steps: float
    env_steps: float
    jobs: int


def typical_of_others(peer: str, told: Sequence[Input]) -> TypicalOffer | None:
    """The usual contribution of the others; None where nobody else has contributed lately."""
    others: dict[str, list[Input]] = defaultdict(list)
    for one in told:
        if one.peer != peer:
            others[one.peer].append(one)
    if not others:
        return None

    def middle(value: Callable[[Input], float]) -> float:
        return statistics.median(
            statistics.median(map(value, theirs)) for theirs in others.values()
        )

    return TypicalOffer(
        middle(lambda one: one.norm * one.clip),
        middle(lambda one: one.optimizer_steps),
        middle(lambda one: one.env_steps),
        len(others),
    )


def judge_values(
    norm: float,
    optimizer_steps: int,
    history: Sequence[tuple[float, float]],
    *,
    strict: bool,
    beside: TypicalOffer | None = None,
) -> AdmissionVerdict:
    """Third stage: finite and of a usual size. ``norm`` is the delta's, NaN when any value is.

    ``history`` holds (norm, optimizer steps) of accepted deltas; what two other jobs are ``beside``
    comes before it. More steps than usual may go further, in proportion; fewer may go as far as
    usual. ``strict`` is for laptops. Their claims, and those of a job with three others beside it,
    are not believed beyond a bound.
    """
    if norm == 0.0 or not math.isfinite(norm):
        zero = "it is zero everywhere: nothing was learnt"
        return _bad("it holds values that are not finite" if norm else zero)
    if strict and not history:
        return make_refusal("no job's contribution has been seen yet to judge it by", wait=True)
    if beside is not None and beside.jobs >= WITNESSES:
        usual, steps = beside.norm, beside.optimizer_steps
    elif not strict and len(history) < NORMS_NEEDED:
        return ADMITTED
    else:
        usual = statistics.median(one[0] for one in history)
        steps = statistics.median(one[1] for one in history)
    bounded = beside is not None and beside.jobs >= OTHERS_NEEDED
    most = LAPTOP_GROWTH if strict else JOB_GROWTH if bounded else math.inf
    usual *= min(max(1.0, optimizer_steps / max(1.0, steps)), most)
    if norm > (REFUSE_FACTOR if strict else JOB_REFUSE_FACTOR) * usual:
        return _bad(f"its norm {norm:.3g} is {norm / usual:.1f} times the usual {usual:.3g}")
    if norm > CLIP_FACTOR * usual:
        return AdmissionVerdict(admitted=True, reason="clipped", scale=CLIP_FACTOR * usual / norm)
    return ADMITTED


def extend_norm_history(
    history: Sequence[tuple[float, float]], accepted: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], ...]:
    """The history with newly accepted (norm, optimizer steps) added, the oldest dropped."""
    added = [(float(norm), float(steps)) for norm, steps in accepted]
    return tuple([*history, *added][-NORM_HISTORY:])


def cap_claimed_steps(
    env_steps: int, new_steps: int, usual: TypicalOffer | None, versions: int
) -> tuple[int, int]:
    """A job's claims within what is usual: steps of its share, and steps added to its total.

    ``versions`` have passed since its last contribution. What no other job can bear witness to is
    believed.
    """
    if usual is None:
        return env_steps, new_steps
    share = max(1, int(SHARE_FACTOR * usual.env_steps))
    total = max(1, int(COUNT_FACTOR * usual.env_steps * max(1, versions)))
    return min(env_steps, share), min(new_steps, total)
