"""The relay's end of the direct way: dials every job that listens, while somebody watches.

What a job says here stands in its spool as well, so the relay goes on reading that: pictures come
by the first way that has them, and when a way is lost none is missing and none comes twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.streaming.login.address import Address, read_addresses
from Daddy.streaming.login.link import Link
from Daddy.streaming.wire.auth import Token
from Daddy.streaming.wire.segment import DAMAGED, Reassembly, Segment

DIAL_S = 2.0
"""A job that has not answered by then cannot be reached; its spool can."""
AGAIN_S = 30.0
FRESH_S = 2.0
_AFTER = 1 << 31


@dataclass
class _Call:
    """One job that is dialled, or talked to."""

    address: Address
    link: Link
    began: float
    said: Reassembly = field(default_factory=Reassembly)
    heard: float = -1e9
    connections: int = 0


class Direct:
    """Every job of a run that can be reached from here."""

    def __init__(self, stream: Path, tokens: Callable[[], Sequence[Token]]) -> None:
        self._stream = stream
        self._tokens = tokens
        self._calls: dict[str, _Call] = {}
        self._failed: dict[str, tuple[Address, float]] = {}

    @property
    def links(self) -> list[Link]:
        """For waiting: every connection."""
        return [call.link for call in self._calls.values()]

    def reached(self, now: float) -> frozenset[str]:
        """Jobs that have said something here lately."""
        calls = self._calls.items()
        return frozenset(peer for peer, call in calls if now - call.heard < FRESH_S)

    def look(self, now: float) -> None:
        """Dial whoever listens somewhere new, and whoever could not be reached a while ago."""
        there = read_addresses(self._stream)
        for peer in [one for one, call in self._calls.items() if there.get(one) != call.address]:
            self._calls.pop(peer).link.close()
        for peer in there.keys() - self._calls.keys():
            failed, again = self._failed.get(peer, (None, 0.0))
            if there[peer] != failed or now >= again:
                one = there[peer]
                link = Link(one.address, one.port, self._known_tokens)
                self._calls[peer] = _Call(one, link, now)

    def step(self, now: float) -> list[Segment]:
        """What the jobs have said since the last time."""
        found = []
        for peer, call in list(self._calls.items()):
            if (said := self._hear(peer, call, now)) is not None:
                found.append(replace(said, direct=True))
        return found

    def hang_up(self) -> None:
        """Nobody watches: let all go."""
        for call in self._calls.values():
            call.link.close()
        self._calls.clear()
        self._failed.clear()

    def _known_tokens(self) -> Sequence[Token]:
        """None where the run's token is not ours to read: another account's run, or a full disk."""
        with contextlib.suppress(DaddyError, OSError):
            return self._tokens()
        return ()

    def _hear(self, peer: str, call: _Call, now: float) -> Segment | None:
        try:
            messages = call.link.step(now)
            if call.link.connections != call.connections:
                call.connections, call.said = call.link.connections, Reassembly()
            for message in messages:
                call.said.hear(message)
            said = call.said.take()
        except DAMAGED:
            said = None
            call.began = -1e9
            call.link.close()
        if call.link.established:
            call.began = now
        elif now - call.began > DIAL_S:
            self._calls.pop(peer).link.close()
            self._failed[peer] = (call.address, now + AGAIN_S)
        if said is None or said.peer != peer:
            return None
        call.heard = now
        return said


class Sieve:
    """Lets every picture through once, whichever way it came first."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str, int], int] = {}

    def new(self, segments: Iterable[Segment]) -> list[Segment]:
        """The segments without the pictures that were there before, in the order of capture."""
        return [self._sift(segment) for segment in segments]

    def _sift(self, segment: Segment) -> Segment:
        kept = []
        for picture in segment.pictures:
            key = (segment.peer, segment.incarnation, picture.agent)
            newest = self._newest.pop(key, None)
            if newest is None or 0 < (picture.captured_ms - newest) % (2 * _AFTER) < _AFTER:
                kept.append(picture)
                newest = picture.captured_ms
            self._newest[key] = newest
        while len(self._newest) > _MOST:
            del self._newest[next(iter(self._newest))]
        return replace(segment, pictures=tuple(kept))


_MOST = 4096
"""Agents whose newest picture is remembered; those that were not seen for longest go first."""
