"""Adapter for the viewer's port: accepts relays, checks them, keeps each agent's newest picture.

One thread, loopback only (127.0.0.1 and ::1). A connection that does not greet within three seconds
is closed; nothing is kept of one that sends garbage. Several relays may be connected at a time (a
cluster's and a laptop's). The window reads :meth:`Receiver.scene` and never waits.
"""

from __future__ import annotations

import contextlib
import errno
import os
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, NetworkError
from Daddy.core.machine_info import listening_program, socket_owner
from Daddy.streaming.protocol.framing import Kind, Message, ProtocolError, Reason, bye
from Daddy.streaming.protocol.handshake import VIEWER, Channel, Token
from Daddy.streaming.protocol.messages import Wish
from Daddy.streaming.viewer.connect_plan import Naps
from Daddy.streaming.viewer.view_model import Scene, Source, compose
from Daddy.streaming.viewer.view_model import count as add_up


class Connection(Channel):
    """A relay, or a stranger who claims to be one."""

    source: Source | None = None

    def owner(self) -> str | None:
        """The program at the other end; None where the relay's own word has to do."""
        if self.socket.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        return socket_owner(self.socket.getpeername()[1], self.socket.getsockname()[1])


def listen(port: int, backlog: int, otherwise: str) -> list[socket.socket]:
    """Listeners on both loopback addresses; NetworkError with ``otherwise`` as a remedy."""
    try:
        first = socket.create_server(("127.0.0.1", port), backlog=backlog)
    except OSError as error:
        by = listening_program(port) if error.errno == errno.EADDRINUSE else None
        why = os.strerror(error.errno or 0) + (f" by {by}" if by else "")
        raise NetworkError(
            f"port {port} of 127.0.0.1 cannot be used: {why}",
            f"end the program that uses it (another viewer?), or choose another port: {otherwise}",
        ) from error
    with contextlib.suppress(OSError):
        family, same = socket.AF_INET6, ("::1", int(first.getsockname()[1]))
        return [first, socket.create_server(same, family=family, backlog=backlog)]
    return [first]


MAX_CONNECTIONS = 8
OUT_LIMIT = 64 * 1024
"""Bytes that wait for a relay that does not read; above that it is given up."""
_NOTES = 12
_REFUSALS = (Reason.VERSION, Reason.NO_COMMON_TOKEN, Reason.REFUSED)


class Receiver:
    """Listens from construction until :meth:`close`; NetworkError when the port is taken.

    ``served`` counts relays that proved themselves, ``refused`` says why the last was not let in.
    """

    def __init__(
        self, port: int, tokens: Callable[[], Sequence[Token]], wish: Wish, clock: Clock
    ) -> None:
        self._tokens = tokens
        self._wish = wish
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._connections: list[Connection] = []
        self._notes: deque[str] = deque(maxlen=_NOTES)
        self.trouble = ""
        """The fault of the last connection; empty once one is well."""
        self._carrier: tuple[str, ...] = ()
        self._adopted: list[tuple[socket.socket, bytes]] = []
        self._alone_since: float | None = clock.monotonic()
        self._past: dict[str, int] = {}
        self._naps = Naps(clock.now(), clock.monotonic())
        self.served = 0
        self.refused = ""
        self._selector = selectors.DefaultSelector()
        other = f"--port {port + 1} and ssh -R 9999:localhost:{port + 1} …"
        self._listeners = listen(port, MAX_CONNECTIONS, other)
        self.port = int(self._listeners[0].getsockname()[1])
        for listener in self._listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._work, name="receiver", daemon=True)
        self._thread.start()

    def scene(self, top_k: int) -> Scene:
        """The scene now: the ``top_k`` best agents of all relays, and the fleet."""
        with self._lock:
            now = self._clock.monotonic()
            sources = [one.source for one in self._connections if one.source]
            pinned = [f"{peer}/{agent}" for peer, agent in self._wish.pins]
            notes = tuple(self._notes)
            scene = compose(sources, top_k, now, notes, self.trouble, self._past, pinned)
            alone_s = 0.0 if self._alone_since is None else now - self._alone_since
            return replace(scene, carrier=self._carrier, alone_s=alone_s)

    @property
    def connected(self) -> bool:
        """Any relay has proved itself and is here."""
        return self._alone_since is None

    def adopt(self, sock: socket.socket, data: bytes) -> None:
        """Take over, and close, a connection without a port; ``data`` has been read of it."""
        with self._lock:
            if self._stop.is_set():
                sock.close()
            else:
                self._adopted.append((sock, data))

    def tell(self, lines: tuple[str, ...], note: str = "") -> None:
        """Set the lines of ``connect`` while there is no relay, and keep a note."""
        with self._lock:
            self._carrier = lines
            if note:
                self._notes.append(note)

    def subscribe(self, wish: Wish) -> None:
        with self._lock:
            self._wish = wish
            for connection in self._connections:
                if connection.source:
                    connection.session.send(self._subscribe())

    def _subscribe(self) -> Message:
        return Message(Kind.SUBSCRIBE, self._wish.pack())

    def close(self) -> None:
        """Say BYE to everyone and end the thread."""
        self._stop.set()
        self._thread.join(timeout=2.0)

    def _work(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(timeout=0.25):
                with self._lock:
                    if key.data is None:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                    else:
                        self._serve(key.data)
            with self._lock:
                for sock, data in self._adopted:
                    self._take_in(sock, data)
                self._adopted.clear()
                self._tidy()
        with self._lock:
            for one in list(self._connections):
                self._drop(one, bye(Reason.DONE, "the viewer was closed"))
            for sock, _ in self._adopted:
                sock.close()
            for listener in self._listeners:
                listener.close()
            self._selector.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            if len(self._connections) >= MAX_CONNECTIONS:
                sock.close()
                return
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._take_in(sock)

    def _take_in(self, sock: socket.socket, data: bytes = b"") -> None:
        try:
            tokens = self._tokens()
        except DaddyError as error:  # a damaged file refuses everyone, and that is told
            tokens, self.trouble = (), error.message
        connection = Connection(sock, VIEWER, tokens, self._clock.monotonic())
        self._connections.append(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        if data:
            self._serve(connection, data)

    def _serve(self, connection: Connection, data: bytes = b"") -> None:
        now = self._clock.monotonic()
        try:
            heard = connection.session.receive(data) if data else connection.receive(now)
            if connection.session.established and connection.source is None:
                self.trouble, self._alone_since = "", None
                self.served += 1
                connection.source = Source(connection.owner())
                connection.session.send(self._subscribe())
            for message in heard:
                self._hear(connection, message, now)
            connection.flush()
        except ProtocolError as error:
            self.trouble = str(error)
            if error.reason in _REFUSALS:
                self.refused = self.trouble
            self._drop(connection, bye(error.reason, str(error)))
        except OSError:
            self._drop(connection)

    def _hear(self, connection: Connection, message: Message, now: float) -> None:
        assert connection.source
        reply, text = connection.source.hear(message, now)
        for answer in reply:
            connection.session.send(answer)
        if text:
            self._notes.append(text)

    def _tidy(self) -> None:
        now = self._clock.monotonic()
        slept = self._naps.slept(self._clock.now(), now)  # relays have given us up long ago
        for connection in list(self._connections):
            if slept or len(connection.out) > OUT_LIMIT:
                self._drop(connection)
            elif connection.is_overdue(now):
                silent = bye(Reason.SILENT, "nothing was heard for 15 s")
                self._drop(connection, silent if connection.source else None)
            else:
                with contextlib.suppress(OSError):
                    connection.flush()

    def _drop(self, connection: Connection, farewell: Message | None = None) -> None:
        self._selector.unregister(connection.socket)
        connection.close(farewell)
        self._connections.remove(connection)
        if self._alone_since is None and not any(other.source for other in self._connections):
            self._alone_since = self._clock.monotonic()
        for name, frames in connection.source.totals.items() if connection.source else ():
            add_up(self._past, name, frames)
