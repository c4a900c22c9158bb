"""Adapter for the viewer's port: accepts and authenticates relays, keeps their newest pictures.

The receiver runs one thread and listens on 127.0.0.1 and ::1 only. A connection without a greeting
within three seconds is closed; invalid bytes are dropped. Several relays may be connected (a
cluster's and a laptop's). :meth:`Receiver.current_scene` never waits for the network.
"""

import contextlib
import selectors
import socket
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.core.host_and_processes import socket_owner
from Daddy.core.loopback import listen_on_loopback
from Daddy.streaming.protocol.framing import Message, MessageKind, ProtocolError, Reason, make_bye
from Daddy.streaming.protocol.handshake import VIEWER, SessionSocket, Token
from Daddy.streaming.protocol.messages import Subscription
from Daddy.streaming.viewer.connect_plan import SleepDetector
from Daddy.streaming.viewer.view_model import RelayState, Scene, add_frames, compose_scene


class RelayConnection(SessionSocket):
    """Holds a connection from a relay, unauthenticated until ``relay_state`` is set."""

    relay_state: RelayState | None = None

    def peer_program(self) -> str | None:
        """Return the name of the program at the other end of the socket, or None."""
        if self.socket.family not in (socket.AF_INET, socket.AF_INET6):
            return None
        return socket_owner(self.socket.getpeername()[1], self.socket.getsockname()[1])


MAX_CONNECTIONS = 8
"""Relays that have proved the token."""
MAX_STRANGERS = 32
"""Connections that have proved nothing yet; a newcomer takes the place of the oldest."""
OUT_LIMIT = 64 * 1024
"""Bytes waiting for a relay above which it is disconnected, because it does not read."""
_NOTES = 12
_REFUSALS = (Reason.VERSION, Reason.NO_COMMON_TOKEN, Reason.REFUSED)


class Receiver:
    """Listens for relays from construction until :meth:`close`; NetworkError if the port is taken.

    ``served`` counts relays that proved the token; ``refused``: reason of the last refusal.
    """

    def __init__(
        self, port: int, tokens: Callable[[], Sequence[Token]], wanted: Subscription, clock: Clock
    ) -> None:
        self._tokens = tokens
        self._subscription = wanted
        self._clock = clock
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._connections: list[RelayConnection] = []
        self._notes: deque[str] = deque(maxlen=_NOTES)
        self.trouble = ""
        """The error of the last connection; empty once a relay is connected."""
        self._connect_lines: tuple[str, ...] = ()
        self._adopted: list[tuple[socket.socket, bytes]] = []
        self._no_relay_since: float | None = clock.monotonic()
        self._past_frame_counts: dict[str, int] = {}
        self._sleep_detector = SleepDetector(clock.now(), clock.monotonic())
        self.served = 0
        self.refused = ""
        self._selector = selectors.DefaultSelector()
        other = f"--port {port + 1} and ssh -R 9999:localhost:{port + 1} …"
        self._listeners = listen_on_loopback(port, MAX_CONNECTIONS, other)
        self.port = int(self._listeners[0].getsockname()[1])
        for listener in self._listeners:
            listener.setblocking(False)
            self._selector.register(listener, selectors.EVENT_READ, None)
        self._thread = threading.Thread(target=self._run_loop, name="receiver", daemon=True)
        self._thread.start()

    def current_scene(self, top_k: int) -> Scene:
        """Return the current scene: the ``top_k`` best agents of all relays, and the fleet."""
        with self._lock:
            now, since = self._clock.monotonic(), self._no_relay_since
            relays = [c.relay_state for c in self._connections if c.relay_state]
            pinned = [f"{peer}/{agent}" for peer, agent in self._subscription.pins]
            notes, past = tuple(self._notes), self._past_frame_counts
            scene = compose_scene(relays, top_k, now, notes, self.trouble, past, pinned)
            without_s = 0.0 if since is None else now - since
            return replace(scene, connect_lines=self._connect_lines, without_relay_s=without_s)

    @property
    def connected(self) -> bool:
        """True while at least one relay that proved the token is connected."""
        return self._no_relay_since is None

    def adopt_socket(self, sock: socket.socket, data: bytes) -> None:
        """Serve a connected socket like an accepted one; ``data`` was already read from it."""
        with self._lock:
            if self._stop.is_set():
                sock.close()
            else:
                self._adopted.append((sock, data))

    def set_connect_lines(self, lines: tuple[str, ...], note: str = "") -> None:
        """Set the lines that explain what ``connect`` does now; add ``note`` to the news."""
        with self._lock:
            self._connect_lines = lines
            if note:
                self._notes.append(note)

    def subscribe(self, wanted: Subscription) -> None:
        with self._lock:
            self._subscription = wanted
            for connection in self._connections:
                if connection.relay_state:
                    connection.session.send(self._subscribe_message())

    def _subscribe_message(self) -> Message:
        return Message(MessageKind.SUBSCRIBE, self._subscription.to_body())

    def close(self) -> None:
        """Send BYE to every relay and end the thread."""
        self._stop.set()
        self._thread.join(timeout=2.0)

    def _run_loop(self) -> None:
        while not self._stop.is_set():
            for key, _ in self._selector.select(timeout=0.25):
                with self._lock:
                    if key.data is None:
                        self._accept(key.fileobj)  # type: ignore[arg-type]
                    elif key.data in self._connections:  # not dropped for a newcomer just now
                        self._serve(key.data)
            with self._lock:
                for sock, data in self._adopted:
                    self._add_connection(sock, data)
                self._adopted.clear()
                self._check_connections()
        with self._lock:
            last = make_bye(Reason.DONE, "the viewer was closed")
            for connection in list(self._connections):
                self._drop(connection, last)
            for sock, _ in self._adopted:
                sock.close()
            for listener in self._listeners:
                listener.close()
            self._selector.close()

    def _accept(self, listener: socket.socket) -> None:
        with contextlib.suppress(OSError):
            sock, _ = listener.accept()
            strangers = [c for c in self._connections if c.relay_state is None]
            if len(strangers) >= MAX_STRANGERS:
                self._drop(strangers[0])
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._add_connection(sock)

    def _add_connection(self, sock: socket.socket, data: bytes = b"") -> None:
        try:
            tokens = self._tokens()
        except DaddyError as error:  # a damaged token file refuses every relay, with this reason
            tokens, self.trouble = (), error.message
        connection = RelayConnection(sock, VIEWER, tokens, self._clock.monotonic())
        self._connections.append(connection)
        self._selector.register(sock, selectors.EVENT_READ, connection)
        if data:
            self._serve(connection, data)

    def _serve(self, connection: RelayConnection, data: bytes = b"") -> None:
        now = self._clock.monotonic()
        try:
            messages = connection.session.receive(data) if data else connection.receive(now)
            if connection.session.established and connection.relay_state is None:
                if sum(c.relay_state is not None for c in self._connections) >= MAX_CONNECTIONS:
                    raise ProtocolError("other relays have all connections", Reason.FULL)
                self.trouble, self._no_relay_since = "", None
                self.served += 1
                connection.relay_state = RelayState(connection.peer_program())
                connection.session.send(self._subscribe_message())
            for message in messages:
                assert connection.relay_state
                answers, text = connection.relay_state.handle_message(message, now)
                for answer in answers:
                    connection.session.send(answer)
                self._notes += [text] if text else []
            connection.flush()
        except ProtocolError as error:
            self.trouble = str(error)
            if error.reason in _REFUSALS:
                self.refused = self.trouble
            self._drop(connection, make_bye(error.reason, str(error)))
        except OSError:
            self._drop(connection)

    def _check_connections(self) -> None:
        now = self._clock.monotonic()
        slept = self._sleep_detector.slept(self._clock.now(), now)  # then relays have dropped us
        for connection in list(self._connections):
            if slept or len(connection.out) > OUT_LIMIT:
                self._drop(connection)
            elif connection.is_overdue(now):
                silent = make_bye(Reason.SILENT, "nothing was heard for 15 s")
                self._drop(connection, silent if connection.relay_state else None)
            else:
                with contextlib.suppress(OSError):
                    connection.flush()

    def _drop(self, connection: RelayConnection, last: Message | None = None) -> None:
        self._selector.unregister(connection.socket)
        connection.close(last)
        self._connections.remove(connection)
        if self._no_relay_since is None and not any(c.relay_state for c in self._connections):
            self._no_relay_since = self._clock.monotonic()
        if connection.relay_state:
            for name, frames in connection.relay_state.frame_counts.items():
                add_frames(self._past_frame_counts, name, frames)
