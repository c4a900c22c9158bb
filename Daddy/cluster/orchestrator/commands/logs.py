"""``logs`` and ``attach``: what the jobs and the controller print, without looking for job numbers.

``logs`` shows the end of each file, ``-f`` goes on; ``attach`` stays with one slot from job to job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from Daddy.cluster.orchestrator.commands.follow import Follower, follow
from Daddy.cluster.orchestrator.commands.request import Request, known_intent
from Daddy.cluster.orchestrator.records import Mode
from Daddy.core.clock import SystemClock
from Daddy.core.config import run_paths
from Daddy.core.errors import ExitCode, FileError, UsageError
from Daddy.core.lease import read_lease
from Daddy.core.paths import RunPaths

LAST = 20
"""Lines of each file that are shown first."""


def logs(request: Request, *, slot: int | None, keep_on: bool, last: int = LAST) -> int:
    """The end of the controller's log and of every slot's job, or of one slot's."""
    run, slots = _run(request, slot)
    wanted = range(slots) if slot is None else (slot,)

    def sources() -> dict[str, Path]:
        found = {"controller": run.logs / "controller.log"} if slot is None else {}
        for number in wanted:
            found |= of_slot(run, number)
        return {heading: path for heading, path in found.items() if path.exists()}

    follower = Follower(sources, last)
    shown = False
    for line in follower.first():
        print(line)
        shown = True
    if not shown:
        print(f"nothing was printed yet in {run.logs}")
    if keep_on:
        with contextlib.suppress(KeyboardInterrupt):
            follow(follower, SystemClock(), lambda: "")
    return ExitCode.DONE


def attach(request: Request, *, slot: int | None) -> int:
    """Stay with one slot (the lowest that trains unless given) until the run is over or Ctrl-C."""
    run, slots = _run(request, slot)
    number = slot if slot is not None else _lowest_held(run, slots)
    print(f"slot {number} of {run.root.name}; Ctrl-C leaves, the job goes on")
    follower = Follower(lambda: of_slot(run, number), LAST)
    with contextlib.suppress(KeyboardInterrupt):
        for line in follower.first():
            print(line)
        follow(follower, SystemClock(), lambda: _over(run))
    return ExitCode.DONE


def _run(request: Request, slot: int | None) -> tuple[RunPaths, int]:
    config = request.load()
    run = run_paths(config)
    intent, _ = known_intent(run)
    slots = intent.slots if intent is not None else config.slurm.max_running
    if not run.logs.is_dir():
        raise FileError(f"there are no logs in {run.logs}", "say start first")
    if slot is not None and not 0 <= slot < slots:
        raise UsageError(f"there is no slot {slot}", f"slots are 0 to {slots - 1}")
    return run, slots


def of_slot(run: RunPaths, number: int) -> dict[str, Path]:
    """Output files of the job that holds the slot, or held it last; heading → file."""
    view = read_lease(run.slot(number).lease)
    job = str(view.holder.get("job_id", "")) if view is not None else ""
    if not job.isdigit():
        return {}
    name = f"slot {number}, job {job}"
    return {
        name: run.logs / f"slurm-{job}.out",
        f"{name}, errors": run.logs / f"slurm-{job}.err",
    }


def _lowest_held(run: RunPaths, slots: int) -> int:
    return next(_held(run, slots), 0)


def _held(run: RunPaths, slots: int) -> Iterator[int]:
    for number in range(slots):
        view = read_lease(run.slot(number).lease)
        if view is not None and view.ended is None:
            yield number


def _over(run: RunPaths) -> str:
    intent, _ = known_intent(run)
    if intent is not None and intent.mode in (Mode.STOPPED, Mode.DONE):
        return f"the run is {intent.mode.value}"
    return ""
