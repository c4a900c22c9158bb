"""The five compared policies behave as their documentation says."""

from dataclasses import replace
from random import Random

import pytest

from scripts.simulator.baseline_policies import (
    BASELINES,
    Array,
    SeedGang,
    SeedPerSlot,
    SelfRequeue,
    SingletonChain,
)
from scripts.simulator.run_simulations import simulate_month
from scripts.simulator.scenario import DAY_S, WORKLOADS, Scenario, scenario_for
from scripts.simulator.simulated_site import SimulatedSite
from tests.simulator.conftest import CALM, incidents_of, steady

HUMAN_S = 8 * 3600.0


def month(kind, scenario: Scenario | None = None, **events):
    scenario = scenario or steady(60)
    site = SimulatedSite(scenario, incidents_of(scenario, **events), Random(1))
    site.run_month(kind(site))
    return site


@pytest.mark.parametrize("name", BASELINES)
def test_what_is_simulated_once_for_all_credits_is_the_same_for_all(name: str) -> None:
    scenario = Scenario(WORKLOADS["busy"], days=6, credit=0.0)
    mine, shared = (
        simulate_month(scenario, name, 2),
        simulate_month(scenario_for(scenario, name), name, 2),
    )
    assert mine.used == pytest.approx(shared.used, rel=1e-6)


def starts(site: SimulatedSite, slot: int = 0) -> list[float]:
    jobs = (*site.trail, *site.running)
    return sorted(job.started for job in jobs if job.track == slot)


@pytest.mark.parametrize("kind", BASELINES.values())
def test_each_trains_nearly_always_where_nothing_goes_wrong(kind) -> None:
    assert month(kind, steady(1)).gpu_time.used > 0.985


def test_a_loop_submits_again_after_its_poll_and_its_pause() -> None:
    site = month(SeedPerSlot)
    first, second, *_ = starts(site)
    assert 15 + 60 < second - first - 13_503 < 15 + 60 + 60 + 2


def test_a_loop_dies_of_a_silent_slurmctld_and_waits_for_a_person() -> None:
    site = month(SeedPerSlot, outages=((3600.0, 5000.0),))
    _, second, *_ = starts(site)
    assert second == pytest.approx(3600 + HUMAN_S + 60, abs=61)


def test_a_gang_trains_only_together_and_is_cancelled_together() -> None:
    rates = replace(CALM, crash_every_s=DAY_S / 4)
    site = month(SeedGang, steady(60, rates=rates))
    assert sum(job.word == "CANCELLED" for job in site.trail) > 10
    together = {job.trains_from for job in site.trail if job.trains_from is not None}
    trained = [job for job in site.trail if job.trains_from is not None]
    assert len(trained) > 3 * len(together)


def test_a_job_that_requeues_itself_waits_two_minutes_and_its_turn() -> None:
    site = month(SelfRequeue)
    first, second, *_ = starts(site)
    assert second - first == pytest.approx(14_400 - 90 + 3 + 125 + 60, abs=2)
    assert site.gpu_time.submissions == 4


def test_a_crashed_self_requeuer_waits_for_a_person() -> None:
    site = month(SelfRequeue, deploys=((0.0, 3600.0),))
    assert starts(site)[1] == pytest.approx(60 + 20 + HUMAN_S + 60, abs=3)


def test_a_chain_waits_its_turn_only_after_its_predecessor_and_runs_dry() -> None:
    site = month(SingletonChain, steady(600))
    first, second, *_ = starts(site)
    assert second - first == pytest.approx(14_220 + 3 + 600, abs=3)
    assert site.gpu_time.submissions == 4 * 45
    dry = month(SingletonChain, steady(1, days=3.0), deploys=((0.0, 2 * 3600.0),))
    assert dry.gpu_time.submissions > 4 * 45
    assert dry.gpu_time.used < 0.9


def test_an_array_is_as_old_as_its_submission() -> None:
    site = month(Array, steady(3000))
    first, second, *_ = starts(site)
    assert first == 3000
    assert second - first < 14_223 + 3
    assert site.gpu_time.submissions == 1


def test_a_bad_deploy_uses_an_array_up() -> None:
    site = month(Array, steady(1, days=4.0), deploys=((0.0, 8 * 3600.0),))
    assert site.gpu_time.submissions == 2
