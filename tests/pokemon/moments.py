"""Games on paper: moments written byte by byte, and what the steps between them earn."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.reward import RewardTracker
from tests.pokemon.images import creature, image, put

WEIGHTS = RewardSettings()


def at(y: int = 5, x: int = 5, map_id: int = 1, **more: int) -> bytearray:
    """A player on a cell."""
    return image(map_id=map_id, player_y=y, player_x=x, **more)


def bag(data: bytearray, *items: int) -> bytearray:
    """The same with these items, one of each."""
    put(data, ram.BAG_COUNT, len(items))
    return put(data, ram.BAG, *(byte for item in items for byte in (item, 1)), 0xFF)


def party(data: bytearray, *members: tuple[int, int, int, int]) -> bytearray:
    """The same with members of (species, HP of 40, level, first move)."""
    put(data, ram.PARTY_COUNT, 0)
    for slot, (species, hp, level, move) in enumerate(members):
        creature(data, slot, species, hp, 40, level)
        put(data, ram.PARTY_MONS + slot * ram.PARTY_STRIDE + ram.MON_MOVES, move)
    return data


def moment(data: bytearray) -> Progress:
    return read_progress(data)


def tally(now: bytearray, weights: RewardSettings = WEIGHTS, left: int = 1 << 30) -> RewardTracker:
    """A fresh tally of the real game that stands at this moment."""
    return RewardTracker(weights, True, moment(now), {"left": left})


def walk(
    moments: Iterable[bytearray], weights: RewardSettings = WEIGHTS, left: int = 1 << 30
) -> list[dict[str, float]]:
    """What each step between these moments earns."""
    seen = [moment(data) for data in moments]
    kept = RewardTracker(weights, True, seen[0], {"left": left})
    return [kept.pay_step(was, now) for was, now in pairwise(seen)]


def earned(parts: Iterable[dict[str, float]]) -> float:
    """The return of these steps."""
    return sum(sum(step.values()) for step in parts)
