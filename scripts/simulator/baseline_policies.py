"""Implements the five policies that are in use elsewhere, on the simulated site.

Sources: ``docs/simulator.md``. A person reacts ``human_s`` seconds after a failure that needs one.
"""

from collections import deque
from collections.abc import Callable

from Daddy.core.stop_conditions import drain_margin
from scripts.simulator.simulated_site import (
    DRAINED,
    JobPolicy,
    JobStage,
    SimulatedJob,
    SimulatedSite,
)

_POLL_S, _PAUSE_S = 60.0, 15.0
_SEED_RUNS_S = 13_500.0
_WARNED_S = 90.0
_REQUEUE_S = 125.0
_DEPTH = 45
_TASKS = 1000


class Baseline(JobPolicy):
    """Implements the steps that the five policies share: start, load, train, and no hang check."""

    def __init__(self, site: SimulatedSite) -> None:
        self.site = site
        self.slots = range(site.scenario.cap)
        self.runs_s = site.scenario.limit_s - drain_margin(site.scenario.limit_s)
        self._made = 0

    def make_job(self, slot: int, after: SimulatedJob | None = None) -> SimulatedJob:
        self._made += 1
        site = self.site
        return SimulatedJob(self._made, slot, site.now, self.runs_s, site.scenario.limit_s, after)

    def try_submit(self, job: SimulatedJob) -> bool:
        """Submit a job; return False if slurmctld is down or refuses it."""
        return not self.site.down and self.site.submit(job)

    def wait_for_person(self, call: Callable[[], None]) -> None:
        """Run ``call`` after ``human_s`` simulated seconds, when a person has reacted."""
        self.site.call_at(self.site.now + self.site.scenario.rates.human_s, call)

    def on_job_started(self, job: SimulatedJob) -> None:
        self.site.boot_job(job, broken=self.site.broken)

    def on_first_step(self, job: SimulatedJob) -> None:
        self.site.start_training(job)


class SeedPerSlot(Baseline):
    """Polls each job from a loop on the login node; 15 s after its end submits the next job."""

    def submit_first_jobs(self) -> None:
        site = self.site
        self.runs_s = min(_SEED_RUNS_S, self.runs_s)
        self.alive = True
        self.jobs: dict[int, SimulatedJob] = {}
        for death in site.incidents.deaths:
            site.call_at(death, self._die)
        for outage, end in site.incidents.outages:
            poll = outage + site.rng.uniform(0, _POLL_S)
            if poll < end:  # no answer reads as an ended job, and the next sbatch ends the loop
                site.call_at(poll, self._die)
        self._fill()

    def _die(self) -> None:
        if self.alive:
            self.alive = False
            self.wait_for_person(self._revive)

    def _revive(self) -> None:
        if self.site.down:
            self.wait_for_person(self._revive)
            return
        self.alive = True
        self._fill()

    def _fill(self) -> None:
        for slot in self.slots:
            if slot not in self.jobs or self.jobs[slot].stage is JobStage.ENDED:
                self.resubmit(slot)

    def on_job_ended(self, job: SimulatedJob) -> None:
        later = self.site.rng.uniform(0, _POLL_S) + _PAUSE_S
        if self.jobs.get(job.track) is job:
            self.site.call_at(self.site.now + later, lambda: self._gone(job))

    def _gone(self, job: SimulatedJob) -> None:
        if self.alive and self.jobs[job.track] is job:
            self.resubmit(job.track)

    def resubmit(self, slot: int) -> None:
        job = self.make_job(slot)
        if self.try_submit(job):
            self.jobs[slot] = job
        else:
            self._die()


class SeedGang(SeedPerSlot):
    """Runs SeedPerSlot's loop for ranks that train only together and are cancelled together."""

    def on_first_step(self, job: SimulatedJob) -> None:
        """Start the training of all ranks once the last of them has loaded."""
        job.silent_from = self.site.now
        team = [rank for rank in self.jobs.values() if rank.stage is JobStage.BOOTING]
        if len(team) == len(self.slots) and all(rank.silent_from is not None for rank in team):
            for rank in team:
                self.site.start_training(rank)

    def on_job_leaving(self, job: SimulatedJob) -> None:
        for rank in self.jobs.values():
            if rank is not job:
                self.site.silence_job(rank, JobStage.HUNG, lost=False)

    def on_job_ended(self, job: SimulatedJob) -> None:
        if self.jobs.get(job.track) is not job:
            return
        for rank in self.jobs.values():
            self.site.silence_job(rank, JobStage.HUNG)
        super().on_job_ended(job)

    def _gone(self, job: SimulatedJob) -> None:
        if self.alive and self.jobs[job.track] is job:
            self._fill()

    def _fill(self) -> None:
        old, self.jobs = self.jobs, {}
        for rank in old.values():
            self.site.end_job(rank, "CANCELLED", None)
        for slot in self.slots:
            self.resubmit(slot)


class SelfRequeue(Baseline):
    """Requeues a job that Slurm warns before its limit; other failures need a person."""

    def submit_first_jobs(self) -> None:
        self.runs_s = self.site.scenario.limit_s - _WARNED_S
        for slot in self.slots:
            self._submit(slot)

    def _submit(self, slot: int) -> None:
        if not self.try_submit(self.make_job(slot)):
            self.wait_for_person(lambda: self._submit(slot))

    def on_job_ended(self, job: SimulatedJob) -> None:
        site = self.site
        if job.word == "NODE_FAIL" or (job.exit_code == DRAINED and not site.down):
            site.call_at(site.now + _REQUEUE_S, lambda: site.enqueue(self.make_job(job.track)))
        else:
            self.wait_for_person(lambda: self._submit(job.track))


class SingletonChain(Baseline):
    """Submits 45 jobs per slot, each after the one before; a person submits the next 45."""

    def submit_first_jobs(self) -> None:
        self.chains: dict[int, deque[SimulatedJob]] = {slot: deque() for slot in self.slots}
        for slot in self.slots:
            self._fill(slot)

    def _fill(self, slot: int) -> None:
        chain, last = self.chains[slot], None
        while len(chain) < _DEPTH and self.try_submit(job := self.make_job(slot, last)):
            chain.append(job)
            last = job
        if not chain:
            self.wait_for_person(lambda: self._fill(slot))

    def on_job_ended(self, job: SimulatedJob) -> None:
        self.chains[job.track].popleft()
        if not self.chains[job.track]:
            self.wait_for_person(lambda: self._fill(job.track))


class Array(Baseline):
    """Submits ``--array=0-999%4``, whose tasks Slurm starts; a person submits the next array."""

    def submit_first_jobs(self) -> None:
        self.left, self.aged, self.needed = 0, 0.0, False
        self._fill()

    def _fill(self) -> None:
        site = self.site
        if site.down:
            self.wait_for_person(self._fill)
            return
        most = site.scenario.max_submit
        self.left = _TASKS if most is None else min(_TASKS, most - site.present)
        self.aged, self.needed = site.aged, False
        self.site.gpu_time.submissions += 1
        self._next()

    def _next(self) -> None:
        """Queue as many tasks as may run, all with the array's age."""
        site = self.site
        while len(site.waiting) < max(1, site.scenario.cap - len(site.running)):
            if self.left <= 0:
                if not self.needed:
                    self.needed = True
                    self.wait_for_person(self._fill)
                return
            self.left -= 1
            site.enqueue(self.make_job(0), self.aged)

    def on_job_started(self, job: SimulatedJob) -> None:
        busy = {other.track for other in self.site.running if other is not job}
        job.track = next(slot for slot in self.slots if slot not in busy)
        super().on_job_started(job)

    def on_job_ended(self, _job: SimulatedJob) -> None:
        self._next()


BASELINES: dict[str, type[Baseline]] = {
    "seed_gang": SeedGang,
    "seed_per_slot": SeedPerSlot,
    "self_requeue": SelfRequeue,
    "singleton": SingletonChain,
    "array": Array,
}
