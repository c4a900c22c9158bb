"""Door to one browser's connection: reads heads of requests, checks who asks, answers.

A request is a head of at most 8 KiB and nothing after it. Nothing of a request is logged: the key
stands in one.
"""

from __future__ import annotations

import io
import socket
import socketserver
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler
from importlib.resources import files
from typing import Any, Protocol
from urllib.parse import parse_qs, urlsplit

from Daddy.core.clock import Clock
from Daddy.streaming.web.doorkeeper import Doorkeeper
from Daddy.streaming.web.message import Had, style
from Daddy.streaming.wire.messages import MAX_TOP_K

HEAD_LIMIT = 8192
HEAD_S = 5.0
"""A head that has begun is whole by then, and the first one of a connection has begun."""
IDLE_S = 30.0
SEND_S = 5.0
_PLAIN = "text/plain; charset=utf-8"
_BINARY = "application/octet-stream"
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
        "img-src data:; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
}
NO_KEY = (
    "This page needs the link that the viewer printed in its terminal. A link opens one browser, "
    "once; the viewer then prints another."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the browser."""

    status: HTTPStatus
    body: bytes = b""
    kind: str = _BINARY
    cookie: str = ""

    @classmethod
    def refusal(cls, status: HTTPStatus, sentence: str) -> Answer:
        """A sentence for the person instead."""
        return cls(status, f"{sentence}\n".encode(), _PLAIN)


class Site(Protocol):
    """What a visit asks of the server."""

    clock: Clock
    keeper: Doorkeeper

    def enter(self, key: str) -> str:
        """The cookie for the link's key, or nothing."""

    def news(self, had: Had) -> bytes:
        """The newest message for a page that has ``had``; empty when the viewer is closed."""

    def want(self, top_k: int) -> None:
        """Show another number of agents."""


class Visit(BaseHTTPRequestHandler):
    """One connection: request after request until either side has enough."""

    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def __init__(
        self, request: Any, address: Any, server: socketserver.BaseServer, site: Site
    ) -> None:
        self._site = site
        self._patience = HEAD_S
        super().__init__(request, address, server)

    def handle_one_request(self) -> None:
        """Read a whole head within its time and size, then let the library take it apart."""
        connection: socket.socket = self.connection
        head = read_head(connection, self._site.clock, self._patience)
        self._patience = IDLE_S
        connection.settimeout(SEND_S)
        self.rfile = io.BufferedReader(io.BytesIO(head))
        self.close_connection = True
        super().handle_one_request()

    def do_GET(self) -> None:
        """The page, its parts, and what is new."""
        self._answer(self._get)

    def do_POST(self) -> None:
        """Another number of agents."""
        self._answer(self._post)

    def _answer(self, what: Any) -> None:
        headers = {name.lower(): self.headers.get_all(name, []) for name in self.headers}
        try:
            address = urlsplit(self.path)
        except ValueError:
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        asked = {name: values[0] for name, values in parse_qs(address.query).items()}
        objection = self._site.keeper.objection(headers) or _with_body(headers)
        cookie = "" if objection else self._site.enter(asked.get("key", ""))
        if objection:
            self._send(Answer.refusal(HTTPStatus.FORBIDDEN, objection))
        elif not (cookie or self._site.keeper.knows(headers)):
            self._send(Answer.refusal(HTTPStatus.FORBIDDEN, NO_KEY))
        else:
            self._send(what(address.path, asked), cookie)

    def _get(self, path: str, asked: Mapping[str, str]) -> Answer:
        if path in _PAGE:
            name, kind = _PAGE[path]
            return Answer(HTTPStatus.OK, _part(name), kind)
        if path == "/style":
            return Answer(HTTPStatus.OK, style(), "application/json")
        if path == "/news":
            tags = asked.get("facts", ""), asked.get("world", "")
            had = Had(*tags, asked.get("pictures", "").split(","))
            message = self._site.news(had)
            if message:
                return Answer(HTTPStatus.OK, message)
            return Answer.refusal(HTTPStatus.SERVICE_UNAVAILABLE, "The viewer was closed.")
        return Answer.refusal(HTTPStatus.NOT_FOUND, "There is nothing here but the page at /.")

    def _post(self, path: str, asked: Mapping[str, str]) -> Answer:
        top_k = asked.get("top_k", "")
        if path != "/wish":
            return Answer.refusal(HTTPStatus.NOT_FOUND, "Only a wish can be posted.")
        if top_k not in {str(one) for one in range(1, MAX_TOP_K + 1)}:
            sentence = f"The number of agents is 1 to {MAX_TOP_K}."
            return Answer.refusal(HTTPStatus.BAD_REQUEST, sentence)
        self._site.want(int(top_k))
        return Answer(HTTPStatus.NO_CONTENT)

    def _send(self, answer: Answer, cookie: str = "") -> None:
        self.send_response(answer.status)
        if answer.status != HTTPStatus.NO_CONTENT:
            self.send_header("Content-Type", answer.kind)
            self.send_header("Content-Length", str(len(answer.body)))
        if cookie:
            self.send_header("Set-Cookie", cookie)
        if answer.status >= HTTPStatus.BAD_REQUEST:
            self.send_header("Connection", "close")
        for name, value in _ALWAYS.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(answer.body)

    def send_error(self, code: int, *_: str | None) -> None:
        """What the library refuses: without its page, which repeats the request."""
        self._send(Answer.refusal(HTTPStatus(code), f"{HTTPStatus(code).phrase}."))

    def version_string(self) -> str:
        """Which program and version answers is nobody's business."""
        return "Daddy"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Nothing: a request may hold the key."""


def _with_body(headers: Mapping[str, list[str]]) -> str:
    """A request with a body is none of our page's."""
    lengths = headers.get("content-length", [])
    if "transfer-encoding" in headers or any(one.strip() != "0" for one in lengths):
        return "A request to this page has no body."
    return ""


@cache
def _part(name: str) -> bytes:
    return files(__package__).joinpath(name).read_bytes()


def read_head(connection: socket.socket, clock: Clock, patience: float) -> bytes:
    """The next request's head; empty when none came in time, whole, small and alone.

    ``patience`` is for its first byte, in seconds.
    """
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
