"""Pure: what to verify and what to show next, with the reason.

Training outruns sixty frames a second, so what is shown falls behind. Up to a bound it goes on as
it was played; beyond it is cut, and says so. Only what is verified is ever shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from Daddy.pokemon.live.chain import Chain

BOUND_S: Final = 600.0
"""How long ago that may have been played which is shown."""
PATIENCE_S: Final = 5.0
"""So long the last picture stands while nothing more is verified; then pictures are wanted."""
AHEAD: Final = 2
"""Stretches that are verified before what is shown; the newest chain's end comes second."""


class Do(Enum):
    """What is to be done."""

    PLAY = "play"
    CUT = "cut"
    WAIT = "wait"
    PICTURES = "pictures"


@dataclass(frozen=True)
class Move:
    """What to do, with which stretch of which chain, and what to say about it.

    `first`: the frame of the chain to begin at, where that is within the stretch.
    """

    do: Do
    chain: int = 0
    stretch: int = 0
    reason: str = ""
    first: int = 0


def next_move(
    chains: Sequence[Chain], at: tuple[int, int], now: float, waited_s: float = 0.0
) -> Move:
    """What to show after what was shown until `at`: (chain, stretch that would come next).

    `chains` are in the order of their numbers; `now` is on the clock of `Chain.captured`.
    """
    number, index = at
    here = next((one for one in chains if one.number == number), None)
    if here is not None and index < here.verified:
        behind = now - here.captured[index]
        if behind <= BOUND_S:
            return Move(Do.PLAY, number, index)
        return _cut(chains, at, now, f"it was {behind / 60:.0f} minutes behind")
    return _elsewhere(chains, at, now, waited_s)


def _elsewhere(chains: Sequence[Chain], at: tuple[int, int], now: float, waited_s: float) -> Move:
    """What to do where nothing more of this chain is verified."""
    number = at[0]
    later = [one for one in chains if one.number > number and one.verified]
    if later and now - later[0].captured[0] <= BOUND_S:
        return Move(Do.CUT, later[0].number, 0, "another game begins" if number else "")
    if later:
        return _cut(chains, at, now, "what came between is too long ago")
    if chains and chains[-1].broken:
        return Move(Do.PICTURES, reason=chains[-1].broken)
    if waited_s > PATIENCE_S:
        return Move(Do.PICTURES, reason="nothing more of its inputs is verified" if number else "")
    return Move(Do.WAIT, reason="verifying")


def _cut(chains: Sequence[Chain], at: tuple[int, int], now: float, why: str) -> Move:
    """To the newest stretch that is verified, unless that is too old as well."""
    newest = max(chains, key=lambda one: (one.verified > 0, one.number))
    last = newest.verified - 1
    if (newest.number, last) > at and now - newest.captured[last] <= BOUND_S:
        return Move(Do.CUT, newest.number, last, f"{why}: cut to the newest")
    return Move(Do.PICTURES, reason=f"{why}, and nothing newer is verified")


def what_to_verify(chains: Sequence[Chain], at: tuple[int, int]) -> Chain | None:
    """The chain of which to verify the next stretch, or to judge the beginning; None: none.

    First what is about to be shown, then the newest; what lies between when there is time.
    """
    number, index = at
    for one in chains:
        is_next = one.number == number and one.verified < index + AHEAD
        if is_next and _can_go_on(one):
            return one
    later = (one for one in reversed(chains) if one.number > number or one is chains[-1])
    return next((one for one in later if _can_go_on(one)), None)


def _can_go_on(chain: Chain) -> bool:
    return not chain.judged or chain.verified < chain.arrived
