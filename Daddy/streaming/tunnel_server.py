"""The viewer at home: ``python -m Daddy.streaming.tunnel_server --port 9999``.

Listens on the loopback end of ``ssh -R 9999:localhost:9999 user@login`` and shows the featured
agents in a window, with ``--web`` in a browser, or with ``--headless`` (and where there is no
display) one line per agent and second. Closing it never touches training. ``tunnel_server connect
user@login`` sees to ssh, too.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import signal
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, NetworkError, UsageError, run_entry
from Daddy.core.machine_info import host_name
from Daddy.core.saved_cluster import read_saved_cluster, saved_login, settings_path, tunnel_options
from Daddy.core.stop_reasons import event_on_signals
from Daddy.streaming.protocol.handshake import Token, ensure_token, home_token, load_tokens
from Daddy.streaming.protocol.messages import MAX_FPS, MAX_PINS, MAX_TOP_K, Wish, to_pins
from Daddy.streaming.viewer.connect import Carrier, add_arguments, find_target
from Daddy.streaming.viewer.connect_plan import Course, Way, first_course
from Daddy.streaming.viewer.headless_viewer import Printer, Recorder, check_patience
from Daddy.streaming.viewer.key_bindings import View
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Scene, Waiting

if TYPE_CHECKING:
    from Daddy.streaming.viewer.pygame_window import Window

WEB_PORT = 9998
_MAX_S = 366 * 86400.0
_INSTALL = "install it: sudo apt install openssh-client (Debian, Ubuntu); macOS brings it along"


def _parser(*, connecting: bool) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="tunnel_server connect" if connecting else "tunnel_server",
        description="Watch the best agents play. The other end of: ssh -R 9999:localhost:9999 …; "
        "`tunnel_server connect user@login` opens that by itself.",
    )
    parser.add_argument("--port", type=int, default=9999, help="port to listen on (9999)")
    parser.add_argument("--top-k", type=int, default=2, help="show the best agents (2)")
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="AGENT",
        help="an agent to show whatever its rank and through changes of jobs: slot-0/3",
    )
    parser.add_argument("--width", type=int, default=800, help="window width (800)")
    parser.add_argument("--height", type=int, default=600, help="window height (600)")
    parser.add_argument("--headless", action="store_true", help="print lines, open no window")
    parser.add_argument(
        "--web",
        type=int,
        nargs="?",
        const=WEB_PORT,
        metavar="PORT",
        help=f"show them in a browser instead, on a port of this computer ({WEB_PORT})",
    )
    parser.add_argument("--json", action="store_true", help="lines as JSON; implies --headless")
    parser.add_argument("--wait", type=float, metavar="S", help="give up without a relay in S s")
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
    """UsageError for a value that is out of bounds."""
    bounds = (
        ("--port", args.port, 0, 65535, "is no port", "1 to 65535, such as 9999"),
        ("--web", args.web, 0, 65535, "is no port", f"1 to 65535, such as {WEB_PORT}"),
        ("--top-k", args.top_k, 1, MAX_TOP_K, "cannot be shown", f"1 to {MAX_TOP_K}"),
        ("--width", args.width, 320, 7680, "is no size for a window", "320 to 7680"),
        ("--height", args.height, 240, 4320, "is no size for a window", "240 to 4320"),
        ("--wait", args.wait, 1e-9, _MAX_S, "is no time to wait", "seconds, such as 30"),
        ("--seconds", args.seconds, 1e-9, _MAX_S, "is no time to wait", "seconds, such as 30"),
        ("--fps", args.fps, 1, MAX_FPS, "cannot be shown", f"1 to {MAX_FPS:g}"),
    )
    for flag, value, least, most, what, use in bounds:
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} {value:g} {what}", f"use {use}")
    if len(args.pin) > MAX_PINS:
        raise UsageError(f"{len(args.pin)} pins are too many", f"use {MAX_PINS} at most")
    for name in args.pin:
        if not to_pins([name]):
            raise UsageError(f"--pin {name!r} names no agent", "use a slot and a number: slot-0/3")
    return args


def _waiting(port: int, login: str, environ: Mapping[str, str], home: Path) -> Waiting:
    """The line to copy: as told, as set, as ``sync_weights.sh setup`` keeps it with its key."""
    try:
        kept = read_saved_cluster(settings_path(environ, home))
    except DaddyError:  # not ours to complain about
        kept = {}
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    known = saved_login(kept)
    login = login or (f"{user}@{host}" if user and host else known) or "USER@LOGIN-NODE"
    return Waiting(port, login, tunnel_options(kept, home) if login == known else "")


def main(argv: Sequence[str] | None = None) -> int:
    """Entry: show until the window is closed, Ctrl-C or SIGTERM."""
    words = list(sys.argv[1:] if argv is None else argv)
    connecting = words[:1] == ["connect"]
    args = _checked(_parser(connecting=connecting).parse_args(words[connecting:]))
    course = _course(args) if connecting else None
    stop, hopeless = event_on_signals(signal.SIGTERM, signal.SIGINT), threading.Event()
    if args.seconds:
        timer = threading.Timer(args.seconds, stop.set)
        timer.daemon = True
        timer.start()
    clock = SystemClock()
    token = args.token or home_token(Path.home())
    ensure_token(token, host_name())
    load_tokens([token])
    once = list[Token]()
    wish = Wish(args.top_k, args.fps, to_pins(args.pin))
    receiver = Receiver(args.port, lambda: (*once, *load_tokens([token])), wish, clock)
    waiting = _waiting(receiver.port, args.login, os.environ, Path.home())
    carrier = Carrier(course, receiver, once, clock, hopeless) if course else nullcontext()
    with carrier, closing(receiver):
        _show(args, receiver, waiting, clock, stop, hopeless)
    return 0


def _course(args: argparse.Namespace) -> Course:
    """The course of ``connect``; keeps the login for the line to copy. NetworkError: no ssh."""
    target = find_target(args, os.environ, Path.home(), asks=sys.stdin.isatty())
    if shutil.which("ssh") is None:
        raise NetworkError("connect needs ssh, which is not installed on this computer", _INSTALL)
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
    """In a window, or in lines, which end when it is hopeless; a window stays and says so."""
    size, began = (args.width, args.height), clock.monotonic()
    recorder = Recorder(args.record_events, clock)
    lines = args.headless or args.json
    window = None if lines or args.web is not None else _open_window(args, waiting, clock)

    def each_second(scene: Scene) -> None:
        recorder.write(scene)
        waited_s = clock.monotonic() - began
        check_patience(args.wait, waited_s, receiver.served, receiver.refused)
        if args.screenshot and any(panel.pixels for panel in scene.panels):
            from Daddy.streaming.viewer.pygame_window import save_picture

            save_picture(args.screenshot, scene, size, waiting)

    def subscribe(top_k: int, pins: Sequence[str]) -> None:
        receiver.subscribe(Wish(top_k, args.fps, to_pins(pins)))

    if window is not None:
        window.run(receiver.scene, subscribe, each_second, stop)
        return
    printer = Printer(waiting, clock, json=args.json) if lines or args.web is None else None
    paged = args.web is not None
    with _page(args, receiver, waiting, clock, subscribe) if paged else nullcontext():
        while not stop.is_set():
            scene = receiver.scene(args.top_k)
            each_second(scene)
            if printer:
                printer.print(scene)
            if hopeless.is_set() or clock.wait(stop, 1.0):
                return


def _page(
    args: argparse.Namespace,
    receiver: Receiver,
    waiting: Waiting,
    clock: Clock,
    subscribe: Callable[[int, Sequence[str]], None],
) -> AbstractContextManager[object]:
    """The page for browsers until it is closed; its link goes to the terminal, not to the lines."""
    from Daddy.streaming.web.web_server import WebServer

    wish = lambda top_k: subscribe(top_k, args.pin)  # noqa: E731
    say = functools.partial(print, file=sys.stderr, flush=True)
    return closing(WebServer(args.web, receiver.scene, wish, waiting, args.top_k, clock, say))


def _open_window(args: argparse.Namespace, waiting: Waiting, clock: Clock) -> Window | None:
    """The window, or None with a hint when pygame or a display is missing."""
    try:
        from Daddy.streaming.viewer.pygame_window import Window

        view = View(args.top_k, pins=tuple(args.pin))
        return Window((args.width, args.height), view, waiting, clock)
    except (ImportError, DaddyError) as error:
        why = error.message if isinstance(error, DaddyError) else error
        print(f"no window: {why}; lines instead; --web shows a page", file=sys.stderr)
    return None


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
