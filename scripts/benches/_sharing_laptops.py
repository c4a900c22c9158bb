"""Jobs, and laptops at a quarter of their speed that pull, learn and hand in through the inbox."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.names import new_incarnation
from Daddy.learning.ports import WeightExchange
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from scripts.benches._sharing_crew import Crew, Member, adopt, publish
from scripts.benches._sharing_learner import exchange, learner, settings

RHYTHM = 4
"""A laptop trains one round in so many."""


@dataclass
class LaptopCrew(Crew):
    """`laptops` beside the jobs; only the jobs' own weights are judged.

    Files are moved by name within the disk: what the wire would add is the business of other tests.
    """

    laptops: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self.members += [self._laptop(f"friend-{number}") for number in range(self.laptops)]

    def sharing(self, peer: str) -> WeightExchange:
        return exchange(self.root, peer, self.clock, self.ear, settings(wan=True))

    def home(self, peer: str) -> Path:
        """A laptop's own folder, in which what it would pull can be seen at once."""
        home = self.folder / "home" / peer
        home.mkdir(parents=True)
        for name in ("wan", "receipts"):
            (self.root / name).mkdir(exist_ok=True)
            (home / name).symlink_to(self.root / name)
        return home

    def _laptop(self, peer: str) -> Member:
        sharing = LaptopExchange(self.home(peer), peer, new_incarnation(), self.clock, 0.0)
        session = learner(self.seed, peer, self.folder, sharing, self.clock, self.ear)
        return Member(peer, session, sharing, RHYTHM, judged=False)

    def share(self, order: Sequence[Member], number: int) -> None:
        del number
        publish(order)
        self._push()
        adopt(order)

    def _push(self) -> None:
        """The outboxes' files into the inbox, each record after its blob."""
        for box in (self.folder / "home").glob("*/outbox/*"):
            place = self.root / "inbox" / box.name
            place.mkdir(parents=True, exist_ok=True)
            for path in [*sorted(box.glob("*.st")), *sorted(box.glob("*.json"))]:
                path.replace(place / path.name)
