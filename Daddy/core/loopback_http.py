"""Adapter for http.server: serves a loopback socket, with bounds on open connections."""

from __future__ import annotations

import socket
import sys
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class LoopbackServer(ThreadingHTTPServer):
    """Serves a socket that listens, with a thread for each open connection, until `server_close`.

    At most `most_waiting` connections have yet to be admitted by their handler: a newcomer takes
    the place of the oldest, of which no more is read. At most `most_admitted` are admitted.
    """

    def __init__(
        self, listener: socket.socket, handler: Any, most_waiting: int, most_admitted: int
    ) -> None:
        super().__init__(listener.getsockname()[:2], handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self._bounds = most_waiting, most_admitted
        self._lock = threading.Lock()
        self._waiting: list[Any] = []
        self._admitted: set[Any] = set()
        # serve_forever checks for its end this often.
        threading.Thread(target=self.serve_forever, args=(0.1,), daemon=True).start()

    def process_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection in a thread of its own."""
        with self._lock, suppress(OSError):
            self._waiting.append(request)
            if len(self._waiting) > self._bounds[0]:
                self._waiting.pop(0).shutdown(socket.SHUT_RD)
        super().process_request(request, client_address)

    def admit(self, request: Any) -> bool:
        """Admit a connection that waits; return True if it is admitted."""
        with self._lock:
            if request in self._waiting and len(self._admitted) < self._bounds[1]:
                self._waiting.remove(request)
                self._admitted.add(request)
            return request in self._admitted

    def shutdown_request(self, request: Any) -> None:
        """Forget a connection and close it."""
        with self._lock, suppress(ValueError):
            self._admitted.discard(request)
            self._waiting.remove(request)
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a broken connection; print the traceback of any other error, which is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class QuietRequestHandler(BaseHTTPRequestHandler):
    """Names no program and logs nothing: a request may hold a key, and a log fill the disk."""

    protocol_version = "HTTP/1.1"
    server: LoopbackServer

    def answer_request(self) -> None:
        """Answer a request, of which the head was read."""
        raise NotImplementedError

    def do_GET(self) -> None:
        self.answer_request()

    def do_POST(self) -> None:
        self.answer_request()

    def version_string(self) -> str:
        return "Daddy"

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002 - the library's name
        """Log nothing."""
