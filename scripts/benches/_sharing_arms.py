"""The ways to go together that the bench `sharing` compares, and which of them each question needs.

A run's length is frozen (see each world's): on CartPole it was chosen on seeds of its own so that
learners on their own come to 55 to 65 % of the greatest possible area under the curve. Later
everybody can do everything, earlier nobody anything, and nothing could be told apart.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from scripts.benches._sharing_crew import Crew
from scripts.benches._sharing_discovery import DiscoveryCrew
from scripts.benches._sharing_hostile import HostileCrew
from scripts.benches._sharing_laptops import LaptopCrew
from scripts.benches._sharing_learner import PPO
from scripts.benches._sharing_trouble import FaultyCrew, LateCrew
from scripts.benches._sharing_world import DOORS, POLE, World

QUICK_ROUNDS = 3
"""Of one update of each learner."""


def steps_of_a_round() -> int:
    """Environment steps of one learner."""
    return PPO.steps_per_iteration


@dataclass(frozen=True, eq=False)
class Arm:
    """A crew by name and how it differs from four learners that share."""

    name: str
    crew: type[Crew] = Crew
    how: Mapping[str, Any] = field(default_factory=dict)
    world: World = POLE

    def rounds(self, quick: bool) -> int:
        """How long it plays."""
        return QUICK_ROUNDS if quick else self.world.rounds

    def make(self, seed: int, folder: Path, rounds: int) -> Crew:
        """Its crew for one seed."""
        return self.crew(seed, folder, rounds, **self.how)


SHARED = Arm("four that share")
ALONE = Arm("four on their own", how={"shares": False})
BIG = Arm("one with all environments", how={"workers": 1, "size": 4, "shares": False})
EIGHT = Arm("eight that share", how={"workers": 8})
LAPTOPS = Arm("four and two laptops", LaptopCrew)
FAULTS = Arm("under faults", FaultyCrew)
LATE = Arm("a round late, rebased", LateCrew)
DROPPED = Arm("a round late, replaced", LateCrew, {"keeps": False})

DOORS_SHARED = Arm("doors, four that share", DiscoveryCrew, world=DOORS)
DOORS_ALONE = Arm("doors, four on their own", DiscoveryCrew, {"shares": False}, DOORS)

PLAIN_LIES = ("nan", "noise", "x-10", "x-1")
SLY_LIES = ("sleeper", "orthogonal", "inflated", "colluders")


def hostile(lie: str, *, gated: bool = True) -> Arm:
    """Four of whom one (of colluders two) lies in what it offers."""
    name = f"{lie}, {'gate on' if gated else 'gate off'}"
    return Arm(name, HostileCrew, {"lie": lie, "gated": gated})


HOSTILE = [hostile(lie, gated=gated) for lie in PLAIN_LIES for gated in (True, False)]
HOSTILE += [hostile(lie) for lie in SLY_LIES]

NEEDS: Mapping[str, tuple[Arm, ...]] = {
    "E1": (SHARED, ALONE, BIG, EIGHT, LAPTOPS),
    "E2": (DOORS_SHARED, DOORS_ALONE),
    "E3": (DOORS_SHARED, DOORS_ALONE),
    "E4": (SHARED, FAULTS),
    "E6": (SHARED, *HOSTILE),
    "E7": (SHARED, LATE, DROPPED),
    "E8": (SHARED,),
}
"""Question → arms, the reference first. E5 is no matter of learning."""
