"""Builds small simulated sites."""

from dataclasses import replace
from random import Random

from scripts.simulator.incidents import Incidents, draw_incidents
from scripts.simulator.scenario import DAY_S, Rates, Scenario, Workload
from scripts.simulator.simulated_site import SimulatedJob, SimulatedSite

NEVER = 1e15
CALM = Rates(
    crash_every_s=NEVER,
    hang_every_s=NEVER,
    node_failure_every_s=NEVER,
    outage_every_s=NEVER,
    controller_death_every_s=NEVER,
    bad_deploys=0,
    black_holes=0,
)
"""Rates without any failure."""


def steady(wait_s: float, **facts) -> Scenario:
    """Build a site without failures where all jobs wait equally long."""
    workload = Workload("steady", wait_s, 0.0)
    return Scenario(workload, **{"days": 2.0, "rates": CALM, **facts})


def incidents_of(scenario: Scenario, **facts) -> Incidents:
    calm = draw_incidents(scenario, Random(1))
    return replace(calm, **facts)


class Watcher:
    """Submits jobs at given times and records their events."""

    def __init__(self, scenario: Scenario, submits=(), incidents: Incidents | None = None) -> None:
        self.site = SimulatedSite(scenario, incidents or incidents_of(scenario), Random(2))
        self.submits = submits
        self.seen: list[tuple[float, str, int]] = []
        self.jobs: list[SimulatedJob] = []
        self.most = 0

    def submit_first_jobs(self) -> None:
        for number, when in enumerate(self.submits):
            self.site.call_at(when, lambda number=number: self.submit(number))

    def submit(self, number: int, **facts) -> bool:
        scenario = self.site.scenario
        basics = {"runs_s": scenario.limit_s - 180, "limit_s": scenario.limit_s}
        job = SimulatedJob(number, 0, self.site.now, **{**basics, **facts})
        self.jobs.append(job)
        return self.site.submit(job)

    def note(self, what: str, job: SimulatedJob) -> None:
        self.seen.append((round(self.site.now), what, job.number))
        self.most = max(self.most, len(self.site.running))

    def on_job_started(self, job: SimulatedJob) -> None:
        self.note("started", job)
        self.site.boot_job(job, broken=self.site.broken)

    def on_first_step(self, job: SimulatedJob) -> None:
        self.note("trains", job)
        self.site.start_training(job)

    def on_job_silent(self, job: SimulatedJob) -> None:
        self.note("silent", job)

    def on_job_leaving(self, job: SimulatedJob) -> None:
        self.note("leaves", job)

    def on_job_ended(self, job: SimulatedJob) -> None:
        self.note("ended", job)

    def when(self, what: str) -> dict[int, float]:
        return {number: now for now, said, number in self.seen if said == what}


def live(watcher: Watcher):
    return watcher.site.run_month(watcher)


DAY = DAY_S
