"""Crews in trouble: syncs that never happen, jobs that die, versions that come a round late."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from Daddy.learning import loop
from Daddy.learning.ports import Adoption, WeightExchange
from Daddy.weights.exchange import SharedExchange
from Daddy.weights.polyak import StateDict
from scripts.benches._sharing_crew import Crew, Member, adopt, publish

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
    """Whoever adopts has trained a round since it published: versions are a round old.

    With `keeps` that round is rebased on the version, as the product does; without, it is dropped,
    as by a script that loads what it pulls.
    """

    keeps: bool = True

    def sharing(self, peer: str) -> WeightExchange:
        inner = super().sharing(peer)
        return inner if self.keeps else Dropping(inner)

    def share(self, order: Sequence[Member], number: int) -> None:
        """Adopt first what the round before came to."""
        del number
        adopt(order)
        publish(order)


class Dropping:
    """Takes over versions without the progress made since the last offer (the control)."""

    def __init__(self, inner: WeightExchange) -> None:
        self._inner = inner
        self._offered: StateDict | None = None
        self.fleet_steps = inner.fleet_steps
        self.bookkeeping = inner.bookkeeping

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """As the exchange does."""
        return self._inner.begin(initial, resumed)

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """As the exchange does; what was offered is remembered."""
        self._offered = weights
        return self._inner.publish(weights, env_steps, optimizer_steps)

    def adopt(
        self, weights: StateDict, stride: Callable[[StateDict], StateDict]
    ) -> Adoption | None:
        """As if nothing had been learnt since."""
        return self._inner.adopt(self._offered or weights, stride)
