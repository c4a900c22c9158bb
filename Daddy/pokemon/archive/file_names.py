"""Pure. Encodes facts in the names of an archive's files; a listing of them gives the catalogue.

A state is ``r007-<key>-p1a2b3c-h0031-<age>-<sha256>.state``: seven milestones, the hash of the key,
the hash of the place, the party's HP, the steps that its environment had played, the hash of its
bytes. A mark is an empty file beside it: ``<sha256>.dry-03`` is the third try from the state that
reached no new key, ``<sha256>.gain-01`` the first that did. ``1a2b3c.first-007``, empty and never
removed, says that a state of this place was first kept with seven milestones.
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
"""Marks of each kind that a state gets at most, to bound the number of files."""
_STATE = re.compile(
    r"r(\d{3})-([0-9a-f]{16})-p([0-9a-f]{6})-h(\d{4})-(\d{12})-([0-9a-f]{64})\.state"
)
_MARK = re.compile(r"([0-9a-f]{64})\.(dry|gain)-(\d\d)")
_FIRST = re.compile(r"([0-9a-f]{6})\.first-(\d{3})")
_CACHED = 1 << 15
"""Parsed names in the cache: the folder is listed every few steps and hardly changes."""
_IN_ORDER = attrgetter("rank", "key", "place", "hp", "age", "sha256")
"""Sort key of entries: the same order as comparing them, four times as fast."""


@dataclass(frozen=True, slots=True, order=True)
class StateEntry:
    """Holds the facts in a state's name, in sort order; `rank` counts milestones, `age` steps."""

    rank: int
    key: str
    place: str
    hp: int
    age: int
    sha256: str

    @property
    def file_name(self) -> str:
        strength = f"p{self.place}-h{self.hp:04d}"
        return f"r{self.rank:03d}-{self.key}-{strength}-{self.age:012d}-{self.sha256}.state"


@dataclass(frozen=True)
class Catalogue:
    """Holds an archive's states in order; `dry` and `gains` count tries by state hash.

    `first`: lowest rank by place. `visits`: this process's tries that began at or reached a key;
    the process goes on counting in the same mapping.
    """

    entries: tuple[StateEntry, ...] = ()
    dry: Mapping[str, int] = field(default_factory=dict)
    gains: Mapping[str, int] = field(default_factory=dict)
    first: Mapping[str, int] = field(default_factory=dict)
    visits: Mapping[str, int] = field(default_factory=dict)

    @cached_property
    def by_key(self) -> Mapping[str, tuple[StateEntry, ...]]:
        """Entries of all states, by key."""
        groups: dict[str, list[StateEntry]] = {}
        for entry in self.entries:
            groups.setdefault(entry.key, []).append(entry)
        return {key: tuple(states) for key, states in groups.items()}

    @cached_property
    def by_rank(self) -> Mapping[int, tuple[tuple[StateEntry, ...], ...]]:
        """Entries of all states by number of milestones, fewest first, grouped by key."""
        groups: dict[int, list[tuple[StateEntry, ...]]] = {}
        for states in self.by_key.values():
            groups.setdefault(states[0].rank, []).append(states)
        return {rank: tuple(places) for rank, places in sorted(groups.items())}

    @cached_property
    def hashes(self) -> frozenset[str]:
        return frozenset(entry.sha256 for entry in self.entries)

    def without(self, shas: Iterable[str]) -> Catalogue:
        removed = frozenset(shas)
        remaining = tuple(entry for entry in self.entries if entry.sha256 not in removed)
        return replace(self, entries=remaining) if removed else self


@lru_cache(maxsize=_CACHED)
def parse_state_name(name: str) -> StateEntry | None:
    """Parse the name of a state's file; None for any other file."""
    match = _STATE.fullmatch(name)
    if match is None:
        return None
    rank, key, place, hp, age, sha256 = match.groups()
    return StateEntry(int(rank), key, place, int(hp), int(age), sha256)


def mark_name(sha256: str, mark: MarkKind, number: int) -> str:
    """Return the file name of a state's mark (dry or gain) number `number`."""
    return f"{sha256}.{mark}-{number:02d}"


@lru_cache(maxsize=_CACHED)
def parse_mark_name(name: str) -> tuple[str, str] | None:
    """Parse a mark's file name into (state hash, kind); None for any other file."""
    match = _MARK.fullmatch(name)
    return None if match is None else (match[1], match[2])


def first_rank_name(place: str, rank: int) -> str:
    """Return the name of the file that records `rank`, a place's first number of milestones."""
    return f"{place}.first-{rank:03d}"


def make_catalogue(names: Iterable[str]) -> Catalogue:
    """Parse the file names of a folder into its catalogue."""
    entries, marks, first = list[StateEntry](), list[tuple[str, str]](), dict[str, int]()
    for name in names:
        if name.endswith(".state"):
            entries += [entry] if (entry := parse_state_name(name)) else []
        elif (mark := parse_mark_name(name)) is not None:
            marks.append(mark)
        elif (match := _FIRST.fullmatch(name)) is not None:
            rank = int(match[2])
            first[match[1]] = min(rank, first.get(match[1], rank))
    dry = Counter(sha for sha, kind in marks if kind == "dry")
    gains = Counter(sha for sha, kind in marks if kind == "gain")
    return Catalogue(tuple(sorted(entries, key=_IN_ORDER)), dry, gains, first)
