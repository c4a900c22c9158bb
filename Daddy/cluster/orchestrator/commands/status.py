"""``status``: how the run stands, once or again and again; the exit code says it too."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from Daddy.cluster.orchestrator.commands.report import read_status
from Daddy.cluster.orchestrator.commands.request import Request, frozen, known_intent
from Daddy.cluster.orchestrator.intent import Intent
from Daddy.cluster.orchestrator.records import Ledger
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.config import run_paths
from Daddy.core.errors import ExitCode
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.commands.look import Sparing

_WATCH_S = 2.0
_WIDE = 160
"""Columns where there is no terminal: nothing is broken for grep."""


def status(request: Request, *, as_json: bool, watch: bool) -> int:
    """Print the screen or the record."""
    config, clock = request.load(), SystemClock()
    reader = _Reader(config, run_paths(config), clock)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if not watch:
        told = reader.read()
        _print(config, told, clock, as_json=as_json)
        return int(told["exit_code"])
    with contextlib.suppress(KeyboardInterrupt):
        _watch(config, reader, clock, as_json=as_json)
    return ExitCode.DONE


class _Reader:
    """Reads the record, again and again; the queue is looked at only where it has to be."""

    def __init__(self, config: Config, run: RunPaths, clock: Clock) -> None:
        self._config, self._run, self._clock = config, run, clock
        self._queue: Sparing | None = None

    def read(self) -> dict[str, Any]:
        intent, _ = known_intent(self._run)
        config = frozen(self._run, intent, self._config)[1] if intent else self._config
        return read_status(self._run, config, partial(self._look, config), self._clock)

    def _look(self, config: Config, intent: Intent | None, ledger: Ledger) -> dict[str, Any]:
        from Daddy.cluster.orchestrator.commands.look import look, sparing_queue
        from Daddy.cluster.orchestrator.control_parameters import make_policy

        executor = intent.executor if intent is not None else "local"
        if self._queue is None:
            self._queue = sparing_queue(executor, config, self._run, self._clock)
        policy = make_policy(config, executor)
        return look(self._run, self._queue, policy, self._clock, intent, ledger)


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


def _watch(config: Config, reader: _Reader, clock: Clock, *, as_json: bool) -> None:
    """Until Ctrl-C; a living controller's summary costs no look at the queue."""
    never = threading.Event()
    if as_json or not sys.stdout.isatty():
        while True:
            _print(config, reader.read(), clock, as_json=as_json)
            clock.wait(never, _WATCH_S)
    from rich.console import Console
    from rich.live import Live

    from Daddy.cluster.orchestrator.commands.screen import draw

    console = Console(highlight=False)
    with Live(console=console, screen=True, auto_refresh=False) as live:
        while True:
            told = reader.read()
            live.update(draw(config.run_name, told, clock.now(), console.width), refresh=True)
            clock.wait(never, _WATCH_S)
