"""Pure: which states of an archive a small copy takes: the best of each milestone first.

Only what their names begin and end with is read here, ``r007-<place>-… -<sha256>.state``; the rest
of a name belongs to the archive.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable

_NAME = re.compile(r"r(\d{3})-([0-9a-f]{16})-.*?(?:h(\d{4})-)?\d{12}-([0-9a-f]{64})\.state")

Sized = tuple[str, int]
"""A file's name and its bytes."""


def hash_in(name: str) -> str | None:
    """The hash that the name of an archive's state promises; None for any other file."""
    found = _NAME.fullmatch(name)
    return None if found is None else found[4]


def choose(files: Iterable[Sized], room: int, most: int) -> list[str]:
    """Names to copy, best first: at most ``most`` files and ``room`` bytes.

    One of every number of milestones, the most first; then a second of each, elsewhere; and so on.
    Of two at one place the one with more HP is better.
    """
    chosen: list[str] = []
    for name, size in _in_turn(files):
        if len(chosen) == most:
            break
        if size <= room:
            chosen.append(name)
            room -= size
    return chosen


def _in_turn(files: Iterable[Sized]) -> list[Sized]:
    """All states, round by round."""
    ranks: dict[int, dict[str, list[tuple[int, Sized]]]] = defaultdict(lambda: defaultdict(list))
    for name, size in sorted(files):
        if found := _NAME.fullmatch(name):
            ranks[int(found[1])][found[2]].append((int(found[3] or 0), (name, size)))
    rounds: list[tuple[int, int, int, Sized]] = []
    for rank, places in ranks.items():
        best = [sorted(states, reverse=True) for _, states in sorted(places.items())]
        turns = [(depth, one) for states in best for depth, (_, one) in enumerate(states)]
        turns.sort(key=lambda turn: turn[0])  # every place once before any place twice
        rounds += [(turn, -rank, depth, one) for turn, (depth, one) in enumerate(turns)]
    return [one for *_, one in sorted(rounds)]
