"""Adapter for the relay's sockets: one towards a viewer, and one to each reachable job.

Through ``ssh -R`` connecting always succeeds, with or without a viewer; "established" means that
both sides have proved the token. No call blocks. A connected job also writes its messages to the
spool, which the relay still reads; only the first copy of each picture is used.
"""

from __future__ import annotations

import errno
import os
import random
import select
import socket
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.streaming.login.stream_folder import JobAddress, read_addresses
from Daddy.streaming.protocol import framing, handshake
from Daddy.streaming.protocol.handshake import RELAY, SessionSocket, Token
from Daddy.streaming.protocol.messages import pack_stamps
from Daddy.streaming.protocol.spool_segment import DAMAGED, Segment, SegmentAssembler

BACKOFF_S = (0.5, 1.0, 2.0, 5.0)
HANDSHAKE_S = 5.0
PING_EVERY_S = 2.0
_SEND_BUFFER = 32 * 1024
_READS = 4
"""Reads in one step, so that a viewer that sends without pause cannot occupy the relay."""
_OUT_LIMIT = 64 * 1024
"""Bytes waiting for a viewer above which it is disconnected, because it does not read."""
_CONNECTING = {0, errno.EINPROGRESS, errno.EWOULDBLOCK}


class OutgoingConnection:
    """Connects to ``host:port``, again when lost, or uses ``open_socket``, only once.

    Call :meth:`step` often: it connects, receives and sends.
    """

    def __init__(
        self,
        host: str,
        port: int,
        tokens: Callable[[], Sequence[Token]],
        open_socket: socket.socket | None = None,
    ) -> None:
        self._address = (host, port)
        self._tokens = tokens
        self._open_socket = open_socket
        self.finished = False
        self._channel: SessionSocket | None = None
        self._attempt = 0
        self._next_try = self._pinged = 0.0
        self.trouble = ""
        self.connections = 0

    @property
    def established(self) -> bool:
        """True once both sides have proved the token."""
        return self._channel is not None and self._channel.session.established

    @property
    def waiting_bytes(self) -> int:
        return len(self._channel.out) if self._channel else 0

    def send(self, message: framing.Message) -> None:
        if self._channel and self.established:
            self._channel.session.send(message)

    def step(self, now: float) -> list[framing.Message]:
        """Connect, receive, ping and send; return the messages received."""
        try:
            if self._channel:
                return self._exchange(self._channel, now)
            if now >= self._next_try:
                self._connect(now)
        except (framing.ProtocolError, DaddyError, OSError) as error:
            self._fail(now, error)
        return []

    def flush(self, now: float) -> None:
        """Send the queued messages now instead of with the next step."""
        try:
            if self._channel and self.established:
                self._channel.flush()
        except OSError as error:
            self._fail(now, error)

    def wait(self, seconds: float, beside: Sequence[OutgoingConnection] = ()) -> None:
        """Sleep until bytes arrive here or on a connection of ``beside``, or ``seconds`` passed."""
        readers = [connection for connection in (self, *beside) if connection.fileno() >= 0]
        writers = [connection for connection in readers if connection.waiting_bytes]
        select.select(readers, writers, [], max(0.0, seconds))

    def fileno(self) -> int:
        return self._channel.fileno() if self._channel else -1

    def disconnect(self, now: float, why: str) -> None:
        """Send BYE with the reason ``why`` and close; connect again after a pause."""
        self._fail(now, framing.ProtocolError(why))

    def close(self) -> None:
        """Send BYE ("the relay ends") if connected, and close."""
        self._drop(framing.make_bye(framing.Reason.DONE, "the relay ends"))

    def _connect(self, now: float) -> None:
        sock = self._open_socket or socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if sock is not self._open_socket:
                sock.setblocking(False)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                if (code := sock.connect_ex(self._address)) not in _CONNECTING:
                    raise OSError(code, os.strerror(code))
            self._channel = SessionSocket(sock, RELAY, self._tokens(), now)
        finally:
            if self._channel is None:
                sock.close()

    def _exchange(self, channel: SessionSocket, now: float) -> list[framing.Message]:
        proved_before = self.established
        messages = channel.receive(now, _READS)
        if self.established and not proved_before:
            self._attempt, self.trouble = 0, ""
            self.connections += 1
        for message in messages:
            if message.kind == framing.MessageKind.BYE:
                raise OSError(0, f"the viewer says: {framing.read_bye(message.body)[1]}")
        self._keep_alive(channel, now)
        channel.flush()
        if len(channel.out) > _OUT_LIMIT:
            raise framing.ProtocolError("the viewer reads nothing any more", framing.Reason.SILENT)
        return [message for message in messages if message.kind != framing.MessageKind.PONG]

    def _keep_alive(self, channel: SessionSocket, now: float) -> None:
        if channel.is_overdue(now, HANDSHAKE_S):
            silent = f"the viewer was silent for {handshake.SILENT_S:.0f} s"
            why = silent if self.established else "no viewer answered the greeting"
            raise framing.ProtocolError(why, framing.Reason.SILENT)
        if self.established and now - self._pinged >= PING_EVERY_S:
            self._pinged = now
            self.send(framing.Message(framing.MessageKind.PING, pack_stamps(round(now * 1000))))

    def _describe(self, error: Exception) -> str:
        if not isinstance(error, OSError):
            return error.message if isinstance(error, DaddyError) else str(error)
        if error.errno == errno.ECONNREFUSED:
            return f"nobody listens on {self._address[0]}:{self._address[1]} (no tunnel?)"
        lost = "connection lost" if self.established else "no connection"
        if isinstance(error, ConnectionResetError):
            return f"{lost}: the viewer's end is closed (is the viewer running?)"
        return f"{lost}: {error.strerror or error}"

    def _fail(self, now: float, error: Exception) -> None:
        """Close, with a BYE after a ProtocolError; connect again after a pause."""
        self.trouble = self._describe(error)
        last = None
        if isinstance(error, framing.ProtocolError):
            last = framing.make_bye(error.reason, str(error))
        self._drop(last)
        pause = BACKOFF_S[min(self._attempt, len(BACKOFF_S) - 1)] * random.uniform(0.8, 1.2)
        self._attempt += 1
        self._next_try = now + pause

    def _drop(self, last: framing.Message | None) -> None:
        self.finished = self._open_socket is not None
        if self._channel:
            self._channel.close(last)
        self._channel = None


DIAL_S = 2.0
"""Seconds after which a job that has not answered counts as unreachable; its spool is read."""
AGAIN_S = 30.0
FRESH_S = 2.0
_HALF_CLOCK = 1 << 31


@dataclass
class _JobConnection:
    """Holds the connection to one job, and the times of its last proof and segment."""

    address: JobAddress
    connection: OutgoingConnection
    last_established: float
    assembler: SegmentAssembler = field(default_factory=SegmentAssembler)
    last_segment_at: float = -1e9
    connection_count: int = 0


class JobConnections:
    """Connects to every job of a run that can be reached from this host."""

    def __init__(self, stream: Path, tokens: Callable[[], Sequence[Token]]) -> None:
        self._stream = stream
        self._tokens = tokens
        self._jobs: dict[str, _JobConnection] = {}
        self._failed: dict[str, tuple[JobAddress, float]] = {}

    @property
    def connections(self) -> list[OutgoingConnection]:
        return [job.connection for job in self._jobs.values()]

    def recently_heard(self, now: float) -> frozenset[str]:
        """Return the jobs that sent a segment (reports, frames) directly in the last 2 s."""
        jobs = self._jobs.items()
        return frozenset(peer for peer, job in jobs if now - job.last_segment_at < FRESH_S)

    def dial_jobs(self, now: float) -> None:
        """Connect to jobs with a new address; retry unreachable jobs after 30 s."""
        addresses = read_addresses(self._stream)
        for peer, job in list(self._jobs.items()):
            if addresses.get(peer) != job.address:
                self._jobs.pop(peer).connection.close()
        for peer in addresses.keys() - self._jobs.keys():
            failed, again = self._failed.get(peer, (None, 0.0))
            address = addresses[peer]
            if address != failed or now >= again:
                connection = OutgoingConnection(address.address, address.port, self._tokens)
                self._jobs[peer] = _JobConnection(address, connection, now)

    def receive_segments(self, now: float) -> list[Segment]:
        """Return the segments that connected jobs sent since the last call."""
        received = [self._receive_from(peer, job, now) for peer, job in list(self._jobs.items())]
        return [segment for segment in received if segment is not None]

    def close_all(self) -> None:
        for job in self._jobs.values():
            job.connection.close()
        self._jobs.clear()
        self._failed.clear()

    def _receive_from(self, peer: str, job: _JobConnection, now: float) -> Segment | None:
        try:
            messages = job.connection.step(now)
            if job.connection.connections != job.connection_count:
                job.connection_count, job.assembler = job.connection.connections, SegmentAssembler()
            for message in messages:
                job.assembler.add_message(message)
            segment = job.assembler.take_segment()
        except DAMAGED:
            segment = None
            job.last_established = -1e9
            job.connection.close()
        if job.connection.established:
            job.last_established = now
        elif now - job.last_established > DIAL_S:
            self._jobs.pop(peer).connection.close()
            self._failed[peer] = (job.address, now + AGAIN_S)
        if segment is None or segment.peer != peer:
            return None
        job.last_segment_at = now
        return segment


class Deduplicator:
    """Removes pictures that arrived before, by another route or earlier."""

    def __init__(self) -> None:
        self._newest: dict[tuple[str, str, int], int] = {}

    def without_repeated(self, segment: Segment) -> Segment:
        """Return the segment without pictures that an earlier segment also had."""
        new = []
        for picture in segment.pictures:
            key = (segment.peer, segment.incarnation, picture.agent)
            newest = self._newest.pop(key, picture.captured_ms - 1)
            later = 0 < (picture.captured_ms - newest) % (2 * _HALF_CLOCK) < _HALF_CLOCK
            new += [picture] * later
            self._newest[key] = picture.captured_ms if later else newest
        while len(self._newest) > _MOST:
            del self._newest[next(iter(self._newest))]
        return replace(segment, pictures=tuple(new))


_MOST = 4096
"""Agents whose newest picture is remembered; the least recently seen is dropped first."""
