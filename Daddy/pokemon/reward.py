"""Pure. Computes the reward of a step as named parts.

Nothing is paid twice: an achievement is a difference of `Records`, the best values of the episode.
So a flag that is cleared and set again, or an item that is given away and found again, earns
nothing the second time. `exploration` finds new ground. The weights are settings
(`core.settings`), each named after its part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from Daddy.core.errors import ConfigError
from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.bag import HM_BITS, REQUIRED_BITS
from Daddy.pokemon.exploration import Exploration
from Daddy.pokemon.game_progress import Progress, rewardable_events
from Daddy.pokemon.memory_decoding import byte
from Daddy.pokemon.party import CUT, FIELD_MOVES

STEEP_LEVELS: Final = 15
"""Level sum up to which a level counts fully; beyond it a quarter, or grinding would pay best."""
_LARGEST: Final = 1e30
"""Limit of a part: rewards are float32 in vectors, and an infinite or NaN one ruins the weights."""
_CUT, _FLY, _SURF, _STRENGTH, _FLASH = range(len(FIELD_MOVES))
_MAPS: Final = 256
_SURFING: Final = 2
_SHRUBS: Final = {0: 0x3D, 7: 0x50}
"""Tile of a shrub by the map's tileset: outdoors, and in a gym."""


class Records(NamedTuple):
    """Holds the best values of one episode, which have been rewarded; the values only grow.

    Bit n stands for map, event, item or move n. `held`: milestones; `uses`: `field_move_uses`.
    """

    maps: int = 0
    events: int = 0
    held: frozenset[str] = frozenset()
    items: int = 0
    badges: int = 0
    level_sum: int = 0
    moves: int = 0
    seen: int = 0
    owned: int = 0
    uses: int = 0

    def to_facts(self) -> dict[str, Any]:
        """Return the JSON object that `records_from` reads."""
        return {**self._asdict(), "held": sorted(self.held)}


def records_from(facts: Mapping[str, Any]) -> Records:
    """Restore Records from `to_facts`' result; ignore fields that no longer exist."""
    fields = {name: facts[name] for name in Records._fields if name in facts}
    return Records(**{**fields, "held": frozenset(fields.get("held", ()))})


def update_records(records: Records, now: Progress, real: bool, uses: int = 0) -> Records:
    """Return the records that include `now`; the same object if nothing is new.

    `real`: True for Red or Blue, False for the cartridge. Empty records give a game's baseline.
    """
    updated = Records(
        records.maps | (1 << now.map_id if now.placed else 0),
        records.events | rewardable_events(now.events),
        _union(records.held, story_milestones.reached_milestones(now, real)),
        records.items | now.item_bits,
        records.badges | now.badges,
        max(records.level_sum, now.level_sum),
        records.moves | now.move_bits,
        max(records.seen, now.seen),
        max(records.owned, now.owned),
        records.uses | uses,
    )
    return records if updated == records else updated


@lru_cache(maxsize=256)
def _union(held: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    return held if now <= held else held | now


def achieved_units(before: Records, after: Records) -> dict[str, float]:
    """Return the units that each reward part gained from `before` to `after`, without zeros."""
    return {part: n for part, n in _gains(before, after) if n}


def _gains(before: Records, after: Records) -> Iterator[tuple[str, float]]:
    items = after.items & ~before.items
    yield "event", (after.events & ~before.events).bit_count()
    yield "required", len(after.held) - len(before.held)
    yield "item", (items & REQUIRED_BITS).bit_count()
    yield "hm", (items & HM_BITS).bit_count()
    yield "badge", (after.badges & ~before.badges).bit_count()
    yield "level", level_value(after.level_sum) - level_value(before.level_sum)
    yield "move", (after.moves & ~before.moves).bit_count()
    yield "seen", after.seen - before.seen
    yield "caught", after.owned - before.owned
    yield "field", (after.uses & ~before.uses).bit_count()


def reward_parts(counts: Mapping[str, float], weights: RewardSettings) -> dict[str, float]:
    """Return a step's reward by part: the part's units in `counts` times its weight.

    ConfigError names a part that is NaN, infinite or beyond ±1e30.
    """
    parts = {part: getattr(weights, part) * count for part, count in counts.items()}
    for part, value in parts.items():
        if not abs(value) <= _LARGEST:  # NaN compares as False
            raise ConfigError(
                f"the reward part {part} of a step is {value}: {counts[part]} times the setting "
                f"reward.{part}, {getattr(weights, part)}",
                f"set reward.{part} to a much smaller number",
            )
    return parts


def level_value(level_sum: int) -> float:
    """Return the units of a level sum: up to 15 levels count 1 each, further levels 1/4 each."""
    return min(level_sum, STEEP_LEVELS) + max(level_sum - STEEP_LEVELS, 0) / 4


def blacked_out(was: Progress, now: Progress) -> bool:
    """Return True if this step lost the party's last HP."""
    if now.party is was.party:
        return False
    return bool(now.party) and was.hp_fraction > 0.0 and now.hp_fraction == 0.0


# -- field moves: Strength, Surf, Flash and Fly change a byte in memory. Cut changes none; it is
# detected when the shrub in front of the player disappears while the player stands still.

Shrub = tuple[int, int, int, int] | None
"""Map, row, column and direction of a player who faces a shrub; None without a shrub."""


def field_move_uses(shrub: Shrub, was: Progress, now: Progress) -> int:
    """Return the field moves of a step as a bit mask; bit: 256 x (index in FIELD_MOVES) + map."""
    uses = 0
    if (
        shrub is not None
        and _is_walking(now)
        and _standpoint(now) == shrub
        and not _shrub_ahead(now)
    ):
        uses |= _use_bit(_CUT, now.map_id)
    if now.riding == _SURFING != was.riding:
        uses |= _use_bit(_SURF, now.map_id)
    if now.strength_on and not was.strength_on:
        uses |= _use_bit(_STRENGTH, now.map_id)
    if was.dark and not now.dark and was.map_id == now.map_id:
        uses |= _use_bit(_FLASH, now.map_id)
    if now.flying and not was.flying:
        uses |= _use_bit(_FLY, was.map_id)
    return uses


def next_shrub(shrub: Shrub, now: Progress) -> Shrub:
    """Return the shrub that the player can cut; while a menu or text is open, keep `shrub`."""
    if not _is_walking(now):
        return shrub if shrub is not None and _standpoint(now) == shrub else None
    can_cut = _shrub_ahead(now) and now.move_bits >> CUT & 1
    return _standpoint(now) if can_cut else None


def _is_walking(now: Progress) -> bool:
    return now.placed and not now.text_box and not now.battle


def _standpoint(now: Progress) -> tuple[int, int, int, int]:
    return now.map_id, now.y, now.x, now.facing


def _shrub_ahead(now: Progress) -> bool:
    tile = byte(now.image, ram.TILES_AHEAD[now.facing])
    return _SHRUBS.get(byte(now.image, ram.TILESET)) == tile


def _use_bit(kind: int, place: int) -> int:
    return 1 << kind * _MAPS + place


class RewardTracker:
    """Holds one environment's records and exploration memory, and rewards its steps.

    Nothing is paid for the state in which a game begins or is loaded. `real`: Red or Blue, not the
    cartridge. `records`, `facts` and `cells` (visited) are those of a loaded state.
    """

    def __init__(
        self,
        weights: RewardSettings,
        real: bool,
        now: Progress,
        facts: Mapping[str, Any],
        records: Records | None = None,
        cells: bytes = b"",
    ) -> None:
        self._weights, self._real = weights, real
        self.records = update_records(records or Records(), now, real)
        self.memory = Exploration(weights.memory_steps, facts, cells)
        self.memory.mark_present_cell(now)
        shrub = facts.get("shrub")
        previous_shrub = (shrub[0], shrub[1], shrub[2], shrub[3]) if shrub else None
        self._shrub: Shrub = next_shrub(previous_shrub, now)

    def pay_step(self, was: Progress, now: Progress) -> dict[str, float]:
        """Record the step from `was` to `now`; return its reward by part, without parts of 0."""
        before = self.records
        changed = was.holdings is not now.holdings or was.placed != now.placed
        if changed or self._shrub is not None:
            uses = field_move_uses(self._shrub, was, now)
            self.records = update_records(before, now, self._real, uses)
        self._shrub = next_shrub(self._shrub, now)
        counts = self.memory.find_new(was, now)
        if self.records is not before:
            counts |= achieved_units(before, self.records)
        if "cell" in counts and now.map_id in story_milestones.goal_maps(before.held, self._real):
            counts["cell"] *= self._weights.open_goal
        if blacked_out(was, now):
            counts["blackout"] = 1.0
        return reward_parts(counts, self._weights) if counts else {}

    def mark_paid(self, now: Progress) -> None:
        """Add the achievements in `now` to the records without a reward, as after an assist."""
        self.records = update_records(self.records, now, self._real)
        self._shrub = next_shrub(self._shrub, now)

    def adopt(self, other: RewardTracker) -> None:
        """Use `other`'s records and exploration memory, but clear the memory at the own time."""
        self.records, self._shrub = other.records, other._shrub
        self.memory.adopt(other.memory)

    def to_facts(self) -> dict[str, Any]:
        """Return memory and shrub as a JSON object, without records and visited cells."""
        return {**self.memory.memory_facts(), "shrub": self._shrub}
