"""The version that goes back to an older one, and the receipts of the contributions it takes back.

It is a version like any other: a learner on a version of the range drops its progress and takes the
new one, and a contribution based in the range is refused (``admission``).
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Sequence

from Daddy.core.clock import Clock
from Daddy.core.errors import WeightsError
from Daddy.weights.merge import contributions
from Daddy.weights.store.heartbeats import LEASE_SILENCE_S, StallTimer
from Daddy.weights.store.records import KEPT_RANGES, Revert, Version
from Daddy.weights.store.store import Store

MOST_WAIT_S = 120.0
_LOOK_S = 0.05


def roll_back(
    store: Store, number: int, reason: str, clock: Clock, name: str = "rollback"
) -> Version:
    """Commit a version with the state of ``number``; other mergers may run meanwhile.

    WeightsError when the state cannot be read, or the merge lease is not free within two minutes.
    """
    watch, until = StallTimer(clock), clock.monotonic() + MOST_WAIT_S
    while clock.monotonic() < until:
        lease = watch.claim(store.paths.lease, {"merger": name}, LEASE_SILENCE_S)
        if lease is None:
            clock.wait(threading.Event(), _LOOK_S)
            continue
        try:
            if (made := _commit(store, number, reason, clock, name)) is not None:
                return made
        finally:
            lease.release("done")
    raise WeightsError(f"another peer has been merging for {MOST_WAIT_S:.0f} s", "try again")


def _commit(store: Store, number: int, reason: str, clock: Clock, name: str) -> Version | None:
    """The version that follows the newest; None when a merger has committed it first.

    Under the lease no merger clears old states away. The state is put back after the commit all the
    same: it was an old one until then, and whoever lost the lease in a pause may have removed it.
    """
    from Daddy.weights.store.rebuild import repair

    newest, good = store.newest(), store.version(number)
    assert newest is not None
    state = repair(store, good)
    made = dataclasses.replace(
        taken_back(store, store.version(newest), good, reason),
        merger=name,
        ts=round(clock.now(), 3),
    )
    if not store.commit(made):
        return None
    store.mend_blob(state)
    _finish(store, made, state)
    return made


def _finish(store: Store, made: Version, state: bytes) -> None:
    """Heads, laptops and receipts; the next merger or reader repeats it if this process dies."""
    store.write_head(made.version)
    offered = store.keyframe()
    if offered is not None:
        from Daddy.weights.encoding.state_codec import decode, encode
        from Daddy.weights.store.delivery import serve

        half = encode(decode(state, made.schema), half=True)
        serve(store, made.version, half, offered.terms, offered.release)
    contributions.write_receipts(store, made)


def taken_back(store: Store, head: Version, good: Version, reason: str) -> Version:
    """The record that follows ``head`` with the state of ``good``; all between is taken back.

    The caller fills in ``merger`` and ``ts`` and has checked that the state verifies.
    """
    revert = Revert(good.version + 1, head.version, head.version, good.version,
                    reason[:contributions.REASON_LIMIT])  # fmt: skip
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
        reverted=joined(head.reverted, (revert.first, revert.last)),
    )


def joined(ranges: Sequence[tuple[int, int]], new: tuple[int, int]) -> tuple[tuple[int, int], ...]:
    """Pure: the ranges with a ``new`` last one, which takes in those that lie inside it."""
    apart = tuple(one for one in ranges if not (new[0] <= one[0] and one[1] <= new[1]))
    return (*apart, new)[-KEPT_RANGES:]
