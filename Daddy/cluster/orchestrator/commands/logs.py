"""Implements ``logs`` and ``attach``: prints the output of controller and jobs, and ended jobs.

``logs`` prints the end of each file, and with ``-f`` new lines; ``attach`` follows one slot, over
all its jobs. Several growing files are read in turn, with a heading wherever the file changes; the
set of files is determined anew at every poll. Ended jobs are those of the ledger; the memory that
they used is asked from the scheduler's accounting.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.cluster.orchestrator.commands.run_selection import Request, find_release, load_intent
from Daddy.cluster.orchestrator.controller_types import Attempt, JobOutcome, Mode, QueueJob
from Daddy.cluster.orchestrator.decisions.circuit_breaker import is_failure
from Daddy.cluster.orchestrator.ledger_file import read_ledger
from Daddy.cluster.orchestrator.scheduler_interface import JobRef
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, FileError, UsageError
from Daddy.core.humanize import format_span, format_time, printable_line
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths

LAST = 20
"""Lines of each file that are printed first."""
_CHUNK = 1 << 20
"""Most bytes read from one file in one poll."""
_POLL_S = 0.5
_FAILED = (JobOutcome.CRASHED, JobOutcome.HUNG, JobOutcome.LOST, JobOutcome.NODE_FAILED)
"""Outcomes that count as failed also after a checkpoint."""

Sources = Callable[[], Mapping[str, Path]]
"""Returns heading → file, in the order of reading."""


def run_logs(
    request: Request,
    *,
    slot: int | None,
    keep_on: bool,
    job: int | None = None,
    listed: str = "",
    last: int = LAST,
) -> int:
    """Print the last lines of a slot's or job's output (neither: of all slots and the controller).

    ``listed``: a list of the jobs that ``ended``, or of those that ``failed``, instead.
    """
    run, slots = _run(request, slot)
    if listed:
        return _list_ended(request, run, last, only_failed=listed == "failed")
    follower = LogFollower(lambda: _existing(run, slots, slot, job), last)
    if not _print(follower.read_first()):
        if job is not None:
            fix = "`run_controller logs --ended` lists the run's jobs"
            raise FileError(f"job {job} has no output in {run.logs}", fix)
        print(f"the run has no output yet in {run.logs}")
    if keep_on:
        with contextlib.suppress(KeyboardInterrupt):
            _follow(follower, SystemClock(), lambda: "")
    return ExitCode.DONE


def _existing(run: RunPaths, slots: int, slot: int | None, job: int | None) -> dict[str, Path]:
    """Return heading → file of the wanted job, of the wanted slot's job, or of all."""
    if job is not None:
        paths = _job_output(run, f"job {job}", job)
    elif slot is not None:
        paths = _slot_output(run, slot)
    else:
        paths = {"controller": run.logs / "controller.log"}
        for number in range(slots):
            paths |= _slot_output(run, number)
        paths |= _unclaimed_output(run)
    return {heading: path for heading, path in paths.items() if path.exists()}


def _unclaimed_output(run: RunPaths) -> dict[str, Path]:
    """Return the output of the job that ended last, if it failed before it claimed a slot."""
    ended = [attempt for attempt in _ended(run) if attempt.job_id is not None]
    if not ended or ended[-1].slot is not None or not has_failed(ended[-1]):
        return {}
    job = ended[-1].job_id or 0
    return _job_output(run, f"job {job}, which failed before it claimed a slot", job)


def _ended(run: RunPaths) -> list[Attempt]:
    """Return the attempts that ended, in the order of their ends."""
    attempts = read_ledger(run.ledger).ended_or_rejected
    return sorted(attempts, key=lambda attempt: attempt.ended_ts or 0.0)


def _list_ended(request: Request, run: RunPaths, last: int, *, only_failed: bool) -> int:
    """Print the newest ``last`` ended jobs with reason, node, memory and last line of errors."""
    ended = [job for job in _ended(run) if not only_failed or has_failed(job)][-last:]
    if not ended:
        print(f"no job of the run has {'failed' if only_failed else 'ended'} yet")
        return ExitCode.DONE
    memory, now = _read_memory(request, run, ended), SystemClock().now()
    for attempt in ended:
        errors = run.logs / f"slurm-{attempt.job_id}.err"
        for line in describe_ended(attempt, memory.get(attempt.token), _last_line(errors), now):
            print(line)
    return ExitCode.DONE


def _read_memory(
    request: Request, run: RunPaths, attempts: Sequence[Attempt]
) -> dict[str, QueueJob]:
    """Return token → job as accounting has it; {} without accounting."""
    from Daddy.cluster.orchestrator.scheduler_factory import make_scheduler

    intent, _ = load_intent(run)
    config = find_release(run, intent, request.find_run()[0])[1]
    executor = intent.executor if intent is not None else "local"
    scheduler = make_scheduler(executor, config, run, SystemClock())
    jobs = [JobRef(job.job_id, job.token) for job in attempts if job.job_id is not None]
    return {job.token: job for job in scheduler.read_ended_jobs(jobs)}


def has_failed(attempt: Attempt) -> bool:
    """Return True if a person must look at an end: a failure, also after a checkpoint."""
    return attempt.outcome in _FAILED or is_failure(attempt)


def describe_ended(
    attempt: Attempt, counted: QueueJob | None, last_line: str, now: float
) -> Iterator[str]:
    """Yield the lines on one ended job; ``counted``: as accounting has it."""
    job = f"job {attempt.job_id}" if attempt.job_id is not None else "no job"
    slot = f"slot {attempt.slot}" if attempt.slot is not None else "no slot"
    ended_ts = attempt.ended_ts or now
    started_ts = attempt.started_ts
    ran = f"ran {format_span(ended_ts - started_ts)}" if started_ts else "never ran"
    node = f" on {attempt.node}" if attempt.node else ""
    word = (attempt.outcome or attempt.phase).value
    why = f": {attempt.reason}" if attempt.reason not in ("", word) else ""
    yield f"{format_time(ended_ts, now)}  {job}, {slot}, {ran}{node}: {word}{why}"
    yield f"    memory: {_describe_memory(counted)}"
    if last_line:
        yield f"    last line of errors: {last_line}"


def _describe_memory(counted: QueueJob | None) -> str:
    if counted is None:
        return "unknown (no accounting of this job)"
    used, asked = counted.used_bytes, counted.asked_memory
    shown = "an unknown amount" if used is None else f"{used / 2**20:,.0f} MiB"
    return f"{shown} used of {asked or 'the default'} asked"


def _last_line(path: Path) -> str:
    """Return the last line of a file that is not blank, made printable; "" without one."""
    lines, _ = _whole_lines(path, None)
    return printable_line(next((line for line in reversed(lines) if line.strip()), ""))


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
    return _job_output(run, f"slot {number}, job {job}", int(job))


def _job_output(run: RunPaths, name: str, job: int) -> dict[str, Path]:
    stem = run.logs / f"slurm-{job}"
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
