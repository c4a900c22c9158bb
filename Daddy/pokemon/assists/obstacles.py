"""Pure: what stands in the way of the story: a sleeper on two roads, boulders beside switches.

The notes that the game itself makes of a tune played, or of a boulder on its switch, are made for
it; its own scripts do the rest.
"""

from __future__ import annotations

from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.moment import Act, Moment, Trace, Verdict
from Daddy.pokemon.bag import FLUTE
from Daddy.pokemon.party import STRENGTH

_RAINBOW: Final = 3


class Sleeper(NamedTuple):
    """Where one can be woken from (row, column), and the event flags and the toggle it has."""

    woken: int
    beaten: int
    toggle: int
    beside: frozenset[tuple[int, int]]


SLEEPERS: Final = {
    23: Sleeper(0x48E, 0x48F, 0x1D, frozenset(((62, 9), (61, 10), (63, 10), (62, 11)))),
    27: Sleeper(0x4C8, 0x4C9, 0x21, frozenset(((10, 27), (10, 25)))),
}
"""By map: Routes 12 and 16."""
SWITCHES: Final = {108: (0x917,), 194: (0x538, 0x53F), 198: (0x660,)}
"""Event flags of the switches on each floor of Victory Road that is not passed without them."""


def flute(now: Moment) -> Act | None:
    """Who stands beside the sleeper with the flute has played it."""
    sleeper = SLEEPERS.get(now.progress.map_id)
    if sleeper is None or not now.calm or not now.holds(FLUTE):
        return None
    up = now.has_event(sleeper.woken) or now.has_event(sleeper.beaten)
    if up or _is_hidden(now, sleeper.toggle) or now.place[1:] not in sleeper.beside:
        return None
    return Act("the flute is played beside the sleeper", (now.with_event(sleeper.woken),))


def flute_worked(trace: Trace, now: Moment) -> Verdict:
    """The sleeper is up."""
    if now.progress.map_id != trace.place[0]:
        return Verdict.MOOT
    gone = _is_hidden(now, SLEEPERS[trace.place[0]].toggle)
    return Verdict.WORKED if gone or now.progress.battle else Verdict.OPEN


def _is_hidden(now: Moment, toggle: int) -> bool:
    return bool(now.progress.toggles >> toggle & 1)


def boulders(now: Moment) -> Act | None:
    """On each floor the boulders are on their switches, for who could push them there."""
    able = STRENGTH in now.progress.moves and now.has_badge(_RAINBOW)
    if not now.calm or not able:
        return None
    for switch in SWITCHES.get(now.progress.map_id, ()):
        if not now.has_event(switch):
            anew = (ram.MAP_SCRIPT_FLAGS, now.at(ram.MAP_SCRIPT_FLAGS) | ram.SWITCHES_ANEW)
            return Act(f"a boulder is on switch {switch:#x}", (now.with_event(switch), anew))
    return None


def boulders_worked(trace: Trace, now: Moment) -> Verdict:
    """The map's script has looked at its switches."""
    if now.progress.map_id != trace.place[0]:
        return Verdict.MOOT
    looked = not now.at(ram.MAP_SCRIPT_FLAGS) & ram.SWITCHES_ANEW
    return Verdict.WORKED if looked else Verdict.OPEN
