"""Evidence against the version on probation, and the version that takes it back.

Only what jobs played decides. What laptops say can put a version on probation, no more. A revert is
a version like any other: made from the newest one held good and those contributions since that
neither are suspects nor stood on what is taken back; where they cannot be had, from that alone.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence

from Daddy.core.errors import WeightsError
from Daddy.weights import offers
from Daddy.weights.admission import Fault
from Daddy.weights.codec import decode, encode
from Daddy.weights.evaluations import Evaluation, evaluations_in_boxes, evaluations_of_jobs
from Daddy.weights.manifest import Input, Refusal, Version
from Daddy.weights.notices import Receipt
from Daddy.weights.polyak import StateDict, is_finite, move
from Daddy.weights.probation import (
    BETWEEN_SUSPICIONS_OF_ONE,
    KEPT_RANGES,
    Probation,
    Revert,
    Step,
    Suspicion,
    advance,
    heed,
    is_reverted,
)
from Daddy.weights.quantise import decode_delta
from Daddy.weights.replay import factors, repair
from Daddy.weights.sequential import Finding, Outcome, compare
from Daddy.weights.store import Store

SUSPICION = 0.01
"""Chance that a laptop's honest evaluation raises a false suspicion."""

REPLAY_REACH = 16
"""Versions after the one held good in which contributions made on it, or before, still came."""

REPLAYED_LIMIT = 48
"""Contributions that are added again at most, so that a commit record stays small."""

NAMED_LIMIT = 48


def look(store: Store, head: Version) -> Step:
    """What the next version's record says of probation, or that it is to be a revert."""
    now = head.probation
    step = advance(now, head.version, _finding(store, head), _last_revert(head))
    suspicions = list(_suspicions(store, head, step.probation.good))
    return heed(step, head.version, suspicions, _asked(store, head)) if suspicions else step


def _finding(store: Store, head: Version) -> Finding:
    """What the jobs' pairs say; a start that several played counts once."""
    now = head.probation
    returns: dict[int, tuple[float, float]] = {}
    for _, one in evaluations_of_jobs(store) if now.trial else []:
        if (one.version, one.reference) == (now.trial, now.good) and _is_ours(store, head, one):
            for seed, ours, theirs in one.pairs:
                returns.setdefault(seed, (ours, theirs))
    return compare(returns.values())


def _is_ours(store: Store, head: Version, one: Evaluation) -> bool:
    """Whether it speaks of this run's two versions: number and hash."""
    if one.run_id != head.run_id or one.version > head.version:
        return False
    try:
        states = (store.version(one.version).state, store.version(one.reference).state)
    except WeightsError:
        return False
    return states == (one.state, one.reference_state)


def _is_here(store: Store, one: Evaluation) -> bool:
    """Whether jobs can still play it."""
    return store.paths.blob(one.state).exists()


def _suspicions(store: Store, head: Version, good: int) -> Iterator[Suspicion]:
    """What laptops found worse than something older, each by its own pairs alone."""
    found: dict[tuple[str, int, int], dict[int, tuple[float, float]]] = {}
    for _, one in evaluations_in_boxes(store):
        if is_relevant(head, one, good) and _is_ours(store, head, one) and _is_here(store, one):
            pairs = found.setdefault((one.peer, one.version, one.reference), {})
            pairs.update({seed: (ours, theirs) for seed, ours, theirs in one.pairs})
    for (peer, version, _), returns in sorted(found.items()):
        if compare(returns.values(), SUSPICION).outcome is Outcome.BAD:
            yield Suspicion(peer, version)


def is_relevant(head: Version, one: Evaluation, good: int) -> bool:
    """Whether a laptop's evaluation can still raise suspicion: of a version young enough."""
    young = max(good, head.version - REPLAY_REACH) < one.version <= head.version
    return young and one.run_id == head.run_id and not is_reverted(one.version, head.reverted)


def _asked(store: Store, head: Version) -> dict[int, str]:
    """Probations that laptops asked for lately: the version that began each, and the laptop."""
    first = max(0, head.version - BETWEEN_SUSPICIONS_OF_ONE + 1)
    found = (one.probation for one in store.records(first, head.version))
    return {one.since: one.asked_by for one in found if one.asked_by}


def _last_revert(head: Version) -> int:
    return max((last + 1 for _, last in head.reverted), default=0)


def taken_back(store: Store, head: Version, step: Step) -> tuple[Version, StateDict]:
    """The record of the version that takes back all after the one held good, and its state.

    Its state has been written. WeightsError when the one held good cannot be read.
    """
    good, bad = head.probation.good, head.probation.trial
    base = decode(repair(store, store.version(good)), head.schema)
    entered = list(_entered(store, head))
    suspects = suspected(entered, bad)
    innocent = [one for n, one in entered if one.base_version <= good and one not in suspects]
    state, replayed = _replayed(store, head, base, innocent)
    data = encode(state)
    names = tuple(_named(one) for one in suspects)[:NAMED_LIMIT]
    revert = Revert(good + 1, head.version, bad, good, step.reason[:300], names, len(replayed))
    number = head.version + 1
    plain = Probation(good=number) if not replayed else Probation(good, number, number)
    return dataclasses.replace(
        head,
        version=number,
        parent=store.record_hash(head.version),
        base=good,
        state=store.put_blob(data, "state"),
        size=len(data),
        inputs=(),
        refused=(),
        replayed=tuple(replayed),
        probation=plain,
        reverts=(revert,),
        restored=False,
        reverted=(*head.reverted, (revert.first, revert.last))[-KEPT_RANGES:],
    ), state


def _entered(store: Store, head: Version) -> Iterator[tuple[int, Input]]:
    """What came in after the one held good, with the version it came with; not what was out."""
    for record in store.records(head.probation.good + 1, head.version):
        if not is_reverted(record.version, head.reverted):
            yield from ((record.version, one) for one in (*record.replayed, *record.inputs))


def suspected(entered: Sequence[tuple[int, Input]], bad: int) -> list[Input]:
    """Laptops' contributions up to the bad version, for whom nobody vouches; else all up to it."""
    inside = [one for number, one in entered if number <= bad]
    return [one for one in inside if not offers.counts_as_job(one)] or inside


def _named(one: Input) -> str:
    return f"{one.peer}/{one.incarnation}/{one.sequence}"


def _replayed(
    store: Store, head: Version, base: StateDict, innocent: Sequence[Input]
) -> tuple[StateDict, list[Input]]:
    """The one held good with the innocent contributions, as far as that can be made."""
    chosen = list(innocent)[:REPLAYED_LIMIT]
    if head.rule != "delta":  # an average of absolute weights is not made again out of order
        return base, []
    try:
        deltas = [decode_delta(store.get_blob(one.blob), one.form, head.schema) for one in chosen]
    except WeightsError:
        return base, []
    shares, clips = [one.share for one in chosen], [one.clip for one in chosen]
    state = move(base, deltas, factors(head.rule, shares, clips))
    return (state, chosen) if chosen and is_finite(state) else (base, [])


def left_out(store: Store, record: Version) -> list[tuple[int, Input]]:
    """What ``record`` took back and did not add again, each with the version it was in."""
    again = {_named(one) for one in record.replayed}
    return [
        (kept.version, one)
        for revert in record.reverts
        for kept in store.records(revert.first, revert.last)
        for one in kept.inputs
        if _named(one) not in again
    ]


def revert_receipts(store: Store, record: Version) -> list[Receipt]:
    """What laptops get to see of a revert: whose contributions it took back, and why."""
    found = []
    for number, one in left_out(store, record):
        if not offers.is_job(one.peer):
            refusal = Refusal(one.peer, one.incarnation, one.sequence, Fault.REVERTED.value,
                              why_left_out(record, number, one))  # fmt: skip
            found.append(Receipt.refuse(refusal, record.version))
    return found


def why_left_out(record: Version, number: int, one: Input) -> str:
    """Why a contribution that was in v ``number`` no longer counts."""
    revert = record.reverts[0]
    suspect = "it is under suspicion; " if _named(one) in revert.without else ""
    return f"v{number} was taken back: {suspect}{revert.reason}"[:300]


def needed_for_revert(store: Store, head: Version) -> set[str]:
    """Blobs that a revert or an evaluation would need: two states, and what is added again."""
    now = head.probation
    tried = [*store.records(now.good, now.good), *store.records(now.trial, now.trial)]
    keep = {one.state for one in tried}
    for record in store.records(now.good + 1, min(now.good + REPLAY_REACH, head.version)):
        keep |= {one.blob for one in record.inputs if one.base_version <= now.good}
    return keep


def drop_evaluations(store: Store, head: Version) -> None:
    """Remove those that can no longer say anything."""
    now = head.probation
    stale = [path for path, one in evaluations_of_jobs(store)
             if (one.version, one.reference) != (now.trial, now.good)]  # fmt: skip
    stale += [path for path, one in evaluations_in_boxes(store)
              if not is_relevant(head, one, now.good)]  # fmt: skip
    for path in stale:
        with contextlib.suppress(OSError):  # a box that is not ours
            path.unlink(missing_ok=True)
