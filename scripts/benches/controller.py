"""Measures the controller: time that slots stay empty between two jobs, and the share of time used.

Compares Daddy's controller, which queues successors ahead, with a reactive loop, which lists the
queue once a second and submits a job after another has ended. Both run the same short jobs in the
same local queue; at best every place is used all the time. The local queue has no waiting times, so
the gain of queueing ahead on a busy cluster is not included. Also measures the CPU time of one pass
of the planner, and the wall time of ``status``.
"""

import math
import shutil
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from Daddy.cluster.orchestrator.action_types import Submit
from Daddy.cluster.orchestrator.apply_plan import PlanApplier
from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.cluster.orchestrator.control_files import write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller import Controller
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    JobState,
    Mode,
    QueueJob,
    QueueReading,
    Snapshot,
)
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.local_scheduler import LocalScheduler
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, JobSpec
from Daddy.core.clock import SystemClock
from Daddy.core.event_log import EventWriter
from Daddy.core.lease import Lease
from Daddy.core.load_config import CHECKOUT
from Daddy.core.name_validation import new_token
from Daddy.core.run_paths import RunPaths
from scripts.benches import _planner, _status

SLOTS = 2
JOB_S = 2.0
"""Seconds that a job holds its slot."""
POLL_S = 1.0
"""Interval of the reactive loop. Such loops usually poll once a minute, a far longer gap."""

JOB = """
import sys, threading, time
from pathlib import Path
from Daddy.core.lease import Lease
from Daddy.core.host_and_processes import current_process, host_name
root, token, slots, seconds = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), float(sys.argv[4])
log = (root / "log" / token).open("a", buffering=1)
print("start", time.time(), file=log)
process = current_process()
holder = {"token": token, "host": host_name(), "pid": process.pid, "created": process.created}
lease = None
while lease is None:
    for slot in range(slots):
        lease = lease or Lease.acquire(root / "slots" / str(slot) / "lease", holder)
    time.sleep(0.02)
time.sleep(seconds)
print("end", time.time(), file=log)
lease.release("wall time")
sys.exit(10)
"""


@dataclass(frozen=True)
class Span:
    """Holds start and end of one job, wall seconds."""

    start: float
    end: float


class Stage:
    """Holds a run folder with a local queue of ``SLOTS`` places."""

    def __init__(self, root: Path) -> None:
        self.run = RunPaths(root)
        (root / "log").mkdir(parents=True)
        self.run.logs.mkdir()
        self.clock = SystemClock()
        self.scheduler = LocalScheduler(self.run.queue, SLOTS, self.clock, kill_wait_s=1.0)

    def spec(self, token: str, number: int, action: Submit) -> JobSpec:
        program = [sys.executable, "-c", JOB, str(self.run.root), token, str(SLOTS), str(JOB_S)]
        return JobSpec(
            token=token,
            number=number,
            run_id="bench-000000",
            argv=tuple(program),
            environment={"PYTHONPATH": str(CHECKOUT)},
            work_dir=self.run.root,
            logs=self.run.logs,
            script=self.run.scripts / f"{number}.sbatch",
            time_limit_s=60,
            warn_s=5,
            after=action.after,
        )

    def clear(self) -> None:
        """Cancel the jobs that run or wait."""
        for _ in range(100):
            jobs = [job for job in _jobs(self.scheduler.snapshot()) if _live(job)]
            if not jobs:
                return
            for job in jobs:
                self.scheduler.cancel(JobRef(job.job_id, job.token))
            time.sleep(0.1)

    def spans(self) -> list[Span]:
        """Return start and end of the jobs that ended by themselves."""
        spans = []
        for path in (self.run.root / "log").iterdir():
            lines = dict(line.split() for line in path.read_text().splitlines())
            if "end" in lines:
                spans.append(Span(float(lines["start"]), float(lines["end"])))
        return sorted(spans, key=lambda span: span.start)


def _jobs(listing: QueueReading) -> tuple[QueueJob, ...]:
    return listing.jobs if isinstance(listing, Snapshot) else ()


def _live(job: QueueJob) -> bool:
    return job.state is not JobState.ENDED


def run_controller(stage: Stage, seconds: float) -> None:
    """Run Daddy's controller for ``seconds``."""
    run, clock = stage.run, stage.clock
    lease = Lease.acquire(run.controller_lease, {"host": "bench"})
    assert lease is not None
    write_intent(run, DesiredRun(Mode.RUN, SLOTS, "local", "bench", "sleep"), clock.now())
    ledger = LedgerFile(run.ledger, lease.term)
    events = EventWriter(run.events, "bench", "none", "controller", "bench", clock)
    applier = PlanApplier(run, lease, ledger, stage.scheduler, stage.spec, events, clock)
    policy = ControllerPolicy(
        pass_s=1.0,
        quiet_pass_s=1.0,
        hot_pass_s=1.0,
        absence_gap_s=0.0,
        answer_s=0.0,
        enforced=True,
        max_running=SLOTS,
        spares=SLOTS,
        extra=0,
        hourly=3600,
    )
    children = ChildPrograms({}, run.logs, {}, clock)
    controller = Controller(applier, lambda _release: policy, children, lambda: (0, 0), 0.2)
    stop = threading.Event()
    timer = threading.Timer(seconds, stop.set)
    timer.start()
    controller.run_passes(stop)
    timer.cancel()


def run_reactive_loop(stage: Stage, seconds: float) -> None:
    """Every ``POLL_S`` seconds submit a job for each empty place."""
    until, number = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        missing = SLOTS - sum(1 for job in _jobs(stage.scheduler.snapshot()) if _live(job))
        for _ in range(missing):
            number += 1
            stage.scheduler.submit(stage.spec(new_token(), number, Submit("missing")))
        time.sleep(POLL_S)


def _measure(loop: Callable[[Stage, float], None], seconds: float) -> dict[str, object]:
    root = Path(tempfile.mkdtemp(prefix="daddy-bench-"))
    stage = Stage(root / "run")
    try:
        loop(stage, seconds)
        status = _status.figures(stage.run) if loop is run_controller else {}
        spans = stage.spans()
    finally:
        stage.clear()
        shutil.rmtree(root, ignore_errors=True)
    return {**_figures(spans), **status}


def _figures(spans: list[Span]) -> dict[str, object]:
    """Compute gaps and use from the first end of a job on: before it no successor started."""
    begun = min(span.end for span in spans)
    ended = max(span.end for span in spans)
    ends = sorted(span.end for span in spans)
    later = [span for span in spans if span.start > begun]
    gaps = sorted(span.start - end for span, end in zip(later, ends, strict=False))
    window = SLOTS * (ended - begun)
    used = sum(max(0.0, span.end - max(span.start, begun)) for span in spans)
    return {
        "handovers": len(gaps),
        "gap_p50_s": round(median(gaps), 3),
        "gap_p95_s": round(gaps[math.ceil(0.95 * len(gaps)) - 1], 3),
        "share_of_places_used": round(used / window, 4),
    }


def run(quick: bool) -> dict[str, object]:
    """Measure gaps and use of the places for both loops, and passes by fleet size."""
    seconds = 11.0 if quick else 60.0
    own, peer = _measure(run_controller, seconds), _measure(run_reactive_loop, seconds)
    gap, peer_gap = float(str(own["gap_p50_s"])), float(str(peer["gap_p50_s"]))
    return {
        "slots": SLOTS,
        "job_s": JOB_S,
        "ours": own,
        "reactive": {"poll_s": POLL_S, **peer},
        "gap_ours_to_reactive": round(gap / peer_gap, 3),
        "pass_ms": _planner.figures(quick=quick),
    }
