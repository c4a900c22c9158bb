"""Pure: the names of the scripted helps, and who may use what was made with them.

An assist plays a part of the game by rules in place of the agent. What it was allowed to do is
written on everything that came of it: states, weights, milestones. Who uses fewer assists does not
take it: `missing_assists`.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

from Daddy.core.errors import WeightsError

ASSIST_NAMES: Final = (
    *("toss_junk", "money", "flash", "flute", "teach_surf", "use_surf", "teach_strength"),
    *("use_strength", "boulders", "block_indigo_exit", "no_wild"),
)
"""Every assist; what each does is in `Daddy.pokemon.assists`."""
PEER_ASSISTS: Final = tuple(name for name in ASSIST_NAMES if name != "no_wild")
"""What ``peers`` stands for. Without wild creatures nobody can catch one that learns Surf."""


def parse_assists(said: object) -> list[str]:
    """What ``none``, ``peers``, names with commas between or a list of names mean, in our order.

    ValueError for a name that is none, with the nearest one.
    """
    words = said.replace(",", " ").split() if isinstance(said, str) else said
    if not isinstance(words, Iterable):
        raise ValueError(f"{said!r} is neither none, nor peers, nor a list of names")  # noqa: TRY004
    given = {str(word) for word in words} - {"none"}
    if "peers" in given:
        given = given - {"peers"} | set(PEER_ASSISTS)
    for word in sorted(given - set(ASSIST_NAMES)):
        near = difflib.get_close_matches(word, ASSIST_NAMES, n=1, cutoff=0.0)
        raise ValueError(f"there is no assist {word!r}; the nearest is {near[0]}")
    return [name for name in ASSIST_NAMES if name in given]


def missing_assists(theirs: Iterable[str], ours: Iterable[str]) -> str:
    """Assists that something was made with and that are not in use here; "" when there are none."""
    return ", ".join(sorted(set(theirs) - set(ours)))


def refuse_missing_assists(name: str, theirs: Iterable[str], ours: Iterable[str]) -> None:
    """WeightsError when ``name`` was learnt with scripted helps that are not in use here."""
    if foreign := missing_assists(theirs, ours):
        names = ",".join(theirs)
        raise WeightsError(
            f"{name} was learnt with the assists {foreign}, which are not in use here",
            f"say --assists {names}, set training.assists to {names}, or use another run",
        )


def to_bits(names: Iterable[str]) -> int:
    """Bit n is set for the n-th of `ASSIST_NAMES`: eleven bits, which float32 holds exactly."""
    return sum(1 << ASSIST_NAMES.index(name) for name in names)


def from_bits(bits: int) -> tuple[str, ...]:
    """The names whose bits are set."""
    return tuple(name for place, name in enumerate(ASSIST_NAMES) if bits >> place & 1)
