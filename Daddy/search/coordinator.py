"""Entry: HTTP server on this computer that registers sweeps and gives out names of runs.

``python -m Daddy.search.coordinator`` serves ports 8080 and 8081. Its state is in the files of
:mod:`Daddy.search.sweep_files` alone, so several servers may share a runs folder, and one that
was killed goes on. The requests and answers are those of the sweep service in Metta's backend, not
of the mock beside it, whose run names came from the clock and could repeat:

- GET ``/health``: ``{"status": "healthy"}``;
- GET ``/sweeps/NAME``: ``{"exists", "wandb_sweep_id"}``, the second empty for an unknown sweep;
- POST ``/sweeps/NAME/create_sweep``: ``{"created", "sweep_id"}``; a repetition changes nothing;
- POST ``/sweeps/NAME/runs/next``: ``{"run_id": "NAME.r.N"}``; 404 for an unknown sweep.

An error is ``{"detail": sentence}``. The body of ``create_sweep`` may name ``project``, ``entity``
and ``wandb_sweep_id``; Metta demands them, but a sweep without W&B has none. There is no token: a
program of another account on this computer can take numbers too, up to the bounds of the files.
Pages in a browser cannot: a request with Origin or a foreign Host is refused.
"""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import sys
import threading
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.atomic_files import parse_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, ExitCode, FileError, UsageError
from Daddy.core.loopback import listen_on_loopback
from Daddy.core.loopback_http import LoopbackServer, QuietRequestHandler
from Daddy.core.stop_conditions import event_on_signals
from Daddy.search.node_plan import API_PORTS
from Daddy.search.sweep_files import (
    SweepPaths,
    SweepRecord,
    create_sweep,
    read_sweep,
    sweep_paths,
    take_run_id,
)

REQUEST_BYTES = 16 * 1024
"""Largest request, head and body."""
BODY_BYTES = 4096
REQUEST_S = 10.0
"""Seconds from a connection's start until its request is complete."""
SEND_S = 5.0
MAX_WAITING = 128
"""Connections without a complete request; a newcomer takes the place of the oldest."""
MAX_ANSWERING = 128
"""Connections with a complete request, which wait for the disk."""
FIELD_LENGTH = 256
_FIELDS = ("project", "entity", "wandb_sweep_id")
_NAMES = frozenset({"127.0.0.1", "localhost", "[::1]", "metta-dummy-api"})
"""The last is this machine's name among the nodes of :mod:`Daddy.search.node_plan`."""
_ROUTE = re.compile(r"/sweeps/([^/?#]*)(/create_sweep|/runs/next|)")
_LENGTH = re.compile(r"[0-9]{1,9}")
Answer = tuple[HTTPStatus, Mapping[str, Any]]


class Coordinator:
    """Answers requests from the files of one runs folder; one lock for all threads."""

    def __init__(self, runs_folder: Path) -> None:
        self._runs_folder = runs_folder
        self._lock = threading.Lock()
        self._printed = ""

    def answer(self, method: str, path: str, body: bytes) -> Answer:
        """Return the answer to a request; details of an error of the files go to stderr alone."""
        try:
            with self._lock:
                return self._route(method, path, body)
        except UsageError as error:
            return HTTPStatus.BAD_REQUEST, {"detail": f"{error.message}: {error.fix}"}
        except ConfigError as error:
            self._print(error.message)
            return HTTPStatus.CONFLICT, {"detail": "there is no room for another one"}
        except (FileError, OSError) as error:
            self._print(str(error))
            return HTTPStatus.INTERNAL_SERVER_ERROR, {"detail": "the sweep's files cannot be used"}

    def _route(self, method: str, path: str, body: bytes) -> Answer:
        if (method, path) == ("GET", "/health"):
            return HTTPStatus.OK, {"status": "healthy"}
        found = _ROUTE.fullmatch(path)
        if not found or (method == "GET") != (found[2] == ""):
            return HTTPStatus.NOT_FOUND, {"detail": "there is nothing at this path"}
        paths = sweep_paths(self._runs_folder, found[1])
        if found[2] == "/create_sweep":
            record = SweepRecord(str(uuid.uuid4()), **parse_fields(body))
            record, created = create_sweep(paths, record)
            return HTTPStatus.OK, {"created": created, "sweep_id": record.sweep_id}
        return _describe(paths) if method == "GET" else _next_run(paths)

    def _print(self, message: str) -> None:
        """Print an error to stderr, but not the same one for each request."""
        if message != self._printed:
            self._printed = message
            with suppress(OSError):
                print(f"error: {message}", file=sys.stderr, flush=True)


def _describe(paths: SweepPaths) -> Answer:
    record = read_sweep(paths)
    found = record.wandb_sweep_id if record else ""
    return HTTPStatus.OK, {"exists": record is not None, "wandb_sweep_id": found}


def _next_run(paths: SweepPaths) -> Answer:
    if read_sweep(paths) is None:
        return HTTPStatus.NOT_FOUND, {"detail": "there is no sweep of this name: create it first"}
    return HTTPStatus.OK, {"run_id": take_run_id(paths)}


def parse_fields(body: bytes) -> dict[str, str]:
    """Return the known fields in the body of ``create_sweep``. UsageError if it is malformed."""
    try:
        given = parse_json(body or b"{}", "body")
    except FileError as error:
        raise UsageError("the body is no JSON object", "send an object or nothing") from error
    fields = {name: given[name] for name in _FIELDS if given.get(name) is not None}
    for name, value in fields.items():
        if not (isinstance(value, str) and len(value) <= FIELD_LENGTH and value.isprintable()):
            raise UsageError(
                f"{name} is no printable text", f"use at most {FIELD_LENGTH} characters"
            )
    return fields


class RequestBytes(io.RawIOBase):
    """Reads a connection until a deadline, and at most ``REQUEST_BYTES``."""

    def __init__(self, connection: socket.socket, clock: Clock) -> None:
        self._connection, self._clock = connection, clock
        self._until = clock.monotonic() + REQUEST_S
        self._left = REQUEST_BYTES

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        """Fill ``buffer``. TimeoutError after the deadline, ConnectionError at the end or bound.

        An end would be taken for the end of the head, and a request that was cut would be obeyed.
        """
        if (rest := self._until - self._clock.monotonic()) <= 0:
            raise TimeoutError
        self._connection.settimeout(rest)
        size = self._left and self._connection.recv_into(buffer, min(len(buffer), self._left))
        if not size:
            raise ConnectionError
        self._left -= size
        return size


class SweepRequestHandler(QuietRequestHandler):
    """Handles the one request of a connection."""

    def __init__(self, coordinator: Coordinator, clock: Clock, *connection: Any) -> None:
        self._coordinator, self._clock = coordinator, clock
        super().__init__(*connection)

    def setup(self) -> None:
        super().setup()
        self.rfile = io.BufferedReader(RequestBytes(self.connection, self._clock))

    def answer_request(self) -> None:
        """Read the request to its end, then answer it."""
        status, objection = self._find_objection()
        body = b"" if objection else self.rfile.read(self._length())
        if objection:
            self._send(status, {"detail": objection})
        elif not self.server.admit(self.connection):
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, {"detail": "too many requests: try again"})
        else:
            self._send(*self._coordinator.answer(self.command, self.path, body))

    def _length(self) -> int:
        return int(self.headers.get("Content-Length", "0"))

    def _find_objection(self) -> tuple[HTTPStatus, str]:
        """Return the status and reason to refuse a request by its head; an empty reason if none."""
        hosts = self.headers.get_all("Host", [])
        lengths = self.headers.get_all("Content-Length", ["0"])
        if len(hosts) != 1 or re.sub(r":\d+$", "", hosts[0].lower()) not in _NAMES:
            return HTTPStatus.FORBIDDEN, "use the address 127.0.0.1 or localhost"
        if "Origin" in self.headers:
            return HTTPStatus.FORBIDDEN, "pages in a browser may not ask"
        if "Transfer-Encoding" in self.headers or len(lengths) > 1:
            return HTTPStatus.LENGTH_REQUIRED, "send one Content-Length"
        if not _LENGTH.fullmatch(lengths[0]):
            return HTTPStatus.BAD_REQUEST, "Content-Length is no number"
        if int(lengths[0]) > BODY_BYTES:
            return HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"a body has at most {BODY_BYTES} bytes"
        return HTTPStatus.OK, ""

    def handle_expect_100(self) -> bool:
        """Ask for the body of a request only if its head has no fault."""
        return bool(self._find_objection()[1]) or super().handle_expect_100()

    def _send(self, status: HTTPStatus, value: Mapping[str, Any]) -> None:
        body = json.dumps(value).encode() + b"\n"
        self.connection.settimeout(SEND_S)
        self.close_connection = True
        self.request_version = self.protocol_version  # else garbage gets an answer without a head
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def send_error(self, code: int, *_: str | None) -> None:
        """Send a phrase instead of the library's page, which would repeat the request."""
        self._send(HTTPStatus(code), {"detail": HTTPStatus(code).phrase})


def make_parser() -> ArgumentParser:
    """Return the parser of the command line."""
    parser = ArgumentParser(prog="coordinator", description="Give out names of a sweep's runs.")
    port = whole_number(0, 65_535)
    parser.add_argument(
        "--port", type=port, action="append", help="port, 0 for a free one; repeatable (8080, 8081)"
    )
    parser.add_argument("--run-dir", type=Path, default=Path("runs"), help="runs folder (runs)")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve until SIGTERM or Ctrl-C. Exit codes: 2 usage, 8 a port is taken, 9 files."""
    args = make_parser().parse_args(argv)
    (args.run_dir / "sweeps").mkdir(parents=True, exist_ok=True)
    stop = event_on_signals(signal.SIGTERM, signal.SIGINT)
    remedy, usual = "--port PORT", "another coordinator?"
    ports = args.port or API_PORTS
    sockets = [listen_on_loopback(port, MAX_WAITING, remedy, usual) for port in ports]
    handler = partial(SweepRequestHandler, Coordinator(args.run_dir.resolve()), SystemClock())
    listeners = [
        LoopbackServer(each, handler, MAX_WAITING, MAX_ANSWERING)
        for pair in sockets
        for each in pair
    ]
    for pair in sockets:
        print(f"listening on http://127.0.0.1:{pair[0].getsockname()[1]}", flush=True)
    while not stop.wait(1.0):  # a signal that comes just before a wait is handled after it
        pass
    for listener in listeners:
        listener.shutdown()
        listener.server_close()
    return ExitCode.DONE


if __name__ == "__main__":
    raise SystemExit(run_entry(main, private=True))
