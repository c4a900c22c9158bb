"""Learners that share through one real folder, in lockstep: a round of training, then of sharing.

Everybody trains, which is when the told clock moves; then, in an order drawn anew each round, all
publish and all adopt. What an arm changes about this is a crew of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from Daddy.core.shared_paths import SharedPaths
from Daddy.learning import loop
from Daddy.learning.ports import WeightExchange
from Daddy.learning.session import Session
from Daddy.learning.solo import NoExchange
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.polyak import StateDict
from Daddy.weights.store.store import Store
from scripts.benches._sharing_cosines import Cosines
from scripts.benches._sharing_learner import (
    ROUND_S,
    Ear,
    ToldClock,
    exchange,
    learner,
    settings,
    train,
)
from scripts.benches._sharing_world import POLE, World


@dataclass
class Member:
    """One learner of a crew and its view of the shared folder; it trains in every `rhythm`th round.

    `judged`: whether what it learns counts for the arm.
    """

    peer: str
    session: Session
    sharing: WeightExchange
    rhythm: int = 1
    judged: bool = True


@dataclass
class Crew:
    """The learners of one seed in a folder of their own, for so many `rounds`.

    `workers` of `size` times the usual environments each, that share or go alone.
    """

    seed: int
    folder: Path
    rounds: int
    workers: int = 4
    size: int = 1
    shares: bool = True
    rule: str = "delta"
    world: World = POLE
    clock: ToldClock = field(default_factory=ToldClock)
    ear: Ear = field(default_factory=Ear)
    members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice, self.cosines = Random(self.seed), Cosines(SharedPaths(self.root))
        self.members = [self.begin(f"slot-{number}") for number in range(self.workers)]

    @property
    def root(self) -> Path:
        """The shared folder."""
        return self.folder / "shared_weights"

    def begin(self, peer: str) -> Member:
        """A process of this peer, which goes on from its checkpoint if it has one."""
        sharing = self.sharing(peer)
        parts = (self.clock, self.ear, self.size, self.world)
        return Member(peer, learner(self.seed, peer, self.folder, sharing, *parts), sharing)

    def sharing(self, peer: str) -> WeightExchange:
        """What a process of this peer shares through."""
        if not self.shares:
            return NoExchange()
        return exchange(self.root, peer, self.clock, self.ear, settings(rule=self.rule))

    def round(self, number: int) -> list[float]:
        """Round `number`, from 0; then the worth of each judged learner's own weights."""
        here = [member for member in self.members if (number + 1) % member.rhythm == 0]
        for member in here:
            train(member.session)
        self.clock.time += ROUND_S  # what training takes
        self.share(self.dice.sample(here, len(here)), number)
        self.cosines.look()
        judged = [member.session.weights() for member in self.members if member.judged]
        return self.world.judge(judged)

    def share(self, order: Sequence[Member], number: int) -> None:
        """What happens between two rounds of training."""
        del number
        publish(order)
        adopt(order)

    def newest(self) -> StateDict:
        """The newest version."""
        store = Store(SharedPaths(self.root))
        record = store.version(store.newest() or 0)
        return decode(store.get_blob(record.state), record.schema)

    def told(self) -> dict[str, Any]:
        """What is worth noting of the run besides its curve."""
        return {
            "merges": self.ear.counts.get("merged", 0),
            "errors": self.ear.errors[:8],
            "cosines": self.cosines.told([one.peer for one in self.members if one.judged]),
        }


def publish(order: Sequence[Member]) -> None:
    """Each offers its progress."""
    for member in order:
        loop.publish(member.session)


def adopt(order: Sequence[Member]) -> None:
    """Each takes over a newer version if there is one."""
    for member in order:
        loop.adopt_newer(member.session)
