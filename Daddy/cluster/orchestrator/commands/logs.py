"""``logs`` and ``attach``: output of controller and jobs, without looking for job numbers.

``logs`` shows the end of each file, ``-f`` goes on; ``attach`` stays with one slot from job to job.
Several growing files are read as one, with a heading wherever the file changes; the set of files is
asked for anew at every look.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.commands.run_selection import Request, try_read_intent
from Daddy.cluster.orchestrator.controller_records import Mode
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, FileError, UsageError
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths

LAST = 20
"""Lines of each file that are shown first."""
_CHUNK = 1 << 20
"""Bytes read of one file in one look."""
_LOOK_S = 0.5

Sources = Callable[[], Mapping[str, Path]]
"""Heading → file, in the order in which they are to be read."""


def run_logs(request: Request, *, slot: int | None, keep_on: bool, last: int = LAST) -> int:
    """The end of the controller's log and of every slot's job, or of one slot's."""
    run, slots = _run(request, slot)
    wanted = range(slots) if slot is None else (slot,)

    def sources() -> dict[str, Path]:
        found = {"controller": run.logs / "controller.log"} if slot is None else {}
        for number in wanted:
            found |= _of_slot(run, number)
        return {heading: path for heading, path in found.items() if path.exists()}

    follower = LogFollower(sources, last)
    if not _print(follower.read_first()):
        print(f"nothing was printed yet in {run.logs}")
    if keep_on:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(follower, SystemClock(), lambda: "")
    return ExitCode.DONE


def run_attach(request: Request, *, slot: int | None) -> int:
    """Stay with one slot (the lowest that trains unless given) until the run is over or Ctrl-C."""
    run, slots = _run(request, slot)
    number = slot if slot is not None else _lowest_held(run, slots)
    print(f"slot {number} of {run.root.name}; Ctrl-C leaves, the job goes on")
    follower = LogFollower(lambda: _of_slot(run, number), LAST)
    with contextlib.suppress(KeyboardInterrupt):
        _print(follower.read_first())
        _follow(follower, SystemClock(), lambda: _over(run))
    return ExitCode.DONE


def _run(request: Request, slot: int | None) -> tuple[RunPaths, int]:
    config, run = request.find_run()
    intent, _ = try_read_intent(run)
    slots = intent.slots if intent is not None else config.slurm.max_running
    if not run.logs.is_dir():
        raise FileError(f"there are no logs in {run.logs}", "say start first")
    if slot is not None and not 0 <= slot < slots:
        raise UsageError(f"there is no slot {slot}", f"slots are 0 to {slots - 1}")
    return run, slots


def _of_slot(run: RunPaths, number: int) -> dict[str, Path]:
    """Output files of the job that holds the slot, or held it last; heading → file."""
    view = read_lease(run.slot(number).lease)
    job = str(view.holder.get("job_id", "")) if view is not None else ""
    if not job.isdigit():
        return {}
    name, stem = f"slot {number}, job {job}", run.logs / f"slurm-{job}"
    return {name: stem.with_suffix(".out"), f"{name}, errors": stem.with_suffix(".err")}


def _lowest_held(run: RunPaths, slots: int) -> int:
    views = ((number, read_lease(run.slot(number).lease)) for number in range(slots))
    return next((number for number, view in views if view and view.ended is None), 0)


def _over(run: RunPaths) -> str:
    intent, _ = try_read_intent(run)
    if intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE):
        return f"the run is {intent.mode.value}"
    return ""


def _print(lines: Iterator[str]) -> bool:
    """Print all of them; true if there was any."""
    text = "".join(f"{line}\n" for line in lines)
    sys.stdout.write(text)
    sys.stdout.flush()
    return bool(text)


def _follow(follower: LogFollower, clock: Clock, over: Callable[[], str]) -> None:
    """Print what is added until ``over`` says why that is enough, or Ctrl-C."""
    never, why = threading.Event(), ""
    while not why:
        why = over()  # before the look: nothing that was written by then is missed
        _print(follower.read_added())
        clock.wait(never, 0.0 if why else _LOOK_S)
    print(why)


@dataclass
class LogFollower:
    """Several growing files; remembers the place up to which each one was read."""

    sources: Sources
    last: int
    _offsets: dict[Path, int] = field(default_factory=dict)
    _heading: str = ""

    def read_first(self) -> Iterator[str]:
        """The last lines of each file, with headings; later looks go on from there."""
        for heading, path in self.sources().items():
            lines, self._offsets[path] = _whole_lines(path, None)
            yield from self._under(heading, lines[-self.last :])

    def read_added(self) -> Iterator[str]:
        """Whole lines that were added since; a file that is new is read from its beginning."""
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
    """Lines from an offset on (None: the end of the file), and the offset behind the last one."""
    try:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            if start is None:
                start = max(0, size - _CHUNK)
            start = stream.seek(start if start <= size else 0)  # shorter: it was written anew
            data = stream.read(_CHUNK)
    except OSError:
        return [], start or 0
    whole, newline, rest = data.rpartition(b"\n")
    if len(rest) == _CHUNK:  # one endless line
        whole, rest = rest, b""
    lines = whole.decode(errors="replace").split("\n") if whole or newline else []
    return lines, start + len(data) - len(rest)
