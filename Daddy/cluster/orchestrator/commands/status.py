"""``status``: how the run stands, once or again and again; the exit code says it too."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from dataclasses import dataclass
from typing import Any

from Daddy.cluster.orchestrator import wiring
from Daddy.cluster.orchestrator.commands.report import read_status
from Daddy.cluster.orchestrator.commands.request import Request, frozen, known_intent
from Daddy.cluster.orchestrator.records import Observation
from Daddy.cluster.orchestrator.scheduler import Scheduler
from Daddy.cluster.orchestrator.slurm_scheduler import SlurmScheduler
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.config import run_paths
from Daddy.core.errors import ExitCode
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config

_WATCH_S = 2.0
_PATIENCE_S = 0.8
"""For a silent scheduler: a person waits at most two seconds in all."""
_ASK_AGAIN_S = 30.0
"""Between two looks of our own at the queue, while watching."""
_WIDE = 160
"""Columns where there is no terminal: nothing is broken for grep."""


@dataclass(slots=True)
class Sparing:
    """A queue that is not asked again for a while."""

    scheduler: Scheduler
    clock: Clock
    seen: Observation | None = None
    asked: float = 0.0

    def snapshot(self) -> Observation:
        now = self.clock.monotonic()
        if self.seen is None or now - self.asked >= _ASK_AGAIN_S:
            self.seen, self.asked = self.scheduler.snapshot(), now
        return self.seen


def status(request: Request, *, as_json: bool, watch: bool) -> int:
    """Print the screen or the record."""
    config, clock = request.load(), SystemClock()
    run = run_paths(config)
    queue: Sparing | None = None
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not watch:
        told, _ = _read(config, run, clock, queue)
        _print(config, told, clock, as_json=as_json)
        return int(told["exit_code"])
    with contextlib.suppress(KeyboardInterrupt):
        _watch(config, run, clock, as_json=as_json)
    return ExitCode.DONE


def _read(
    config: Config, run: RunPaths, clock: Clock, queue: Sparing | None
) -> tuple[dict[str, Any], Sparing]:
    """The record, and the queue that was or was not asked for it."""
    intent, _ = known_intent(run)
    executor = intent.executor if intent is not None else "local"
    if intent is not None:
        config = frozen(run, intent, config)[1]
    if queue is None:
        scheduler = wiring.make_scheduler(executor, config, run, clock)
        if isinstance(scheduler, SlurmScheduler):
            scheduler.list_timeout_s = _PATIENCE_S
        queue = Sparing(scheduler, clock)
    policy = wiring.make_policy(config, executor)
    return read_status(run, config, queue, policy, clock), queue


def _print(config: Config, told: dict[str, Any], clock: Clock, *, as_json: bool) -> None:
    if as_json:
        print(json.dumps(told), flush=True)
        return
    from rich.console import Console

    from Daddy.cluster.orchestrator.commands.screen import draw

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(draw(config.run_name, told, clock.now(), console.width))
        return
    console = Console(highlight=False, width=_WIDE)
    with console.capture() as text:
        console.print(draw(config.run_name, told, clock.now()))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def _watch(config: Config, run: RunPaths, clock: Clock, *, as_json: bool) -> None:
    """Until Ctrl-C; a living controller's summary costs no look at the queue."""
    never, queue = threading.Event(), None
    if as_json or not sys.stdout.isatty():
        while True:
            told, queue = _read(config, run, clock, queue)
            _print(config, told, clock, as_json=as_json)
            clock.wait(never, _WATCH_S)
    from rich.console import Console
    from rich.live import Live

    from Daddy.cluster.orchestrator.commands.screen import draw

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            told, queue = _read(config, run, clock, queue)
            live.update(draw(config.run_name, told, clock.now(), console.width), refresh=True)
            clock.wait(never, _WATCH_S)
