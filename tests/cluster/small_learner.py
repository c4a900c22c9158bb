"""A minimal learner: resumes the launcher's slot and checkpoint, saves, leaves when signalled.

Replaces ``Daddy.train_slim`` in a copied checkout, so that the controller's tests run real
processes, leases and files without neural networks.
"""

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from Daddy.cluster.orchestrator.read_slots import newest_checkpoint
from Daddy.core.atomic_files import write_json
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import EventWriter
from Daddy.core.job_environment import read_job
from Daddy.core.load_config import load_release_config, run_paths
from Daddy.core.slot_lease import resume_slot
from Daddy.core.stop_conditions import StopSignal, drain_margin

STEP_S = 0.1


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--attempt", required=True)
    args = parser.parse_args()
    clock, job, stopper = SystemClock(), read_job(os.environ), StopSignal().install()
    config = load_release_config(args.config)
    run = run_paths(config)
    if os.environ.get("SMALL_LEARNER_CRASHES"):
        return 1
    events = EventWriter(run.events, config.run_name, "cartpole", "learner", args.attempt, clock)
    facts = {"token": args.attempt, "job_id": job.job_id, "release": job.release}
    lease = resume_slot(run, job.slot, job.term, clock)
    if lease is None:
        return 11
    slot = lease.number
    events.write("state", 0, {"state": "claimed", "slot": slot, "term": lease.term, **facts})
    folder = run.slot(slot).checkpoints
    _, step = newest_checkpoint(folder)
    started, never = clock.now(), threading.Event()
    limit = config.training.max_runtime_seconds
    ends = job.end_time - drain_margin(job.end_time - started) if job.end_time else None
    reason = None
    while reason is None:
        clock.wait(never, STEP_S)
        step += 1
        write_json(folder / f"t{lease.term:06d}-s{step:012d}.json", {"step": step})
        lease.beat({"step": step})
        if clock.now() - started > limit or (ends and clock.now() >= ends):
            reason = "wall time"
        reason = stopper.stop_reason() or reason
    events.write("state", step, {"state": "goodbye", "reason": reason, "exit_code": 10, **facts})
    lease.release(reason)
    return 10


if __name__ == "__main__":
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    sys.exit(main())
