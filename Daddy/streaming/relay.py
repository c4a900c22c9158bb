"""The relay: runs beside the controller on the login node, between the spool and one viewer.

Reads what every job writes, chooses whom to show, asks those jobs for pictures, and sends them to
``127.0.0.1:PORT``, where the viewer's ``ssh -R PORT:localhost:PORT`` ends. Reads the spool once in
two seconds while nobody watches. One process, nothing blocks. Further viewers bring relays of their
own (``--attached``), by the script that this one leaves in the run and in the home folder.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import os
import secrets
import shlex
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from Daddy.core.atomic_files import read_json, write_atomic, write_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError, run_entry
from Daddy.core.event_log import EventWriter
from Daddy.core.log_setup import add_log_flags, log_to
from Daddy.core.machine_info import die_with_parent, full_host_name, host_name
from Daddy.core.name_validation import new_token
from Daddy.core.run_paths import ATTACH, HOME_ATTACH, RunPaths
from Daddy.core.stop_reasons import event_on_signals
from Daddy.streaming.best_selector import Rules
from Daddy.streaming.login.featured_streams import Programme, note
from Daddy.streaming.login.relay_connections import Direct, Link, Sieve
from Daddy.streaming.login.spool import SEATS, Seat, SpoolReader, jobs_token, prepare
from Daddy.streaming.protocol.framing import Kind, Message, ProtocolError, copy_line
from Daddy.streaming.protocol.handshake import (
    TOKEN_BYTES,
    Token,
    ensure_token,
    home_token,
    load_tokens,
    opening_line,
)
from Daddy.streaming.protocol.messages import Status, Wish, read_wish

_log = logging.getLogger(__name__)
_CODE = Path(__file__).resolve().parents[2]


def leave_script(run_dir: Path, home: Path, environ: Mapping[str, str]) -> None:
    """Write the script for ``run_dir`` there and into ``home``; private, for it is run by name."""
    text = script_text(
        run_dir.resolve(), sys.executable, _CODE, host_name(), environ.get("LD_LIBRARY_PATH", "")
    )
    for path in (RunPaths(run_dir).stream / ATTACH, home / HOME_ATTACH):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text.encode(), mode=0o700)


def script_text(run_dir: Path, python: str, code: Path, host: str, libraries: str) -> str:
    """A script that becomes a relay of ``run_dir`` for one viewer; line 2 names the run's relay."""
    words = [f"LD_LIBRARY_PATH={libraries}"] if libraries else []
    words += [f"PYTHONPATH={code}", python, "-m", "Daddy.streaming.relay"]
    command = shlex.join([*words, "--attached", "--run-dir", str(run_dir)])
    return (
        f'#!/bin/sh\n# relay: {host}\ncd {shlex.quote(str(run_dir))} && exec env {command} "$@"\n'
    )


POLL_S, EAGER_POLL_S = 0.2, 0.1
IDLE_POLL_S = 2.0
"""Between two reads of the spool: with a viewer, one that has no picture yet, and without."""
NEWS_EVERY_S = 1.0
CALL_EVERY_S = 1.0
WISH_EVERY_S = 3.0
LINGER_S = 10.0
"""Pictures stay wanted for so long after the viewer has gone, for it may only have blinked."""
_OUT_LIMIT = 16 * 1024
"""Bytes waiting in our own buffer above which nothing more is made."""
_TOLD_MOST = 8
"""Different reasons to wait that are told until a viewer comes: a stranger may have many."""
VIAS = ("ssh-R", "stdio", "spool")


class Relay:
    """One viewer's relay. Without ``events`` it leaves nothing in the run but its wishes."""

    def __init__(
        self,
        paths: RunPaths,
        link: Link,
        programme: Programme,
        events: EventWriter | None,
        clock: Clock,
        holder: str = "",
    ) -> None:
        """``holder``: as a seat's."""
        self._link = link
        self._programme = programme
        counter, host = round(clock.now() * 1000), programme.about.host
        self._seat = Seat(paths.stream, counter, holder, host)
        self._events = events
        self._clock = clock
        self._spool = SpoolReader(paths.stream)
        self._direct = Direct(paths.stream, lambda: jobs_token(paths.stream))
        self._sieve = Sieve()
        self._fps = programme.wish.fps
        self._due: dict[str, float] = {}
        self._watched = -1e9
        self._served = 0
        self._told: set[str] = set()
        self._asked: Mapping[str, frozenset[int]] = {}

    def run(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set, or until the only connection there can be is lost."""
        while not (stop.is_set() or self._link.over):
            pause = POLL_S
            with contextlib.suppress(OSError):  # a full disk costs events and wishes, not pictures
                pause = self.step()
            self._link.wait(pause, self._direct.links)
        self._link.close()
        self._direct.hang_up()
        with contextlib.suppress(OSError):
            self._seat.leave()

    def step(self) -> float:
        """One pass; returns the seconds until the next is needed."""
        now, programme = self._clock.monotonic(), self._programme
        for message in self._link.step(now):
            self._hear(message, now)
        self._tell_changes()
        if self._link.established:
            self._watched = now
        watched = now - self._watched < LINGER_S
        segments = self._direct.step(now)
        programme.direct = self._direct.reached(now)
        polls = self._is_due("poll", now, self._poll_s() if watched else IDLE_POLL_S)
        if polls:
            segments += self._spool.poll()
        if segments:
            programme.absorb(self._sieve.new(segments), now)
        for reason in programme.choose(now) if polls else ():
            self._record("log", {"text": reason})
            self._link.send(note(reason))
            self._due["wish"] = self._due["news"] = 0.0
        if not watched:
            self._direct.hang_up()
        elif self._is_due("call", now, CALL_EVERY_S):
            self._direct.look(now)
        if self._is_due("wish", now, WISH_EVERY_S):
            self._publish_wishes(programme.wanted() if watched else {}, now)
        if self._link.established and self._link.waiting_bytes < _OUT_LIMIT:
            self._serve(now)
        longest = self._poll_s() if watched else IDLE_POLL_S / 4
        return max(0.005, min(longest, programme.next_due() - now))

    def _poll_s(self) -> float:
        return EAGER_POLL_S if self._programme.awaits() else POLL_S

    def _is_due(self, what: str, now: float, every_s: float) -> bool:
        if now < self._due.get(what, 0.0):
            return False
        self._due[what] = now + every_s
        return True

    def _hear(self, message: Message, now: float) -> None:
        try:
            if message.kind == Kind.SUBSCRIBE:
                wish = read_wish(message.body)
                self._programme.wish = replace(wish, fps=min(wish.fps, self._fps))
            else:
                for text in self._programme.hear(message, now):
                    self._link.send(note(text))
        except ProtocolError as error:
            self._record("error", {"what": "viewer", "text": str(error)})
            self._link.refuse(now, str(error))

    def _tell_changes(self) -> None:
        """Say that a viewer came, and each reason why none does once."""
        if self._link.connections != self._served:
            self._served = self._link.connections
            self._programme.restart()
            self._due |= dict.fromkeys(("poll", "wish", "news", "call"), 0.0)
            self._say("connected", "a viewer has proved itself: pictures flow")
            self._told.clear()
        trouble = "" if self._link.established else self._link.trouble
        if trouble and trouble not in self._told and len(self._told) < _TOLD_MOST:
            self._told.add(trouble)
            self._say("waiting", trouble)

    def _say(self, state: str, text: str) -> None:
        if self._events is None:
            _log.info("%s", text)
        if "no token in common" in text:
            line = copy_line(f"USER@{host_name()}")
            _log.info("what to do: on the laptop, once: %s", line)
        via = self._programme.about.via
        self._record("state", {"state": state, "text": text, "via": via})

    def _record(self, event: str, data: Mapping[str, object]) -> None:
        if self._events is not None:
            self._events.write(event, 0, data)

    def _serve(self, now: float) -> None:
        news = self._programme.news(now) if self._is_due("news", now, NEWS_EVERY_S) else []
        for message in [*news, *self._programme.frames(now)]:
            self._link.send(message)
        self._link.flush(now)

    def _publish_wishes(self, wanted: Mapping[str, frozenset[int]], now: float) -> None:
        if wanted or self._asked:
            published = self._seat.publish(self._programme.wish.fps, wanted, now)
            self._asked = wanted if published else {}
            if wanted and not published:
                self._link.send(note(f"{SEATS} viewers are served already: waiting for a place"))


def make_relay(
    run_dir: Path, port: int, token_files: Sequence[Path], wish: Wish, via: str, clock: Clock
) -> Relay:
    """Wire a relay of the run in ``run_dir`` to the viewer's end at 127.0.0.1:``port``."""
    paths = RunPaths(run_dir)
    about = about_run(paths, via)
    link = Link("127.0.0.1", port, lambda: load_tokens(token_files))
    events = EventWriter(paths.events, about.run, about.workload, "relay", about.host, clock)
    return Relay(paths, link, Programme(about, wish, Rules()), events, clock)


def about_run(paths: RunPaths, via: str) -> Status:
    """The facts of the run for a relay on this host; ``via`` is one of ``VIAS``."""
    workload = "pokemon_red"
    with contextlib.suppress(OSError, FileError, KeyError, TypeError):
        workload = str(read_json(paths.config)["workload"])
    return Status(paths.root.resolve().name, workload, host_name(), via)


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


def serve_attached(paths: RunPaths, wish: Wish, stop: threading.Event, *, told_port: bool) -> None:
    """Serve the viewer whose ssh has started this process until it or its ssh has gone.

    Over ssh's own pipes: works where forwarding is forbidden, and nobody else on the node can reach
    it. With ``told_port`` at a port that ssh has opened there, whose number comes on standard
    input. The viewer gets a token for this session alone, by the same ssh.
    """
    pipes, token = Pipes(stop), Token(secrets.token_bytes(TOKEN_BYTES), "connect")
    port = pipes.told_port() if told_port else 0
    pipes.say(opening_line(token))
    made = pipes.connect()
    link = Link("127.0.0.1", port, lambda: [token], None if told_port else made)
    programme = Programme(about_run(paths, "ssh-R" if told_port else "stdio"), wish, Rules())
    holder = f"{host_name()}-{new_token()}"
    Relay(paths, link, programme, None, SystemClock(), holder).run(stop)
    made.close()
    pipes.close()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m Daddy.streaming.relay",
        description="Send the featured agents of a run to the viewer at the end of the tunnel.",
    )
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="the run, such as runs/slim_run"
    )
    parser.add_argument("--port", type=int, default=9999, help="where the tunnel ends (9999)")
    parser.add_argument("--top-k", type=int, default=2, help="agents until a viewer asks (2)")
    parser.add_argument("--fps", type=float, default=15.0, help="pictures a second at most (15)")
    parser.add_argument("--token", type=Path, help="token file (~/.config/daddy/stream.token)")
    parser.add_argument("--via", choices=VIAS, default="ssh-R", help="what carries the stream")
    parser.add_argument(
        "--die-with-parent", type=int, nargs="?", const=0, metavar="PID", help="end when it does"
    )
    parser.add_argument(
        "--attached", action="store_true", help="serve the viewer at the other end of stdin"
    )
    parser.add_argument("--told-port", action="store_true", help="at a port that is told on stdin")
    add_log_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: serve until SIGTERM or Ctrl-C."""
    args = _parser().parse_args(argv)
    if not args.run_dir.is_dir():
        raise UsageError(f"there is no run in {args.run_dir}", "give the folder of a started run")
    log_to(level=args.log_level)
    paths, wish = RunPaths(args.run_dir), Wish(max(1, args.top_k), max(1.0, args.fps))
    if args.attached:
        stop = event_on_signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        serve_attached(paths, wish, stop, told_port=args.told_port)
        return 0
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    stop = event_on_signals(signal.SIGTERM, signal.SIGINT)
    files = _token_files(args.token, paths.stream)
    if args.via != "spool":
        with contextlib.suppress(OSError):  # a full disk costs further viewers, not this one
            prepare(paths.stream)
            leave_script(args.run_dir, Path.home(), os.environ)
            where = {"v": 1, "host": full_host_name(), "port": args.port}
            write_json(paths.relay, where, durable=False)
    make_relay(args.run_dir, args.port, files, wish, args.via, SystemClock()).run(stop)
    return 0


def _token_files(given: Path | None, stream: Path) -> list[Path]:
    path = given or home_token(Path.home())
    ensure_token(path, host_name())
    files = [path, stream / "token"]
    if not load_tokens(files):
        raise DaddyError(f"{path} holds no token", "remove it: the next start makes a new one")
    return files


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
