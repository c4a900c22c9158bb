"""The process beside each local job: it waits for a place, runs it, keeps its limit, tells its end.

Started by ``local_scheduler`` in a session of its own, so that it survives the controller; from
then on the queue moves by itself, as under Slurm: when a job ends, the next waiting one takes its
place. Signals mean the same as there: SIGUSR1 goes to the job's program alone, the end is SIGTERM
to all of the job's processes and, some seconds later, SIGKILL.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from dataclasses import asdict
from pathlib import Path
from types import FrameType
from typing import Any

from Daddy.cluster.orchestrator.local_queue_files import (
    LocalJobFiles,
    is_held,
    is_job_ahead,
    place_lock,
    turn_lock,
)
from Daddy.core.child_process import Child, spawn_child
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.job_environment import JOB_END_TIME, JOB_ID
from Daddy.core.machine_info import ProcessId, current_process, identify_process
from Daddy.core.stop_reasons import event_on_signals

_LOOK_S = 0.05
"""Seconds between two looks, at the job and for a free place: a hand-over waits for two of them."""


class DismissedError(Exception):
    """The job was cancelled."""


class LocalJob:
    """One job from its place in the queue to its end."""

    def __init__(
        self,
        files: LocalJobFiles,
        spec: Mapping[str, Any],
        clock: Clock,
        dismissed: threading.Event,
    ) -> None:
        self._files = files
        self._spec = spec
        self._clock = clock
        self._dismissed = dismissed
        self._child: Child | None = None

    def run(self) -> None:
        """Wait, run, and write the end down in any case."""
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._warn)
        who = current_process()
        self._files.write("process", asdict(who))
        word: str = "CANCELLED"
        code: int | None = None
        try:
            with self._place() as descriptor:
                self._leave_if_cancelled()
                word, code = self._run_child(descriptor)
        except DismissedError:
            code = self._end_child()
        except OSError as error:
            print(f"error: the job cannot be started: {error}", file=sys.stderr)
            word, code = "FAILED", 127 if self._child is None else self._end_child()
        finally:
            end = {"word": word, "exit_code": code, "ended_ts": self._clock.now()}
            self._files.write("end", end)

    @contextlib.contextmanager
    def _place(self) -> Iterator[int]:
        """A place among those that may run, first come, first served.

        Only the first in line looks for one; the others look whether they are first.
        """
        queue, place = self._files.folder.parent, None
        while place is None:
            self._leave_if_cancelled()
            with _locked(turn_lock(queue)) as mine:
                if mine and not is_job_ahead(queue, self._files.job_id, self._clock.now()):
                    place = self._take_place(queue)
            if place is None:
                self._rest()
        try:
            yield place
        finally:
            os.close(place)

    def _leave_if_cancelled(self) -> None:
        if self._dismissed.is_set() or self._files.read("cancel") is not None:
            raise DismissedError

    def _rest(self, seconds: float = _LOOK_S) -> None:
        """Wait; DismissedError as soon as the job is."""
        if self._clock.wait(self._dismissed, seconds):
            raise DismissedError

    def _take_place(self, queue: Path) -> int | None:
        """A place as soon as one is free; None once the job is held."""
        while not is_held(self._files):
            for number in range(int(self._spec["cap"])):
                descriptor = _try_lock(place_lock(queue, number))
                if descriptor is not None:
                    return descriptor
            self._rest()
        return None

    def _run_child(self, place: int) -> tuple[str, int | None]:
        limit_s, warn_s = (float(self._spec[name]) for name in ("time_limit_s", "warn_s"))
        began = self._clock.monotonic()
        child = self._start_child(place, self._clock.now() + limit_s)
        if not self._sees_the_end(child, began + limit_s - warn_s):
            child.signal(signal.SIGUSR1)
        if self._sees_the_end(child, began + limit_s):
            child.signal_group(signal.SIGKILL)  # what it left behind
            return ("COMPLETED" if child.exit_code == 0 else "FAILED"), child.exit_code
        return "TIMEOUT", self._end_child()

    def _sees_the_end(self, child: Child, until: float) -> bool:
        """Whether the child ends before ``until``, on our clock; DismissedError."""
        while not child.wait(0):
            rest = until - self._clock.monotonic()
            if rest <= 0:
                return False
            self._rest(min(_LOOK_S, rest))
        return True

    def _start_child(self, place: int, ends: float) -> Child:
        logs, job_id = Path(self._spec["logs"]), self._files.job_id
        own = {JOB_ID: str(job_id), JOB_END_TIME: f"{ends:.3f}"}
        child = self._child = spawn_child(
            self._spec["argv"],
            stdout=logs / f"slurm-{job_id}.out",
            stderr=logs / f"slurm-{job_id}.err",
            env={**_environment(self._spec), **own},
            cwd=Path(self._spec["work_dir"]),
            keep_open=(place,),
        )
        who = identify_process(child.pid) or ProcessId(child.pid, 0.0)
        times = {"started_ts": self._clock.now(), "ends_ts": ends}
        self._files.write("start", {**asdict(who), **times})
        return child

    def _end_child(self) -> int | None:
        """SIGTERM to all of the job, and SIGKILL after its grace; the program's exit code."""
        if self._child is None:
            return None
        self._child.signal_group(signal.SIGTERM)
        self._child.wait(float(self._spec["kill_wait_s"]))
        self._child.signal_group(signal.SIGKILL)
        self._child.wait(None)
        return self._child.exit_code

    def _warn(self, _number: int, _frame: FrameType | None) -> None:
        if self._child is not None:
            self._child.signal(signal.SIGUSR1)


def _environment(spec: Mapping[str, Any]) -> dict[str, str]:
    """The submitter's environment; submitit, which the release before starts us by, hides GPUs."""
    kept = {key: value for key, value in os.environ.items() if not key.startswith("SUBMITIT_")}
    kept.pop("CUDA_VISIBLE_DEVICES", None)
    if spec["visible_gpus"] is not None:
        kept["CUDA_VISIBLE_DEVICES"] = spec["visible_gpus"]
    return {**kept, **spec["environment"]}


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[bool]:
    """Whether the lock was free: a job that waited for it would not see that it is dismissed."""
    descriptor = _try_lock(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            os.close(descriptor)


def _try_lock(path: Path) -> int | None:
    """None while another has it; OSError where the file system has no such locks."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o644)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    return descriptor


def main(argv: list[str]) -> int:
    """``local_job FOLDER``: run the job described there."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    files = LocalJobFiles(Path(argv[0]))
    spec = files.read("job")
    if spec is None:
        print(f"error: there is no job in {files.folder}", file=sys.stderr)
        return 1
    LocalJob(files, spec, SystemClock(), event_on_signals(signal.SIGTERM)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
