"""The soak's learner, put in the place of ``Daddy.train_slim`` in a copied checkout.

It does what the seams ask (resume the launcher's lease, resume a checkpoint, beat, save every two
seconds, leave before its wall time) and keeps a diary of its phases. Four real learners would
fight over the cores of one machine and measure that; what is judged here is who runs when.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import threading
from pathlib import Path

from Daddy.cluster.orchestrator.slot_status import newest_checkpoint
from Daddy.core.atomic_files import append_line, write_json
from Daddy.core.clock import SystemClock
from Daddy.core.job_environment import read_job
from Daddy.core.lease import Lease
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.machine_info import current_process
from Daddy.core.stop_reasons import StopSignal, drain_margin

STEP_S = 0.25
SAVE_S = 2.0
KEEP = 3


class Diary:
    """One line per thing that happened."""

    def __init__(self, path: Path, clock: SystemClock) -> None:
        self._path = path
        self._clock = clock

    def note(self, what: str, **more: object) -> None:
        append_line(self._path, json.dumps({"what": what, "at": self._clock.now(), **more}))


def main() -> int:
    """Train nothing, in good order."""
    parser = argparse.ArgumentParser()
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
    diary = Diary(run.root / "diaries" / f"{args.attempt}-{pid}.jsonl", clock)
    diary.note("born", token=args.attempt, slot=job.slot, term=job.term, pid=pid)
    ends = job.end_time or clock.now() + 60.0
    deadline = ends - drain_margin(60.0)
    why = _train(run.slot(job.slot).checkpoints, lease, diary, stopper, deadline)
    if why is None:
        diary.note("fenced")
        return 12
    lease.release(why)
    diary.note("bye")
    return 10


def _train(
    folder: Path, lease: Lease, diary: Diary, stopper: StopSignal, deadline: float
) -> str | None:
    """Steps until it is time to leave (why), or the slot was given away (None)."""
    clock, never = SystemClock(), threading.Event()
    _, step = newest_checkpoint(folder)
    saved = beaten = clock.monotonic()
    why = None
    while why is None:
        step += 1
        diary.note("step")
        now = clock.monotonic()
        if now - beaten >= 1.0:
            if not lease.held():
                return None
            lease.beat({"step": step})
            beaten = now
        if now - saved >= SAVE_S:
            _save(folder, lease, step, diary)
            saved = now
        clock.wait(never, STEP_S)
        why = stopper.stop_reason() or ("wall time" if clock.now() >= deadline else None)
    diary.note("drain")
    if not lease.held():
        return None
    lease.beat({"step": step, "stage": "leaving"})
    _save(folder, lease, step, diary)
    return why


def _save(folder: Path, lease: Lease, step: int, diary: Diary) -> None:
    if lease.held():
        write_json(folder / f"t{lease.term:06d}-s{step:012d}.json", {"step": step})
        diary.note("save")
        for old in sorted(folder.glob("t*-s*.json"))[:-KEEP]:
            old.unlink(missing_ok=True)


if __name__ == "__main__":
    sys.exit(main())
