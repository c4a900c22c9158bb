"""Several growing files read as one, with a heading wherever the file changes: as ``tail -f`` does.

Which files these are is asked anew at every look, so that a slot is followed from job to job.
"""

from __future__ import annotations

import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

from Daddy.core.clock import Clock

_CHUNK = 1 << 20
"""Bytes read of one file in one look."""
_LOOK_S = 0.5

Sources = Callable[[], Mapping[str, Path]]
"""Heading → file, in the order in which they are to be read."""


class Follower:
    """Remembers how far each file has been read."""

    def __init__(self, sources: Sources, last: int) -> None:
        self._sources = sources
        self._last = last
        self._offsets: dict[Path, int] = {}
        self._heading = ""

    def first(self) -> Iterator[str]:
        """The last lines of each file, with headings; later looks go on from there."""
        for heading, path in self._sources().items():
            lines, size = _tail(path, self._last)
            self._offsets[path] = size
            yield from self._under(heading, lines)

    def more(self) -> Iterator[str]:
        """Whole lines that were added since; a file that is new is read from its beginning."""
        for heading, path in self._sources().items():
            yield from self._under(heading, self._advance(path))

    def _under(self, heading: str, lines: list[str]) -> Iterator[str]:
        if lines and heading != self._heading:
            if self._heading:
                yield ""
            yield f"── {heading} ──"
            self._heading = heading
        yield from lines

    def _advance(self, path: Path) -> list[str]:
        start = self._offsets.get(path, 0)
        try:
            with path.open("rb") as stream:
                if stream.seek(0, 2) < start:  # written anew
                    start = 0
                stream.seek(start)
                data = stream.read(_CHUNK)
        except OSError:
            return []
        whole, newline, _ = data.rpartition(b"\n")
        if not newline and len(data) == _CHUNK:
            whole = data  # one endless line
        self._offsets[path] = start + len(whole) + len(newline)
        return whole.decode(errors="replace").split("\n") if whole or newline else []


def _tail(path: Path, count: int) -> tuple[list[str], int]:
    """The last lines of a file and where its last whole line ends; nothing of one not there."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            stream.seek(max(0, size - _CHUNK))
            data = stream.read(_CHUNK)
    except OSError:
        return [], 0
    whole, newline, rest = data.rpartition(b"\n")
    lines = deque(whole.decode(errors="replace").split("\n"), maxlen=count) if newline else ()
    return list(lines), size - len(rest)


def follow(follower: Follower, clock: Clock, over: Callable[[], str]) -> None:
    """Print what is added until ``over`` says why that is enough, or Ctrl-C."""
    never = threading.Event()
    while True:
        why = over()  # before the look: nothing that was written by then is missed
        for line in follower.more():
            print(line)
        sys.stdout.flush()
        if why:
            print(why)
            return
        clock.wait(never, _LOOK_S)
