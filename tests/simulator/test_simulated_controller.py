"""The product's plan on the simulated site: failures cost little and break no rule."""

from dataclasses import replace
from random import Random

import pytest

from Daddy.cluster.orchestrator.action_types import Plan
from scripts.simulator import simulated_controller
from scripts.simulator.incidents import draw_incidents
from scripts.simulator.scenario import WORKLOADS, Scenario
from scripts.simulator.simulated_controller import SimulatedController
from scripts.simulator.simulated_site import (
    BLACK_HOLE,
    JobStage,
    SimulatedJob,
    SimulatedSite,
)
from tests.simulator.conftest import CALM, DAY, steady


class Judged(SimulatedController):
    """Checks every start and claim of our controller."""

    def __init__(self, site: SimulatedSite, **facts) -> None:
        super().__init__(site, **facts)
        self.most_running = self.most_waiting = 0

    def on_job_started(self, job: SimulatedJob) -> None:
        super().on_job_started(job)
        self.most_running = max(self.most_running, len(self.site.running))
        holders = [slot.job for slot in self.leases.slots if slot.end_reason is None]
        assert len(holders) == len(set(holders)), "one job holds two slots"

    def _pass(self) -> None:
        super()._pass()
        self.most_waiting = max(self.most_waiting, len(self.site.waiting))


def month(scenario: Scenario, seed: int = 1, daemon: bool = True, **events) -> Judged:
    incidents = replace(draw_incidents(scenario, Random(f"weather {seed}")), **events)
    site = SimulatedSite(scenario, incidents, Random(seed))
    judged = Judged(site, daemon=daemon)
    site.run_month(judged)
    return judged


@pytest.mark.parametrize("name", ["kalos", "philly", "busy"])
def test_a_rough_month_breaks_no_rule(name: str) -> None:
    judged = month(Scenario(WORKLOADS[name], days=15))
    assert judged.most_running == 4
    policy = judged.policy
    assert judged.most_waiting <= policy.max_running + policy.spares + policy.extra
    assert judged.site.gpu_time.idle < 0.01
    assert judged.site.gpu_time.commands / 15 < 1500


def test_where_nothing_goes_wrong_only_boots_and_hand_overs_are_lost() -> None:
    judged = month(steady(30, days=5.0))
    per_cycle = (15 + 3 + 2) / 13_500
    assert judged.site.gpu_time.used == pytest.approx(1 - per_cycle, abs=0.001)
    assert judged.site.gpu_time.submissions == pytest.approx(8 + 4 * 5 * DAY / 13_504, abs=4)


def test_it_is_the_products_own_plan_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    def idle(_desired: object, _ledger: object, _seen: object, _policy: object, now: float) -> Plan:
        return Plan((), ("nothing",), now + 60)

    monkeypatch.setattr(simulated_controller, "plan", idle)
    assert month(steady(60)).site.gpu_time.submissions == 0


def test_a_hung_job_is_ended_after_its_silence() -> None:
    rates = replace(CALM, hang_every_s=DAY / 4)
    judged = month(steady(60, rates=rates, days=4.0))
    hung = [job for job in judged.site.trail if job.silent_from is not None]
    assert len(hung) > 10
    assert {job.word for job in hung} == {"CANCELLED"}
    late = [job.ended - job.silent_from for job in hung if job.silent_from is not None]
    assert min(late) > 300
    assert max(late) < 300 + 150 + 120 + 60


def test_a_broken_release_costs_minutes_and_not_its_eight_hours() -> None:
    broken = ((DAY, DAY + 8 * 3600.0),)
    fine, hurt = month(steady(60)), month(steady(60), deploys=broken)
    assert hurt.site.gpu_time.used > fine.site.gpu_time.used - 0.002
    died = [job for job in hurt.site.trail if job.word == "FAILED" and job.exit_code == 1]
    assert 1 <= len(died) <= 4
    assert hurt.ledger.proven[-1].startswith("mended")


def test_a_black_hole_is_left_out_after_two_jobs() -> None:
    trap = ((DAY / 2, DAY / 2 + 12 * 3600.0),)
    judged = month(steady(60, cap=4), black_holes=trap)
    caught = [job for job in judged.site.trail if job.node == BLACK_HOLE]
    assert 2 <= len(caught) <= 4


def test_a_dead_controller_costs_nothing_while_successors_wait() -> None:
    scenario = steady(60)
    deaths = tuple(3600.0 * n for n in range(1, 48))
    fine, hurt = month(scenario), month(scenario, deaths=deaths)
    assert hurt.site.gpu_time.used == pytest.approx(fine.site.gpu_time.used, abs=0.0005)


def test_without_a_daemon_the_jobs_keep_themselves_alive() -> None:
    scenario = Scenario(WORKLOADS["busy"], days=15)
    with_one, without = month(scenario), month(scenario, daemon=False)
    assert without.site.gpu_time.used > with_one.site.gpu_time.used - 0.005


def test_jobs_are_made_shorter_to_fit_before_a_maintenance() -> None:
    judged = month(steady(60, maintenance=True))
    begin, end = judged.site.incidents.maintenance[0]
    assert all(job.ended <= begin or job.started >= end for job in judged.site.trail)
    assert any(job.limit_s < 14_400 for job in judged.site.trail)
    assert judged.site.gpu_time.used > 0.985


def test_a_site_that_counts_waiting_jobs_gets_successors_one_by_one() -> None:
    judged = month(steady(60, max_submit=4))
    refused = [job for job in judged.ledger.attempts if job.job_id is None]
    assert not refused
    assert judged.site.gpu_time.used > 0.98


def test_more_jobs_wait_while_the_queue_is_slow_and_fewer_when_it_is_not() -> None:
    assert month(steady(20)).most_waiting <= 4
    assert 8 <= month(Scenario(WORKLOADS["busy"], days=10)).most_waiting <= 12


def test_a_silent_slurmctld_is_asked_for_nothing() -> None:
    away = ((3600.0, 30_000.0),)
    judged = month(steady(60), outages=away)
    born = [job.submitted for job in judged.jobs.values()]
    assert not [when for when in born if 3600 < when < 30_000]
    assert not [job for job in judged.jobs.values() if job.stage is JobStage.BLOCKED]
