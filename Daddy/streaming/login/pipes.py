"""Door to standard input and output as a connection: what ssh carries without any port.

Two threads move bytes between the pipes and a socket, because a pipe cannot be read without waiting
unless every program that shares it agrees. Whatever else prints goes to standard error.
"""

from __future__ import annotations

import contextlib
import os
import socket
import threading

from Daddy.core.errors import NetworkError

_PIECE = 64 * 1024
_LAST_WORDS_S = 1.0
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Pipes:
    """Ours from construction on; ``stop`` is set when standard input has ended."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._out = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._inner, self._outer = socket.socketpair()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def say(self, line: str) -> None:
        """One line to the other side, before anything else goes there."""
        os.write(self._out, f"{line}\n".encode())

    def told_port(self) -> int:
        """A port's number, one line of standard input; NetworkError when there is none."""
        line = b""
        while not line.endswith(b"\n") and len(line) <= len("65535"):
            piece = os.read(_STDIN, 1)
            if not piece:
                break
            line += piece
        if not line.strip().isdigit() or not 0 < int(line) <= 65535:  # noqa: PLR2004 - 16 bits
            raise NetworkError("no port was told", "this is started by: tunnel_server connect")
        return int(line)

    def connect(self) -> socket.socket:
        """Both pipes as one socket; to be called once."""
        threading.Thread(target=self._read, daemon=True).start()
        self._writer.start()
        return self._outer

    def close(self) -> None:
        """Let the last words out."""
        if self._writer.is_alive():
            self._writer.join(_LAST_WORDS_S)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(_STDIN, _PIECE):
                self._inner.sendall(data)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)
        self._stop.set()

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._inner.recv(_PIECE):
                while data:
                    data = data[os.write(self._out, data) :]
        self._stop.set()
