"""Refuses contributions that an older holder of a slot offers after its successor started.

A process that starts in a slot writes, beside its heartbeat, the last sequence that each
predecessor had offered by then (its *fence*). Later offers of processes with a lower lease term are
refused. The lease term alone is not enough: the last contribution of a predecessor that exited in
good order must count.
"""

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
    """A process's lease term, and by older process the last sequence that counts."""

    term: int
    after: Mapping[str, int] = field(default_factory=dict)


def make_fence(store: Store, peer: str, term: int, known: Mapping[str, int]) -> Fence:
    """Return the fence of a process of ``peer`` that starts now with the lease term ``term``.

    ``known``: offered sequences, by process, that its checkpoint names. A process without a term (a
    laptop, a learner of an older release) refuses no offer.
    """
    after: dict[str, int] = {}
    for incarnation, fence in read_fences(heartbeats.read_heartbeats(store), peer).items():
        if fence.term < term:
            offered = contributions.list_contributions(store.paths.peer(peer, incarnation))
            last = max((number for number, _ in offered), default=0)
            after[incarnation] = max(last, known.get(incarnation, 0))
    return Fence(term, after)


def read_fences(heartbeats: Iterable[Heartbeat], peer: str) -> dict[str, Fence]:
    """Return the fence of each process of ``peer``; skip unreadable ones."""
    fences = {}
    for heartbeat in heartbeats:
        if heartbeat.peer == peer:
            with contextlib.suppress(TypeError, ValueError, OverflowError):
                body = heartbeat.notes
                after = {str(key): int(last) for key, last in dict(body.get("fence", {})).items()}
                fences[heartbeat.incarnation] = Fence(int(body.get("term", 0)), after)
    return fences


def judge_lease_term(offer: Contribution, fences: Mapping[str, Fence]) -> str:
    """Return the reason to refuse ``offer`` as late, or ""; ``fences``: of its peer's processes."""
    own = fences.get(offer.incarnation, Fence(0))
    for fence in fences.values():
        last = fence.after.get(offer.incarnation)
        if fence.term > own.term and last is not None and offer.sequence > last:
            return (
                f"{offer.peer} went on in term {fence.term} after contribution {last}: "
                f"later offers of its term {own.term} do not count"
            )
    return ""
