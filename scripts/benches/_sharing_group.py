"""Learners that share through one real folder, in lockstep: a round of training, then of sharing.

All train, during which the test clock moves; then, in a new random order each round, all publish
and all adopt. An arm that differs subclasses LearnerGroup.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Any

from Daddy.learning import loop
from Daddy.learning.interfaces import NoExchange, WeightExchange
from Daddy.learning.learner_state import LearnerState
from scripts.benches._sharing_judge import judge
from scripts.benches._sharing_learner import (
    ROUND_S,
    EventCounter,
    ManualClock,
    exchange,
    learner,
    settings,
    train,
)


@dataclass
class Member:
    """One learner and its exchange; `judged`: its weights count for the arm."""

    peer: str
    session: LearnerState
    sharing: WeightExchange
    judged: bool = True


@dataclass
class LearnerGroup:
    """The learners of one seed in a folder of their own, for `rounds` rounds.

    `workers` learners with `size` times the usual environments each, which share or train alone.
    """

    seed: int
    folder: Path
    rounds: int
    workers: int = 4
    size: int = 1
    shares: bool = True
    clock: ManualClock = field(default_factory=ManualClock)
    ear: EventCounter = field(default_factory=EventCounter)
    members: list[Member] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.dice = Random(self.seed)
        self.members = [self.begin(f"slot-{number}") for number in range(self.workers)]

    @property
    def root(self) -> Path:
        """Path of the shared folder."""
        return self.folder / "shared_weights"

    def begin(self, peer: str) -> Member:
        """Start a process of this peer, from its checkpoint if it has one."""
        sharing = self.sharing(peer)
        parts = (self.clock, self.ear, self.size)
        return Member(peer, learner(self.seed, peer, self.folder, sharing, *parts), sharing)

    def sharing(self, peer: str) -> WeightExchange:
        """Return the exchange of a process of this peer."""
        if not self.shares:
            return NoExchange()
        return exchange(self.root, peer, self.clock, self.ear, settings())

    def round(self) -> list[float]:
        """Train and share once; return the returns of each judged learner's own weights."""
        for member in self.members:
            train(member.session)
        self.clock.time += ROUND_S
        self.share(self.dice.sample(self.members, len(self.members)))
        judged = [member.session.weights() for member in self.members if member.judged]
        return judge(judged)

    def share(self, order: Sequence[Member]) -> None:
        """Let each offer its progress, then adopt a newer version if there is one."""
        for member in order:
            loop.publish_progress(member.session)
        for member in order:
            loop.adopt_newer(member.session)

    def told(self) -> dict[str, Any]:
        """Return facts of the run besides its curve."""
        return {
            "merges": self.ear.counts.get("merged", 0),
            "errors": self.ear.errors[:8],
        }
