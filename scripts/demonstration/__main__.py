"""Entry: runs the whole system on this machine with a dashboard; writes summary and picture."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from Daddy.core.atomic_files import write_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import run_entry
from Daddy.core.humanize import format_duration
from Daddy.core.load_config import load_config, run_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.dashboard import RunView
from Daddy.learning.startup_preloading import prepare_imports
from scripts.demonstration.picture import draw
from scripts.demonstration.stage import Stage
from scripts.demonstration.summary import read_run, read_versions, summarise

PROGRESS_EVERY_S = 15.0
"""Seconds between two lines of progress without a terminal."""
LONGEST_S = 1800.0
"""Seconds after which a demo on a slow machine ends unfinished."""
RANDOM_EPISODES = 64
_PANELS = 2
_LIVE_WAIT_S = 30.0
"""Longest wait at the end for two live agents in the viewer: a job may just have changed."""


def main(argv: Sequence[str] | None = None) -> int:
    """Start every part, show the dashboard, end all, and write the summary."""
    args = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have set SIGINT to ignored
        signal.signal(number, signal.default_int_handler)
    prepare_imports()
    from scripts.demonstration.random_play import play_at_random

    site = "demo-slurm" if args.slurm else "demo"
    config = load_config(None, {"run_dir": args.run_dir}, {}, site)
    run, clock, console = run_paths(config), SystemClock(), Console()
    shutil.rmtree(run.root, ignore_errors=True)
    run.events.mkdir(parents=True)
    with Stage(run, site, args.slurm, not args.window) as stage:
        console.print("[b]1[/b] a login node" + (" and a Slurm cluster" if args.slurm else ""))
        stage.start_login_node()
        console.print(f"[b]2[/b] {RANDOM_EPISODES} episodes of random play, for comparison")
        play_at_random(config, run.events, RANDOM_EPISODES, clock)
        console.print("[b]3[/b] viewer, tunnel, controller, laptop")
        port = _free_port(config.training.stream_port)
        stage.start_viewer(port)
        stage.open_tunnel(port)
        stage.start_controller(port)
        stage.start_laptop()
        seconds = args.seconds or (300.0 if args.slurm else 180.0)
        _watch(run, clock, console, Enough(seconds, args.steps, args.handovers))
        stage.end_viewer()
        console.print("[b]4[/b] stopping: jobs write a checkpoint and leave")
        console.print(stage.stop_controller().rstrip())
    return _write_summary(run, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--slurm", action="store_true", help="use a real Slurm cluster")
    parser.add_argument("--seconds", type=float, help="shortest duration of the live part")
    parser.add_argument(
        "--steps", type=int, default=80_000, help="least fleet steps (default 80000)"
    )
    parser.add_argument("--handovers", type=int, default=8, help="least hand-overs (default 8)")
    parser.add_argument("--run-dir", help="folder of the run (default runs/demo)")
    parser.add_argument(
        "--window",
        action=argparse.BooleanOptionalAction,
        default=bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")),
        help="open the viewer's window (default: if there is a display)",
    )
    return parser


def _free_port(preferred: int) -> int:
    """Return ``preferred``, or any free port where it is in use."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return preferred


def _watch(run: RunPaths, clock: Clock, console: Console, enough: Enough) -> None:
    """Show the dashboard until all conditions of ``enough`` hold."""
    view = RunView(run, clock, (run.root / "laptop" / "events",))
    begin, stop = clock.monotonic(), None
    never, last_line = threading.Event(), 0.0
    with Live(console=console, refresh_per_second=2, transient=not console.is_terminal) as live:
        while stop is None:
            clock.wait(never, 1.0)
            elapsed = clock.monotonic() - begin
            stop = enough.reason(view.refresh(), elapsed)
            progress = enough.progress(view, elapsed)
            live.update(Group(Text(progress, style="bold"), view.renderable(console.width)))
            if not console.is_terminal and elapsed - last_line >= PROGRESS_EVERY_S:
                last_line = elapsed
                print(progress, flush=True)
    console.print(stop)


@dataclass(slots=True)
class Enough:
    """Holds the conditions to end the live part: time, steps, hand-overs, two live agents."""

    seconds: float
    steps: int
    handovers: int
    _since: float | None = None
    """Elapsed seconds at which all but the last condition held."""

    def reason(self, view: RunView, elapsed: float) -> str | None:
        """Return the reason for ending the live part, or None."""
        if elapsed >= LONGEST_S:
            return f"this machine is slow: ending after {format_duration(elapsed)}"
        steps, passed = view.steps, len(view.fleet.handovers())
        if elapsed < self.seconds or steps < self.steps or passed < self.handovers:
            return None
        self._since = elapsed if self._since is None else self._since
        if len(view.fleet.viewer.live) < _PANELS and elapsed - self._since < _LIVE_WAIT_S:
            return None
        return f"enough seen after {format_duration(elapsed)}"

    def progress(self, view: RunView, elapsed: float) -> str:
        """Return the progress of each condition in one line."""
        steps, passed = view.steps, len(view.fleet.handovers())
        return (
            f"{format_duration(elapsed)} of {format_duration(self.seconds)} · "
            f"{steps:,} of {self.steps:,} steps · {passed} of {self.handovers} hand-overs · "
            f"{view.fleet.viewer.frames.total()} frames shown"
        )


def _write_summary(run: RunPaths, console: Console) -> int:
    """Write summary and picture from the files of the run directory."""
    laptop = run.root / "laptop" / "events"
    summary = summarise(run, laptop)
    write_json(run.summary, summary)
    versions = read_versions(SharedPaths(run.shared_weights))
    draw(run.report, read_run(run, laptop), versions, run.root / "viewer.png")
    console.print_json(json.dumps(summary))
    console.print(f"picture: {run.report}\nsummary: {run.summary}")
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
