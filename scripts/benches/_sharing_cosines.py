"""How far the contributions of one version agree: what a gate that looks at directions would see.

The cosine of each delta to the sum of the others', in versions of three or more; nothing here acts.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from math import isfinite

from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.polyak import StateDict, add, difference, norm
from Daddy.weights.store.store import Store

FEWEST = 3
"""Contributions of a version that say something about one another."""
THRESHOLD = -0.05
"""Below it a delta works against the others."""


@dataclass
class Cosines:
    """Reads every version as it comes: retention leaves the deltas of the newest only."""

    paths: SharedPaths
    seen: int = 0
    by_peer: dict[str, list[float]] = field(default_factory=dict)

    def look(self) -> None:
        """Note what the versions since the last look were made of."""
        store = Store(self.paths)
        for number in range(self.seen + 1, (store.newest() or 0) + 1):
            record = store.version(number)
            inputs = record.inputs
            if len(inputs) >= FEWEST:
                deltas = [
                    decode_delta(store.get_blob(one.blob), one.form, record.schema)
                    for one in inputs
                ]
                for one, value in zip(inputs, leave_one_out(deltas), strict=True):
                    self.by_peer.setdefault(one.peer, []).append(value)
            self.seen = number

    def told(self, peers: Collection[str]) -> dict[str, float]:
        """Of these peers: how many cosines, their extremes, and the share below the threshold."""
        found = [one for peer in sorted(peers) for one in self.by_peer.get(peer, [])]
        found = [one for one in found if isfinite(one)]
        if not found:
            return {"seen": 0}
        below = sum(one < THRESHOLD for one in found) / len(found)
        facts = {"least": min(found), "mean": sum(found) / len(found), "most": max(found)}
        rounded = {name: round(value, 3) for name, value in facts.items()}
        return {"seen": len(found), **rounded, "below": round(below, 4)}


def leave_one_out(deltas: Sequence[StateDict]) -> list[float]:
    """The cosine of each to the sum of the others; not a number where one of the two has no length.

    At least two deltas.
    """
    total = add(deltas[0], *deltas[1:])
    return [_cosine(one, difference(total, one)) for one in deltas]


def _cosine(one: StateDict, other: StateDict) -> float:
    inside = sum(float((one[name].double() * other[name].double()).sum()) for name in one)
    length = norm(one) * norm(other)
    return inside / length if length > 0.0 else float("nan")
