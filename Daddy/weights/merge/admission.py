"""Pure. Admits or refuses contributions, each refusal with a reason that its author can read.

Three stages, cheap first: the record alone, the file's size and hash, the values. A refusal is
either "late" (the author keeps its progress and offers it again with the next contribution),
"values" (the author drops it, because the numbers are bad) or "reverted" (the author drops it
because its base version was reverted). A verdict may also be to wait and judge again later.

A job is compared with the other jobs: each of them counts by the median of its contributions to the
last versions and those pending, and the typical value is the median of these medians.
"""

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum

from Daddy.core.assist_compatibility import missing_assists
from Daddy.weights.encoding.tensor_layout import INT8, PLAIN
from Daddy.weights.store.weight_records import Contribution, Input, Version, is_reverted

OTHERS_NEEDED = 3
"""Other jobs that are needed before a job's claimed steps are bounded."""

STEPS_LIMIT = 1 << 30
"""Environment steps one contribution may claim; an hour of the fastest learner is a hundredth."""

CLIP_FACTOR = 2.0
REFUSE_FACTOR = 5.0
JOB_REFUSE_FACTOR = 25.0
"""Norm of a delta, as a multiple of the typical one: beyond the first it is scaled down, beyond the
second (for our own jobs the third) refused: docs/decisions/15."""

LAPTOP_GROWTH = 10.0
JOB_GROWTH = 4.0
"""Largest factor by which claimed optimizer steps raise the typical norm, for laptops and jobs."""

SHARE_FACTOR = 4.0
"""Times the typical steps that a job's share of a version may stand for: honest jobs of one run
differ in speed, but none outweighs all the others by its claim."""

COUNT_FACTOR = 16.0
"""Times the typical steps, for each version since its last contribution, that are added to a job's
total."""

NORM_HISTORY = 16
NORMS_NEEDED = 4
WITNESSES = 2
"""Accepted norms of jobs that are remembered; norms, or other jobs, that are needed before a job's
norm is judged. A laptop waits for one norm, because its account is not trusted."""


class Fault(str, Enum):
    """Cause of a refusal: it came too late, its numbers are bad, or its base was reverted."""

    LATE = "late"
    VALUES = "values"
    REVERTED = "reverted"


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    """Admitted, or refused with a reason. ``scale``: clip in (0, 1]; ``wait``: judge later."""

    admitted: bool
    reason: str
    fault: Fault = Fault.LATE
    scale: float = 1.0
    wait: bool = False


ADMITTED = AdmissionVerdict(admitted=True, reason="")


def make_refusal(reason: str, fault: Fault = Fault.LATE, *, wait: bool = False) -> AdmissionVerdict:
    """Return the verdict "refused", or with ``wait`` the verdict to judge the offer later."""
    return AdmissionVerdict(admitted=False, reason=reason, fault=fault, wait=wait)


def _bad(reason: str) -> AdmissionVerdict:
    return make_refusal(reason, Fault.VALUES)


def judge_record(
    offer: Contribution, head: Version, base: Version | None, lag: int, max_staleness: int
) -> AdmissionVerdict:
    """Judge the record (first stage): identity, sequence, base, claims, size; opens no file.

    ``base`` is the commit record of the offer's base, or None; ``lag``: how far the base counts as
    behind ``head``, in versions.
    """
    return (
        _flaw_of_identity(offer, head)
        or _flaw_of_base(offer, head, base, lag, max_staleness)
        or _flaw_of_claims(offer, head)
        or ADMITTED
    )


def _flaw_of_identity(offer: Contribution, head: Version) -> AdmissionVerdict | None:
    if offer.run_id != head.run_id:
        return _bad(f"belongs to another run than this one, {head.run_id}")
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
    # Compressed int8 may be very small; of a small policy it is mostly the list of tensors.
    sizes = {PLAIN: (head.size // 3, head.size + head.size // 2), INT8: (64, head.size + 4096)}
    if offer.form not in sizes:
        return make_refusal(f"it is written as {offer.form!r}, which this run does not read")
    smallest, largest = sizes[offer.form]
    if not smallest <= offer.size <= largest:
        return _bad(f"{offer.size} bytes, a delta of this run has {smallest} to {largest}")
    return None


def judge_file(offer: Contribution, size: int, sha256: str) -> AdmissionVerdict:
    """Judge the file (second stage): size and hash must be those in the record. A damaged file is
    refused as "late": the author still has the progress and offers it again.
    """
    if size != offer.size:
        return make_refusal(f"the file has {size} bytes, its record says {offer.size} (truncated?)")
    if sha256 != offer.blob:
        return make_refusal("the file's hash is not the one in its record (damaged)")
    return ADMITTED


@dataclass(frozen=True, slots=True)
class TypicalOffer:
    """Norm, optimizer steps and environment steps typical of ``jobs`` other jobs."""

    norm: float
    optimizer_steps: float
    env_steps: float
    jobs: int


def typical_of_others(peer: str, inputs: Sequence[Input]) -> TypicalOffer | None:
    """Return the typical contribution of jobs other than ``peer``; None without any."""
    others: dict[str, list[Input]] = defaultdict(list)
    for merged in inputs:
        if merged.peer != peer:
            others[merged.peer].append(merged)
    if not others:
        return None

    def middle(value: Callable[[Input], float]) -> float:
        return statistics.median(
            statistics.median(map(value, theirs)) for theirs in others.values()
        )

    return TypicalOffer(
        middle(lambda merged: merged.norm * merged.clip),
        middle(lambda merged: merged.optimizer_steps),
        middle(lambda merged: merged.env_steps),
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
    """Judge the values (third stage): finite and of a typical norm.

    ``norm`` is the delta's, NaN when any value is. ``history`` holds (norm, optimizer steps) of
    accepted deltas; it is used only if fewer than two other jobs are ``beside``. More optimizer
    steps than typical raise the limit in proportion, fewer do not lower it; the steps that a laptop
    claims (``strict``), or a job with three others beside it, raise the limit only up to a bound.
    """
    if norm == 0.0 or not math.isfinite(norm):
        zero = "it is zero everywhere: nothing was learnt"
        return _bad("it holds values that are not finite" if norm else zero)
    if strict and not history:
        return make_refusal("no job's contribution has been seen yet to judge it by", wait=True)
    if beside is not None and beside.jobs >= WITNESSES:
        typical, steps = beside.norm, beside.optimizer_steps
    elif not strict and len(history) < NORMS_NEEDED:
        return ADMITTED
    else:
        typical = statistics.median(accepted[0] for accepted in history)
        steps = statistics.median(accepted[1] for accepted in history)
    bounded = beside is not None and beside.jobs >= OTHERS_NEEDED
    most = LAPTOP_GROWTH if strict else JOB_GROWTH if bounded else math.inf
    typical *= min(max(1.0, optimizer_steps / max(1.0, steps)), most)
    if norm > (REFUSE_FACTOR if strict else JOB_REFUSE_FACTOR) * typical:
        return _bad(f"its norm {norm:.3g} is {norm / typical:.1f} times the usual {typical:.3g}")
    if norm > CLIP_FACTOR * typical:
        return AdmissionVerdict(admitted=True, reason="clipped", scale=CLIP_FACTOR * typical / norm)
    return ADMITTED


def extend_norm_history(
    history: Sequence[tuple[float, float]], accepted: Sequence[tuple[float, float]]
) -> tuple[tuple[float, float], ...]:
    """Return ``history`` and the ``accepted`` (norm, optimizer steps), the newest 16 only."""
    added = [(float(norm), float(steps)) for norm, steps in accepted]
    return tuple([*history, *added][-NORM_HISTORY:])


def cap_claimed_steps(
    env_steps: int, new_steps: int, usual: TypicalOffer | None, versions: int
) -> tuple[int, int]:
    """Return a job's claimed steps, capped: (steps of its share, steps added to its total).

    ``versions`` have passed since its last contribution. Without another job (``usual`` None)
    claims are not capped.
    """
    if usual is None:
        return env_steps, new_steps
    share = max(1, int(SHARE_FACTOR * usual.env_steps))
    total = max(1, int(COUNT_FACTOR * usual.env_steps * max(1, versions)))
    return min(env_steps, share), min(new_steps, total)
