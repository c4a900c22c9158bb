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
    within,
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


class Stage(Enum):
    """The stages of a job's life."""

    BLOCKED = "waits for another job"
    WAITING = "waits"
    BOOTING = "boots"
    TRAINING = "trains"
    HUNG = "hangs"
    LEAVING = "leaves"
    DEAD = "its node is dead, and no part of Slurm knows yet"
    ENDED = "ended"


_RUNNING = frozenset({Stage.BOOTING, Stage.TRAINING, Stage.HUNG, Stage.LEAVING, Stage.DEAD})


@dataclass(slots=True, eq=False)
class Job:
    """One job; seconds since the month's beginning."""

    number: int
    track: int
    """Slot that it works for."""
    submitted: float
    runs_s: float
    """After its start it leaves by itself."""
    limit_s: float
    after: Job | None = None
    token: str = ""
    stage: Stage = Stage.WAITING
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


class Person:
    """A policy, as the site sees it; each call tells it of one of its jobs."""

    def begin(self) -> None:
        """The month begins."""

    def started(self, job: Job) -> None:
        """A job's script begins to run."""

    def trains(self, job: Job) -> None:
        """Its first optimiser step is done."""

    def silent(self, job: Job) -> None:
        """It does nothing any more; only its silence tells."""

    def leaves(self, job: Job) -> None:
        """It leaves in good order, by itself or because it was asked to."""

    def ended(self, job: Job) -> None:
        """It is gone, for whatever reason."""


class Site:
    """One month of a queue."""

    def __init__(self, scenario: Scenario, incidents: Incidents, rng: Random) -> None:
        self.scenario = scenario
        self.incidents = incidents
        self.rng = rng
        self.now = 0.0
        self.gpu_time = GpuTime()
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self._behind: dict[Job, list[Job]] = {}
        self.trail: list[Job] = []
        """Every job that ended after it ran."""
        self.person: Person
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

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call later."""
        heapq.heappush(self._heap, (when, next(self._numbers), call))

    def live(self, person: Person) -> GpuTime:
        """The whole month of one person."""
        self.person = person
        for windows in (self.incidents.outages, self.incidents.maintenance):
            for _, end in windows:
                self.at(end, self.settle)
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
        return within(self.incidents.outages, self.now) is not None

    @property
    def broken(self) -> bool:
        """Whether the newest code is broken."""
        return within(self.incidents.deploys, self.now) is not None

    # the queue ------------------------------------------------------------------------------

    @property
    def aged(self) -> float:
        """The ageing clock of the person's waiting jobs."""
        full = len(self.running) >= self.scenario.cap
        rate = self.scenario.credit if full else 1.0
        self._aged += (self.now - self._aged_at) * rate
        self._aged_at = self.now
        return self._aged

    def submit(self, job: Job, aged: float | None = None) -> bool:
        """Whether the site takes it. ``aged``: a reading of the clock since which it has waited."""
        most = self.scenario.max_submit
        if most is not None and self.present >= most:
            return False
        self.gpu_time.submissions += 1
        self.queue(job, aged)
        return True

    def queue(self, job: Job, aged: float | None = None) -> None:
        """Add a job without a submission: a requeued job, the next task of an array."""
        self.present += 1
        if job.after is not None and job.after.stage is not Stage.ENDED:
            job.stage = Stage.BLOCKED
            self._behind.setdefault(job.after, []).append(job)
        else:
            self._admit(job, aged)

    def _admit(self, job: Job, aged: float | None = None) -> None:
        """From now on (or since the clock read ``aged``) the job waits and grows older."""
        usage = self._usage.advance(self.now, len(self.running))
        job.stage = Stage.WAITING
        since = self.aged if aged is None else aged
        job.target = since + draw_wait(self.scenario, self.incidents, self.rng, self.now, usage)
        self.waiting.append(job)
        self.settle()

    def settle(self) -> None:
        """Start the jobs that may start now, and come back when the next one may."""
        self._check += 1
        if not self.waiting or len(self.running) >= self.scenario.cap or self.down:
            return
        if self.now < self._free_at:
            self._later(self._free_at)
            return
        aged = self.aged
        ready = [job for job in self.waiting if not job.held and self.fits(job)]
        for job in sorted(ready, key=lambda job: job.target):
            if job.target > aged + _TICK_S:
                self._later(self.now + job.target - aged)
                return
            self._start(job)
            if len(self.running) >= self.scenario.cap:
                return

    def _later(self, when: float) -> None:
        check = self._check
        self.at(when, lambda: self.settle() if check == self._check else None)

    def fits(self, job: Job) -> bool:
        """No job may reach into a reservation."""
        windows = self.incidents.maintenance
        return all(self.now + job.limit_s <= begin or self.now >= end for begin, end in windows)

    def _start(self, job: Job) -> None:
        self._usage.advance(self.now, len(self.running))
        self.waiting.remove(job)
        self.running.append(job)
        job.stage, job.word, job.started = Stage.BOOTING, "RUNNING", self.now
        job.node = self._node(job)
        leaves = self.now + min(job.runs_s, job.limit_s)
        self.at(leaves, lambda: self.leave(job))
        self.at(self.now + job.limit_s, lambda: self.end(job, "TIMEOUT", None))
        self.person.started(job)

    def _node(self, job: Job) -> str:
        trapped = within(self.incidents.black_holes, self.now) and BLACK_HOLE not in job.excluded
        if trapped and self.rng.random() < self.scenario.rates.black_hole_share:
            return BLACK_HOLE
        return f"n{self.rng.randrange(_NODES)}"

    # the life of a job ----------------------------------------------------------------------

    def boot(self, job: Job, *, broken: bool) -> None:
        """The job begins to load; its fate is drawn here."""
        rates, rng = self.scenario.rates, self.rng
        if broken or job.node == BLACK_HOLE:
            self.at(self.now + rates.dies_after_s, lambda: self.end(job, "FAILED", CRASHED))
            return
        self.at(self.now + self.scenario.boot_s, lambda: self._ready(job))
        fates = (
            (rng.expovariate(1 / rates.crash_every_s), lambda: self.end(job, "FAILED", CRASHED)),
            (rng.expovariate(1 / rates.hang_every_s), lambda: self.silence(job, Stage.HUNG)),
            (rng.expovariate(1 / rates.node_failure_every_s), lambda: self._lose_node(job)),
        )
        delay, fate = min(fates, key=lambda pair: pair[0])
        if delay < job.limit_s:
            self.at(self.now + delay, fate)

    def _ready(self, job: Job) -> None:
        if job.stage is Stage.BOOTING:
            self.person.trains(job)

    def train(self, job: Job) -> None:
        """From now on its time counts."""
        if job.stage is Stage.BOOTING:
            job.stage, job.trains_from = Stage.TRAINING, self.now

    def _stop_training(self, job: Job, *, lost: bool) -> None:
        """Its time counts no longer; ``lost``: the time since the last checkpoint is redone."""
        if job.stage is not Stage.TRAINING or job.trains_from is None:
            return
        length = self.now - job.trains_from
        every = self.scenario.checkpoint_s
        job.kept_s = length // every * every if lost else length
        job.stage = Stage.HUNG

    def silence(self, job: Job, stage: Stage, *, lost: bool = True) -> None:
        """It does nothing any more, and keeps its place."""
        if job.stage in (Stage.BOOTING, Stage.TRAINING):
            self._stop_training(job, lost=lost)
            job.stage, job.silent_from = stage, self.now
            self.person.silent(job)

    def _lose_node(self, job: Job) -> None:
        if job.running:
            self.silence(job, Stage.DEAD)
            noticed = self.now + self.scenario.rates.node_noticed_s
            self.at(noticed, lambda: self.end(job, "NODE_FAIL", None))

    def leave(self, job: Job) -> None:
        """It is asked to leave, or its time is over: a last checkpoint, then it goes."""
        if job.stage not in (Stage.BOOTING, Stage.TRAINING):
            return
        self._stop_training(job, lost=False)
        job.stage = Stage.LEAVING
        self.person.leaves(job)
        self.at(self.now + self.scenario.drain_s, lambda: self.end(job, "FAILED", DRAINED))

    def end(self, job: Job, word: str, exit_code: int | None) -> None:
        """The job is gone: by itself, by its limit, by its node, or by a cancel."""
        if job.stage is Stage.ENDED:
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
        job.stage, job.word, job.exit_code, job.ended = Stage.ENDED, word, exit_code, self.now
        self.present -= 1
        for successor in self._behind.pop(job, ()):
            if successor.stage is Stage.BLOCKED:
                self._admit(successor)
        if was_running:
            self.trail.append(job)
            self.settle()
        self.person.ended(job)

    def _account(self, job: Job) -> None:
        self.gpu_time.allocated += self.now - job.started
        self.gpu_time.useful += job.kept_s
