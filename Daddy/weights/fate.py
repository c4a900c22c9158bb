"""What became of a peer's own offers, as the commit records tell it. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.weights.manifest import Version
from Daddy.weights.store import Store

_FURTHEST = 255
"""Records that are read at most: whoever is further behind has nothing left that could count."""


@dataclass(frozen=True, slots=True)
class Fate:
    """Highest sequence judged, and [fault, reason] of those refused."""

    judged: int
    refused: Mapping[int, tuple[str, str]]


def fate_of(store: Store, peer: str, incarnation: str, base: int, newest: Version) -> Fate:
    """What became of an author's offers between the version ``base`` and ``newest``."""
    refused = {}
    for record in store.records(max(base + 1, newest.version - _FURTHEST), newest.version):
        for one in record.refused:
            if (one.peer, one.incarnation) == (peer, incarnation):
                refused[one.sequence] = (one.fault, one.reason)
    return Fate(newest.consumed.get(f"{peer}/{incarnation}", [0])[0], refused)
