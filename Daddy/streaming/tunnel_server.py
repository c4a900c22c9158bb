"""Runs the viewer on a laptop: ``python -m Daddy.streaming.tunnel_server --port 9999``.

It listens on the loopback end of ``ssh -R 9999:localhost:9999 user@login`` and shows the featured
agents in a window, with ``--web`` in a browser, or with ``--headless`` (and without a display) as
one line per agent and second. Closing it never affects training. ``tunnel_server connect
user@login`` starts ssh as well.
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

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, NetworkError, UsageError
from Daddy.core.host_and_processes import host_name
from Daddy.core.saved_cluster import read_saved_cluster, saved_login, settings_path, tunnel_options
from Daddy.core.stop_conditions import event_on_signals
from Daddy.streaming.protocol.handshake import Token, ensure_token, home_token, load_tokens
from Daddy.streaming.protocol.messages import MAX_FPS, MAX_PINS, MAX_TOP_K, Subscription, to_pins
from Daddy.streaming.viewer.connect import SshConnector, add_arguments, find_target
from Daddy.streaming.viewer.connect_plan import ConnectPlan, StreamRoute, first_plan
from Daddy.streaming.viewer.headless_viewer import FrameCountRecorder, LinePrinter, check_patience
from Daddy.streaming.viewer.key_bindings import ViewOptions
from Daddy.streaming.viewer.receiver import Receiver
from Daddy.streaming.viewer.view_model import Scene, TunnelInfo

if TYPE_CHECKING:
    from Daddy.streaming.viewer.pygame_window import ViewerWindow

WEB_PORT = 9998
_MAX_S = 366 * 86400.0
_INSTALL = "install it: sudo apt install openssh-client (Debian, Ubuntu); macOS brings it along"


def _parser(*, connecting: bool) -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="tunnel_server connect" if connecting else "tunnel_server",
        description="Watch the best agents play, through: ssh -R 9999:localhost:9999 USER@LOGIN; "
        "`tunnel_server connect user@login` starts that ssh by itself.",
    )
    parser.add_argument("--port", type=int, default=9999, help="port to listen on (default 9999)")
    parser.add_argument("--top-k", type=int, default=2, help="agents to show (default 2)")
    parser.add_argument(
        "--pin",
        action="append",
        default=[],
        metavar="AGENT",
        help="agent to show at any rank, such as slot-0/3; may be repeated (default none)",
    )
    parser.add_argument("--width", type=int, default=800, help="width in pixels (default 800)")
    parser.add_argument("--height", type=int, default=600, help="height in pixels (default 600)")
    parser.add_argument("--headless", action="store_true", help="print lines, open no window")
    parser.add_argument(
        "--web",
        type=int,
        nargs="?",
        const=WEB_PORT,
        metavar="PORT",
        help=f"serve a page for a browser on this port instead (default {WEB_PORT})",
    )
    parser.add_argument("--json", action="store_true", help="print JSON lines; implies --headless")
    parser.add_argument("--wait", type=float, help="seconds to wait for a relay (default: no end)")
    parser.add_argument("--fps", type=float, default=MAX_FPS, help="pictures a second (default 60)")
    parser.add_argument("--token", type=Path, help="tokens (default ~/.config/daddy/stream.token)")
    parser.add_argument("--screenshot", type=Path, help="window as a PNG file, once a second")
    parser.add_argument("--record-events", type=Path, help="folder for an event file of counts")
    parser.add_argument("--seconds", type=float, help="seconds to run (default: no end)")
    if connecting:
        add_arguments(parser)
    else:
        parser.verbs = ("connect",)
        parser.add_argument("--login", default="", help="user@host in the printed ssh line")
    return parser


def _checked(args: argparse.Namespace) -> argparse.Namespace:
    """Return ``args``. Raise UsageError for a value that is out of bounds."""
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
    for flag, value, least, most, problem, use in bounds:
        if value is not None and not least <= value <= most:
            raise UsageError(f"{flag} {value:g} {problem}", f"use {use}")
    if len(args.pin) > MAX_PINS:
        raise UsageError(f"{len(args.pin)} pins (--pin) are too many", f"use at most {MAX_PINS}")
    for name in args.pin:
        if not to_pins([name]):
            raise UsageError(f"--pin {name!r} names no agent", "use a slot and a number: slot-0/3")
    return args


def _tunnel_info(port: int, login: str, environ: Mapping[str, str], home: Path) -> TunnelInfo:
    """Return the parts of the line to print; login: ``login``, environment or setup's."""
    try:
        saved = read_saved_cluster(settings_path(environ, home))
    except DaddyError:  # other commands report a damaged file
        saved = {}
    user, host = environ.get("SYNC_CLUSTER_USER"), environ.get("SYNC_CLUSTER_HOST")
    of_setup = saved_login(saved)
    login = login or (f"{user}@{host}" if user and host else of_setup) or "USER@LOGIN-NODE"
    facts = saved if login == of_setup else {}
    by_attach = facts.get("tunnel_by") == "attach"
    return TunnelInfo(port, login, tunnel_options(facts, home), connects=by_attach)


def main(argv: Sequence[str] | None = None) -> int:
    """Show the agents until the window is closed, Ctrl-C or SIGTERM."""
    words = list(sys.argv[1:] if argv is None else argv)
    connecting = words[:1] == ["connect"]
    args = _checked(_parser(connecting=connecting).parse_args(words[connecting:]))
    plan = _make_plan(args) if connecting else None
    stop, given_up = event_on_signals(signal.SIGTERM, signal.SIGINT), threading.Event()
    if args.seconds:
        timer = threading.Timer(args.seconds, stop.set)
        timer.daemon = True
        timer.start()
    clock = SystemClock()
    token = args.token or home_token(Path.home())
    ensure_token(token, host_name())
    load_tokens([token])
    session_tokens = list[Token]()
    wanted = Subscription(args.top_k, args.fps, to_pins(args.pin))
    receiver = Receiver(args.port, lambda: (*session_tokens, *load_tokens([token])), wanted, clock)
    tunnel = _tunnel_info(receiver.port, args.login, os.environ, Path.home())
    tunnel = tunnel._replace(connects=tunnel.connects and not connecting)
    ssh = SshConnector(plan, receiver, session_tokens, clock, given_up) if plan else nullcontext()
    with ssh, closing(receiver):
        _show(args, receiver, tunnel, clock, stop, given_up)
    return 0


def _make_plan(args: argparse.Namespace) -> ConnectPlan:
    """Return the first plan of ``connect``; set ``args.login``. NetworkError without ssh."""
    target = find_target(args, os.environ, Path.home(), asks=sys.stdin.isatty())
    if shutil.which("ssh") is None:
        raise NetworkError("connect needs ssh, which is not installed on this computer", _INSTALL)
    args.login = target.login
    return first_plan(target, StreamRoute(args.by) if args.by else None)


def _show(
    args: argparse.Namespace,
    receiver: Receiver,
    tunnel: TunnelInfo,
    clock: Clock,
    stop: threading.Event,
    given_up: threading.Event,
) -> None:
    """Show a window, lines or the page; all but the window end when ``given_up`` is set."""
    size, began = (args.width, args.height), clock.monotonic()
    recorder = FrameCountRecorder(args.record_events, clock)
    lines = args.headless or args.json
    window = None if lines or args.web is not None else _open_window(args, tunnel, clock)

    def each_second(scene: Scene) -> None:
        recorder.write_counts(scene)
        waited_s = clock.monotonic() - began
        check_patience(args.wait, waited_s, receiver.served, receiver.refused)
        if args.screenshot and any(panel.pixels for panel in scene.panels):
            from Daddy.streaming.viewer.pygame_window import save_picture

            save_picture(args.screenshot, scene, size, tunnel)

    def subscribe(top_k: int, pins: Sequence[str]) -> None:
        receiver.subscribe(Subscription(top_k, args.fps, to_pins(pins)))

    if window is not None:
        window.run_window(receiver.current_scene, subscribe, each_second, stop)
        return
    printer = LinePrinter(tunnel, clock, json=args.json) if lines or args.web is None else None
    with_page = args.web is not None
    with _page(args, receiver, tunnel, clock, subscribe) if with_page else nullcontext():
        while not stop.is_set():
            scene = receiver.current_scene(args.top_k)
            each_second(scene)
            if printer:
                printer.print_scene(scene)
            if given_up.is_set() or clock.wait(stop, 1.0):
                return


def _page(
    args: argparse.Namespace,
    receiver: Receiver,
    tunnel: TunnelInfo,
    clock: Clock,
    subscribe: Callable[[int, Sequence[str]], None],
) -> AbstractContextManager[object]:
    """Serve the page while the `with` block runs; print its link to standard error."""
    from Daddy.streaming.web.web_server import WebServer

    want, scene = lambda top_k: subscribe(top_k, args.pin), receiver.current_scene
    print_line = functools.partial(print, file=sys.stderr, flush=True)
    return closing(WebServer(args.web, scene, want, tunnel, args.top_k, clock, print_line))


def _open_window(args: argparse.Namespace, tunnel: TunnelInfo, clock: Clock) -> ViewerWindow | None:
    """Return the window; without pygame or a display print the reason and return None."""
    try:
        from Daddy.streaming.viewer.pygame_window import ViewerWindow

        view = ViewOptions(args.top_k, pins=tuple(args.pin))
        return ViewerWindow((args.width, args.height), view, tunnel, clock)
    except (ImportError, DaddyError) as error:
        why = error.message if isinstance(error, DaddyError) else error
        print(f"no window: {why}; printing lines (or try: --web)", file=sys.stderr)
    return None


def cli() -> None:
    """Run the installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
