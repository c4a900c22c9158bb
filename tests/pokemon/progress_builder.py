"""Makes game states byte by byte, and computes the rewards of the steps between them."""

from collections.abc import Iterable
from itertools import pairwise

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.reward import RewardTracker
from tests.pokemon.images import creature, image, put

WEIGHTS = RewardSettings()


def at(y: int = 5, x: int = 5, map_id: int = 1, **more: int) -> bytearray:
    """Make a state with the player on a cell."""
    return image(map_id=map_id, player_y=y, player_x=x, **more)


def bag(data: bytearray, *items: int) -> bytearray:
    """Copy a state with these items in the bag, one of each."""
    put(data, ram.BAG_COUNT, len(items))
    return put(data, ram.BAG, *(byte for item in items for byte in (item, 1)), 0xFF)


def party(data: bytearray, *members: tuple[int, int, int, int]) -> bytearray:
    """Copy a state with these members: (species, HP of 40, level, first move)."""
    put(data, ram.PARTY_COUNT, 0)
    for slot, (species, hp, level, move) in enumerate(members):
        creature(data, slot, species, hp, 40, level)
        put(data, ram.PARTY_MONS + slot * ram.PARTY_STRIDE + ram.MON_MOVES, move)
    return data


def moment(data: bytearray) -> Progress:
    return read_progress(data)


def tally(now: bytearray, weights: RewardSettings = WEIGHTS, left: int = 1 << 30) -> RewardTracker:
    """Make a new reward tracker of the real game at this state."""
    return RewardTracker(weights, True, moment(now), {"left": left})


def walk(
    moments: Iterable[bytearray], weights: RewardSettings = WEIGHTS, left: int = 1 << 30
) -> list[dict[str, float]]:
    """Return the reward parts of each step between these states."""
    seen = [moment(data) for data in moments]
    kept = RewardTracker(weights, True, seen[0], {"left": left})
    return [kept.pay_step(was, now) for was, now in pairwise(seen)]


def earned(parts: Iterable[dict[str, float]]) -> float:
    """Return the sum of the rewards."""
    return sum(sum(step.values()) for step in parts)
