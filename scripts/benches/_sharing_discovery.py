"""Crews in the grid world of keys and doors: who finds the reward when, and what each has seen."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from scripts.benches._sharing_crew import Crew
from scripts.benches._sharing_keydoor import REACHABLE, KeyDoors
from scripts.benches._sharing_world import DOORS, World


@dataclass
class DiscoveryCrew(Crew):
    """Notes after each round which share of all states each learner was ever in."""

    world: World = DOORS
    seen: list[list[float]] = field(default_factory=list)

    def round(self, number: int) -> list[float]:
        worth = super().round(number)
        vectors = [member.session.parts.vector for member in self.members]
        self.seen.append([float(one.visited.sum()) / REACHABLE
                          for one in vectors if isinstance(one, KeyDoors)])  # fmt: skip
        return worth

    def told(self) -> dict[str, Any]:
        return {**super().told(), "seen": self.seen}
