"""Pure. The simulated site, event by event: a queue under a cap, and jobs that meet their fate.

A job may start once its wait is over and a place under the cap is free. A wait runs on a clock of
the whole site, which goes slower (``credit``) while the cap is full, as all jobs of one person are
blocked by it together. Every job of one policy ends by itself, by its fate or by the policy's hand;
the policy is told through :class:`Person`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from itertools import count
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.simulate.incidents import (
    DecayedUsage,
    Incidents,
    draw_wait,
    window_at,
)
from Daddy.cluster.orchestrator.simulate.scenario import Scenario

if TYPE_CHECKING:
    from random import Random

BLACK_HOLE = "black-hole"
DRAINED, NOT_NEEDED, CRASHED = 10, 11, 1
"""Exit codes."""
_NODES = 20
_TICK_S = 1e-3
"""Clocks that are summed up differ by less than this."""


class JobStage(Enum):
    """The stages of a job's life."""

    BLOCKED = "waits for another job"
    WAITING = "waits"
    BOOTING = "boots"
    TRAINING = "trains"
    HUNG = "hangs"
    LEAVING = "leaves"
    DEAD = "its node is dead, and no part of Slurm knows yet"
    ENDED = "ended"


_RUNNING = frozenset(
    {JobStage.BOOTING, JobStage.TRAINING, JobStage.HUNG, JobStage.LEAVING, JobStage.DEAD}
)


@dataclass(slots=True, eq=False)
class SimulatedJob:
    """One job; seconds since the month's beginning."""

    number: int
    track: int
    """Slot that it works for."""
    submitted: float
    runs_s: float
    """After its start it leaves by itself."""
    limit_s: float
    after: SimulatedJob | None = None
    token: str = ""
    stage: JobStage = JobStage.WAITING
    target: float = 0.0
    """Reading of the site's ageing clock from which it may start."""
    held: bool = False
    excluded: tuple[str, ...] = ()
    node: str = ""
    started: float = 0.0
    ended: float = 0.0
    word: str = "PENDING"
    exit_code: int | None = None
    trains_from: float | None = None
    kept_s: float = 0.0
    """Training that was not lost."""
    silent_from: float | None = None

    @property
    def running(self) -> bool:
        return self.stage in _RUNNING


@dataclass(slots=True)
class GpuTime:
    """The use of one month's GPU time, in GPU seconds, and the calls that it took."""

    useful: float = 0.0
    allocated: float = 0.0
    allowed: float = 0.0
    submissions: int = 0
    commands: int = 0
    """Slurm commands that the policy ran; only counted for ours."""

    @property
    def used(self) -> float:
        """Share of the GPU time allowed by the cap that trained."""
        return self.useful / self.allowed if self.allowed else 0.0

    @property
    def idle(self) -> float:
        """Share of the GPU time allocated that did not train."""
        return 1 - self.useful / self.allocated if self.allocated else 0.0


class SubmissionPolicy:
    """A policy, as the site sees it; each call tells it of one of its jobs."""

    def begin(self) -> None:
        """The month begins."""

    def started(self, job: SimulatedJob) -> None:
        """A job's script begins to run."""

    def trains(self, job: SimulatedJob) -> None:
        """Its first optimiser step is done."""

    def silent(self, job: SimulatedJob) -> None:
        """It does nothing any more; only its silence tells."""

    def leaves(self, job: SimulatedJob) -> None:
        """It leaves in good order, by itself or because it was asked to."""

    def ended(self, job: SimulatedJob) -> None:
        """It is gone, for whatever reason."""


class SimulatedSite:
    """One month of a queue."""

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
        """Every job that ended after it ran."""
        self.person: SubmissionPolicy
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._numbers = count()
        self._usage = DecayedUsage(scenario.cap)
        self._aged = 0.0
        self._aged_at = 0.0
        self._free_at = 0.0
        self._check = 0
        self.present = 0
        """Jobs that wait or run."""

    # time -----------------------------------------------------------------------------------

    def call_at(self, when: float, call: Callable[[], None]) -> None:
        """Call later."""
        heapq.heappush(self._heap, (when, next(self._numbers), call))

    def run_month(self, person: SubmissionPolicy) -> GpuTime:
        """The whole month of one person."""
        self.person = person
        for windows in (self.incidents.outages, self.incidents.maintenance):
            for _, end in windows:
                self.call_at(end, self.start_ready_jobs)
        person.begin()
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
        """Whether slurmctld does not answer."""
        return window_at(self.incidents.outages, self.now) is not None

    @property
    def broken(self) -> bool:
        """Whether the newest code is broken."""
        return window_at(self.incidents.deploys, self.now) is not None

    # the queue ------------------------------------------------------------------------------

    @property
    def aged(self) -> float:
        """The ageing clock of the person's waiting jobs."""
        full = len(self.running) >= self.scenario.cap
        rate = self.scenario.credit if full else 1.0
        self._aged += (self.now - self._aged_at) * rate
        self._aged_at = self.now
        return self._aged

    def submit(self, job: SimulatedJob, aged: float | None = None) -> bool:
        """Whether the site takes it. ``aged``: a reading of the clock since which it has waited."""
        most = self.scenario.max_submit
        if most is not None and self.present >= most:
            return False
        self.gpu_time.submissions += 1
        self.enqueue(job, aged)
        return True

    def enqueue(self, job: SimulatedJob, aged: float | None = None) -> None:
        """Add a job without a submission: a requeued job, the next task of an array."""
        self.present += 1
        if job.after is not None and job.after.stage is not JobStage.ENDED:
            job.stage = JobStage.BLOCKED
            self._behind.setdefault(job.after, []).append(job)
        else:
            self._admit(job, aged)

    def _admit(self, job: SimulatedJob, aged: float | None = None) -> None:
        """From now on (or since the clock read ``aged``) the job waits and grows older."""
        usage = self._usage.advance(self.now, len(self.running))
        job.stage = JobStage.WAITING
        since = self.aged if aged is None else aged
        job.target = since + draw_wait(self.scenario, self.incidents, self.rng, self.now, usage)
        self.waiting.append(job)
        self.start_ready_jobs()

    def start_ready_jobs(self) -> None:
        """Start the jobs that may start now, and come back when the next one may."""
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
        """No job may reach into a reservation."""
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
        self.person.started(job)

    def _node(self, job: SimulatedJob) -> str:
        trapped = window_at(self.incidents.black_holes, self.now) and BLACK_HOLE not in job.excluded
        if trapped and self.rng.random() < self.scenario.rates.black_hole_share:
            return BLACK_HOLE
        return f"n{self.rng.randrange(_NODES)}"

    # the life of a job ----------------------------------------------------------------------

    def boot_job(self, job: SimulatedJob, *, broken: bool) -> None:
        """The job begins to load; its fate is drawn here."""
        rates, rng = self.scenario.rates, self.rng
        if broken or job.node == BLACK_HOLE:
            self.call_at(
                self.now + rates.dies_after_s, lambda: self.end_job(job, "FAILED", CRASHED)
            )
            return
        self.call_at(self.now + self.scenario.boot_s, lambda: self._ready(job))
        fates = (
            (
                rng.expovariate(1 / rates.crash_every_s),
                lambda: self.end_job(job, "FAILED", CRASHED),
            ),
            (rng.expovariate(1 / rates.hang_every_s), lambda: self.silence_job(job, JobStage.HUNG)),
            (rng.expovariate(1 / rates.node_failure_every_s), lambda: self._lose_node(job)),
        )
        delay, fate = min(fates, key=lambda pair: pair[0])
        if delay < job.limit_s:
            self.call_at(self.now + delay, fate)

    def _ready(self, job: SimulatedJob) -> None:
        if job.stage is JobStage.BOOTING:
            self.person.trains(job)

    def start_training(self, job: SimulatedJob) -> None:
        """From now on its time counts."""
        if job.stage is JobStage.BOOTING:
            job.stage, job.trains_from = JobStage.TRAINING, self.now

    def _stop_training(self, job: SimulatedJob, *, lost: bool) -> None:
        """Its time counts no longer; ``lost``: the time since the last checkpoint is redone."""
        if job.stage is not JobStage.TRAINING or job.trains_from is None:
            return
        length = self.now - job.trains_from
        every = self.scenario.checkpoint_s
        job.kept_s = length // every * every if lost else length
        job.stage = JobStage.HUNG

    def silence_job(self, job: SimulatedJob, stage: JobStage, *, lost: bool = True) -> None:
        """It does nothing any more, and keeps its place."""
        if job.stage in (JobStage.BOOTING, JobStage.TRAINING):
            self._stop_training(job, lost=lost)
            job.stage, job.silent_from = stage, self.now
            self.person.silent(job)

    def _lose_node(self, job: SimulatedJob) -> None:
        if job.running:
            self.silence_job(job, JobStage.DEAD)
            noticed = self.now + self.scenario.rates.node_noticed_s
            self.call_at(noticed, lambda: self.end_job(job, "NODE_FAIL", None))

    def drain_job(self, job: SimulatedJob) -> None:
        """It is asked to leave, or its time is over: a last checkpoint, then it goes."""
        if job.stage not in (JobStage.BOOTING, JobStage.TRAINING):
            return
        self._stop_training(job, lost=False)
        job.stage = JobStage.LEAVING
        self.person.leaves(job)
        self.call_at(self.now + self.scenario.drain_s, lambda: self.end_job(job, "FAILED", DRAINED))

    def end_job(self, job: SimulatedJob, word: str, exit_code: int | None) -> None:
        """The job is gone: by itself, by its limit, by its node, or by a cancel."""
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
        self.person.ended(job)

    def _account(self, job: SimulatedJob) -> None:
        self.gpu_time.allocated += self.now - job.started
        self.gpu_time.useful += job.kept_s
