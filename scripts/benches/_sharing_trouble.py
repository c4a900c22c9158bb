"""Crews in trouble: syncs that never happen, jobs that die, versions that come a round late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from Daddy.core.lease import Lease
from Daddy.core.shared_paths import SharedPaths
from Daddy.learning import loop
from Daddy.learning.ports import WeightExchange
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.merger import Merger
from Daddy.weights.store.store import Store
from scripts.benches._sharing_crew import Crew, Member, adopt, publish
from scripts.benches._sharing_hostile import Plain, Told
from scripts.benches._sharing_learner import exchange, first_policy, settings

MISSED = 0.5
"""Share of the syncs that a job misses."""


@dataclass
class FaultyCrew(Crew):
    """Half of all syncs are missed, four jobs die one by one, and all are handed over at half time.

    A death comes after a round of training, so that what it taught is lost with what was not yet in
    a checkpoint; the next process of that job goes on from the newest one.
    """

    deaths: int = 0

    def share(self, order: Sequence[Member], number: int) -> None:
        """Kill, hand over, or share as far as syncs are not missed; then everybody checkpoints."""
        fifth, before = 5 * (number + 1) // self.rounds, 5 * number // self.rounds
        if before < fifth < 5:
            self._replace(order[0])
            self.deaths += 1
            order = order[1:]
        if number + 1 == self.rounds // 2:
            for member in list(self.members):
                self._hand_over(member)
            return
        there = [member for member in order if self.dice.random() >= MISSED]
        publish(there)
        adopt(there)
        for member in there:
            loop.checkpoint(member.session)

    def _hand_over(self, member: Member) -> None:
        """As at the end of a job's time: offer, checkpoint, say goodbye; the successor begins."""
        loop.leave(member.session, "drained", "its time is up")
        if isinstance(member.sharing, SharedExchange):
            member.sharing.leave("drained")
        self._replace(member)

    def _replace(self, member: Member) -> None:
        """A new process in its place; nothing is said to the old one."""
        place = self.members.index(member)
        member.session.parts.vector.close()
        self.members[place] = self.begin(member.peer)

    def told(self) -> dict[str, Any]:
        return {**super().told(), "deaths": self.deaths}


@dataclass
class LateCrew(Crew):
    """Versions come a round late: what is offered is merged after everybody has adopted.

    With `keeps` the progress that is not merged yet is rebased on the version, as the product does;
    without, it is dropped, as by a script that loads what it pulls.
    """

    keeps: bool = True

    def __post_init__(self) -> None:
        if not self.keeps:  # somebody has to write the common beginning
            founder = exchange(self.root, "slot-0", self.clock, self.ear, settings())
            founder.begin(lambda: dict(first_policy(self.seed).state_dict()), None)
        super().__post_init__()

    def sharing(self, peer: str) -> WeightExchange:
        if self.keeps:
            return super().sharing(peer)
        return Plain(SharedPaths(self.root), peer, lambda delta, _: Told(delta))

    def share(self, order: Sequence[Member], number: int) -> None:
        """Publish and adopt while a merger that does nothing holds the lease; then merge."""
        paths = SharedPaths(self.root)
        lease = Lease.claim(paths.lease, {"merger": "nobody"})
        assert lease is not None
        publish(order)
        adopt(order)
        lease.release("done")
        merger = Merger(Store(paths), settings(), self.clock, f"late/{number:08x}")
        merger.try_merge(0.0)
