"""``scripts/demo``: the whole system on this machine, a live dashboard, a summary, a picture."""

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
from Daddy.learning.preloading import prepare
from scripts.demonstration.picture import draw
from scripts.demonstration.stage import Stage
from scripts.demonstration.summary import read_run, read_versions, summarise

TELL_EVERY_S = 15.0
"""Without a terminal: seconds between two lines of progress."""
LONGEST_S = 1800.0
"""However slow the machine: a demo that has not finished by then says so and ends."""
RANDOM_EPISODES = 64
_PANELS = 2
_MOMENT_S = 30.0
"""What a last picture with all panels live is waited for: a job may just have been handed over."""


def main(argv: Sequence[str] | None = None) -> int:
    """Start everything, show it live, end everything, then tell what the run directory says."""
    args = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # also where a shell had us ignore SIGINT
        signal.signal(number, signal.default_int_handler)
    prepare()
    from scripts.demonstration.random_play import play_at_random

    site = "demo-slurm" if args.slurm else "demo"
    config = load_config(None, {"run_dir": args.run_dir}, {}, site)
    run, clock, console = run_paths(config), SystemClock(), Console()
    shutil.rmtree(run.root, ignore_errors=True)
    run.events.mkdir(parents=True)
    with Stage(run, site, args.slurm, not args.window) as stage:
        console.print("[b]1[/b] a login node" + (" and a Slurm cluster" if args.slurm else ""))
        stage.raise_login_node()
        console.print(f"[b]2[/b] {RANDOM_EPISODES} episodes of random play, to compare with")
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
    return _tell(run, console)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--slurm", action="store_true", help="jobs under a real Slurm cluster")
    parser.add_argument("--seconds", type=float, help="shortest duration of the live part")
    parser.add_argument("--steps", type=int, default=80_000, help="fleet steps to see at least")
    parser.add_argument("--handovers", type=int, default=8, help="hand-overs to see at least")
    parser.add_argument("--run-dir", help="folder of the run (runs/demo)")
    parser.add_argument(
        "--window",
        action=argparse.BooleanOptionalAction,
        default=bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")),
        help="open the viewer's window (default: if there is a display)",
    )
    return parser


def _free_port(preferred: int) -> int:
    """``preferred``, or any free port when somebody uses it."""
    for port in (preferred, 0):
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
            return int(probe.getsockname()[1])
    return preferred


def _watch(run: RunPaths, clock: Clock, console: Console, enough: Enough) -> None:
    """Show the dashboard until enough was seen."""
    view = RunView(run, clock, (run.root / "laptop" / "events",))
    begin, stop = clock.monotonic(), None
    never, told = threading.Event(), 0.0
    with Live(console=console, refresh_per_second=2, transient=not console.is_terminal) as live:
        while stop is None:
            clock.wait(never, 1.0)
            elapsed = clock.monotonic() - begin
            stop = enough.reason(view.refresh(), elapsed)
            progress = enough.progress(view, elapsed)
            live.update(Group(Text(progress, style="bold"), view.renderable(console.width)))
            if not console.is_terminal and elapsed - told >= TELL_EVERY_S:
                told = elapsed
                print(progress, flush=True)
    console.print(stop)


@dataclass(slots=True)
class Enough:
    """When a person has seen it all: time, steps, hand-overs, and two agents live at once."""

    seconds: float
    steps: int
    handovers: int
    _since: float | None = None
    """When all was seen but for the two at once."""

    def reason(self, view: RunView, elapsed: float) -> str | None:
        """Why the live part may end, or None."""
        if elapsed >= LONGEST_S:
            return f"this machine is slow: ending after {format_duration(elapsed)}"
        steps, passed = view.steps, len(view.fleet.handovers())
        if elapsed < self.seconds or steps < self.steps or passed < self.handovers:
            return None
        self._since = elapsed if self._since is None else self._since
        if len(view.fleet.viewer.live) < _PANELS and elapsed - self._since < _MOMENT_S:
            return None
        return f"enough seen after {format_duration(elapsed)}"

    def progress(self, view: RunView, elapsed: float) -> str:
        """How much of it has been seen, in one line."""
        steps, passed = view.steps, len(view.fleet.handovers())
        return (
            f"{format_duration(elapsed)} of {format_duration(self.seconds)} · "
            f"{steps:,} of {self.steps:,} steps · {passed} of {self.handovers} hand-overs · "
            f"{view.fleet.viewer.frames.total()} frames shown"
        )


def _tell(run: RunPaths, console: Console) -> int:
    """Summary and picture, read back from the run directory."""
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
