"""Pure: what shall not happen: leaving the league's lobby, and wild creatures."""

from __future__ import annotations

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.moment import Act, Moment, Trace, Verdict

LOBBY: Final = 174
_INSTEAD: Final = "b"
"""A key that does nothing to one who stands free."""
_KEEP_OFF: Final = 9
"""Cells; more than the fastest rider passes within a step of the environment."""
STANDING: Final = frozenset((23, 27, 83, 147, 162, 194, 228))
"""Maps on which creatures wait to be spoken to: their fights look like wild ones."""
_WILD, _NORMAL = 1, 0


def block_indigo_exit(now: Moment) -> Act | None:
    """Who stands on the lobby's mat does not step out of it."""
    last_row = 2 * now.at(ram.MAP_HEIGHT) - 1
    if now.progress.map_id != LOBBY or now.progress.y != last_row or now.button != "down":
        return None
    return Act("the way out of the lobby is closed", button=_INSTEAD)


def exit_stayed_shut(trace: Trace, now: Moment) -> Verdict:
    """The player is still in the lobby."""
    inside = now.progress.map_id == trace.place[0]
    return Verdict.WORKED if inside else Verdict.FAILED


def no_wild(now: Moment) -> Act | None:
    """Nothing wild appears on the next cells."""
    if not now.calm:
        return None
    low = now.at(ram.NO_BATTLE_STEPS) < _KEEP_OFF
    writes = ((ram.NO_BATTLE_STEPS, _KEEP_OFF),) if low else ()
    return Act("wild creatures keep off", writes)


def nothing_wild_came(trace: Trace, now: Moment) -> Verdict:
    """A quiet step proves nothing; a wild fight says that it does not work."""
    wild = now.progress.battle == _WILD and now.progress.battle_kind == _NORMAL
    if not wild or trace.place[0] in STANDING:
        return Verdict.MOOT
    return Verdict.FAILED
