"""Pure. Simulates a site event by event: a queue under a cap, and its jobs' failures.

A job may start once its wait is over and the number of running jobs is under the cap. Waits elapse
on a common clock that runs slower (by ``credit``) while the cap is reached, because the cap blocks
all jobs of one person together. A job ends by itself, by a drawn failure or by the policy, and the
policy's :class:`JobPolicy` methods are called at each change.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from functools import partial
from itertools import count
from typing import TYPE_CHECKING

from scripts.simulator.incidents import (
    DecayedUsage,
    Incidents,
    draw_wait,
    window_at,
)
from scripts.simulator.scenario import Scenario

if TYPE_CHECKING:
    from random import Random

BLACK_HOLE = "black-hole"
DRAINED, NOT_NEEDED, CRASHED = 10, 11, 1
_NODES = 20
_TICK_S = 1e-3
"""Tolerance for rounding errors of summed times."""


class JobStage(Enum):
    """Names the stages of a simulated job."""

    BLOCKED = "waits for another job"
    WAITING = "waits"
    BOOTING = "boots"
    TRAINING = "trains"
    HUNG = "hangs"
    LEAVING = "leaves"
    DEAD = "its node is dead, and Slurm has not noticed"
    ENDED = "ended"


_ACTIVE = (JobStage.BOOTING, JobStage.TRAINING)
_RUNNING = frozenset({*_ACTIVE, JobStage.HUNG, JobStage.LEAVING, JobStage.DEAD})


@dataclass(slots=True, eq=False)
class SimulatedJob:
    """Holds one simulated job; times in seconds since the month's beginning."""

    number: int
    track: int
    """Number of the slot that it fills."""
    submitted: float
    runs_s: float
    """Seconds after its start at which it exits by itself."""
    limit_s: float
    after: SimulatedJob | None = None
    token: str = ""
    stage: JobStage = JobStage.WAITING
    target: float = 0.0
    """Time on the site's ageing clock from which the job may start."""
    held: bool = False
    excluded: tuple[str, ...] = ()
    node: str = ""
    started: float = 0.0
    ended: float = 0.0
    word: str = "PENDING"
    exit_code: int | None = None
    trains_from: float | None = None
    kept_s: float = 0.0
    """Seconds of training that a checkpoint preserved."""
    silent_from: float | None = None

    @property
    def running(self) -> bool:
        return self.stage in _RUNNING


@dataclass(slots=True)
class GpuTime:
    """Sums up a month: GPU seconds by use, submissions and Slurm commands."""

    useful: float = 0.0
    allocated: float = 0.0
    allowed: float = 0.0
    submissions: int = 0
    commands: int = 0
    """Slurm commands of the policy, counted for our controller only."""

    @property
    def used(self) -> float:
        """Share of the GPU time under the cap in which jobs trained."""
        return self.useful / self.allowed if self.allowed else 0.0

    @property
    def idle(self) -> float:
        """Share of the allocated GPU time in which no job trained."""
        return 1 - self.useful / self.allocated if self.allocated else 0.0


class JobPolicy:
    """Reacts to events of its jobs; the site calls one method per event."""

    def submit_first_jobs(self) -> None:
        """Submit the first jobs; called at the month's beginning."""

    def on_job_started(self, job: SimulatedJob) -> None:
        """React to a job whose script starts."""

    def on_first_step(self, job: SimulatedJob) -> None:
        """React to a job that made its first optimiser step."""

    def on_job_silent(self, job: SimulatedJob) -> None:
        """React to a job that stops working and whose heartbeat stops."""

    def on_job_leaving(self, job: SimulatedJob) -> None:
        """React to a job that exits in good order, by itself or on request."""

    def on_job_ended(self, job: SimulatedJob) -> None:
        """React to a job that has ended, for any reason."""


class SimulatedSite:
    """Simulates one month of a queue."""

    def __init__(self, scenario: Scenario, incidents: Incidents, rng: Random) -> None:
        self.scenario = scenario
        self.incidents = incidents
        self.rng = rng
        self.now = 0.0
        self.gpu_time = GpuTime()
        self.running: list[SimulatedJob] = []
        self.waiting: list[SimulatedJob] = []
        self._behind: dict[SimulatedJob, list[SimulatedJob]] = {}
        self.trail: list[SimulatedJob] = []
        """Jobs that ran and ended, in that order."""
        self.policy: JobPolicy
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._usage = DecayedUsage(scenario.cap)
        self._aged = 0.0
        self._aged_at = 0.0
        self._free_at = 0.0
        self._check = 0
        self.present = 0
        """Number of jobs that wait or run."""

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        heapq.heappush(self._heap, (when, next(self._numbers), call))

    def run_month(self, policy: JobPolicy) -> GpuTime:
        """Simulate the whole month with this policy; return its GPU time and command counts."""
        self.policy = policy
        for windows in (self.incidents.outages, self.incidents.maintenance):
            for _, end in windows:
                self.call_at(end, self.start_ready_jobs)
        policy.submit_first_jobs()
        span = self.scenario.span_s
        while self._heap and self._heap[0][0] <= span:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = span
        for job in list(self.running):
            self._stop_training(job, lost=False)
            self._account(job)
        closed = sum(end - begin for begin, end in self.incidents.maintenance)
        self.gpu_time.allowed = self.scenario.cap * (span - closed)
        return self.gpu_time

    @property
    def down(self) -> bool:
        """True while slurmctld does not answer."""
        return window_at(self.incidents.outages, self.now) is not None

    @property
    def broken(self) -> bool:
        """True while the newest release is broken."""
        return window_at(self.incidents.deploys, self.now) is not None

    @property
    def aged(self) -> float:
        """Seconds on the clock on which the person's waiting jobs age."""
        full = len(self.running) >= self.scenario.cap
        rate = self.scenario.credit if full else 1.0
        self._aged += (self.now - self._aged_at) * rate
        self._aged_at = self.now
        return self._aged

    def submit(self, job: SimulatedJob, aged: float | None = None) -> bool:
        """Submit a job; return False if refused. ``aged``: ageing clock when its wait began."""
        most = self.scenario.max_submit
        if most is not None and self.present >= most:
            return False
        self.gpu_time.submissions += 1
        self.enqueue(job, aged)
        return True

    def enqueue(self, job: SimulatedJob, aged: float | None = None) -> None:
        """Add a job without a submission: a requeued job or the next task of an array."""
        self.present += 1
        if job.after is not None and job.after.stage is not JobStage.ENDED:
            job.stage = JobStage.BLOCKED
            self._behind.setdefault(job.after, []).append(job)
        else:
            self._admit(job, aged)

    def _admit(self, job: SimulatedJob, aged: float | None = None) -> None:
        """Let the job wait from now on, or since the ageing clock read ``aged``."""
        usage = self._usage.advance(self.now, len(self.running))
        job.stage = JobStage.WAITING
        since = self.aged if aged is None else aged
        job.target = since + draw_wait(self.scenario, self.incidents, self.rng, self.now, usage)
        self.waiting.append(job)
        self.start_ready_jobs()

    def start_ready_jobs(self) -> None:
        """Start the jobs that may start now, and schedule the next check."""
        self._check += 1
        if not self.waiting or len(self.running) >= self.scenario.cap or self.down:
            return
        if self.now < self._free_at:
            self._later(self._free_at)
            return
        aged = self.aged
        ready = [job for job in self.waiting if not job.held and self.may_start_now(job)]
        for job in sorted(ready, key=lambda job: job.target):
            if job.target > aged + _TICK_S:
                self._later(self.now + job.target - aged)
                return
            self._start(job)
            if len(self.running) >= self.scenario.cap:
                return

    def _later(self, when: float) -> None:
        check = self._check
        self.call_at(when, lambda: self.start_ready_jobs() if check == self._check else None)

    def may_start_now(self, job: SimulatedJob) -> bool:
        """Return False if the job's time limit reaches into a maintenance."""
        windows = self.incidents.maintenance
        return all(self.now + job.limit_s <= begin or self.now >= end for begin, end in windows)

    def _start(self, job: SimulatedJob) -> None:
        self._usage.advance(self.now, len(self.running))
        self.waiting.remove(job)
        self.running.append(job)
        job.stage, job.word, job.started = JobStage.BOOTING, "RUNNING", self.now
        job.node = self._node(job)
        leaves = self.now + min(job.runs_s, job.limit_s)
        self.call_at(leaves, lambda: self.drain_job(job))
        self.call_at(self.now + job.limit_s, lambda: self.end_job(job, "TIMEOUT", None))
        self.policy.on_job_started(job)

    def _node(self, job: SimulatedJob) -> str:
        trapped = window_at(self.incidents.black_holes, self.now) and BLACK_HOLE not in job.excluded
        if trapped and self.rng.random() < self.scenario.rates.black_hole_share:
            return BLACK_HOLE
        return f"n{self.rng.randrange(_NODES)}"

    def boot_job(self, job: SimulatedJob, *, broken: bool) -> None:
        """Let the job load, and draw the time and kind of its failure."""
        rates, rng = self.scenario.rates, self.rng
        crash: Callable[[], None] = partial(self.end_job, job, "FAILED", CRASHED)
        if broken or job.node == BLACK_HOLE:
            self.call_at(self.now + rates.dies_after_s, crash)
            return
        self.call_at(self.now + self.scenario.boot_s, lambda: self._ready(job))
        failures = (
            (rng.expovariate(1 / rates.crash_every_s), crash),
            (rng.expovariate(1 / rates.hang_every_s), lambda: self.silence_job(job, JobStage.HUNG)),
            (rng.expovariate(1 / rates.node_failure_every_s), lambda: self._lose_node(job)),
        )
        delay, failure = min(failures, key=lambda pair: pair[0])
        if delay < job.limit_s:
            self.call_at(self.now + delay, failure)

    def _ready(self, job: SimulatedJob) -> None:
        if job.stage is JobStage.BOOTING:
            self.policy.on_first_step(job)

    def start_training(self, job: SimulatedJob) -> None:
        """Count the job's time as training from now on."""
        if job.stage is JobStage.BOOTING:
            job.stage, job.trains_from = JobStage.TRAINING, self.now

    def _stop_training(self, job: SimulatedJob, *, lost: bool) -> None:
        """End the job's training time; ``lost``: the time since its last checkpoint is lost."""
        if job.stage is not JobStage.TRAINING or job.trains_from is None:
            return
        length = self.now - job.trains_from
        every = self.scenario.checkpoint_s
        job.kept_s = length // every * every if lost else length
        job.stage = JobStage.HUNG

    def silence_job(self, job: SimulatedJob, stage: JobStage, *, lost: bool = True) -> None:
        """Let the job hang: it does not work, and stays allocated."""
        if job.stage in _ACTIVE:
            self._stop_training(job, lost=lost)
            job.stage, job.silent_from = stage, self.now
            self.policy.on_job_silent(job)

    def _lose_node(self, job: SimulatedJob) -> None:
        if job.running:
            self.silence_job(job, JobStage.DEAD)
            noticed = self.now + self.scenario.rates.node_noticed_s
            self.call_at(noticed, lambda: self.end_job(job, "NODE_FAIL", None))

    def drain_job(self, job: SimulatedJob) -> None:
        """Let the job write a last checkpoint and exit."""
        if job.stage not in _ACTIVE:
            return
        self._stop_training(job, lost=False)
        job.stage = JobStage.LEAVING
        self.policy.on_job_leaving(job)
        self.call_at(self.now + self.scenario.drain_s, lambda: self.end_job(job, "FAILED", DRAINED))

    def end_job(self, job: SimulatedJob, word: str, exit_code: int | None) -> None:
        """End the job: by itself, by its limit, by its node or by a cancel."""
        if job.stage is JobStage.ENDED:
            return
        was_running = job.running
        if was_running:
            _, self._free_at = self.aged, self.now + self.scenario.start_lag_s
            self._usage.advance(self.now, len(self.running))
            self._stop_training(job, lost=True)
            self.running.remove(job)
            self._account(job)
        elif job in self.waiting:
            self.waiting.remove(job)
        job.stage, job.word, job.exit_code, job.ended = JobStage.ENDED, word, exit_code, self.now
        self.present -= 1
        for successor in self._behind.pop(job, ()):
            if successor.stage is JobStage.BLOCKED:
                self._admit(successor)
        if was_running:
            self.trail.append(job)
            self.start_ready_jobs()
        self.policy.on_job_ended(job)

    def _account(self, job: SimulatedJob) -> None:
        self.gpu_time.allocated += self.now - job.started
        self.gpu_time.useful += job.kept_s
