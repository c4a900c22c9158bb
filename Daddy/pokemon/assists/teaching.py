"""Pure: a move of an HM that is in the bag goes to somebody who can learn it."""

from __future__ import annotations

from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.moment import Act, Moment
from Daddy.pokemon.bag import HM_STRENGTH, HM_SURF
from Daddy.pokemon.party import FIELD_MOVES, STRENGTH, SURF, Creature

_PP: Final = 15
"""How often either move can be used."""
SURFERS: Final = frozenset(
    bytes.fromhex(
        "01 02 07 08 0b 10 13 15 16 17 18 1b 1c 25 2f 3a 42 47 4e 58 59 5a 5b 5c 5d 62 63 69"
        "6e 6f 78 80 84 8a 8b 98 9b 9d 9e b1 b3"
    )
)
"""Species that can learn Surf, by the numbers that the game itself uses."""
STRONG: Final = frozenset(
    bytes.fromhex(
        "01 02 04 07 08 0a 0b 0e 10 11 12 13 15 16 1c 1d 22 25 27 28 29 2b 2c 2d 2f 31 33 35 39"
        "3a 3c 42 4e 60 61 64 65 6a 6c 6e 6f 75 78 7e 80 83 84 8a 8e 91 a9 b0 b1 b2 b3 b4"
    )
)
"""Species that can learn Strength."""


def teach_surf(now: Moment) -> Act | None:
    """Surf, once HM03 is there."""
    return _teach(now, HM_SURF, SURF, SURFERS)


def teach_strength(now: Moment) -> Act | None:
    """Strength, once HM04 is there."""
    return _teach(now, HM_STRENGTH, STRENGTH, STRONG)


def _teach(now: Moment, item: int, move: int, pupils: frozenset[int]) -> Act | None:
    """To the first member that can, over its first move that opens no way."""
    if not now.calm or move in now.progress.moves or not now.holds(item):
        return None
    for slot, member in enumerate(now.progress.party):
        place = _room(member)
        if member.species in pupils and place is not None:
            start = ram.PARTY_MONS + slot * ram.PARTY_STRIDE
            writes = ((start + ram.MON_MOVES + place, move), (start + ram.MON_PP + place, _PP))
            return Act(f"member {slot + 1} learns move {move}", writes)
    return None


def _room(member: Creature) -> int | None:
    """A free place, else the first whose move is used in fights only; None when there is none."""
    if 0 in member.moves:
        return member.moves.index(0)
    return next((n for n, move in enumerate(member.moves) if move not in FIELD_MOVES), None)
