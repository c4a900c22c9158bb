"""Entry: runs the whole system on this machine with a dashboard; writes summary and picture."""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import threading
from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.atomic_files import write_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.humanize import format_span, parse_duration
from Daddy.core.load_config import load_config, run_paths
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.core.terminal import can_redraw, make_console
from Daddy.dashboard import RunView
from Daddy.learning.startup_preloading import prepare_imports
from scripts.demonstration.picture import draw
from scripts.demonstration.stage import Stage
from scripts.demonstration.summary import (
    ENOUGH_STEPS,
    judge_learning,
    read_run,
    read_versions,
    summarise,
)

PROGRESS_EVERY_S = 15.0
"""Seconds between two lines of progress without a terminal."""
RANDOM_EPISODES = 64
FEW_EPISODES = 16
"""Episodes of random play beside fewer steps than a comparison needs."""
_LEARNING_COST = 3.0
"""Time of a step of the fleet, starts of jobs included, as a multiple of a step of random play,
which also has four environments that share the CPUs with whatever else runs here."""
_JOB_RUN_S = (60.0, 120.0)
"""Bounds of a job's run: merges wait for contributions up to a twentieth of the jobs' time limit,
and learners that share seldom drift apart."""
SLOTS = 4
_PANELS = 2
_LIVE_WAIT_S = 30.0
"""Longest wait at the end for two live agents in the viewer: a job may just have changed."""
_STALLED_S = 900.0
"""Seconds without a new step and without a hand-over after which the demo gives up."""
NEXT = """To go on:
  .venv/bin/python -m Daddy.play --weights {run}/shared_weights --gif agent.gif   # a film
  .venv/bin/python -m Daddy.dashboard --run-dir {run} --once   # the run's last state
  .venv/bin/python -m Daddy.cluster.orchestrator.run_controller start --help   # your cluster"""


def main(argv: Sequence[str] | None = None) -> int:
    """Start every part, show the dashboard, end all, and write the summary."""
    args = _parser().parse_args(argv)
    for number in (signal.SIGINT, signal.SIGTERM):  # a shell may have set SIGINT to ignored
        signal.signal(number, signal.default_int_handler)
    prepare_imports()
    from scripts.demonstration.random_play import play_at_random

    site = "demo-slurm" if args.slurm else "demo"
    config = load_config(None, {"run_dir": args.run_dir}, {}, site)
    run, clock, console = run_paths(config), SystemClock(), make_console()
    shutil.rmtree(run.root, ignore_errors=True)
    run.events.mkdir(parents=True)
    with Stage(run, site, args.slurm, not args.window) as stage:
        console.print("[b]1[/b] a login node" + (" and a Slurm cluster" if args.slurm else ""))
        stage.start_login_node()
        episodes = RANDOM_EPISODES if args.steps >= ENOUGH_STEPS else FEW_EPISODES
        console.print(f"[b]2[/b] {episodes} episodes of random play, for comparison")
        with Progress(console, clock) as progress:
            step_s = play_at_random(config, run.events, episodes, clock, progress.show)
        expected_s = args.steps * step_s * _LEARNING_COST
        end = EndConditions(args.steps, args.handovers, expected_s)
        console.print("[b]3[/b] viewer, tunnel, controller, laptop")
        port = _free_port(config.training.stream_port)
        stage.start_viewer(port)
        stage.open_tunnel(port)
        shortest = parse_duration(config.slurm.time_limit)
        stage.start_controller(port, max(shortest, end.time_limit_s))
        stage.start_laptop()
        console.print(
            f"[b]4[/b] {args.steps:,} steps: about {format_span(end.expected_s)} on this machine"
        )
        _watch(run, clock, console, end)
        stage.end_viewer()
        console.print("[b]5[/b] stopping: jobs write a checkpoint and leave")
        console.print(stage.stop_controller().rstrip())
    return _write_summary(run, console)


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(prog="scripts/demo", description=__doc__)
    parser.add_argument("--slurm", action="store_true", help="use a real Slurm cluster")
    parser.add_argument(
        "--steps",
        type=whole_number(1),
        default=ENOUGH_STEPS,
        help=f"fleet steps to play (default {ENOUGH_STEPS})",
    )
    parser.add_argument(
        "--handovers", type=whole_number(0), default=8, help="least hand-overs (default 8)"
    )
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


class Progress:
    """Shows a line that changes: in place on a terminal, else a new line every 15 seconds."""

    def __init__(self, console: Console, clock: Clock) -> None:
        self._clock = clock
        self._live = Live(console=console, refresh_per_second=2, transient=not can_redraw())
        self._next = clock.monotonic() + PROGRESS_EVERY_S

    def __enter__(self) -> Progress:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def show(self, line: str, screen: RenderableType | None = None) -> None:
        """Show ``line``, on a terminal with ``screen`` below it."""
        if can_redraw():
            text = Text(line, style="bold")
            self._live.update(text if screen is None else Group(text, screen))
        elif self._clock.monotonic() >= self._next:
            self._next = self._clock.monotonic() + PROGRESS_EVERY_S
            print(line, flush=True)


def _watch(run: RunPaths, clock: Clock, console: Console, end: EndConditions) -> None:
    """Show the dashboard until ``end`` has a reason to end."""
    view = RunView(run, clock, (run.root / "laptop" / "events",))
    begin, stop, never = clock.monotonic(), None, threading.Event()
    with Progress(console, clock) as progress:
        while stop is None:
            clock.wait(never, 1.0)
            elapsed = clock.monotonic() - begin
            stop = end.reason(view.refresh(), elapsed)
            progress.show(end.progress(view, elapsed), view.renderable(console.width))
    console.print(stop)


@dataclass(slots=True)
class EndConditions:
    """Holds the conditions to end the live part: steps, hand-overs, two live agents.

    ``expected_s``: seconds that the steps will take by an estimate. No condition is a time, so a
    busy machine plays as many steps as a quiet one.
    """

    steps: int
    handovers: int
    expected_s: float
    _progress: tuple[int, int] = (0, 0)
    _changed: float = 0.0
    """Elapsed seconds at the last new step or hand-over."""
    _since: float | None = None
    """Elapsed seconds at which all but the last condition held."""

    @property
    def time_limit_s(self) -> float:
        """Time limit of a job with which every slot changes its job often enough."""
        lifetime = self.expected_s / (self.handovers / SLOTS + 2)  # one more: it is an estimate
        shortest, longest = _JOB_RUN_S
        return 1.25 * min(max(lifetime, shortest), longest)  # a fifth is kept for the checkpoint

    def reason(self, view: RunView, elapsed: float) -> str | None:
        """Return the reason for ending the live part, or None."""
        steps, passed = view.steps, len(view.fleet.handovers())
        if (steps, passed) != self._progress:
            self._progress, self._changed = (steps, passed), elapsed
        if elapsed - self._changed >= _STALLED_S:
            return f"no step and no hand-over for {format_span(_STALLED_S)}: ending"
        if steps < self.steps or passed < self.handovers:
            return None
        self._since = elapsed if self._since is None else self._since
        if len(view.fleet.viewer.live) < _PANELS and elapsed - self._since < _LIVE_WAIT_S:
            return None
        return f"{steps:,} steps and {passed} hand-overs after {format_span(elapsed)}"

    def progress(self, view: RunView, elapsed: float) -> str:
        """Return the progress of each condition and the time left, in one line."""
        steps, passed = view.steps, len(view.fleet.handovers())
        whole = self.steps / steps * elapsed if steps else self.expected_s
        left = format_span(max(0.0, whole - elapsed))
        needed = f" of {self.handovers}" if passed < self.handovers else ""
        return (
            f"{steps:,} of {self.steps:,} steps, about {left} left · "
            f"hand-overs {passed}{needed} · "
            f"{view.fleet.viewer.frames.total()} frames shown"
        )


def _write_summary(run: RunPaths, console: Console) -> int:
    """Write summary and picture from the files of the run directory; print the verdict."""
    laptop = run.root / "laptop" / "events"
    summary, fleet = summarise(run, laptop), read_run(run, laptop)
    write_json(run.summary, summary)
    draw(run, fleet, read_versions(SharedPaths(run.shared_weights)))
    learnt, sentence = judge_learning(summary["returns"], summary["fleet_steps"])
    console.print(f"\n[b]{sentence}[/b]\n\npicture: {run.report}\nfigures: {run.summary}\n")
    console.print(NEXT.format(run=run.root), soft_wrap=True)
    return ExitCode.DONE if learnt else ExitCode.NOT_LEARNT


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
