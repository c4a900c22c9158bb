"""The login node's end of ``connect``: a relay for one viewer, which that viewer's ssh has started.

Over ssh's own pipes: works where forwarding is forbidden, and nobody else on the node can reach it.
With ``--told-port`` it goes to a port that ssh has opened there, whose number comes on standard
input. Ends when its ssh does. The viewer gets a token for this session alone, by the same ssh.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import secrets
import signal
import socket
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import NetworkError, UsageError, run_entry
from Daddy.core.machine import host_name
from Daddy.core.names import new_token
from Daddy.core.paths import RunPaths
from Daddy.core.stopping import set_by
from Daddy.streaming.best_selector import Rules
from Daddy.streaming.login.connection import Link
from Daddy.streaming.login.featured_streams import Programme
from Daddy.streaming.login.spool import Seat
from Daddy.streaming.protocol.handshake import TOKEN_BYTES, Token, opening_line
from Daddy.streaming.protocol.messages import Wish
from Daddy.streaming.relay import Relay, about_run

_PIECE = 64 * 1024
_LAST_WORDS_S = 1.0
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class Pipes:
    """Standard input and output as one socket; ``stop`` is set when standard input has ended."""

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
        while len(line) <= len("65535") and (piece := os.read(_STDIN, 1)) not in (b"", b"\n"):
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


UNTIL_ASKED = Wish(2, 15.0)
"""As the relay beside the controller sends; the rate is also the most there is."""


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m Daddy.streaming.bridge", description=__doc__)
    parser.add_argument("--run-dir", type=Path, required=True, help="the run to watch")
    parser.add_argument("--told-port", action="store_true", help="connect to a port told on stdin")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: serve the viewer at the other end until it or its ssh has gone."""
    args = _parser().parse_args(argv)
    if not args.run_dir.is_dir():
        raise UsageError(f"there is no run in {args.run_dir}", "give the folder of a started run")
    stop = set_by(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
    pipes = Pipes(stop)
    token = Token(secrets.token_bytes(TOKEN_BYTES), "connect")
    port = pipes.told_port() if args.told_port else None
    pipes.say(opening_line(token))
    made = pipes.connect()
    link = Link("127.0.0.1", port or 0, lambda: [token], made if port is None else None)
    via = "stdio" if port is None else "ssh-R"
    make_bridge(RunPaths(args.run_dir), link, via, SystemClock()).run(stop)
    made.close()
    pipes.close()
    return 0


def make_bridge(paths: RunPaths, link: Link, via: str, clock: Clock) -> Relay:
    """A relay with a wish list of its own, for the viewer at the end of ``link``."""
    programme = Programme(about_run(paths, via), UNTIL_ASKED, Rules())
    holder = f"{host_name()}-{new_token()}"
    seat = Seat(paths.stream, round(clock.now() * 1000), holder, host_name())
    return Relay(paths, link, programme, seat, None, clock)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
