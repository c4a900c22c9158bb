"""Entry: the soak's learner, which replaces ``Daddy.train_slim`` in a copied checkout.

It resumes the launcher's lease and the checkpoint, writes heartbeats, saves every two seconds,
leaves before its wall time, and logs each phase in a diary beside the run. On a full disk it goes
on, as a learner does, and tries again when next due. It trains nothing, because the soak judges the
order of jobs and four real learners would compete for this machine's cores.
"""

import argparse
import contextlib
import json
import os
import sys
import threading
from pathlib import Path

from Daddy.cluster.orchestrator.read_slots import newest_checkpoint
from Daddy.core.atomic_files import append_line, write_json
from Daddy.core.clock import SystemClock
from Daddy.core.host_and_processes import current_process
from Daddy.core.job_environment import read_job
from Daddy.core.lease import Lease
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.stop_conditions import StopSignal, drain_margin

STEP_S = 0.25
SAVE_S = 2.0
KEEP = 3


class Diary:
    """Writes one line of JSON per event."""

    def __init__(self, path: Path, clock: SystemClock) -> None:
        self._path = path
        self._clock = clock

    def log(self, event: str, **more: object) -> None:
        append_line(self._path, json.dumps({"what": event, "at": self._clock.now(), **more}))


def main() -> int:
    """Hold the slot of the job until it has to leave."""
    parser = argparse.ArgumentParser()  # further arguments, such as the mode, are ignored
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--attempt", required=True)
    args, _ = parser.parse_known_args()
    clock, job, stopper = SystemClock(), read_job(os.environ), StopSignal().install()
    run = run_paths(load_release_config(args.config))
    if job.slot is None or job.term is None:
        return 2
    lease = Lease.resume(run.slot(job.slot).lease, job.term)
    if lease is None:
        return 11
    pid = current_process().pid
    diary = Diary(run.root.parent / "diaries" / f"{args.attempt}-{pid}.jsonl", clock)
    diary.log("born", token=args.attempt, slot=job.slot, term=job.term, pid=pid)
    ends = job.end_time or clock.now() + 60.0
    deadline = ends - drain_margin(60.0)
    reason = _train(run.slot(job.slot).checkpoints, lease, diary, stopper, deadline)
    if reason is None:
        diary.log("fenced")
        return 12
    with contextlib.suppress(OSError):  # a full disk: the controller ends the term
        lease.release(reason)
    diary.log("bye")
    return 10


def _train(
    folder: Path, lease: Lease, diary: Diary, stopper: StopSignal, deadline: float
) -> str | None:
    """Count steps until the job must leave; return the reason, None where the lease is lost."""
    clock, never = SystemClock(), threading.Event()
    _, step = newest_checkpoint(folder)
    saved = beaten = clock.monotonic()
    reason = None
    while reason is None:
        step += 1
        diary.log("step")
        now = clock.monotonic()
        if now - beaten >= 1.0:
            if not lease.held():
                return None
            _beat(lease, {"step": step})
            beaten = now
        if now - saved >= SAVE_S:
            _save(folder, lease, step, diary)
            saved = now
        clock.wait(never, STEP_S)
        reason = stopper.stop_reason() or ("wall time" if clock.now() >= deadline else None)
    diary.log("drain")
    if not lease.held():
        return None
    _beat(lease, {"step": step, "stage": "leaving"})
    _save(folder, lease, step, diary)
    return reason


def _beat(lease: Lease, data: dict[str, object]) -> None:
    with contextlib.suppress(OSError):
        lease.beat(data)


def _save(folder: Path, lease: Lease, step: int, diary: Diary) -> None:
    if lease.held():
        try:
            write_json(folder / f"t{lease.term:06d}-s{step:012d}.json", {"step": step})
        except OSError:
            return
        diary.log("save")
        for old in sorted(folder.glob("t*-s*.json"))[:-KEEP]:
            old.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
