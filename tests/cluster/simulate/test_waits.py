"""Waits have the distribution they should, and come together as much as they should."""

from __future__ import annotations

import math
from itertools import pairwise
from random import Random
from statistics import fmean, median

import pytest

from Daddy.cluster.orchestrator.simulate.scenario import DAY_S, WORKLOADS, Scenario, Workload
from Daddy.cluster.orchestrator.simulate.waits import Usage, Waits, wait_at
from Daddy.cluster.orchestrator.simulate.weather import make_weather


def draws(scenario: Scenario, count: int = 4000) -> list[float]:
    weather = make_weather(scenario, Random(3))
    waits = Waits(scenario, weather, Random(4))
    return [waits.draw(n * scenario.span_s / count, 0.0) for n in range(count)]


@pytest.mark.parametrize(("name", "published_mean"), [("kalos", 214.0), ("philly", 3761.0)])
def test_the_fits_have_the_published_medians_and_means(name: str, published_mean: float) -> None:
    workload = WORKLOADS[name]
    assert wait_at(workload, 0.0) == workload.median_s
    mean = workload.median_s * math.exp(workload.sigma**2 / 2)
    assert mean == pytest.approx(published_mean, rel=0.02)


def test_no_wait_is_longer_than_a_day() -> None:
    assert wait_at(WORKLOADS["philly"], 9.0) == DAY_S
    assert max(draws(Scenario(WORKLOADS["philly"], correlation=0.0))) <= DAY_S


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_correlation_changes_no_single_wait_only_their_company(correlation: float) -> None:
    found = draws(Scenario(WORKLOADS["busy"], correlation=correlation, days=360.0))
    assert median(found) == pytest.approx(2400, rel=0.2)
    logs = [math.log(wait) for wait in found]
    middle = fmean(logs)
    near = fmean((a - middle) * (b - middle) for a, b in pairwise(logs))
    spread = fmean((one - middle) ** 2 for one in logs)
    # two hours lie between two draws: 0.9 · exp(−2.16 h / 6 h) of the variance is shared
    expected = correlation * math.exp(-360 * 24 / 4000 / 6)
    assert near / spread == pytest.approx(expected, abs=0.08)


def test_measured_waits_replace_the_fit() -> None:
    site = Workload("own", 0.0, 0.0, measured_s=(10.0, 20.0, 30.0, 40.0))
    assert [wait_at(site, z) for z in (-5, -0.1, 0.1, 5)] == [10, 20, 30, 40]


def test_use_of_last_week_counts_half() -> None:
    usage = Usage(4)
    assert usage.advance(7 * DAY_S, 4) == pytest.approx(0.5)
    assert usage.advance(14 * DAY_S, 0) == pytest.approx(0.25)


def test_waits_grow_with_our_own_use_where_the_site_says_so() -> None:
    scenario = Scenario(Workload("one", 100.0, 0.0), usage_weight=3.0)
    waits = Waits(scenario, make_weather(scenario, Random(1)), Random(2))
    assert waits.draw(0.0, 0.0) == pytest.approx(100)
    assert waits.draw(0.0, 1.0) == pytest.approx(400)
