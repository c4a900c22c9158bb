"""Entry: supervises one local job: waits for a free place, runs it, ends it at its time limit.

``local_scheduler`` starts one such process per job, in its own session, so that it survives the
controller. The queue needs no other process: when a job ends, the runner of the next waiting job
takes its place. Signals are Slurm's: SIGUSR1 to the job's program alone before the limit; at the
end SIGTERM to all of the job's processes and, some seconds later, SIGKILL.
"""

import contextlib
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
from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.file_lock import try_lock
from Daddy.core.host_and_processes import ProcessId, current_process, identify_process
from Daddy.core.job_environment import JOB_END_TIME, JOB_ID
from Daddy.core.run_subprocess import Child, spawn_child
from Daddy.core.stop_conditions import event_on_signals

_POLL_S = 0.05
"""Seconds between two checks of the job, and of the places: a successor starts after two."""


class JobCancelledError(Exception):
    """The job was cancelled."""


class LocalJob:
    """Supervises one job from its submission to its end."""

    def __init__(
        self,
        files: LocalJobFiles,
        spec: Mapping[str, Any],
        clock: Clock,
        cancelled: threading.Event,
    ) -> None:
        self._files = files
        self._spec = spec
        self._clock = clock
        self._cancelled = cancelled
        self._child: Child | None = None

    def run(self) -> None:
        """Wait for a place and run the job; write ``end.json`` in any case."""
        for number in (signal.SIGUSR1, signal.SIGUSR2):
            signal.signal(number, self._warn)
        self._files.write("process", asdict(current_process()))
        word: str = "CANCELLED"
        code: int | None = None
        try:
            with self._place() as descriptor:
                self._raise_if_cancelled()
                word, code = self._run_child(descriptor)
        except JobCancelledError:
            code = self._end_child()
        except OSError as error:
            print(f"error: the job cannot be started: {error}", file=sys.stderr)
            word, code = "FAILED", 127 if self._child is None else self._end_child()
        finally:
            end = {"word": word, "exit_code": code, "ended_ts": self._clock.now()}
            self._files.write("end", end)

    @contextlib.contextmanager
    def _place(self) -> Iterator[int]:
        """Wait for a place, first come, first served; yield the descriptor of its lock.

        Only the first waiting job (it holds ``turn.lock``) tries the places' locks.
        """
        queue, place = self._files.folder.parent, None
        while place is None:
            self._raise_if_cancelled()
            with turn_lock(queue).open("ab") as turn:
                if try_lock(turn) and not is_job_ahead(
                    queue, self._files.job_id, self._clock.now()
                ):
                    place = self._take_place(queue)
            if place is None:
                self._wait()
        try:
            yield place
        finally:
            os.close(place)

    def _raise_if_cancelled(self) -> None:
        if self._cancelled.is_set() or self._files.read_record("cancel") is not None:
            raise JobCancelledError

    def _wait(self, seconds: float = _POLL_S) -> None:
        """Wait ``seconds``; raise JobCancelledError as soon as the cancel event is set."""
        if self._clock.wait(self._cancelled, seconds):
            raise JobCancelledError

    def _take_place(self, queue: Path) -> int | None:
        """Lock the first free place and return its descriptor; None once the job is held."""
        while not is_held(self._files):
            for number in range(int(self._spec["cap"])):
                descriptor = os.open(place_lock(queue, number), os.O_RDWR | os.O_CREAT, 0o644)
                if try_lock(descriptor):
                    return descriptor
                os.close(descriptor)
            self._wait()
        return None

    def _run_child(self, place: int) -> tuple[str, int | None]:
        limit_s, warn_s = (float(self._spec[name]) for name in ("time_limit_s", "warn_s"))
        started = self._clock.monotonic()
        child = self._start_child(place, self._clock.now() + limit_s)
        if not self._ends_before(child, started + limit_s - warn_s):
            child.signal(signal.SIGUSR1)
        if self._ends_before(child, started + limit_s):
            child.signal_group(signal.SIGKILL)  # processes it left behind
            return ("COMPLETED" if child.exit_code == 0 else "FAILED"), child.exit_code
        return "TIMEOUT", self._end_child()

    def _ends_before(self, child: Child, until: float) -> bool:
        """Return True once the child has ended, False at ``until`` (monotonic seconds)."""
        while not child.wait(0):
            remaining = until - self._clock.monotonic()
            if remaining <= 0:
                return False
            self._wait(min(_POLL_S, remaining))
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
        process = identify_process(child.pid) or ProcessId(child.pid, 0.0)
        times = {"started_ts": self._clock.now(), "ends_ts": ends}
        self._files.write("start", {**asdict(process), **times})
        return child

    def _end_child(self) -> int | None:
        """Send SIGTERM to all of the job's processes, later SIGKILL; return the exit code."""
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
    """Return the job's environment; remove submitit's variables (the last release used it)."""
    env = {key: value for key, value in os.environ.items() if not key.startswith("SUBMITIT_")}
    env.pop("CUDA_VISIBLE_DEVICES", None)
    if spec["visible_gpus"] is not None:
        env["CUDA_VISIBLE_DEVICES"] = spec["visible_gpus"]
    return {**env, **spec["environment"]}


def main(argv: list[str]) -> int:
    """Run the job of the folder ``argv[0]``."""
    parser = ArgumentParser(prog="local_job", description="Runs one job of the local queue.")
    parser.add_argument("folder", type=Path, help="folder with the job's job.json")
    args = parser.parse_args(argv)
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    files = LocalJobFiles(args.folder)
    spec = files.read_record("job")
    if spec is None:
        print(f"error: there is no job.json in {files.folder}", file=sys.stderr)
        return 1
    LocalJob(files, spec, SystemClock(), event_on_signals(signal.SIGTERM)).run()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
