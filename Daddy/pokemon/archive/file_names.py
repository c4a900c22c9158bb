"""Pure. Encodes facts in the names of an archive's files; a listing of them is the catalogue.

A state is ``r007-<key>-p1a2b3c-h0031-<age>-<sha256>.state``: seven milestones, the key's name, the
place's, the HP of the whole party, the steps its environment had lived, the hash of all its bytes.
A mark is an empty file beside it: ``<sha256>.dry-03`` the third time it led nowhere,
``<sha256>.gain-01`` the first time it led on. ``1a2b3c.first-007``, empty too and never removed: a
state of this place was first kept with seven milestones. Other names are ignored.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from operator import attrgetter
from typing import Final, Literal

MarkKind = Literal["dry", "gain"]
MAX_MARKS: Final = 64
"""Marks of a kind that a state gets at most: a folder's size is bounded."""
_STATE = re.compile(
    r"r(\d{3})-([0-9a-f]{16})-p([0-9a-f]{6})-h(\d{4})-(\d{12})-([0-9a-f]{64})\.state"
)
_MARK = re.compile(r"([0-9a-f]{64})\.(dry|gain)-(\d\d)")
_FIRST = re.compile(r"([0-9a-f]{6})\.first-(\d{3})")
_REMEMBERED = 1 << 15
"""Parsed names in a cache: a listing comes every few steps, and most of it is unchanged."""
_IN_ORDER = attrgetter("rank", "key", "place", "hp", "age", "sha256")
"""The order of entries, four times as fast."""


@dataclass(frozen=True, slots=True, order=True)
class StateEntry:
    """One state, as its name tells it. Sorts by rank, key, place, HP and age."""

    rank: int
    key: str
    place: str
    hp: int
    age: int
    sha256: str

    @property
    def file_name(self) -> str:
        """The name of its file."""
        strength = f"p{self.place}-h{self.hp:04d}"
        return f"r{self.rank:03d}-{self.key}-{strength}-{self.age:012d}-{self.sha256}.state"


@dataclass(frozen=True)
class Catalogue:
    """An archive's states in order, the dry tries and gains of each, and each place's first rank.

    `visits` stands in no name: tries of this process that began at a key or came to it, counted on
    while the catalogue is in use.
    """

    entries: tuple[StateEntry, ...] = ()
    dry: Mapping[str, int] = field(default_factory=dict)
    gains: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    visits: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> Mapping[str, tuple[StateEntry, ...]]:
        """The states of each key."""
        found: dict[str, list[StateEntry]] = {}
        for entry in self.entries:
            found.setdefault(entry.key, []).append(entry)
        return {key: tuple(states) for key, states in found.items()}

    @cached_property
    def by_rank(self) -> Mapping[int, tuple[tuple[StateEntry, ...], ...]]:
        """The states of each place of as many milestones, fewest milestones first."""
        found: dict[int, list[tuple[StateEntry, ...]]] = {}
        for states in self.by_key.values():
            found.setdefault(states[0].rank, []).append(states)
        return {rank: tuple(places) for rank, places in sorted(found.items())}

    @cached_property
    def hashes(self) -> frozenset[str]:
        """Of all states."""
        return frozenset(entry.sha256 for entry in self.entries)

    def without(self, shas: Iterable[str]) -> Catalogue:
        """The same without the states of these hashes."""
        gone = frozenset(shas)
        kept = tuple(entry for entry in self.entries if entry.sha256 not in gone)
        return replace(self, entries=kept) if gone else self


@lru_cache(maxsize=_REMEMBERED)
def parse_state_name(name: str) -> StateEntry | None:
    """Parse the name of a state's file; None for any other file."""
    found = _STATE.fullmatch(name)
    if found is None:
        return None
    rank, key, place, hp, age, sha256 = found.groups()
    return StateEntry(int(rank), key, place, int(hp), int(age), sha256)


def mark_name(sha256: str, mark: MarkKind, number: int) -> str:
    """The name of a state's `number`-th mark of a kind."""
    return f"{sha256}.{mark}-{number:02d}"


@lru_cache(maxsize=_REMEMBERED)
def parse_mark_name(name: str) -> tuple[str, str] | None:
    """(hash, kind) in the name of a mark; None for any other file."""
    found = _MARK.fullmatch(name)
    return None if found is None else (found[1], found[2])


def first_rank_name(place: str, rank: int) -> str:
    """The name of the file that tells a place's first rank."""
    return f"{place}.first-{rank:03d}"


def make_catalogue(names: Iterable[str]) -> Catalogue:
    """The catalogue of a folder with these files."""
    entries, marks, first = list[StateEntry](), list[tuple[str, str]](), dict[str, int]()
    for name in names:
        if name.endswith(".state"):
            entries += [entry] if (entry := parse_state_name(name)) else []
        elif (mark := parse_mark_name(name)) is not None:
            marks.append(mark)
        elif (found := _FIRST.fullmatch(name)) is not None:
            rank = int(found[2])
            first[found[1]] = min(rank, first.get(found[1], rank))
    dry = Counter(sha for sha, kind in marks if kind == "dry")
    gains = Counter(sha for sha, kind in marks if kind == "gain")
    return Catalogue(tuple(sorted(entries, key=_IN_ORDER)), dry, gains, first)
