"""The questions of the bench `learning`, as far as the cartridge has the places for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from Daddy.pokemon import story
from scripts.benches import _learning_places as places
from scripts.benches import _learning_poison as poison
from scripts.benches._learning_runs import WON, Arm, Part

Settings = Mapping[str, Mapping[str, Any]]

LIMIT, QUICK_LIMIT = 300_000, 2_048
ERRAND_LIMIT, OBSTACLE_LIMIT, POISON_LIMIT = 200_000, 100_000, 200_000
_ERRAND_MEMORY = 2_048
"""Steps after which the errand's memory is forgotten: longer than the way there and back."""

ARCHIVE: Settings = {"archive": {"mode": "swarm"}}
RANDOM, RANDOM_ARCHIVE = Arm("random", learns=False), Arm("random + archive", False, ARCHIVE)
PPO, PPO_ARCHIVE = Arm("PPO"), Arm("PPO + archive", settings=ARCHIVE)
KEPT = Arm("memory kept", settings={"reward": {"memory_steps": 0}})
RESET = Arm("memory reset", settings={"reward": {"memory_steps": _ERRAND_MEMORY}})
CLEAN = Arm("clean", settings=ARCHIVE)
POISONED = Arm("poisoned", settings=ARCHIVE, poisoned=True)


def parts(rom: Path, quick: bool) -> tuple[Part, ...]:
    """Every part that this cartridge has the places for; `rom` and its start states lie together.

    A quick one has the same arms and too few steps to reach anything.
    """
    found = [_quest(), _errand(rom), _obstacle(rom), _poison()]
    made = [_at_home(part, rom) for part in found if part is not None]
    return tuple(replace(part, limit=QUICK_LIMIT) if quick else part for part in made)


def absent() -> dict[str, str]:
    """Parts that this cartridge has no place for, and what it lacks."""
    lacks = {
        "errand": "" if places.errand() else "a thing to fetch for somebody who waits",
        "obstacle": "" if places.obstacle() else "a move that has to be taught",
    }
    return {name: f"left out: the cartridge lacks {what}" for name, what in lacks.items() if what}


def _quest() -> Part:
    arms = (PPO_ARCHIVE, PPO, RANDOM_ARCHIVE, RANDOM)
    return Part("quest", arms, WON, LIMIT, judged=(PPO_ARCHIVE.name,))


def _errand(rom: Path) -> Part | None:
    span = places.errand()
    return _from(rom, "errand", (RESET, KEPT), span, ERRAND_LIMIT) if span else None


def _obstacle(rom: Path) -> Part | None:
    span = places.obstacle()
    return _from(rom, "obstacle", (PPO, RANDOM), span, OBSTACLE_LIMIT) if span else None


def _poison() -> Part:
    return Part("poison", (POISONED, CLEAN), poison.goal(), POISON_LIMIT)


def _from(rom: Path, name: str, arms: tuple[Arm, ...], span: places.Span, limit: int) -> Part:
    start = {"training": {"start": str(places.start(rom, span.begin))}}
    given = story.names(real=False).index(span.begin) + 1
    return Part(name, arms, span.goal, limit, start, given=given)


def _at_home(part: Part, rom: Path) -> Part:
    """With the game and the cache of start states in the bench's folder."""
    training = {"rom": str(rom), "cache_dir": str(rom.parent)}
    training |= part.settings.get("training", {})
    return replace(part, settings={"training": training})
