"""The viewer at home: ``python -m Daddy.streaming.tunnel_server --port 9999``.

Listens on the loopback end of ``ssh -R 9999:localhost:9999 user@login`` and shows the featured
agents in a window, or with ``--headless`` (and where there is no display) one line per agent and
second. Closing it never touches training. ``tunnel_server connect user@login`` sees to ssh, too.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, UsageError, run_entry
from Daddy.core.events import EventWriter
from Daddy.core.machine import host_name
from Daddy.core.names import to_peer
from Daddy.core.remembered import kept_login, remembered, settings_path, tunnel_options
from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.streaming.auth import Token, copy_line
from Daddy.streaming.connect import carrying
from Daddy.streaming.messages import MAX_FPS, MAX_TOP_K, Wish
from Daddy.streaming.receiver import Receiver
from Daddy.streaming.scene import Panel, Scene
from Daddy.streaming.tokens import ensure_token, home_token, load_tokens
from Daddy.streaming.ways import KNOCK_S, Course, Way, first_course, usual_causes
from Daddy.streaming.whom import add_arguments, find_target
from Daddy.streaming.window import Waiting

if TYPE_CHECKING:
    from Daddy.streaming.viewer import Window

_MIN_SIZE = (320, 240)
_MAX_SIZE = (7680, 4320)


def _parser(*, connecting: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tunnel_server connect" if connecting else "tunnel_server",
        description="Watch the best agents play. The other end of: ssh -R 9999:localhost:9999 …; "
        "`tunnel_server connect user@login` opens that by itself.",
    )
    parser.add_argument("--port", type=int, default=9999, help="port to listen on (9999)")
    parser.add_argument("--top-k", type=int, default=2, help="show the best agents (2)")
    parser.add_argument("--width", type=int, default=800, help="window width (800)")
    parser.add_argument("--height", type=int, default=600, help="window height (600)")
    parser.add_argument("--headless", action="store_true", help="print lines, open no window")
    parser.add_argument("--fps", type=float, default=MAX_FPS, help="pictures a second at most (60)")
    parser.add_argument("--token", type=Path, help="token file (~/.config/daddy/stream.token)")
    parser.add_argument("--screenshot", type=Path, help="keep a picture of the window here (PNG)")
    parser.add_argument("--record-events", type=Path, help="folder for an event file of counts")
    parser.add_argument("--seconds", type=float, help="end after so many seconds")
    if connecting:
        add_arguments(parser)
    else:
        parser.add_argument("--login", default="", help="user@host, for the line to copy")
    return parser


def _checked(args: argparse.Namespace) -> argparse.Namespace:
    if not 0 <= args.port <= 65535:  # noqa: PLR2004 - ports are 16 bits
        raise UsageError(f"--port {args.port} is no port", "use 1 to 65535, such as 9999")
    if not 1 <= args.top_k <= MAX_TOP_K:
        raise UsageError(f"--top-k {args.top_k} cannot be shown", f"use 1 to {MAX_TOP_K}")
    for flag, value, low, high in zip(
        ("--width", "--height"), (args.width, args.height), _MIN_SIZE, _MAX_SIZE, strict=True
    ):
        if not low <= value <= high:
            raise UsageError(f"{flag} {value} is no size for a window", f"use {low} to {high}")
    return args


@dataclass
class Recorder:
    """Writes how many frames of which agent came, once a second; lazily, so that the file names
    the run that was really watched.
    """

    folder: Path | None
    clock: Clock
    _events: EventWriter | None = None
    _before: Mapping[str, int] | None = None

    def write(self, scene: Scene, *, drawn: Mapping[str, int] | None = None) -> None:
        """Append the frames since the last call; nothing before anything came."""
        if self.folder is None or not scene.statuses:
            return
        if self._events is None:
            status, ident = scene.statuses[0], to_peer(host_name())
            self._events = EventWriter(
                self.folder, status.run, status.workload, "viewer", ident, self.clock
            )
        before = self._before or {}
        self._before = dict(scene.frames)
        data: dict[str, object] = {
            "transport": scene.transport,
            "frames": {name: n - before.get(name, 0) for name, n in scene.frames.items()},
            "frames_total": sum(scene.frames.values()),
            "agents_total": len(scene.frames),
            "age_s": {one.name: round(one.age_s, 3) for one in scene.panels},
            "bytes_per_frame": {one.name: round(one.bytes_per_frame) for one in scene.panels},
        }
        if drawn is not None:
            data["drawn_total"] = sum(drawn.values())
        self._events.write("metric", max((one.steps for one in scene.statuses), default=0), data)


def line(panel: Panel, frames: int) -> str:
    """One agent as one line of text."""
    row = panel.row
    state = f"{frames:2d} frames" if not panel.stale else f"stale {panel.silent_s:.0f} s"
    return (
        f"{panel.name:<12} score {row.score:3d} = {row.badges} badges + {row.story_flags} flags  "
        f"{panel.map_name:<18} L{row.level:<3d} return {row.episode_return:8.1f}  "
        f"step {row.step:9,d}  {state}  {panel.bytes_per_frame:4.0f} B/frame  "
        f"age {panel.age_s:4.1f} s  {panel.peer.host} job {panel.peer.job or '-'}"
    )


def waiting_lines(waiting: Waiting, scene: Scene) -> list[str]:
    """What a person without a picture needs to know, with the lines to copy."""
    trouble = scene.trouble
    if scene.carrier:  # it opens the tunnel itself, and says how that goes
        return [f"last trouble: {trouble}"] * bool(trouble)
    lines = [f"waiting for the tunnel on 127.0.0.1:{waiting.port}; in another terminal:"]
    lines += [f"  {waiting.ssh_line}"]
    if "token" in trouble:
        lines += [f"a relay was refused: {trouble}", "  once, on this machine:"]
        lines += [f"  {copy_line(waiting.login)}"]
    elif trouble:
        lines += [f"last trouble: {trouble}"]
    elif scene.alone_s > KNOCK_S:
        lines += usual_causes(waiting.login, TUNNEL_PORT)
    return lines


def print_scenes(
    receiver: Receiver,
    top_k: int,
    waiting: Waiting,
    each_second: Callable[[Scene], None],
    clock: Clock,
    stop: threading.Event,
) -> None:
    """Headless: one line per agent and second; the waiting text whenever it changes."""
    before, told = dict[str, int](), list[str]()
    while True:
        scene = receiver.scene(top_k)
        each_second(scene)
        if not scene.panels:
            text = waiting_lines(waiting, scene)
            for one in text:
                if one not in told:
                    print(one, flush=True)
            told = text
        for panel in scene.panels:
            count = scene.frames.get(panel.name, 0) - before.get(panel.name, 0)
            print(line(panel, count), flush=True)
        before = dict(scene.frames)
        if clock.wait(stop, 1.0):
            return


def _waiting(port: int, login: str, environ: Mapping[str, str], home: Path) -> Waiting:
    """The line to copy: as told, as set, as ``sync_weights.sh setup`` keeps it.

    With the key that can only open the tunnel, at the login where that was tried.
    """
    try:
        kept = remembered(settings_path(environ, home))
    except DaddyError:  # not ours to complain about
        kept = {}
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    known = kept_login(kept)
    login = login or (f"{user}@{host}" if user and host else known) or "USER@LOGIN-NODE"
    return Waiting(port, login, tunnel_options(kept, home) if login == known else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: show until the window is closed, Ctrl-C or SIGTERM."""
    words = list(sys.argv[1:] if argv is None else argv)
    connecting = words[:1] == ["connect"]
    args = _checked(_parser(connecting=connecting).parse_args(words[connecting:]))
    course = _course(args) if connecting else None
    stop, hopeless = threading.Event(), threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stop.set())
    if args.seconds:
        timer = threading.Timer(args.seconds, stop.set)
        timer.daemon = True
        timer.start()
    clock = SystemClock()
    token = args.token or home_token(Path.home())
    ensure_token(token, host_name())
    load_tokens([token])
    wish, once = Wish(args.top_k, args.fps), list[Token]()
    receiver = Receiver(args.port, lambda: (*once, *load_tokens([token])), wish, clock)
    waiting = _waiting(receiver.port, args.login, os.environ, Path.home())
    with carrying(course, receiver, once, clock, hopeless):
        try:
            _show(args, receiver, waiting, clock, stop, hopeless)
        finally:
            receiver.close()
    return 0


def _course(args: argparse.Namespace) -> Course:
    """Where ``connect`` is to go; the login is kept for the line to copy."""
    target = find_target(args, os.environ, Path.home(), asks=sys.stdin.isatty())
    args.login = target.login
    return first_course(target, Way(args.by) if args.by else None)


def _show(
    args: argparse.Namespace,
    receiver: Receiver,
    waiting: Waiting,
    clock: Clock,
    stop: threading.Event,
    hopeless: threading.Event,
) -> None:
    """In a window, or in lines when asked to or where no window can be opened.

    Lines end when it is hopeless; a window stays and says so.
    """
    recorder = Recorder(args.record_events, clock)
    window = None if args.headless else _open_window(args, waiting, clock)
    if window is not None:
        window.run(
            receiver.scene,
            lambda top_k: receiver.subscribe(Wish(top_k, args.fps)),
            recorder.write,
            stop,
        )
        return
    keeper = _screenshot_keeper(args, waiting) if args.screenshot else None

    def each_second(scene: Scene) -> None:
        recorder.write(scene)
        if keeper:
            keeper(scene)
        if hopeless.is_set():
            stop.set()

    print_scenes(receiver, args.top_k, waiting, each_second, clock, stop)


def _open_window(args: argparse.Namespace, waiting: Waiting, clock: Clock) -> Window | None:
    """The window, or None with a hint when pygame or a display is missing."""
    try:
        from Daddy.streaming.viewer import open_window

        return open_window((args.width, args.height), args.top_k, waiting, clock, args.screenshot)
    except ImportError as error:
        print(f"no window: {error}; lines instead (install pygame for a window)", file=sys.stderr)
    except DaddyError as error:
        print(f"no window: {error.message}; lines instead", file=sys.stderr)
    return None


def _screenshot_keeper(args: argparse.Namespace, waiting: Waiting) -> Callable[[Scene], None]:
    """Paints the window into a file although none is open, whenever there is play to see."""
    from Daddy.streaming.viewer import save_picture

    def keep(scene: Scene) -> None:
        if any(panel.pixels for panel in scene.panels):
            save_picture(args.screenshot, scene, (args.width, args.height), waiting)

    return keep


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
