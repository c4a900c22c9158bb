"""Runs a relay on the login node, between the jobs' spool and one viewer.

A relay reads the segments that jobs write, chooses the featured agents, requests their pictures
from the jobs, and sends them to ``127.0.0.1:PORT``, where the viewer's ``ssh -R
PORT:localhost:PORT`` ends. Without a viewer it reads the spool every two seconds. No call blocks.
Further viewers start own relays (``--attached``) with a script that this relay writes to the run
and the home folder.
"""

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

from Daddy.core.arguments import ArgumentParser, decimal_number, port_number, whole_number
from Daddy.core.atomic_files import read_json, write_atomic, write_json
from Daddy.core.attach_command import ATTACH, HOME_ATTACH
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, FileError, NetworkError, UsageError
from Daddy.core.event_log import EventWriter
from Daddy.core.host_and_processes import die_with_parent, full_host_name, host_name
from Daddy.core.log_setup import add_log_flags, log_to
from Daddy.core.name_validation import new_token
from Daddy.core.run_paths import RunPaths
from Daddy.core.stop_conditions import event_on_signals
from Daddy.streaming.best_selector import FeaturingRules
from Daddy.streaming.login import stream_folder
from Daddy.streaming.login.relay_connections import Deduplicator, JobConnections, OutgoingConnection
from Daddy.streaming.login.stream_scheduler import StreamScheduler, note_message
from Daddy.streaming.protocol import handshake
from Daddy.streaming.protocol.framing import Message, MessageKind, ProtocolError, token_copy_command
from Daddy.streaming.protocol.messages import (
    MAX_FPS,
    MAX_TOP_K,
    Status,
    Subscription,
    read_subscription,
)

_log = logging.getLogger(__name__)
_CODE = Path(__file__).resolve().parents[2]


def write_scripts(run_dir: Path, home: Path, environ: Mapping[str, str]) -> None:
    """Write the attach script of ``run_dir`` into the run and into ``home``, for the owner only."""
    text = script_text(
        run_dir.resolve(), sys.executable, _CODE, host_name(), environ.get("LD_LIBRARY_PATH", "")
    )
    for path in (RunPaths(run_dir).stream / ATTACH, home / HOME_ATTACH):
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomic(path, text.encode(), mode=0o700)


def script_text(run_dir: Path, python: str, code: Path, host: str, libraries: str) -> str:
    """Return a script that runs a relay of ``run_dir``; line 2 names the run's relay host."""
    words = [f"LD_LIBRARY_PATH={libraries}"] if libraries else []
    words += [f"PYTHONPATH={code}", python, "-m", "Daddy.streaming.relay"]
    command = shlex.join([*words, "--attached", "--run-dir", str(run_dir)])
    return (
        f'#!/bin/sh\n# relay: {host}\ncd {shlex.quote(str(run_dir))} && exec env {command} "$@"\n'
    )


POLL_S, FIRST_PICTURE_POLL_S = 0.2, 0.1
IDLE_POLL_S = 2.0
"""Seconds between two reads of the spool: with a viewer, while one lacks a picture, without."""
STATUS_EVERY_S = 1.0
DIAL_EVERY_S = 1.0
REQUEST_EVERY_S = 3.0
LINGER_S = 10.0
"""Seconds for which pictures stay requested after the viewer disconnected: it may reconnect."""
_OUT_LIMIT = 16 * 1024
"""Bytes in our own send buffer above which no further message is made."""
_MOST_REASONS = 8
"""Different reasons reported while no viewer is connected: unauthenticated peers may cause many."""
VIAS = ("ssh-R", "stdio", "spool")


class Relay:
    """Serves one viewer. Without ``events`` the relay writes only its watch request to the run."""

    def __init__(
        self,
        paths: RunPaths,
        viewer: OutgoingConnection,
        scheduler: StreamScheduler,
        events: EventWriter | None,
        clock: Clock,
        holder: str = "",
    ) -> None:
        """Store the parts; ``holder`` names the relay as in :class:`WatchRequestSlot`."""
        self._viewer = viewer
        self._scheduler = scheduler
        counter, host = round(clock.now() * 1000), scheduler.about.host
        self._request_slot = stream_folder.WatchRequestSlot(paths.stream, counter, holder, host)
        self._events = events
        self._clock = clock
        self._spool = stream_folder.SpoolReader(paths.stream)
        self._jobs = JobConnections(
            paths.stream, lambda: stream_folder.ensure_jobs_token(paths.stream)
        )
        self._duplicates = Deduplicator()
        self._fps = scheduler.subscription.fps
        self._due: dict[str, float] = {}
        self._watched = -1e9
        self._served = 0
        self._reported_reasons: set[str] = set()
        self._published: Mapping[str, frozenset[int]] = {}

    def serve_until(self, stop: threading.Event) -> None:
        """Serve until ``stop`` is set, or until a connection that was passed in is lost."""
        while not (stop.is_set() or self._viewer.finished):
            pause = POLL_S
            with contextlib.suppress(OSError):  # on a full disk only events and requests are lost
                pause = self.step()
            self._viewer.wait(pause, self._jobs.connections)
        self._viewer.close()
        self._jobs.close_all()
        with contextlib.suppress(OSError):
            self._request_slot.withdraw()

    def step(self) -> float:
        """Do one pass over viewer, jobs and spool; return the seconds until the next."""
        now, scheduler = self._clock.monotonic(), self._scheduler
        for message in self._viewer.step(now):
            self._handle_message(message, now)
        self._report_connection_changes()
        if self._viewer.established:
            self._watched = now
        watched = now - self._watched < LINGER_S
        segments = self._jobs.receive_segments(now)
        scheduler.direct = self._jobs.recently_heard(now)
        polls = self._is_due("poll", now, self._poll_s() if watched else IDLE_POLL_S)
        if polls:
            segments += self._spool.read_new_segments()
        if segments:
            scheduler.add_segments(map(self._duplicates.without_repeated, segments), now)
        for reason in scheduler.choose_agents(now) if polls else ():
            self._record("log", {"text": reason})
            self._viewer.send(note_message(reason))
            self._due["request"] = self._due["status"] = 0.0
        if not watched:
            self._jobs.close_all()
        elif self._is_due("dial", now, DIAL_EVERY_S):
            self._jobs.dial_jobs(now)
        if self._is_due("request", now, REQUEST_EVERY_S):
            self._publish_request(scheduler.wanted_agents() if watched else {}, now)
        if self._viewer.established and self._viewer.waiting_bytes < _OUT_LIMIT:
            self._serve(now)
        longest = self._poll_s() if watched else IDLE_POLL_S / 4
        return max(0.005, min(longest, scheduler.next_due() - now))

    def _poll_s(self) -> float:
        return FIRST_PICTURE_POLL_S if self._scheduler.lacks_picture() else POLL_S

    def _is_due(self, task: str, now: float, every_s: float) -> bool:
        if now < self._due.get(task, 0.0):
            return False
        self._due[task] = now + every_s
        return True

    def _handle_message(self, message: Message, now: float) -> None:
        try:
            if message.kind == MessageKind.SUBSCRIBE:
                wanted = read_subscription(message.body)
                self._scheduler.subscription = replace(wanted, fps=min(wanted.fps, self._fps))
            else:
                for text in self._scheduler.handle_viewer_message(message, now):
                    self._viewer.send(note_message(text))
        except ProtocolError as error:
            self._record("error", {"what": "viewer", "text": str(error)})
            self._viewer.disconnect(now, str(error))

    def _report_connection_changes(self) -> None:
        """Report that a viewer connected, or a new reason for which no viewer is connected."""
        if self._viewer.connections != self._served:
            self._served = self._viewer.connections
            self._scheduler.restart_streams()
            self._due |= dict.fromkeys(("poll", "request", "status", "dial"), 0.0)
            self._report_state("connected", "a viewer has proved the token: pictures flow")
            self._reported_reasons.clear()
        trouble, reported = self._viewer.trouble, self._reported_reasons
        new = not self._viewer.established and trouble and trouble not in reported
        if new and len(reported) < _MOST_REASONS:
            reported.add(trouble)
            self._report_state("waiting", trouble)

    def _report_state(self, state: str, text: str) -> None:
        if self._events is None:
            print(f"relay: {text}", flush=True)  # to the viewer's ssh: no reason for its end
        if "no token in common" in text:
            line = token_copy_command(f"USER@{host_name()}")
            _log.info("what to do: on the laptop, once: %s", line)
        via = self._scheduler.about.via
        self._record("state", {"state": state, "text": text, "via": via})

    def _record(self, event: str, data: Mapping[str, object]) -> None:
        if self._events is not None:
            self._events.write(event, 0, data)

    def _serve(self, now: float) -> None:
        due = self._is_due("status", now, STATUS_EVERY_S)
        news = self._scheduler.status_messages(now) if due else []
        for message in [*news, *self._scheduler.due_frames(now)]:
            self._viewer.send(message)
        self._viewer.flush(now)

    def _publish_request(self, wanted: Mapping[str, frozenset[int]], now: float) -> None:
        if wanted or self._published:
            published = self._request_slot.publish(self._scheduler.subscription.fps, wanted, now)
            self._published = wanted if published else {}
            if wanted and not published:
                text = f"{stream_folder.MAX_RELAYS} viewers are served already: waiting for a place"
                self._viewer.send(note_message(text))


def make_relay(
    run_dir: Path, port: int, tokens: Sequence[Path], first: Subscription, via: str, clock: Clock
) -> Relay:
    """Build a relay of the run in ``run_dir``; ``first`` holds until the viewer subscribes."""
    paths = RunPaths(run_dir)
    about = describe_run(paths, via)
    viewer = OutgoingConnection("127.0.0.1", port, lambda: handshake.load_tokens(tokens))
    events = EventWriter(paths.events, about.run, about.workload, "relay", about.host, clock)
    return Relay(paths, viewer, StreamScheduler(about, first, FeaturingRules()), events, clock)


def describe_run(paths: RunPaths, via: str) -> Status:
    """Return a Status with the run's constant facts; ``via`` (the route) is one of ``VIAS``."""
    workload = "pokemon_red"
    with contextlib.suppress(OSError, FileError, KeyError, TypeError):
        workload = str(read_json(paths.config)["training"]["workload"])
    return Status(paths.root.resolve().name, workload, host_name(), via)


_READ_BYTES = 64 * 1024
_FLUSH_S = 1.0
_STDIN, _STDOUT, _STDERR = 0, 1, 2


class StdioSocket:
    """Joins standard input and output into one socket; sets ``stop`` when either has ended."""

    def __init__(self, stop: threading.Event) -> None:
        self._stop = stop
        self._out = os.dup(_STDOUT)
        os.dup2(_STDERR, _STDOUT)
        self._inner, self._outer = socket.socketpair()
        self._writer = threading.Thread(target=self._write, daemon=True)

    def write_line(self, line: str) -> None:
        """Write one line to standard output; call this before :meth:`open_socket`."""
        os.write(self._out, f"{line}\n".encode())

    def read_port(self) -> int:
        """Read a line of standard input as a port number. NetworkError for any other line."""
        line = b""
        while len(line) <= len("65535") and (piece := os.read(_STDIN, 1)) not in (b"", b"\n"):
            line += piece
        if not line.strip().isdigit() or not 0 < int(line) <= 65535:  # noqa: PLR2004 - 16 bits
            raise NetworkError("no port came on stdin", "use tunnel_server connect instead")
        return int(line)

    def open_socket(self) -> socket.socket:
        """Return the socket that carries both pipes; call this once."""
        threading.Thread(target=self._read, daemon=True).start()
        self._writer.start()
        return self._outer

    def close(self) -> None:
        if self._writer.is_alive():
            self._writer.join(_FLUSH_S)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(_STDIN, _READ_BYTES):
                self._inner.sendall(data)
        with contextlib.suppress(OSError):
            self._inner.shutdown(socket.SHUT_WR)
        self._stop.set()

    def _write(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._inner.recv(_READ_BYTES):
                while data:
                    data = data[os.write(self._out, data) :]
        self._stop.set()


def serve_attached(
    paths: RunPaths, first: Subscription, stop: threading.Event, *, told_port: bool
) -> None:
    """Serve the viewer whose ssh started this process until the viewer or its ssh has ended.

    The stream goes through ssh's own pipes: this works where forwarding is forbidden, and no other
    user of the node can reach it. With ``told_port`` the stream goes to a port that ssh opened on
    this node, read from stdin. The same ssh gives the viewer a token for this session.
    """
    secret, pipes = secrets.token_bytes(handshake.TOKEN_BYTES), StdioSocket(stop)
    token = handshake.Token(secret)
    port = pipes.read_port() if told_port else 0
    pipes.write_line(handshake.opening_line(token))
    pipe = pipes.open_socket()
    viewer = OutgoingConnection("127.0.0.1", port, lambda: [token], None if told_port else pipe)
    about = describe_run(paths, "ssh-R" if told_port else "stdio")
    scheduler = StreamScheduler(about, first, FeaturingRules())
    holder = f"{host_name()}-{new_token()}"
    Relay(paths, viewer, scheduler, None, SystemClock(), holder).serve_until(stop)
    pipe.close()
    pipes.close()


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="python -m Daddy.streaming.relay",
        description="Send the featured agents of a run to the viewer at the end of the tunnel.",
    )
    parser.add_argument(
        "--run-dir", type=Path, required=True, help="folder of the run, such as runs/slim_run"
    )
    parser.add_argument(
        "--port", type=port_number, default=9999, help="port of the tunnel (default 9999)"
    )
    parser.add_argument(
        "--top-k",
        type=whole_number(1, MAX_TOP_K),
        default=2,
        help="agents shown at first (default 2)",
    )
    parser.add_argument(
        "--fps",
        type=decimal_number(1, MAX_FPS),
        default=15.0,
        help="pictures a second (default 15)",
    )
    parser.add_argument("--token", type=Path, help="tokens (default ~/.config/daddy/stream.token)")
    parser.add_argument("--via", choices=VIAS, default="ssh-R", help="route to report (ssh-R)")
    parser.add_argument(
        "--die-with-parent", type=int, nargs="?", const=0, metavar="PID", help="end when PID ends"
    )
    parser.add_argument(
        "--attached", action="store_true", help="serve the viewer whose ssh started this relay"
    )
    parser.add_argument("--told-port", action="store_true", help="send to a port read from stdin")
    add_log_flags(parser)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Serve a viewer until SIGTERM or Ctrl-C, or ``--attached`` until it leaves."""
    args = _parser().parse_args(argv)
    if not args.run_dir.is_dir():
        raise UsageError(f"there is no folder {args.run_dir}", "give the folder of a started run")
    log_to(level=args.log_level)
    paths, first = RunPaths(args.run_dir), Subscription(args.top_k, args.fps)
    if args.attached:
        stop = event_on_signals(signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
        serve_attached(paths, first, stop, told_port=args.told_port)
        return 0
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    stop = event_on_signals(signal.SIGTERM, signal.SIGINT)
    files = _token_files(args.token, paths.stream)
    if args.via != "spool":
        with contextlib.suppress(OSError):  # a full disk only prevents further viewers
            stream_folder.create_request_files(paths.stream)
            write_scripts(args.run_dir, Path.home(), os.environ)
            address = {"v": 1, "host": full_host_name(), "port": args.port}
            write_json(paths.relay, address, durable=False)
    make_relay(args.run_dir, args.port, files, first, args.via, SystemClock()).serve_until(stop)
    return 0


def _token_files(given: Path | None, stream: Path) -> list[Path]:
    path = given or handshake.home_token(Path.home())
    handshake.ensure_token(path, host_name())
    files = [path, stream / "token"]
    if not handshake.load_tokens(files):
        raise DaddyError(f"{path} holds no token", f"rm {path}: the next start makes a token")
    return files


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
