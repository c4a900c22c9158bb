"""Pure: what a step is worth, as named parts that add up to the reward.

Owns the weights and the rule that nothing is paid twice: everything is a difference of *records*,
the best an episode has seen so far, so that a flag cleared and set again, a creature put into a box
or a badge read during a glitch earns nothing the second time.
"""

from __future__ import annotations

from dataclasses import dataclass

from Daddy.pokemon.progress import Progress, rewardable

_STEEP_LEVELS = 22
"""Level sum up to which a level counts fully; beyond it a quarter, or grinding would pay best."""

_LIGHTLY_HURT = 0.02
"""Smallest rise of the party's HP fraction that counts as a healing (less is rounding)."""


@dataclass(frozen=True, slots=True)
class RewardWeights:
    """Reward of one unit of each part; see `reward_parts` for the units."""

    cell: float = 0.02
    map: float = 0.2
    event: float = 0.5
    story: float = 0.5
    badge: float = 3.0
    level: float = 0.3
    seen: float = 0.1
    caught: float = 0.5
    heal: float = 0.5
    blackout: float = -0.1


@dataclass(frozen=True, slots=True)
class Records:
    """The best of one episode: what has been paid already. Bits are kept, numbers only grow."""

    cells: int = 0
    maps: int = 0
    events: int = 0
    story_flags: int = 0
    badges: int = 0
    level_sum: int = 0
    seen: int = 0
    owned: int = 0


def first_records(progress: Progress, cells: int, maps: int) -> Records:
    """Records at the start of an episode: what the game's start already holds earns nothing."""
    return advance(Records(), progress, cells, maps)


def advance(records: Records, progress: Progress, cells: int, maps: int) -> Records:
    """Records after a step; `cells` and `maps` are the episode's counts of different ones."""
    return Records(
        cells=max(records.cells, cells),
        maps=max(records.maps, maps),
        events=records.events | rewardable(progress.events),
        story_flags=max(records.story_flags, progress.story_flags),
        badges=records.badges | progress.badges,
        level_sum=max(records.level_sum, progress.level_sum),
        seen=max(records.seen, progress.seen),
        owned=max(records.owned, progress.owned),
    )


def reward_parts(
    before: Records, after: Records, was: Progress, now: Progress, weights: RewardWeights
) -> dict[str, float]:
    """Reward of one step by part; their sum is the step's reward.

    Units: a new cell, a new map, an event bit, a story flag (on top of its event bit), a badge, a
    level of the level sum, a creature seen, one caught, the HP fraction healed, a lost battle.
    """
    return {
        "cell": weights.cell * (after.cells - before.cells),
        "map": weights.map * (after.maps - before.maps),
        "event": weights.event * (after.events & ~before.events).bit_count(),
        "story": weights.story * (after.story_flags - before.story_flags),
        "badge": weights.badge * (after.badges & ~before.badges).bit_count(),
        "level": weights.level * (level_value(after.level_sum) - level_value(before.level_sum)),
        "seen": weights.seen * (after.seen - before.seen),
        "caught": weights.caught * (after.owned - before.owned),
        "heal": weights.heal * healed(was, now),
        "blackout": weights.blackout * blacked_out(was, now),
    }


def level_value(level_sum: int) -> float:
    """Worth of a level sum: levels up to 22 count one each, further ones a quarter."""
    return min(level_sum, _STEEP_LEVELS) + max(level_sum - _STEEP_LEVELS, 0) / 4


def healed(was: Progress, now: Progress) -> float:
    """HP fraction gained outside battle by an unchanged party; 0 for level-ups and swaps.

    A party that comes home from a defeat is healed too: that is no merit.
    """
    same_party = [(c.species, c.level, c.max_hp) for c in was.party] == [
        (c.species, c.level, c.max_hp) for c in now.party
    ]
    if not same_party or was.battle or now.battle or was.hp_fraction == 0.0:
        return 0.0
    gain = now.hp_fraction - was.hp_fraction
    return gain if gain > _LIGHTLY_HURT else 0.0


def blacked_out(was: Progress, now: Progress) -> bool:
    """Whether this step lost the party's last HP."""
    return bool(now.party) and was.hp_fraction > 0.0 and now.hp_fraction == 0.0
