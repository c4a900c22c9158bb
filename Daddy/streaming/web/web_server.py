"""Adapter for browsers: serves the window's panels as a page at ``http://127.0.0.1:9998/``.

It listens on loopback only. The page requests the changes since its last answer and gets the newest
state at once, or after a second without a change. Nothing is queued, so a slow or frozen page holds
up no other. A request has a head of at most 8 KiB and no body, and is never logged, because it may
hold the key. Every wait has a timeout.

An answer is a u32 (little-endian), that many bytes of JSON, and then pictures of ``SCREEN_BYTES``
each, row-major, 2 bits a pixel. The JSON:

- ``tags`` of the ``facts`` and the ``world`` (maps and returns); these two follow only if they
  differ from the browser's;
- ``live``: for each panel the tag of its picture (``""`` for none), its age and silence in seconds;
- ``new``: tags of the pictures that follow, in their order.

A tag is a hash of the tagged data. The server stores nothing about a browser, so an answer may be
lost without any recovery.
"""

from __future__ import annotations

import hashlib
import hmac
import io
import json
import secrets
import socket
import struct
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from functools import cache, lru_cache, partial
from http import HTTPStatus
from importlib.resources import files
from typing import Any, NamedTuple
from urllib.parse import parse_qs, urlsplit

from Daddy.core.clock import Clock
from Daddy.core.loopback import listen_on_loopback
from Daddy.core.loopback_http import LoopbackServer, QuietRequestHandler
from Daddy.streaming.protocol.messages import MAX_TOP_K
from Daddy.streaming.viewer.agent_trails import HistorySnapshot
from Daddy.streaming.viewer.draw_list import BADGES, THEMES
from Daddy.streaming.viewer.view_model import (
    Scene,
    TunnelInfo,
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


class BrowserTags(NamedTuple):
    """Holds the tags of the facts, the world and the pictures that a browser has."""

    facts: str = ""
    world: str = ""
    pictures: Collection[str] = ()


def hash_tag(data: bytes) -> str:
    """Return 16 hexadecimal digits that identify ``data``."""
    return hashlib.blake2b(data, digest_size=TAG_BYTES).hexdigest()


def pack_news(scene: Scene, top_k: int, tunnel: TunnelInfo, had: BrowserTags) -> tuple[bytes, bool]:
    """Return the answer for a browser with the tags ``had``, and True if more than ages changed."""
    parts = {"facts": page_json(_facts(scene, top_k, tunnel)), "world": _world(scene.history)}
    tags = {name: hash_tag(data) for name, data in parts.items()}
    shown = [hash_tag(panel.pixels) if panel.pixels else "" for panel in scene.panels]
    panels = list(zip(shown, scene.panels, strict=True))
    new = {name: p.pixels for name, p in panels if p.pixels and name not in had.pictures}
    news = {name: json.loads(parts[name]) for name in parts if tags[name] != getattr(had, name)}
    live = [(name, round(p.age_s, 2), round(p.silent_s, 1)) for name, p in panels]
    body = page_json({"tags": tags, "live": live, "new": list(new), **news})
    return LENGTH.pack(len(body)) + body + b"".join(new.values()), bool(new or news)


def page_json(value: object) -> bytes:
    """Return compact JSON in which ``<`` and ``&`` are escaped."""
    text = json.dumps(value, separators=(",", ":"), sort_keys=True)
    return text.replace("<", "\\u003c").replace("&", "\\u0026").encode()


def style_json() -> bytes:
    """Return the window's palettes and badge signs as JSON."""
    return page_json({"themes": [theme._asdict() for theme in THEMES], "badges": BADGES})


def _facts(scene: Scene, top_k: int, tunnel: TunnelInfo) -> dict[str, Any]:
    """Return all that a page shows except pictures and ages."""
    return {
        "top_k": top_k,
        "run": run_names(scene),
        "state": headline(scene),
        "fleet": fleet_line(scene),
        "steps": waiting_steps(scene, tunnel),
        "copy": line_to_copy(scene, tunnel),
        "panels": [
            {**panel.fields(), "returns": [round(value, 1) for value in panel.returns]}
            for panel in scene.panels
        ],
        "notes": scene.notes[::-1],
    }


@lru_cache(maxsize=4)
def _world(history: HistorySnapshot) -> bytes:
    """Return maps and returns as JSON; cached, as a page asks 60 times a second."""
    places = [place._asdict() for place in history.maps[:MAPS]]
    return page_json({"places": places, "course": history.returns})


Headers = Mapping[str, Sequence[str]]
"""All values of each header, by its lower-case name."""


class PageAuth:
    """Accepts requests of browsers that opened the printed link, from the page on ``port`` only.

    Every program of every user of this computer can reach a loopback port, and so can every page
    that the browser has open, even by a name that its owner resolves to 127.0.0.1. Therefore the
    link's key works once and is replaced by a cookie, and the headers Host and Origin must be ours.
    """

    def __init__(self, port: int) -> None:
        self._names = (f"127.0.0.1:{port}", f"localhost:{port}")
        self._cookie_name = f"daddy-{port}"
        self._key, self._cookie = secrets.token_urlsafe(), secrets.token_urlsafe()

    @property
    def link(self) -> str:
        """The page's address with the key; each link opens the page in one browser, once."""
        return f"http://{self._names[0]}/?key={self._key}"

    def find_objection(self, headers: Headers) -> str:
        """Return the reason to refuse a request; empty if our own page may send it."""
        hosts = headers.get("host", ())
        if len(hosts) != 1 or hosts[0].lower() not in self._names:
            return f"This page is only at http://{self._names[0]}/ and under no other name."
        origins = headers.get("origin", ())
        if any(origin.lower() != f"http://{hosts[0].lower()}" for origin in origins):
            return "Another page may not ask for this one."
        lengths = headers.get("content-length", ())
        if "transfer-encoding" in headers or any(length.strip() != "0" for length in lengths):
            return "A request to this page has no body."
        return ""

    def has_cookie(self, headers: Headers) -> bool:
        cookies = [part for value in headers.get("cookie", ()) for part in value.split(";")]
        pairs = [cookie.strip().partition("=") for cookie in cookies]
        ours = [value for name, _, value in pairs if name == self._cookie_name]
        return any(_equal(value, self._cookie) for value in ours)

    def redeem_key(self, key: str) -> str:
        """Replace the link's key and return the cookie to set; "" if ``key`` is another one."""
        if not _equal(key, self._key):
            return ""
        self._key = secrets.token_urlsafe()
        return f"{self._cookie_name}={self._cookie}; HttpOnly; SameSite=Strict; Path=/"


def _equal(given: str, secret: str) -> bool:
    """Compare two texts in a time that does not depend on their first difference."""
    return hmac.compare_digest(given.encode(errors="replace"), secret.encode())


HEAD_LIMIT = 8192
HEAD_S = 5.0
"""Seconds for a connection's first byte to arrive, and for a head that has begun to be complete."""
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


class PageRequestHandler(QuietRequestHandler):
    """Handles the HTTP requests of one connection of a browser."""

    disable_nagle_algorithm = True

    def __init__(self, site: WebServer, *connection: Any) -> None:
        self._site, self._patience, self._cookie = site, HEAD_S, ""
        super().__init__(*connection)

    def setup(self) -> None:
        self.request.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BYTES)
        super().setup()

    def handle_one_request(self) -> None:
        """Read a complete head within its time and size limit, then let the library parse it."""
        head = read_head(self.connection, self._site.clock, self._patience)
        self._patience = IDLE_S
        self.connection.settimeout(SEND_S)
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.close_connection = True
        super().handle_one_request()

    def answer_request(self) -> None:
        """Answer requests of our own page, and refuse all others."""
        headers = {name.lower(): self.headers.get_all(name, []) for name in self.headers}
        try:
            address = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        objection = self._site.auth.find_objection(headers)
        self._cookie = "" if objection else self._site.redeem_key(asked.get("key", ""))
        if objection:
            self._refuse(HTTPStatus.FORBIDDEN, objection)
        elif not (self._cookie or self._site.auth.has_cookie(headers)):
            self._refuse(HTTPStatus.FORBIDDEN, NO_KEY)
        elif not self.server.admit(self.connection):
            self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "Other browsers have all connections.")
        elif self.command == "POST":
            self._change_top_k(address.path, asked.get("top_k", ""))
        else:
            self._answer_path(address.path, asked)

    def _answer_path(self, path: str, asked: Mapping[str, str]) -> None:
        if path in _PAGE:
            name, kind = _PAGE[path]
            self._send(HTTPStatus.OK, _read_asset(name), kind)
        elif path == "/style":
            self._send(HTTPStatus.OK, style_json(), "application/json")
        elif path != "/news":
            self._refuse(HTTPStatus.NOT_FOUND, "There is nothing here but the page at /.")
        else:
            pictures = asked.get("pictures", "").split(",")
            had = BrowserTags(asked.get("facts", ""), asked.get("world", ""), pictures)
            if message := self._site.wait_for_news(had):
                self._send(HTTPStatus.OK, message)
            else:
                self._refuse(HTTPStatus.SERVICE_UNAVAILABLE, "The viewer was closed.")

    def _change_top_k(self, path: str, top_k: str) -> None:
        if path != "/wish":
            self._refuse(HTTPStatus.NOT_FOUND, "Only /wish can be posted.")
        elif top_k not in {str(number) for number in range(1, MAX_TOP_K + 1)}:
            self._refuse(HTTPStatus.BAD_REQUEST, f"The number of agents is 1 to {MAX_TOP_K}.")
        else:
            self._site.set_top_k(int(top_k))
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
        """Send a short text instead of the library's page, which would repeat the request."""
        self._cookie = ""
        self._refuse(HTTPStatus(code), f"{HTTPStatus(code).phrase}.")


@cache
def _read_asset(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


def read_head(connection: socket.socket, clock: Clock, patience: float) -> bytes:
    """Return a request's head; b"" unless complete, small and alone. ``patience``: seconds."""
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
"""Connections that have shown our cookie or key."""
MAX_STRANGERS = 32
"""Connections that have shown neither yet; a newcomer takes the place of the oldest."""
HOLD_S = 1.0
"""Longest wait of a page for news, seconds; then it gets the ages, which show that we live."""
_POLL_S = 1 / 60
_SEND_BYTES = 64 * 1024


class WebServer:
    """Serves from construction until :meth:`close`; NetworkError when the port is taken.

    The link is passed to ``print_line`` only: every user could read it on a command line. A lock
    protects the key and ``top_k`` from two connections at once.
    """

    def __init__(
        self,
        port: int,
        scene: Callable[[int], Scene],
        request_agents: Callable[[int], None],
        tunnel: TunnelInfo,
        top_k: int,
        clock: Clock,
        print_line: Callable[[str], None],
    ) -> None:
        """Listen. ``request_agents`` gets a new number of agents, ``print_line`` a new link."""
        self._scene, self._request_agents = scene, request_agents
        self._tunnel, self._top_k = tunnel, top_k
        self.clock = clock
        self._print_line = print_line
        self._stop = threading.Event()
        self._lock = threading.Lock()
        listeners = listen_on_loopback(port, MAX_CONNECTIONS, f"--web {port - 1}")
        self.port = int(listeners[0].getsockname()[1])
        self.auth = PageAuth(self.port)
        handler = partial(PageRequestHandler, self)
        self._listeners = [
            LoopbackServer(listener, handler, MAX_STRANGERS, MAX_CONNECTIONS)
            for listener in listeners
        ]
        print_line(f"open in a browser: {self.auth.link}")

    def redeem_key(self, key: str) -> str:
        """Return the cookie for the link's key, once, and print the next link."""
        with self._lock:
            cookie = self.auth.redeem_key(key)
        if cookie:
            with suppress(OSError):  # a closed terminal is no reason to refuse a browser
                self._print_line(f"shown; in another browser: {self.auth.link}")
        return cookie

    def wait_for_news(self, had: BrowserTags) -> bytes:
        """Return what changed since ``had``, or ages after 1 s without change; b"" after close."""
        until = self.clock.monotonic() + HOLD_S
        while True:
            message, new = pack_news(self._scene(self._top_k), self._top_k, self._tunnel, had)
            if new or self.clock.monotonic() >= until:
                return message
            if self.clock.wait(self._stop, _POLL_S):
                return b""

    def set_top_k(self, top_k: int) -> None:
        with self._lock:
            self._top_k = top_k
            self._request_agents(top_k)

    def close(self) -> None:
        self._stop.set()
        for listener in self._listeners:
            listener.shutdown()
            listener.server_close()
