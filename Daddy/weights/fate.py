"""What became of a peer's own offers, as the commit records tell it. No torch."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from Daddy.weights.store.records import Version, is_reverted
from Daddy.weights.store.store import Store

_FURTHEST = 255
"""Records that are read at most: whoever is further behind has nothing left that could count."""


@dataclass(frozen=True, slots=True)
class Fate:
    """Highest sequence judged of one process, and [fault, reason] of those refused or taken back.

    ``fallen``: why the version that the peer stands on was taken back; empty when it was not.
    """

    judged: int
    refused: Mapping[int, tuple[str, str]]
    fallen: str = ""


def fate_of(store: Store, peer: str, incarnation: str, base: int, newest: Version) -> Fate:
    """What became of an author's offers between the version ``base`` and ``newest``."""
    records = store.records(max(base + 1, newest.version - _FURTHEST), newest.version)
    told = dict(_told(records, peer, incarnation, newest))
    refused = {number: why for number, why in told.items() if why is not None}
    fallen = f"v{base} was taken back" if is_reverted(base, newest.reverted) else ""
    judged = newest.consumed.get(f"{peer}/{incarnation}", [0])[0]
    return Fate(judged, refused, fallen)


def _told(
    records: Sequence[Version], peer: str, incarnation: str, newest: Version
) -> Iterator[tuple[int, tuple[str, str] | None]]:
    """Of each of a process's offers [fault, reason], None where it counts; the last word last."""
    for record in records:
        for one in record.refused:
            if (one.peer, one.incarnation) == (peer, incarnation):
                yield one.sequence, (one.fault, one.reason)
        gone = is_reverted(record.version, newest.reverted)
        why = ("reverted", f"v{record.version} was taken back with it") if gone else None
        for taken in (*record.replayed, *record.inputs):
            if (taken.peer, taken.incarnation) == (peer, incarnation):
                yield taken.sequence, why


def event_of(record: Version) -> dict[str, object]:
    """What the merger writes down of the version that it has made."""
    return {
        "state": "merged",
        "version": record.version,
        "inputs": [f"{one.peer}/{one.sequence}" for one in record.inputs],
        "refused": [f"{one.peer}/{one.sequence}: {one.reason}" for one in record.refused],
    }
