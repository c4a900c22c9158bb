"""The version that takes back others.

It is a version like any other: made from the newest one held good and those contributions since
that neither are suspects nor stood on what is taken back; where they cannot be had, from that
alone.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

from Daddy.core.errors import WeightsError
from Daddy.weights import offers
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.gate.admission import Fault
from Daddy.weights.polyak import StateDict, is_finite, move
from Daddy.weights.records.probation import (
    KEPT_RANGES,
    Probation,
    Revert,
    Step,
    is_reverted,
)
from Daddy.weights.replay import factors, repair
from Daddy.weights.revert.evidence import REPLAY_REACH
from Daddy.weights.store.records import Input, Receipt, Refusal, Version
from Daddy.weights.store.store import Store

REPLAYED_LIMIT = 48
"""Contributions that are added again at most, so that a commit record stays small."""

NAMED_LIMIT = 48


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
