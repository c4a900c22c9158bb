"""The version that goes back to an older one, and the receipts of the contributions it takes back.

It is a version like any other: a learner on a version of the range keeps only the progress it made
since it adopted that version, and a contribution based in the range is refused (``admission``).
"""

from __future__ import annotations

import dataclasses

from Daddy.weights import offers
from Daddy.weights.merge.admission import Fault
from Daddy.weights.store.records import KEPT_RANGES, Input, Receipt, Refusal, Revert, Version
from Daddy.weights.store.store import Store

REASON_LIMIT = 300


def taken_back(store: Store, head: Version, good: Version, reason: str) -> Version:
    """The record that follows ``head`` with the state of ``good``; all between is taken back.

    The caller fills in ``merger`` and ``ts`` and has checked that the state verifies.
    """
    revert = Revert(good.version + 1, head.version, head.version, good.version,
                    reason[:REASON_LIMIT])  # fmt: skip
    return dataclasses.replace(
        head,
        version=head.version + 1,
        parent=store.record_hash(head.version),
        base=good.version,
        state=good.state,
        size=good.size,
        inputs=(),
        refused=(),
        replayed=(),
        reverts=(revert,),
        restored=False,
        reverted=(*head.reverted, (revert.first, revert.last))[-KEPT_RANGES:],
    )


def revert_receipts(store: Store, record: Version) -> list[Receipt]:
    """The receipts of laptops' contributions that ``record`` took back, with its reason."""
    return [
        Receipt.refuse(
            Refusal(one.peer, one.incarnation, one.sequence, Fault.REVERTED.value,
                    f"v{number} was taken back: {record.reverts[0].reason}"[:REASON_LIMIT]),
            record.version,
        )
        for number, one in _left_out(store, record)
        if not offers.is_job(one.peer)
    ]  # fmt: skip


def _left_out(store: Store, record: Version) -> list[tuple[int, Input]]:
    """The contributions that ``record`` took back, each with the version it was in."""
    again = {(one.peer, one.incarnation, one.sequence) for one in record.replayed}
    return [
        (kept.version, one)
        for revert in record.reverts
        for kept in store.records(revert.first, revert.last)
        for one in kept.inputs
        if (one.peer, one.incarnation, one.sequence) not in again
    ]
