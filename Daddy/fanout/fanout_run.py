"""A whole run of a fan-out: starts the batches, follows their events, repeats lost ones."""

import contextlib
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from rich.console import Console
from rich.live import Live

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.event_log import EventTail
from Daddy.core.stop_conditions import StopSignal
from Daddy.core.terminal import make_console
from Daddy.fanout.fanout_files import FanoutPaths, read_results, save_batches, write_errors
from Daddy.fanout.fanout_screen import change_line, draw_live
from Daddy.fanout.fanout_settings import FanoutSettings, split_batches
from Daddy.fanout.fanout_state import FanoutState, SandboxRow
from Daddy.fanout.local_engine import Engine
from Daddy.fanout.run_batch import Batch

LOOK_S = 0.5
"""Seconds between two looks at the events: two frames a second."""


class ProgressView(Protocol):
    """Shows a run while it goes on."""

    def show(self, state: FanoutState, elapsed_s: float, changed: Sequence[SandboxRow]) -> None:
        """Show the present state; `changed` are the rows with a new state."""
        ...


class ChangeLines:
    """Prints a line for each change of a state, without escape codes."""

    def show(self, state: FanoutState, elapsed_s: float, changed: Sequence[SandboxRow]) -> None:  # noqa: ARG002
        """Print the changes."""
        for row in changed:
            print(change_line(state, row), flush=True)


class LiveTable:
    """Redraws a table in place."""

    def __init__(self, live: Live, console: Console) -> None:
        self._live, self._console = live, console

    def show(self, state: FanoutState, elapsed_s: float, changed: Sequence[SandboxRow]) -> None:  # noqa: ARG002
        """Redraw the table."""
        self._live.update(draw_live(state, elapsed_s, self._console.height), refresh=True)


@contextlib.contextmanager
def open_view(live: bool) -> Iterator[ProgressView]:
    """Yield a live table, or a view that prints lines."""
    if not live:
        yield ChangeLines()
        return
    console = make_console()
    with Live(console=console, auto_refresh=False, vertical_overflow="crop") as screen:
        yield LiveTable(screen, console)


class FanoutRun:
    """Runs what is missing of a run to its end."""

    def __init__(
        self,
        first: Batch,
        settings: FanoutSettings,
        engine: Engine,
        batch_size: int,
        clock: Clock,
        stop: StopSignal,
    ) -> None:
        """Initialise; `first` has the options that all batches share."""
        self._first, self._engine, self._clock = first, engine, clock
        self._stop = stop
        self._paths, self._batch_size = FanoutPaths(first.run), batch_size
        self._tail, self._began = EventTail(self._paths.events), clock.monotonic()
        self.state = FanoutState(settings, first.token)
        for index, result in read_results(self._paths, settings).items():
            self.state.add_result(index, result)

    @property
    def elapsed_s(self) -> float:
        return self._clock.monotonic() - self._began

    def run(self, view: ProgressView) -> None:
        """Run all batches, those again whose machine was lost.

        Raises what the engine raised; KeyboardInterrupt after a signal to stop.
        """
        reasons: list[str] = []
        try:
            for _ in range(1 + self._engine.repeats):
                if not (missing := self._missing()):
                    return
                reasons = self._run_batches(missing, view)
        finally:
            self._engine.close()
            self._look(view)
        reason = reasons[0] if reasons else "its job ended without a result: see the run's logs"
        view.show(self.state, self.elapsed_s, [self.state.fail(i, reason) for i in self._missing()])

    def write_outcome(self, folder: Path) -> ExitCode:
        """Write errors.log; return the exit code: done, or partly failed."""
        failed = self.state.in_state("error")
        write_errors(self._paths, folder, failed)
        return ExitCode.PARTLY_FAILED if failed else ExitCode.DONE

    def _missing(self) -> list[int]:
        return [row.index for row in self.state.in_state("pending", "running")]

    def _run_batches(self, missing: Sequence[int], view: ProgressView) -> list[str]:
        """Run batches until all have ended; return the reasons of those that were lost."""
        split = split_batches(missing, self._batch_size)
        if self._engine.repeats:
            save_batches(self._paths, self._first.token, split)
        batches = [
            replace(self._first, number=number, indices=part) for number, part in enumerate(split)
        ]
        futures, never = self._engine.submit_all(batches), threading.Event()
        while not all(future.done() for future in futures):
            if self._stop.stop_reason():
                raise KeyboardInterrupt
            self._look(view)
            self._clock.wait(never, LOOK_S)
        self._look(view)
        return self._lost(futures)

    def _look(self, view: ProgressView) -> None:
        changed = self.state.add_events(self._tail.read_new())
        view.show(self.state, self.elapsed_s, changed)

    def _lost(self, futures: "Sequence[Future[None]]") -> list[str]:
        errors = [error for future in futures if (error := future.exception())]
        if errors and not self._engine.repeats:
            raise errors[0]
        return [e.message if isinstance(e, DaddyError) else repr(e) for e in errors]
