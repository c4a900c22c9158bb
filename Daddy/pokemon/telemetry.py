"""Pure: how far an episode is, as a row of numbers: what featuring, plots and milestones read."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final, NamedTuple

from Daddy.core.assists import to_bits
from Daddy.pokemon import milestones
from Daddy.pokemon.assists.memoir import Memoir
from Daddy.pokemon.progress import Progress
from Daddy.pokemon.tally import Tally

TELEMETRY: Final = (
    *("badges", "story_flags", "episode_return", "episode", "map_id", "level", "step"),
    *("cells", "maps", "events", "x", "y", "waits", "real_game"),
    *("assists", "assists_used", "assists_off", *milestones.COLUMNS),
)


class Counted(NamedTuple):
    """What an environment counts of its episode."""

    episode_return: float
    episode: int
    step: int
    waits: int


def telemetry(
    now: Progress,
    tally: Tally,
    counted: Counted,
    real: bool,
    assists: Collection[str],
    memoir: Memoir,
) -> tuple[float, ...]:
    """One number for each of TELEMETRY; `real`: Red or Blue."""
    records = tally.records
    return (
        now.badge_count,
        now.story_flags,
        counted.episode_return,
        counted.episode,
        now.map_id,
        max((creature.level for creature in now.party), default=0),
        counted.step,
        tally.memory.cells,
        records.maps.bit_count(),
        records.events.bit_count(),
        now.x,
        now.y,
        counted.waits,
        float(real),
        *(to_bits(names) if names else 0 for names in (assists, memoir.used, memoir.off)),
        *milestones.facts(records.held, real).values(),
    )
