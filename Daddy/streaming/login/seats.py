"""Door to the wish lists: a relay for each viewer has one of its own, and jobs want what any wants.

A list has one writer. The first belongs to the relay beside the controller; a relay that a viewer
brought along over ssh takes a free one, or one that has stood still for as long as jobs believe it.
Their names are fixed, because NFS caches absent ones for up to a minute. No clocks are compared:
that somebody watches is seen by a counter that moves.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from Daddy.streaming.login.spool import Wishes, read_wishes, write_wishes
from Daddy.streaming.wire.messages import MAX_TOP_K

SEATS = 4
"""Relays of a run at a time: the controller's and three that viewers brought along."""
WATCHED_FOR_S = 15.0
"""A wish list's counter stands still for so long: nobody watches."""


def prepare(stream: Path) -> None:
    """Make the lists that are missing, so that no job's machine remembers them as absent."""
    for number in range(1, SEATS):
        if read_wishes(stream, number) is None:
            write_wishes(stream, Wishes(0, 1.0, {}), number)


class Seat:
    """One relay's wish list."""

    def __init__(self, stream: Path, counter: int, holder: str = "", host: str = "") -> None:
        """``holder`` names a relay that has to find a free list; empty: the controller's.

        ``host`` is where it runs; jobs that are not told listen for nobody.
        """
        self._stream = stream
        self._counter = counter
        self._holder = holder
        self._host = host
        self._number = 0
        self._seen: dict[int, tuple[Wishes, float]] = {}

    def publish(self, fps: float, wanted: Mapping[str, frozenset[int]], now: float) -> bool:
        """Ask the jobs for pictures; False while every list is another's."""
        if self._holder and not self._holds(now):
            return False
        self._counter += 1
        wishes = Wishes(self._counter, fps, wanted, self._holder, self._host)
        write_wishes(self._stream, wishes, self._number)
        return True

    def leave(self) -> None:
        """Want nothing any more, and make room."""
        if not self._holder or self._number:
            self._counter += 1
            write_wishes(self._stream, Wishes(self._counter, 1.0, {}), self._number)

    def _holds(self, now: float) -> bool:
        """Whether a list is ours: two that took the same at once find out at the next look."""
        there = read_wishes(self._stream, self._number) if self._number else None
        if there is None or there.holder != self._holder:
            self._number = self._free(now)
        return self._number > 0

    def _free(self, now: float) -> int:
        for number in range(1, SEATS):
            there = read_wishes(self._stream, number)
            if there is None or not there.holder:
                return number
            before, since = self._seen.get(number, (None, now))
            if there != before:
                self._seen[number] = (there, now)
            elif now - since > WATCHED_FOR_S:
                return number
        return 0


class Watchers:
    """A job's view of all wish lists."""

    def __init__(self, stream: Path) -> None:
        self._stream = stream
        self._moved: dict[int, tuple[int, float]] = {}
        self.hosts: frozenset[str] = frozenset()
        """Where the relays run that want something now."""

    def wishes(self, now: float) -> Wishes:
        """The union of what is wanted now, at the highest of the rates."""
        counter, fps, hosts = 0, 0.2, set[str]()
        wanted = dict[str, frozenset[int]]()
        for number in range(SEATS):
            wishes = read_wishes(self._stream, number)
            if wishes is None or not self._moves(number, wishes.counter, now):
                continue
            counter, fps = counter + wishes.counter, max(fps, wishes.fps)
            hosts |= {wishes.host} if wishes.wanted and wishes.host else set()
            for peer, agents in wishes.wanted.items():
                some = frozenset(sorted(agents)[:MAX_TOP_K])
                wanted[peer] = wanted.get(peer, frozenset()) | some
        self.hosts = frozenset(hosts)
        return Wishes(counter, fps, wanted)

    def _moves(self, number: int, counter: int, now: float) -> bool:
        before, since = self._moved.get(number, (None, now))
        if counter != before:
            since = now
            self._moved[number] = (counter, now)
        return now - since < WATCHED_FOR_S
