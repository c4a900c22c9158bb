"""Adapter for browsers: the same panels as the window's at ``http://127.0.0.1:9998/``.

Loopback only. A page asks for what is new since its last answer and gets the newest there is, at
once or within a second: nothing is queued for it, so one that is slow or frozen holds up nobody. A
request is a head of at most 8 KiB and nothing after it; nothing of it is logged: the key stands in
one. Every wait ends by itself.

A message is a u32 (little-endian), so many bytes of JSON, and then pictures of ``SCREEN_BYTES``
each, row-major, 2 bits a pixel. The JSON:

- ``tags`` name the ``facts`` and the ``world`` (maps, course), each there only when the browser's
  differs;
- ``live``: for each panel the tag of its picture (``""`` for none), its age and silence in seconds;
- ``new``: tags of the pictures that follow, in their order.

A tag is a hash of what it names: the server remembers nothing of any browser, and an answer that
was lost costs nothing.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
import socket
import struct
import sys
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from Daddy.core.clock import Clock
from Daddy.streaming.protocol.messages import MAX_TOP_K
from Daddy.streaming.viewer.draw_list import BADGES, THEMES
from Daddy.streaming.viewer.receiver import listen
from Daddy.streaming.viewer.view_history import World
from Daddy.streaming.viewer.view_model import (
    Scene,
    Waiting,
    fleet_line,
    headline,
    line_to_copy,
    run_names,
    waiting_steps,
)

LENGTH = struct.Struct("<I")
TAG_BYTES = 8
MAPS = 4
"""Maps on a page, as many as in the window."""


class Had(NamedTuple):
    """A browser's present tags: of its facts, of its world, and of its pictures."""

    facts: str = ""
    world: str = ""
    pictures: Collection[str] = ()


def tag(data: bytes) -> str:
    """16 hexadecimal digits that name ``data``."""
    return hashlib.blake2b(data, digest_size=TAG_BYTES).hexdigest()


def pack(scene: Scene, top_k: int, waiting: Waiting, had: Had) -> tuple[bytes, bool]:
    """The message for a browser that has ``had``, and whether it holds anything but ages."""
    told = {"facts": to_json(_facts(scene, top_k, waiting)), "world": _world(scene.world)}
    tags = {name: tag(data) for name, data in told.items()}
    shown = [tag(one.pixels) if one.pixels else "" for one in scene.panels]
    panels = list(zip(shown, scene.panels, strict=True))
    new = {name: one.pixels for name, one in panels if one.pixels and name not in had.pictures}
    news = {name: json.loads(told[name]) for name in told if tags[name] != getattr(had, name)}
    live = [(name, round(one.age_s, 2), round(one.silent_s, 1)) for name, one in panels]
    body = to_json({"tags": tags, "live": live, "new": list(new), **news})
    return LENGTH.pack(len(body)) + body + b"".join(new.values()), bool(new or news)


def to_json(value: object) -> bytes:
    """Compact JSON; ``<`` and ``&`` never stand in it as such, whatever a name holds."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026").encode()


def style() -> bytes:
    """The page's look as JSON: the window's palettes and the signs of its badges."""
    return to_json({"themes": [theme._asdict() for theme in THEMES], "badges": BADGES})


def _facts(scene: Scene, top_k: int, waiting: Waiting) -> dict[str, Any]:
    """All that a page shows but pictures and ages, so that equal facts need no telling again."""
    return {
        "top_k": top_k,
        "run": run_names(scene),
        "state": headline(scene),
        "fleet": fleet_line(scene),
        "steps": waiting_steps(scene, waiting),
        "copy": line_to_copy(scene, waiting),
        "panels": [
            {**one.facts(), "returns": [round(value, 1) for value in one.returns]}
            for one in scene.panels
        ],
        "notes": scene.notes[::-1],
    }


@lru_cache(maxsize=4)
def _world(world: World) -> bytes:
    """The maps and the run's course. A page asks sixty times between two of them."""
    places = [place._asdict() for place in world.places[:MAPS]]
    return to_json({"places": places, "course": world.course})


Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its name in small letters."""


class Doorkeeper:
    """Admits one browser with the link, asked by the page on ``port`` itself.

    Every program of every user of this computer can reach a loopback port, and so can any page that
    the browser has open, also under a name that its owner points to 127.0.0.1. Hence a key that
    works once and becomes a cookie, and names that must be ours.
    """

    def __init__(self, port: int) -> None:
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie_name = f"daddy-{port}"
        self._key, self._cookie = secrets.token_urlsafe(), secrets.token_urlsafe()

    @property
    def link(self) -> str:
        """The address that opens the page in one more browser, once."""
        return f"http://{self._names[0]}/?key={self._key}"

    def objection(self, headers: Headers) -> str:
        """Reason to refuse a request that is not from our own page; empty when it may be."""
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            return f"This page is only at http://{self._names[0]}/ and under no other name."
        origins = headers.get("origin", ())
        if any(one.lower() != f"http://{hosts[0].lower()}" for one in origins):
            return "Another page may not ask for this one."
        lengths = headers.get("content-length", ())
        if "transfer-encoding" in headers or any(one.strip() != "0" for one in lengths):
            return "A request to this page has no body."
        return ""

    def knows(self, headers: Headers) -> bool:
        crumbs = [crumb for one in headers.get("cookie", ()) for crumb in one.split(";")]
        pairs = [crumb.strip().partition("=") for crumb in crumbs]
        mine = [value for name, _, value in pairs if name == self._cookie_name]
        return any(_same(value, self._cookie) for value in mine)

    def exchange(self, key: str) -> str:
        """The cookie to set for the key of the link, which is used up; empty for any other key."""
        if not _same(key, self._key):
            return ""
        self._key = secrets.token_urlsafe()
        return f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"


def _same(one: str, other: str) -> bool:
    """Equal, in a time that does not tell how far they are."""
    return hmac.compare_digest(one.encode(errors="replace"), other.encode())


HEAD_LIMIT = 8192
HEAD_S = 5.0
"""A head that has begun is whole by then, and the first one of a connection has begun."""
IDLE_S = 30.0
SEND_S = 5.0
_PAGE = {
    "/": ("page.html", "text/html; charset=utf-8"),
    "/page.css": ("page.css", "text/css; charset=utf-8"),
    "/page.js": ("page.js", "text/javascript; charset=utf-8"),
    "/world.js": ("world.js", "text/javascript; charset=utf-8"),
}
_ALWAYS = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
NO_KEY = (
    "This page needs the link that the viewer printed in its terminal. A link opens one browser, "
    "once; the viewer then prints another."
)


class Visit(BaseHTTPRequestHandler):
    """One connection: request after request until either side has enough."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _Listener
    _patience, _cookie = 0.0, ""

    def setup(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        super().setup()
        self._site, self._patience = self.server.site, HEAD_S

    def handle_one_request(self) -> None:
        """Read a whole head within its time and size, then let the library take it apart."""
        head = read_head(self.connection, self._site.clock, self._patience)
        self._patience = IDLE_S
        self.connection.settimeout(SEND_S)
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.close_connection = True
        super().handle_one_request()

    def do_GET(self) -> None:
        """Answer our own page, whatever it asks, and refuse everybody else."""
        headers = {name.lower(): self.headers.get_all(name, []) for name in self.headers}
        try:
            address = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        objection = self._site.keeper.objection(headers)
        self._cookie = "" if objection else self._site.enter(asked.get("key", ""))
        if objection:
            self._refuse(HTTPStatus.FORBIDDEN, objection)
        elif not (self._cookie or self._site.keeper.knows(headers)):
            self._refuse(HTTPStatus.FORBIDDEN, NO_KEY)
        elif self.command == "POST":
            self._take_wish(address.path, asked.get("top_k", ""))
        else:
            self._show(address.path, asked)

    def do_POST(self) -> None:
        self.do_GET()

    def _show(self, path: str, asked: Mapping[str, str]) -> None:
        if path in _PAGE:
            name, kind = _PAGE[path]
            self._send(HTTPStatus.OK, _part(name), kind)
        elif path == "/style":
            self._send(HTTPStatus.OK, style(), "application/json")
        elif path != "/news":
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here but the page at /.")
        else:
            pictures = asked.get("pictures", "").split(",")
            had = Had(asked.get("facts", ""), asked.get("world", ""), pictures)
            if message := self._site.news(had):
                self._send(HTTPStatus.OK, message)
            else:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "The viewer was closed.")

    def _take_wish(self, path: str, top_k: str) -> None:
        if path != "/wish":
            self._refuse(HTTPStatus.NOT_FOUND, "Only a wish can be posted.")
        elif top_k not in {str(number) for number in range(1, MAX_TOP_K + 1)}:
            self._refuse(HTTPStatus.BAD_REQUEST, f"The number of agents is 1 to {MAX_TOP_K}.")
        else:
            self._site.want(int(top_k))
            self._send(HTTPStatus.NO_CONTENT)

    def _refuse(self, status: HTTPStatus, sentence: str) -> None:
        self._send(status, f"{sentence}\n".encode(), "text/plain; charset=utf-8")

    def _send(
        self, status: HTTPStatus, body: bytes = b"", kind: str = "application/octet-stream"
    ) -> None:
        self.send_response(status)
        if status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
        if self._cookie:
            self.send_header("Set-Cookie", self._cookie)
        if status >= HTTPStatus.BAD_REQUEST:
            self.send_header("Connection", "close")
        for name, value in _ALWAYS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, *_: str | None) -> None:
        """Refuse as the library does, without its page, which repeats the request."""
        self._cookie = ""
        self._refuse(HTTPStatus(code), f"{HTTPStatus(code).phrase}.")

    def version_string(self) -> str:
        """Hide program and version."""
        return "Daddy"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: a request may hold the key."""


@cache
def _part(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


def read_head(connection: socket.socket, clock: Clock, patience: float) -> bytes:
    """The next head; empty unless whole, small and alone. ``patience``: s for its first byte."""
    head, until = b"", clock.monotonic() + patience
    while len(head) <= HEAD_LIMIT and b"\r\n\r\n" not in head:
        connection.settimeout(max(0.001, until - clock.monotonic()))
        try:
            piece = connection.recv(HEAD_LIMIT)
        except OSError:
            return b""
        if not piece:
            return b""
        if not head:
            until = clock.monotonic() + HEAD_S
        head += piece
    return head if len(head) <= HEAD_LIMIT and head.endswith(b"\r\n\r\n") else b""


MAX_CONNECTIONS = 16
HOLD_S = 1.0
"""A page waits for news no longer than this: ages alone tell it that we live."""
_LOOK_S = 1 / 60
_SEND_BYTES = 64 * 1024


class WebServer:
    """Serves from construction until :meth:`close`; NetworkError when the port is taken.

    Its link goes to ``say`` alone: on a command line every user of this computer could read it.
    The lock is for what two visits might change at once.
    """

    def __init__(
        self,
        port: int,
        scene: Callable[[int], Scene],
        wish: Callable[[int], None],
        waiting: Waiting,
        top_k: int,
        clock: Clock,
        say: Callable[[str], None],
    ) -> None:
        """``wish`` is told of another number of agents, ``say`` of each new link to the page."""
        self._scene, self._wish, self._waiting, self._top_k = scene, wish, waiting, top_k
        self.clock = clock
        self._say = say
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self.places = threading.Semaphore(MAX_CONNECTIONS)
        listeners = listen(port, MAX_CONNECTIONS, f"--web {port - 1}")
        self.port = int(listeners[0].getsockname()[1])
        self.keeper = Doorkeeper(self.port)
        self._listeners = [_Listener(one, self) for one in listeners]
        say(f"open in a browser: {self.keeper.link}")

    def enter(self, key: str) -> str:
        """The cookie for the link's key, once; the next link is told at once."""
        with self._lock:
            cookie = self.keeper.exchange(key)
        if cookie:
            with suppress(OSError):  # a terminal that has gone is no reason to refuse a browser
                self._say(f"shown; in another browser: {self.keeper.link}")
        return cookie

    def news(self, had: Had) -> bytes:
        """The news for a page that has ``had``, once there is any; empty at the end."""
        until = self.clock.monotonic() + HOLD_S
        while True:
            message, new = pack(self._scene(self._top_k), self._top_k, self._waiting, had)
            if new or self.clock.monotonic() >= until:
                return message
            if self.clock.wait(self._stop, _LOOK_S):
                return b""

    def want(self, top_k: int) -> None:
        with self._lock:
            self._top_k = top_k
            self._wish(top_k)

    def close(self) -> None:
        self._stop.set()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()


class _Listener(ThreadingHTTPServer):
    """One loopback address; a thread for each connection, which lives as long as it is open."""

    def __init__(self, listener: socket.socket, site: WebServer) -> None:
        super().__init__(listener.getsockname()[:2], Visit, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.site = site
        # serve_forever looks for its end this often.
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve a connection; where ``MAX_CONNECTIONS`` are open, close it."""
        if not self.site.places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.site.places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A connection that broke is no news; anything else is a bug of ours."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)
