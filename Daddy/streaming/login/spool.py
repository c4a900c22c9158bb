"""Door to the spool: how pictures reach the login node where no job may open a connection to it.

Each job has two files of fixed names, written alternately in place, whole, and closed each time: on
NFS closing flushes and opening looks afresh, whereas new names are cached as "absent" for up to a
minute. A reader takes the newer of the two that is complete (sequence number and CRC-32).
The wish list goes the other way; its *counter* shows that somebody still watches: no clocks of two
machines are compared.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from Daddy.core.errors import FileError
from Daddy.core.files import JSON_LIMIT, parse_json, read_bounded, write_json
from Daddy.core.names import PEER
from Daddy.streaming.wire.protocol import clean
from Daddy.streaming.wire.segment import SEGMENT_LIMIT, Segment, read_segment, sequence_of

_FILES = ("a", "b")
MAX_SPOOLS = 64
"""Peers that a reader follows; a run has four slots and a few laptops."""


def spool_folder(stream: Path) -> Path:
    """Where the segments lie."""
    return stream / "spool"


class SpoolWriter:
    """Writes segments of one peer; raises OSError when the folder does not take them."""

    def __init__(self, stream: Path, peer: str) -> None:
        self._paths = [spool_folder(stream) / f"{peer}.{end}" for end in _FILES]
        self._sequence = 0

    def next_sequence(self) -> int:
        """The number of the next segment; goes on where a predecessor in this slot ended."""
        if not self._sequence:
            self._paths[0].parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            found = (sequence_of(_read(path)) or 0 for path in self._paths)
            self._sequence = max(found)
        return self._sequence + 1

    def write(self, sequence: int, data: bytes) -> None:
        """Write one segment over the older of the two files."""
        path = self._paths[sequence % len(_FILES)]
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        try:
            os.pwrite(descriptor, data, 0)
        finally:
            os.close(descriptor)
        self._sequence = sequence


class SpoolReader:
    """Follows the segments of every peer of a run."""

    def __init__(self, stream: Path) -> None:
        self._folder = spool_folder(stream)
        self._seen: dict[str, int] = {}

    def poll(self) -> list[Segment]:
        """Segments that are new since the last poll, oldest first per peer."""
        found = [one for peer in self._peers() for one in self._new(peer)]
        return sorted(found, key=lambda segment: (segment.peer, segment.sequence))

    def _peers(self) -> list[str]:
        try:
            names = {entry.name for entry in os.scandir(self._folder)}
        except OSError:
            return []
        stems = {name[:-2] for name in names if name[-2:] in {f".{end}" for end in _FILES}}
        return sorted(stem for stem in stems if PEER.fullmatch(stem))[:MAX_SPOOLS]

    def _new(self, peer: str) -> list[Segment]:
        seen = self._seen.get(peer, 0)
        fresh = []
        for end in _FILES:
            data = _read(self._folder / f"{peer}.{end}")
            sequence = sequence_of(data)
            if sequence is not None and sequence > seen:
                fresh.append(data)
        segments = [one for data in fresh if (one := read_segment(data)) and one.peer == peer]
        if segments:
            self._seen[peer] = max(one.sequence for one in segments)
        return segments


def _read(path: Path) -> bytes:
    try:
        return read_bounded(path, SEGMENT_LIMIT + 1024)
    except (OSError, FileError):
        return b""


@dataclass(frozen=True, slots=True)
class Wishes:
    """What the relay asks of the jobs: pictures of these agents, this many a second.

    ``counter`` moves as long as somebody watches; ``holder`` is whose list it is, where a relay has
    to find one (``seats``); ``host`` is where the relay runs.
    """

    counter: int
    fps: float
    wanted: Mapping[str, frozenset[int]]
    holder: str = ""
    host: str = ""


@lru_cache(maxsize=64)  # asked for at every look
def _wishes_path(stream: Path, number: int) -> Path:
    return stream / (f"wanted-{number}.json" if number else "wanted.json")


def write_wishes(stream: Path, wishes: Wishes, number: int = 0) -> None:
    """Publish the wish list of this number; one writer (a relay)."""
    wanted = {peer: sorted(agents) for peer, agents in wishes.wanted.items()}
    holder = {"holder": wishes.holder} if number else {}
    facts = {"v": 1, "counter": wishes.counter, "fps": wishes.fps, "wanted": wanted}
    facts |= {"host": wishes.host} if wishes.host else {}
    write_json(_wishes_path(stream, number), {**facts, **holder})


def read_wishes(stream: Path, number: int = 0) -> Wishes | None:
    """The wish list of this number, or None when there is none or it is damaged."""
    with contextlib.suppress(OSError, FileError):
        return _wishes_of(read_bounded(_wishes_path(stream, number), JSON_LIMIT))
    return None


@lru_cache(maxsize=8)  # most lists are as they were at the last look, four times a second
def _wishes_of(data: bytes) -> Wishes | None:
    with contextlib.suppress(
        FileError, KeyError, TypeError, ValueError, AttributeError, OverflowError
    ):
        raw = parse_json(data, "a wish list")
        wanted = _agents(raw["wanted"])
        fps, holder = max(0.2, min(60.0, float(raw["fps"]))), str(raw.get("holder", ""))
        host = clean(raw.get("host", ""))
        return Wishes(int(raw["counter"]), fps, wanted, holder, host)
    return None


def _agents(raw: Mapping[str, Iterable[int]]) -> dict[str, frozenset[int]]:
    return {str(peer): frozenset(map(int, ones)) for peer, ones in raw.items()}
