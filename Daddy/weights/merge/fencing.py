"""Refusal of contributions that an older holder of a slot offers too late, after it woke up.

A process that begins in a slot writes beside its heartbeat the last number that its predecessors
had offered until then (its *fence*); later offers of older terms are refused. Terms alone would not
do: the last contribution of a predecessor that left in good order still counts.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from Daddy.weights.merge import contributions
from Daddy.weights.store import heartbeats
from Daddy.weights.store.heartbeats import Heartbeat
from Daddy.weights.store.weight_records import Contribution
from Daddy.weights.store.weight_store import Store


@dataclass(frozen=True, slots=True)
class Fence:
    """One process's term, and the last sequence of each older process of its peer that counts."""

    term: int
    after: Mapping[str, int] = field(default_factory=dict)


def make_fence(store: Store, peer: str, term: int, known: Mapping[str, int]) -> Fence:
    """The fence of a process that begins now; its checkpoint knows up to ``known`` as offered.

    A process without a term (a laptop, a learner of before) fences nobody off.
    """
    after: dict[str, int] = {}
    for incarnation, theirs in read_fences(heartbeats.read_heartbeats(store), peer).items():
        if theirs.term < term:
            seen = contributions.list_contributions(store.paths.peer(peer, incarnation))
            last = max((number for number, _ in seen), default=0)
            after[incarnation] = max(last, known.get(incarnation, 0))
    return Fence(term, after)


def read_fences(pulses: Iterable[Heartbeat], peer: str) -> dict[str, Fence]:
    """Every process of ``peer`` with what it wrote; one that cannot be read fences nobody off."""
    found = {}
    for pulse in pulses:
        if pulse.peer == peer:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                body = pulse.notes
                after = {str(key): int(last) for key, last in dict(body.get("fence", {})).items()}
                found[pulse.incarnation] = Fence(int(body.get("term", 0)), after)
    return found


def judge_lease_term(offer: Contribution, fences: Mapping[str, Fence]) -> str:
    """Why ``offer`` came too late; empty when it did not. ``fences`` are its peer's."""
    own = fences.get(offer.incarnation, Fence(0))
    for fence in fences.values():
        last = fence.after.get(offer.incarnation)
        if fence.term > own.term and last is not None and offer.sequence > last:
            return (
                f"{offer.peer} went on in term {fence.term} after contribution {last}: "
                f"what its term {own.term} offers later does not count"
            )
    return ""
