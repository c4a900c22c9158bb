"""Door to browsers: the same panels as the window's at ``http://127.0.0.1:9998/``.

Loopback only. A page asks for what is new since its last answer and gets the newest there is, at
once or within a second: nothing is ever queued for it, so one that is slow or frozen holds up
nobody. Requests are heads of at most 8 KiB without bodies; every wait ends by itself.
"""

from __future__ import annotations

import os
import secrets
import socket
import socketserver
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from Daddy.core.clock import Clock
from Daddy.streaming.home.listening import listen
from Daddy.streaming.home.scene import Scene
from Daddy.streaming.show.window import Waiting
from Daddy.streaming.web.doorkeeper import Doorkeeper
from Daddy.streaming.web.message import Had, pack
from Daddy.streaming.web.visit import Visit

MAX_CONNECTIONS = 16
HOLD_S = 1.0
"""A page waits for news no longer than this: ages alone tell it that we live."""
_LOOK_S = 1 / 60
_SEND_BYTES = 64 * 1024


@dataclass
class Show:
    """What a viewer has to offer: its scenes, whom to tell of another number of agents, what its
    waiting screen says, and how many agents it begins with.
    """

    scene: Callable[[int], Scene]
    wish: Callable[[int], None]
    waiting: Waiting
    top_k: int


@dataclass
class Site:
    """What all visits share. The lock is for what two of them might change at once."""

    show: Show
    clock: Clock
    keeper: Doorkeeper
    say: Callable[[str], None]
    stop: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)
    visitors: set[socket.socket] = field(default_factory=set)

    def admit(self, visitor: socket.socket) -> bool:
        """Whether there is room for one more."""
        with self.lock:
            room = len(self.visitors) < MAX_CONNECTIONS and not self.stop.is_set()
            if room:
                self.visitors.add(visitor)
            return room

    def enter(self, key: str) -> str:
        """The cookie for the link's key, once; the next link is told at once."""
        with self.lock:
            cookie = self.keeper.exchange(key)
        if cookie:
            with suppress(OSError):  # a terminal that has gone is no reason to refuse a browser
                self.say(f"shown; in another browser: {self.keeper.link}")
        return cookie

    def news(self, had: Had) -> bytes:
        """What is new to a page that has ``had``, once there is anything; empty at the end."""
        until = self.clock.monotonic() + HOLD_S
        while True:
            scene = self.show.scene(self.show.top_k)
            message, new = pack(scene, self.show.top_k, self.show.waiting, had)
            if new or self.clock.monotonic() >= until:
                return message
            if self.clock.wait(self.stop, _LOOK_S):
                return b""

    def want(self, top_k: int) -> None:
        """Show another number of agents, in every browser."""
        with self.lock:
            self.show.top_k = top_k
            self.show.wish(top_k)


class _Listener(socketserver.ThreadingMixIn, socketserver.TCPServer):
    """One loopback address; a thread for each connection, which lives as long as it is open."""

    daemon_threads = True
    block_on_close = False
    # Elsewhere this would let two programs have one port.
    allow_reuse_address = os.name == "posix"
    request_queue_size = MAX_CONNECTIONS

    def __init__(self, listener: socket.socket, site: Site) -> None:
        super().__init__(
            listener.getsockname()[:2], socketserver.BaseRequestHandler, bind_and_activate=False
        )
        self.socket.close()
        self.socket = listener
        self.site = site
        # serve_forever looks for its end this often.
        self.thread = threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True)
        self.thread.start()

    def verify_request(self, request: Any, client_address: Any) -> bool:  # noqa: ARG002 - the library's
        """Refuse a crowd, and whoever has gone again."""
        try:
            request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        except OSError:
            return False
        return self.site.admit(request)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve one connection to its end, on its own thread."""
        Visit(request, client_address, self, self.site)

    def shutdown_request(self, request: Any) -> None:
        with self.site.lock:
            self.site.visitors.discard(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news; anything else is a bug of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class WebServer:
    """Listens from construction until :meth:`close`; NetworkError when the port is taken."""

    def __init__(
        self,
        port: int,
        show: Show,
        clock: Clock,
        say: Callable[[str], None],
        secret: Callable[[], str] = secrets.token_urlsafe,
    ) -> None:
        """``say`` is told where the page is whenever there is a new link to it."""
        listeners = listen(port, MAX_CONNECTIONS, f"--web {port - 1}")
        self.port = int(listeners[0].getsockname()[1])
        self._site = Site(show, clock, Doorkeeper(self.port, secret), say)
        self._listeners = [_Listener(one, self._site) for one in listeners]
        say(f"open in a browser: {self._site.keeper.link}")

    def close(self) -> None:
        """End every conversation and free the port."""
        self._site.stop.set()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()
        with self._site.lock:
            visitors = list(self._site.visitors)
        for visitor in visitors:
            with suppress(OSError):
                visitor.shutdown(socket.SHUT_RDWR)


@contextmanager
def served(port: int, show: Show, clock: Clock) -> Iterator[None]:
    """The page, as long as this lasts. Its link goes to the terminal (not among the lines that a
    script reads) and nowhere else: on a command line every user of this computer could read it.
    """
    page = WebServer(port, show, clock, lambda text: print(text, file=sys.stderr, flush=True))
    try:
        yield
    finally:
        page.close()
