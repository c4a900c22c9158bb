"""Pure: the simulated site, event by event: a queue under a cap, and jobs that meet their fate.

A job may start once its wait is over and a place under the cap is free. A wait runs on a clock of
the whole site, which goes slower (``credit``) while the cap is full, as all jobs of one person are
blocked by it together. Every job of one policy ends by itself, by its fate or by the policy's hand;
the policy is told through :class:`Person`.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from Daddy.cluster.orchestrator.simulate.jobs import CRASHED, DRAINED, Books, Job, Stage
from Daddy.cluster.orchestrator.simulate.scenario import Scenario
from Daddy.cluster.orchestrator.simulate.waits import Usage, Waits
from Daddy.cluster.orchestrator.simulate.weather import Weather, within

if TYPE_CHECKING:
    from random import Random

BLACK_HOLE = "black-hole"
_NODES = 20
_TICK_S = 1e-3
"""Clocks that are summed up differ by less than this."""


class Person(Protocol):
    """Whoever uses the site, as the site sees it: a policy."""

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

    def __init__(self, scenario: Scenario, weather: Weather, luck: Random) -> None:
        self.scenario = scenario
        self.weather = weather
        self.luck = luck
        self.now = 0.0
        self.books = Books()
        self.running: list[Job] = []
        self.waiting: list[Job] = []
        self._behind: dict[Job, list[Job]] = {}
        self.trail: list[Job] = []
        """Every job that ended after it ran."""
        self.person: Person
        self._heap: list[tuple[float, int, Callable[[], None]]] = []
        self._events = 0
        self._waits = Waits(scenario, weather, luck)
        self._usage = Usage(scenario.cap)
        self._aged = 0.0
        self._aged_at = 0.0
        self._free_at = 0.0
        self._check = 0
        self.present = 0
        """Jobs that wait or run."""

    # time -----------------------------------------------------------------------------------

    def at(self, when: float, call: Callable[[], None]) -> None:
        """Call later."""
        self._events += 1
        heapq.heappush(self._heap, (when, self._events, call))

    def live(self, person: Person) -> Books:
        """The whole month of one person."""
        self.person = person
        for windows in (self.weather.outages, self.weather.maintenance):
            for _, end in windows:
                self.at(end, self._settle)
        person.begin()
        span = self.scenario.span_s
        while self._heap and self._heap[0][0] <= span:
            self.now, _, call = heapq.heappop(self._heap)
            call()
        self.now = span
        for job in list(self.running):
            self._stop_training(job, lost=False)
            self._account(job)
        closed = sum(end - begin for begin, end in self.weather.maintenance)
        self.books.allowed = self.scenario.cap * (span - closed)
        return self.books

    @property
    def down(self) -> bool:
        """Whether slurmctld does not answer."""
        return within(self.weather.outages, self.now) is not None

    @property
    def broken(self) -> bool:
        """Whether the newest code is broken."""
        return within(self.weather.deploys, self.now) is not None

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
        self.books.submissions += 1
        self.queue(job, aged)
        return True

    def queue(self, job: Job, aged: float | None = None) -> None:
        """The job is there, and nobody had to ask: a requeued job, the next task of an array."""
        self.present += 1
        if job.after is not None and job.after.stage is not Stage.ENDED:
            job.stage = Stage.BLOCKED
            self._behind.setdefault(job.after, []).append(job)
        else:
            self.admit(job, aged)

    def admit(self, job: Job, aged: float | None = None) -> None:
        """From now on (or since the clock read ``aged``) the job waits and grows older."""
        usage = self._usage.advance(self.now, len(self.running))
        job.stage = Stage.WAITING
        since = self.aged if aged is None else aged
        job.target = since + self._waits.draw(self.now, usage)
        self.waiting.append(job)
        self._settle()

    def changed(self) -> None:
        """Something about a waiting job is other than before."""
        self._settle()

    def _settle(self) -> None:
        """Start what may start now, and come back when the next one may."""
        self._check += 1
        if not self.waiting or len(self.running) >= self.scenario.cap or self.down:
            return
        if self.now < self._free_at:
            self._later(self._free_at)
            return
        aged = self.aged
        ready = [job for job in self.waiting if not job.held and self.fits(job)]
        for job in sorted(ready, key=lambda one: one.target):
            if job.target > aged + _TICK_S:
                self._later(self.now + job.target - aged)
                return
            self._start(job)
            if len(self.running) >= self.scenario.cap:
                return

    def _later(self, when: float) -> None:
        check = self._check
        self.at(when, lambda: self._settle() if check == self._check else None)

    def fits(self, job: Job) -> bool:
        """No job may reach into a reservation."""
        windows = self.weather.maintenance
        return all(self.now + job.limit_s <= begin or self.now >= end for begin, end in windows)

    def _start(self, job: Job) -> None:
        self._usage.advance(self.now, len(self.running))
        self.waiting.remove(job)
        self.running.append(job)
        self.books.starts += 1
        job.stage, job.word, job.started = Stage.BOOTING, "RUNNING", self.now
        job.node = self._node(job)
        leaves = self.now + min(job.runs_s, job.limit_s)
        self.at(leaves, lambda: self.leave(job))
        self.at(self.now + job.limit_s, lambda: self.end(job, "TIMEOUT", None))
        self.person.started(job)

    def _node(self, job: Job) -> str:
        trapped = within(self.weather.black_holes, self.now) and BLACK_HOLE not in job.excluded
        if trapped and self.luck.random() < self.scenario.rates.black_hole_share:
            return BLACK_HOLE
        return f"n{self.luck.randrange(_NODES)}"

    # the life of a job ----------------------------------------------------------------------

    def boot(self, job: Job, *, broken: bool) -> None:
        """The job begins to load; what will become of it is drawn here."""
        rates, luck = self.scenario.rates, self.luck
        if broken or job.node == BLACK_HOLE:
            self.at(self.now + rates.dies_after_s, lambda: self.end(job, "FAILED", CRASHED))
            return
        self.at(self.now + self.scenario.boot_s, lambda: self._ready(job))
        fates = (
            (luck.expovariate(1 / rates.crash_every_s), lambda: self.end(job, "FAILED", CRASHED)),
            (luck.expovariate(1 / rates.hang_every_s), lambda: self.silence(job, Stage.HUNG)),
            (luck.expovariate(1 / rates.node_failure_every_s), lambda: self._lose_node(job)),
        )
        delay, fate = min(fates, key=lambda one: one[0])
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
        """Its time counts no longer; ``lost``: what came after the last checkpoint is redone."""
        if job.stage is not Stage.TRAINING or job.trains_from is None:
            return
        length = self.now - job.trains_from
        job.trains_to = self.now
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
        """The job is gone: by itself, by its limit, by its node, or by somebody's hand."""
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
        for one in self._behind.pop(job, ()):
            if one.stage is Stage.BLOCKED:
                self.admit(one)
        if was_running:
            self.trail.append(job)
            self._settle()
        self.person.ended(job)

    def _account(self, job: Job) -> None:
        self.books.allocated += self.now - job.started
        self.books.useful += job.kept_s
