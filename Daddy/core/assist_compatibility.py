"""Pure. The names of the assists, and the rule by which learners refuse each other's work.

An assist is a script that plays a part of the game in place of the agent. Every save state, version
and milestone records the assists that were allowed while it was made. A learner that allows fewer
assists refuses it (`missing_assists`).
"""

import difflib
from collections.abc import Iterable
from typing import Final

from Daddy.core.errors import WeightsError

ASSIST_NAMES: Final = (
    *("toss_junk", "money", "flash", "flute", "teach_surf", "use_surf", "teach_strength"),
    *("use_strength", "boulders", "block_indigo_exit", "no_wild"),
)
"""Every assist, in the order of the bits of `to_bits`; `Daddy.pokemon.assists` implements them."""
PEER_ASSISTS: Final = tuple(name for name in ASSIST_NAMES if name != "no_wild")
"""Meaning of ``peers``: without wild creatures an agent cannot catch one that learns Surf."""


def parse_assists(text: object) -> list[str]:
    """Parse ``none``, ``peers``, comma-separated names or a list into names in standard order.

    ValueError for an unknown name, with the nearest valid one.
    """
    words = text.replace(",", " ").split() if isinstance(text, str) else text
    if not isinstance(words, Iterable):
        raise ValueError(f"{text!r} is neither none, nor peers, nor a list of names")  # noqa: TRY004
    given = {str(word) for word in words} - {"none"}
    if "peers" in given:
        given = given - {"peers"} | set(PEER_ASSISTS)
    for word in sorted(given - set(ASSIST_NAMES)):
        near = difflib.get_close_matches(word, ASSIST_NAMES, n=1, cutoff=0.0)
        raise ValueError(f"there is no assist {word!r}; the nearest is {near[0]}")
    return [name for name in ASSIST_NAMES if name in given]


def missing_assists(theirs: Iterable[str], ours: Iterable[str]) -> str:
    """List the assists in ``theirs`` that ``ours`` lacks, with commas between; "" for none."""
    return ", ".join(sorted(set(theirs) - set(ours)))


def refuse_missing_assists(name: str, theirs: Iterable[str], ours: Iterable[str]) -> None:
    """Raise WeightsError when ``name`` was learnt with assists that are not in use here."""
    if missing := missing_assists(theirs, ours):
        names = ",".join(theirs)
        raise WeightsError(
            f"{name} was learnt with the assists {missing}, which are not in use here",
            f"pass --assists {names}, set training.assists to {names}, or use another run",
        )


def to_bits(names: Iterable[str]) -> int:
    """Return a number with bit n set for the n-th of `ASSIST_NAMES`; exact as a float32."""
    return sum(1 << ASSIST_NAMES.index(name) for name in names)


def from_bits(bits: int) -> tuple[str, ...]:
    """Return the names whose bits are set, the inverse of `to_bits`."""
    return tuple(name for index, name in enumerate(ASSIST_NAMES) if bits >> index & 1)
