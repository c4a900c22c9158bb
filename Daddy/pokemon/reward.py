"""Pure: what a step is worth, as named parts that add up to the reward.

Owns the rule that nothing is paid twice: what an episode achieves is a difference of *records*, the
best it has seen so far, so that a flag cleared and set again, an item handed over, a creature put
into a box or a badge read during a glitch earns nothing the second time. What it explores is judged
by `exploration`. The weights are settings (`core.settings.Reward`), each of its part's name.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import lru_cache
from typing import Any, Final, NamedTuple

from Daddy.core.settings import Reward
from Daddy.pokemon import story
from Daddy.pokemon.bag import HM_BITS, REQUIRED_BITS
from Daddy.pokemon.progress import Progress, rewardable

STEEP_LEVELS: Final = 15
"""Level sum up to which a level counts fully; beyond it a quarter, or grinding would pay best."""


class Records(NamedTuple):
    """The best of one episode: what has been paid already. Bits are kept, numbers only grow.

    Bit n stands for map, event, item or move n; `held` are names of the story's milestones, `uses`
    bits of `field.uses`.
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
        """JSON that `records_from` reads."""
        return {**self._asdict(), "held": sorted(self.held)}


def records_from(facts: Mapping[str, Any]) -> Records:
    """The records in `facts`; names that are not known here (of an older release) are left out."""
    known = {name: facts[name] for name in Records._fields if name in facts}
    return Records(**{**known, "held": frozenset(known.get("held", ()))})


def advance(records: Records, now: Progress, real: bool, uses: int = 0) -> Records:
    """Records after a moment, the same object where it holds nothing new.

    `real`: Red or Blue, else the cartridge. Of a game that begins or is loaded, this is the
    baseline: what it already holds earns nothing.
    """
    grown = Records(
        records.maps | (1 << now.map_id if now.placed else 0),
        records.events | rewardable(now.events),
        _union(records.held, story.reached(now, real)),
        records.items | now.item_bits,
        records.badges | now.badges,
        max(records.level_sum, now.level_sum),
        records.moves | now.move_bits,
        max(records.seen, now.seen),
        max(records.owned, now.owned),
        records.uses | uses,
    )
    return records if grown == records else grown


@lru_cache(maxsize=256)
def _union(held: frozenset[str], now: frozenset[str]) -> frozenset[str]:
    return held if now <= held else held | now


def achieved(before: Records, after: Records) -> dict[str, float]:
    """How much of each part lies between two records; parts without any are left out."""
    return {} if after is before else {part: n for part, n in _gains(before, after) if n}


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


def reward_parts(counts: Mapping[str, float], weights: Reward) -> dict[str, float]:
    """Reward of one step by part, only of parts that were earned; their sum is the reward."""
    return {part: getattr(weights, part) * count for part, count in counts.items()}


def level_value(level_sum: int) -> float:
    """Worth of a level sum: levels up to 15 count one each, further ones a quarter."""
    return min(level_sum, STEEP_LEVELS) + max(level_sum - STEEP_LEVELS, 0) / 4


def blacked_out(was: Progress, now: Progress) -> bool:
    """Whether this step lost the party's last HP."""
    if now.party is was.party:
        return False
    return bool(now.party) and was.hp_fraction > 0.0 and now.hp_fraction == 0.0
