"""Implements ``logs`` and ``attach``: prints the output of controller and jobs by slot.

``logs`` prints the end of each file, and with ``-f`` new lines; ``attach`` follows one slot, over
all its jobs. Several growing files are read in turn, with a heading wherever the file changes; the
set of files is determined anew at every poll.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.commands.run_selection import Request, load_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, FileError, UsageError
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths

LAST = 20
"""Lines of each file that are printed first."""
_CHUNK = 1 << 20
"""Most bytes read from one file in one poll."""
_POLL_S = 0.5

Sources = Callable[[], Mapping[str, Path]]
"""Returns heading → file, in the order of reading."""


def run_logs(request: Request, *, slot: int | None, keep_on: bool, last: int = LAST) -> int:
    """Print the last lines of one slot's output (None: all slots' and the controller's log)."""
    run, slots = _run(request, slot)
    wanted = range(slots) if slot is None else (slot,)

    def sources() -> dict[str, Path]:
        paths = {"controller": run.logs / "controller.log"} if slot is None else {}
        for number in wanted:
            paths |= _slot_output(run, number)
        return {heading: path for heading, path in paths.items() if path.exists()}

    follower = LogFollower(sources, last)
    if not _print(follower.read_first()):
        print(f"the run has no output yet in {run.logs}")
    if keep_on:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(follower, SystemClock(), lambda: "")
    return ExitCode.DONE


def run_attach(request: Request, *, slot: int | None) -> int:
    """Print a slot's output (None: the lowest held slot's) until the run is over or Ctrl-C."""
    run, slots = _run(request, slot)
    number = slot if slot is not None else _lowest_held(run, slots)
    print(f"slot {number} of {run.root.name}; Ctrl-C ends this command, the job goes on")
    follower = LogFollower(lambda: _slot_output(run, number), LAST)
    with contextlib.suppress(KeyboardInterrupt):
        _print(follower.read_first())
        _follow(follower, SystemClock(), lambda: _end_reason(run))
    return ExitCode.DONE


def _run(request: Request, slot: int | None) -> tuple[RunPaths, int]:
    config, run = request.find_run()
    intent, _ = load_intent(run)
    slots = intent.slots if intent is not None else config.slurm.max_running
    if not run.logs.is_dir():
        raise FileError(f"there is no folder {run.logs}", "type `run_controller start` first")
    if slot is not None and not 0 <= slot < slots:
        raise UsageError(f"there is no slot {slot}", f"choose a slot from 0 to {slots - 1}")
    return run, slots


def _slot_output(run: RunPaths, number: int) -> dict[str, Path]:
    """Return heading → output file of the job that holds the slot, or held it last."""
    view = read_lease(run.slot(number).lease)
    job = str(view.holder.get("job_id", "")) if view is not None else ""
    if not job.isdigit():
        return {}
    name, stem = f"slot {number}, job {job}", run.logs / f"slurm-{job}"
    return {name: stem.with_suffix(".out"), f"{name}, errors": stem.with_suffix(".err")}


def _lowest_held(run: RunPaths, slots: int) -> int:
    views = ((number, read_lease(run.slot(number).lease)) for number in range(slots))
    return next((number for number, view in views if view and view.ended is None), 0)


def _end_reason(run: RunPaths) -> str:
    intent, _ = load_intent(run)
    if intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE):
        return f"the run is {intent.mode.value}"
    return ""


def _print(lines: Iterator[str]) -> bool:
    """Print ``lines``; return True if there was at least one line."""
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.write(text)
    sys.stdout.flush()
    return bool(text)


def _follow(follower: LogFollower, clock: Clock, over: Callable[[], str]) -> None:
    """Print new lines twice a second until ``over`` returns a reason; print that reason."""
    never, reason = threading.Event(), ""
    while not reason:
        reason = over()  # before reading: all lines written by then are printed
        _print(follower.read_added())
        clock.wait(never, 0.0 if reason else _POLL_S)
    print(reason)


@dataclass
class LogFollower:
    """Reads several growing files, and keeps the offset up to which each was read."""

    sources: Sources
    last: int
    _offsets: dict[Path, int] = field(default_factory=dict)
    _heading: str = ""

    def read_first(self) -> Iterator[str]:
        """Yield the last ``last`` lines of each file, each file below its heading."""
        for heading, path in self.sources().items():
            lines, self._offsets[path] = _whole_lines(path, None)
            yield from self._under(heading, lines[-self.last :])

    def read_added(self) -> Iterator[str]:
        """Yield whole lines added since the last call; a new file is read from its beginning."""
        for heading, path in self.sources().items():
            lines, self._offsets[path] = _whole_lines(path, self._offsets.get(path, 0))
            yield from self._under(heading, lines)

    def _under(self, heading: str, lines: list[str]) -> Iterator[str]:
        if lines and heading != self._heading:
            if self._heading:
                yield ""
            yield f"── {heading} ──"
            self._heading = heading
        yield from lines


def _whole_lines(path: Path, start: int | None) -> tuple[list[str], int]:
    """Return the complete lines after offset ``start`` (None: of the last MiB) and their end."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            if start is None:
                start = max(0, size - _CHUNK)
            start = stream.seek(start if start <= size else 0)  # a shorter file was written anew
            data = stream.read(_CHUNK)
    except OSError:
        return [], start or 0
    whole, newline, rest = data.rpartition(b"\n")
    if len(rest) == _CHUNK:  # a line longer than a chunk
        whole, rest = rest, b""
    lines = whole.decode(errors="replace").split("\n") if whole or newline else []
    return lines, start + len(data) - len(rest)
