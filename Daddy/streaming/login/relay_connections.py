"""Adapter for the relay's sockets: one towards a viewer, and one to each job that can be reached.

Through ``ssh -R`` a connection always succeeds, viewer or not; "connected" means that both sides
have proved the token. Nothing blocks. A job's words stand in its spool as well, so the relay goes
on reading that: pictures come by the first way that has them, none is missing and none comes twice.
"""

from __future__ import annotations

import errno
import os
import random
import select
import socket
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.streaming.login.spool import Address, read_addresses
from Daddy.streaming.protocol import handshake
from Daddy.streaming.protocol.framing import (
    Kind,
    Message,
    ProtocolError,
    Reason,
    bye,
    read_bye,
)
from Daddy.streaming.protocol.handshake import RELAY, Channel, Token
from Daddy.streaming.protocol.messages import stamps
from Daddy.streaming.protocol.spool_segment import DAMAGED, Reassembly, Segment

BACKOFF_S = (0.5, 1.0, 2.0, 5.0)
HANDSHAKE_S = 5.0
PING_EVERY_S = 2.0
_SEND_BUFFER = 32 * 1024
_READS = 4
"""Reads in one step: a viewer that never stops talking may not keep the relay from its work."""
_OUT_LIMIT = 64 * 1024
"""Bytes that wait for a viewer that does not read; above that it is given up."""
_CONNECTING = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


class Link:
    """One viewer at ``host:port``, or at a connection that is ``made`` and over when it is lost.

    Call :meth:`step` often; it moves everything that can move.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tokens: Callable[[], Sequence[Token]],
        made: socket.socket | None = None,
    ) -> None:
        self._address = (host, port)
        self._tokens = tokens
        self._made = made
        self.over = False
        self._channel: Channel | None = None
        self._attempt = 0
        self._next_try = self._pinged = 0.0
        self.trouble = ""
        self.connections = 0

    @property
    def established(self) -> bool:
        """A viewer has proved itself and is served."""
        return self._channel is not None and self._channel.session.established

    @property
    def waiting_bytes(self) -> int:
        return len(self._channel.out) if self._channel else 0

    def send(self, message: Message) -> None:
        if self._channel and self.established:
            self._channel.session.send(message)

    def step(self, now: float) -> list[Message]:
        """Connect, receive, keep alive, send; returns what the viewer said."""
        try:
            if self._channel:
                return self._attend(self._channel, now)
            if now >= self._next_try:
                self._connect(now)
        except (ProtocolError, DaddyError, OSError) as error:
            self._lose(now, error)
        return []

    def flush(self, now: float) -> None:
        """Send what was queued since the last step, so that it does not wait for the next."""
        try:
            if self._channel and self.established:
                self._channel.flush()
        except OSError as error:
            self._lose(now, error)

    def wait(self, seconds: float, beside: Sequence[Link] = ()) -> None:
        """Sleep until something arrives here or ``beside``, at most ``seconds``."""
        ears = [one for one in (self, *beside) if one.fileno() >= 0]
        mouths = [one for one in ears if one.waiting_bytes]
        select.select(ears, mouths, [], max(0.0, seconds))

    def fileno(self) -> int:
        return self._channel.fileno() if self._channel else -1

    def refuse(self, now: float, why: str) -> None:
        """The viewer said what it may not say: BYE, and another try after a pause."""
        self._lose(now, ProtocolError(why))

    def close(self) -> None:
        """Say BYE if anyone listens, and close."""
        self._drop(bye(Reason.DONE, "the relay ends"))

    def _connect(self, now: float) -> None:
        sock = self._made or socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if sock is not self._made:
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if (code := sock.connect_ex(self._address)) not in _CONNECTING:
                    raise OSError(code, os.strerror(code))
            self._channel = Channel(sock, RELAY, self._tokens(), now)
        finally:
            if self._channel is None:
                sock.close()

    def _attend(self, channel: Channel, now: float) -> list[Message]:
        proved_before = self.established
        messages = channel.receive(now, _READS)
        if self.established and not proved_before:
            self._attempt, self.trouble = 0, ""
            self.connections += 1
        for message in messages:
            if message.kind == Kind.BYE:
                raise OSError(0, f"the viewer says: {read_bye(message.body)[1]}")
        self._keep_alive(channel, now)
        channel.flush()
        if len(channel.out) > _OUT_LIMIT:
            raise ProtocolError("the viewer reads nothing any more", Reason.SILENT)
        return [message for message in messages if message.kind != Kind.PONG]

    def _keep_alive(self, channel: Channel, now: float) -> None:
        if channel.is_overdue(now, HANDSHAKE_S):
            silent = f"the viewer was silent for {handshake.SILENT_S:.0f} s"
            why = silent if self.established else "no viewer answered the greeting"
            raise ProtocolError(why, Reason.SILENT)
        if self.established and now - self._pinged >= PING_EVERY_S:
            self._pinged = now
            self.send(Message(Kind.PING, stamps(round(now * 1000))))

    def _say(self, error: Exception) -> str:
        if not isinstance(error, OSError):
            return error.message if isinstance(error, DaddyError) else str(error)
        if error.errno == errno.ECONNREFUSED:
            return f"nobody listens on {self._address[0]}:{self._address[1]} (no tunnel?)"
        if isinstance(error, ConnectionResetError):
            return "connection lost: the viewer's end is closed (is the viewer running?)"
        return f"connection lost: {error.strerror or error}"

    def _lose(self, now: float, error: Exception) -> None:
        """Close with a reason where the viewer broke the protocol; try again after a pause."""
        self.trouble = self._say(error)
        self._drop(bye(error.reason, str(error)) if isinstance(error, ProtocolError) else None)
        pause = BACKOFF_S[min(self._attempt, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
        self._attempt += 1
        self._next_try = now + pause

    def _drop(self, last: Message | None) -> None:
        self.over = self._made is not None
        if self._channel:
            self._channel.close(last)
        self._channel = None


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
        return [call.link for call in self._calls.values()]

    def reached(self, now: float) -> frozenset[str]:
        """Jobs that have said something here lately."""
        calls = self._calls.items()
        return frozenset(peer for peer, call in calls if now - call.heard < FRESH_S)

    def look(self, now: float) -> None:
        """Dial jobs that listen somewhere new, and again those that could not be reached."""
        there = read_addresses(self._stream)
        for peer in [one for one, call in self._calls.items() if there.get(one) != call.address]:
            self._calls.pop(peer).link.close()
        for peer in there.keys() - self._calls.keys():
            failed, again = self._failed.get(peer, (None, 0.0))
            address = there[peer]
            if address != failed or now >= again:
                link = Link(address.address, address.port, self._tokens)
                self._calls[peer] = _Call(address, link, now)

    def step(self, now: float) -> list[Segment]:
        """The jobs' words since the last time."""
        found = [self._hear(peer, call, now) for peer, call in list(self._calls.items())]
        return [replace(said, direct=True) for said in found if said is not None]

    def hang_up(self) -> None:
        for call in self._calls.values():
            call.link.close()
        self._calls.clear()
        self._failed.clear()

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
