"""What became of a peer's own offers, as the commit records tell it. No torch."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from Daddy.weights.manifest import Version
from Daddy.weights.store import Store

_FURTHEST = 255
"""Records that are read at most: whoever is further behind has nothing left that could count."""


@dataclass(frozen=True, slots=True)
class Fate:
    """Highest sequence judged of one process, and [fault, reason] of those of it refused.

    ``moved`` is how far each offer of the peer's, whichever process made it, moved the shared
    weights: share x clip by (incarnation, sequence), 0.0 where it was refused.
    """

    judged: int
    refused: Mapping[int, tuple[str, str]]
    moved: Mapping[tuple[str, int], float] = field(default_factory=dict)
    incarnation: str = ""


def fate_of(store: Store, peer: str, incarnation: str, base: int, newest: Version) -> Fate:
    """What became of an author's offers between the version ``base`` and ``newest``."""
    refused, moved = {}, {}
    for record in store.records(max(base + 1, newest.version - _FURTHEST), newest.version):
        for one in record.refused:
            if one.peer == peer:
                moved[one.incarnation, one.sequence] = 0.0
            if (one.peer, one.incarnation) == (peer, incarnation):
                refused[one.sequence] = (one.fault, one.reason)
        for taken in record.inputs:
            if taken.peer == peer:
                moved[taken.incarnation, taken.sequence] = taken.share * taken.clip
    judged = newest.consumed.get(f"{peer}/{incarnation}", [0])[0]
    return Fate(judged, refused, moved, incarnation)
