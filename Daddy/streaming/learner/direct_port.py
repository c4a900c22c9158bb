"""Adapter for a job's own port: relays connect here, prove the token, and receive its messages.

It is the only port of this project that is not on loopback. It is open while a viewer watches. An
unauthenticated peer gets no byte before a greeting that names our token, three seconds to prove it,
and no reason when it is dropped. A thread asks the name server for the job's address. Two jobs of
one slot may write the same address file: (1) the old job writes its address, (2) its successor
writes its own, (3) the old job closes and leaves the file, because it holds the successor's; (4) a
job that finds another address while it listens writes its own again.
"""

from __future__ import annotations

import contextlib
import math
import queue
import select
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.streaming.login import stream_folder
from Daddy.streaming.protocol.framing import Message, MessageKind, ProtocolError, Reason, make_bye
from Daddy.streaming.protocol.handshake import VIEWER, SessionSocket, Token
from Daddy.streaming.protocol.messages import pack_stamps, read_stamps
from Daddy.streaming.protocol.spool_segment import WriterIdentity

MAX_AUTHENTICATED, MAX_UNAUTHENTICATED = 4, 32
"""A newcomer takes the place of the oldest unauthenticated peer: strangers lock no relay out."""
OUT_LIMIT = 256 * 1024
"""Bytes waiting for a relay above which it is dropped; a segment is less than 64 KiB."""
_SEND_BUFFER = 64 * 1024


class _IncomingRelay(SessionSocket):
    """Holds a connection from a relay, unauthenticated until ``greeted`` is set."""

    greeted = False


LOOKUP_AGAIN_S = 30.0
REPUBLISH_S = 5.0
FindAddress = Callable[[frozenset[str], str], str | None]


class AddressLookup:
    """Finds this host's address for relays on other hosts; runs one lookup at a time."""

    def __init__(self, host: str, find: FindAddress = stream_folder.own_address) -> None:
        self._host = host
        self._find = find
        self._hosts: frozenset[str] = frozenset()
        self._address: str | None = None
        self._again_at = 0.0
        self._lookup_running = False
        self._answers: queue.SimpleQueue[tuple[frozenset[str], str | None]] = queue.SimpleQueue()

    def current_address(self, hosts: frozenset[str], now: float) -> str | None:
        """Return the address found so far, without waiting; retry a failed lookup after 30 s."""
        if hosts != self._hosts:
            self._hosts, self._again_at = hosts, now
        with contextlib.suppress(queue.Empty):
            asked, address = self._answers.get_nowait()
            self._lookup_running = False
            if asked == hosts:
                self._address = address
                self._again_at = math.inf if address else now + LOOKUP_AGAIN_S
        if hosts <= {self._host}:
            self._address = stream_folder.LOOPBACK if hosts else None
        elif now >= self._again_at and not self._lookup_running:
            self._start_lookup(hosts)
        return self._address

    def _start_lookup(self, hosts: frozenset[str]) -> None:
        look_up = lambda: self._answers.put((hosts, self._find(hosts, self._host)))  # noqa: E731
        with contextlib.suppress(RuntimeError):  # no thread could start: retried with the next call
            threading.Thread(target=look_up, daemon=True).start()
            self._lookup_running = True


class DirectPort:
    """Listens for relays while a viewer watches; ``port`` is 0 while the port is closed."""

    def __init__(
        self, stream: Path, writer: WriterIdentity, opening: Callable[[], Sequence[Message]]
    ) -> None:
        """Store ``opening``, which returns the first messages to a relay that proved the token."""
        self._stream = stream
        self._writer = writer
        self._opening_messages = opening
        self._lookup = AddressLookup(writer.host)
        self._republish_at = 0.0
        self._socket: socket.socket | None = None
        self.address, self.port = "", 0
        self.relays: list[_IncomingRelay] = []
        self.accept_paused = False
        """Accepting has failed and would fail again at once: retried with the next listen_for."""

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket else -1

    @property
    def read_sockets(self) -> list[DirectPort | _IncomingRelay]:
        """Sockets to read from, for ``select``: the listener and the relays."""
        return [*([self] if self._socket and not self.accept_paused else []), *self.relays]

    @property
    def write_sockets(self) -> list[_IncomingRelay]:
        """Relays for which bytes wait, for ``select``."""
        return [relay for relay in self.relays if relay.out]

    @property
    def authenticated_count(self) -> int:
        return sum(relay.greeted for relay in self.relays)

    def broadcast(self, messages: Sequence[Message]) -> None:
        """Send messages to every relay that has proved the token."""
        for relay in self.relays:
            if relay.greeted:
                for message in messages:
                    relay.session.send(message)

    def listen_for(self, hosts: frozenset[str], now: float) -> None:
        """Listen on the address that relays on ``hosts`` can reach; close without any host."""
        address = self._lookup.current_address(hosts, now)
        if self.address != (address or ""):
            self.close()
        with contextlib.suppress(DaddyError, OSError):
            if address and self._socket is None:
                stream_folder.ensure_jobs_token(self._stream)
                self._socket = socket.create_server((address, 0), backlog=MAX_UNAUTHENTICATED)
                self._socket.setblocking(False)
                self.address, self.port = address, int(self._socket.getsockname()[1])
                self._republish_at = now
        self.accept_paused = False
        if self._socket and now >= self._republish_at:
            self._republish_at = now + REPUBLISH_S
            self._republish()

    def step(self, now: float, ready: Collection[Any] | None = None) -> None:
        """Accept relays, receive, send, drop; ``ready``: those of ``read_sockets`` to read."""
        if ready is None:
            ready = select.select(self.read_sockets, [], [], 0)[0]
        if self._socket and self in ready:
            self._accept(self._socket, now)
        for relay in list(self.relays):
            try:
                self._serve(relay, now, readable=relay in ready)
            except ProtocolError as error:
                self._drop(relay, make_bye(error.reason, str(error)))
            except OSError:
                self._drop(relay)

    def close(self) -> None:
        """Close the port and its relays; leave an address file that another job has written."""
        if self._socket is None:
            return
        ours = self._address_is_ours()
        for relay in list(self.relays):
            self._drop(relay, make_bye(Reason.DONE, "the job stops listening"))
        self._socket.close()
        self._socket, self.address, self.port = None, "", 0
        if ours:
            with contextlib.suppress(OSError):
                self._publish()

    def _republish(self) -> None:
        """Write our address over another job's; close the port if the write fails."""
        try:
            if not self._address_is_ours():
                self._publish()
        except OSError:
            self.close()

    def _address_is_ours(self) -> bool:
        published = stream_folder.read_address(self._stream, self._writer.peer)
        ours = (self._writer.incarnation, self.port)
        return published is not None and (published.incarnation, published.port) == ours

    def _publish(self) -> None:
        writer = self._writer
        address = stream_folder.JobAddress(self.address, self.port, writer.incarnation, writer.host)
        stream_folder.write_address(self._stream, writer.peer, address)

    def _accept(self, listener: socket.socket, now: float) -> None:
        try:
            for _ in range(MAX_UNAUTHENTICATED):
                sock, _ = listener.accept()
                strangers = [relay for relay in self.relays if not relay.greeted]
                if len(strangers) >= MAX_UNAUTHENTICATED:
                    self._drop(strangers[0])
                self._add_relay(sock, now)
        except BlockingIOError:
            pass
        except OSError:
            self.accept_paused = True

    def _add_relay(self, sock: socket.socket, now: float) -> None:
        tokens: Sequence[Token] = ()
        with contextlib.suppress(DaddyError, OSError):  # a damaged file refuses every relay
            tokens = stream_folder.ensure_jobs_token(self._stream)
        with contextlib.suppress(OSError):  # a peer that has left is dropped by the next step
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self.relays.append(_IncomingRelay(sock, VIEWER, tokens, now))

    def _serve(self, relay: _IncomingRelay, now: float, *, readable: bool) -> None:
        for message in relay.receive(now) if readable else ():
            if message.kind == MessageKind.BYE:
                raise ConnectionResetError
            if message.kind == MessageKind.PING:
                theirs, _ = read_stamps(message.body)
                pong = Message(MessageKind.PONG, pack_stamps(theirs, round(now * 1000)))
                relay.session.send(pong)
        if relay.session.established and not relay.greeted:
            if self.authenticated_count >= MAX_AUTHENTICATED:
                raise ProtocolError("other relays have all connections", Reason.FULL)
            relay.greeted = True
            for message in self._opening_messages():
                relay.session.send(message)
        relay.flush()
        if relay.is_overdue(now) or len(relay.out) > OUT_LIMIT:
            raise ProtocolError("the relay is late, silent or not reading", Reason.SILENT)

    def _drop(self, relay: _IncomingRelay, last: Message | None = None) -> None:
        """Close a relay's connection; an unauthenticated peer gets no last message."""
        relay.close(last if relay.greeted else None)
        self.relays.remove(relay)
