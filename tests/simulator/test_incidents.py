"""Incidents follow from the seed with the assumed frequency; waits have their distribution."""

import math
from itertools import pairwise
from random import Random
from statistics import fmean, median

import pytest

from scripts.simulator.incidents import (
    DecayedUsage,
    draw_incidents,
    draw_wait,
    wait_quantile,
    window_at,
)
from scripts.simulator.scenario import DAY_S, WORKLOADS, Scenario, Workload

MONTH = Scenario(WORKLOADS["philly"], maintenance=True)


def months(count: int):
    return [draw_incidents(MONTH, Random(seed)) for seed in range(count)]


def test_one_seed_is_one_month() -> None:
    assert draw_incidents(MONTH, Random("a")) == draw_incidents(MONTH, Random("a"))
    assert draw_incidents(MONTH, Random("a")) != draw_incidents(MONTH, Random("b"))


def test_outages_and_deaths_come_as_often_as_assumed() -> None:
    found = months(150)
    assert fmean(len(month.outages) for month in found) == pytest.approx(2, rel=0.2)
    assert fmean(len(month.deaths) for month in found) == pytest.approx(3, rel=0.2)
    lengths = [end - begin for month in found for begin, end in month.outages]
    assert fmean(lengths) == pytest.approx(1200, rel=0.2)


def test_each_month_has_its_bad_deploy_its_black_hole_and_its_maintenance() -> None:
    for month in months(20):
        for windows, hours in ((month.deploys, 8), (month.black_holes, 12), (month.maintenance, 8)):
            ((begin, end),) = windows
            assert 0 < begin < end < MONTH.span_s
            assert end - begin == pytest.approx(hours * 3600)


def test_a_window_is_found_from_its_beginning_to_before_its_end() -> None:
    windows = ((10.0, 20.0), (30.0, 40.0))
    assert window_at(windows, 10) == (10, 20)
    assert window_at(windows, 20) is None
    assert window_at(windows, 35) == (30, 40)


def draws(scenario: Scenario, count: int = 4000) -> list[float]:
    incidents, rng = draw_incidents(scenario, Random(3)), Random(4)
    stamps = (n * scenario.span_s / count for n in range(count))
    return [draw_wait(scenario, incidents, rng, stamp, 0.0) for stamp in stamps]


@pytest.mark.parametrize(("name", "published_mean"), [("kalos", 214.0), ("philly", 3761.0)])
def test_the_fits_have_the_published_medians_and_means(name: str, published_mean: float) -> None:
    workload = WORKLOADS[name]
    assert wait_quantile(workload, 0.0) == workload.median_s
    mean = workload.median_s * math.exp(workload.sigma**2 / 2)
    assert mean == pytest.approx(published_mean, rel=0.02)


def test_no_wait_is_longer_than_a_day() -> None:
    assert wait_quantile(WORKLOADS["philly"], 9.0) == DAY_S
    assert max(draws(Scenario(WORKLOADS["philly"], correlation=0.0))) <= DAY_S


@pytest.mark.parametrize("correlation", [0.0, 0.9])
def test_correlation_changes_no_single_wait_only_their_company(correlation: float) -> None:
    found = draws(Scenario(WORKLOADS["busy"], correlation=correlation, days=360.0))
    assert median(found) == pytest.approx(2400, rel=0.2)
    logs = [math.log(wait) for wait in found]
    middle = fmean(logs)
    near = fmean((a - middle) * (b - middle) for a, b in pairwise(logs))
    spread = fmean((wait - middle) ** 2 for wait in logs)
    # two hours lie between two draws: 0.9 · exp(−2.16 h / 6 h) of the variance is shared
    expected = correlation * math.exp(-360 * 24 / 4000 / 6)
    assert near / spread == pytest.approx(expected, abs=0.08)


def test_measured_waits_replace_the_fit() -> None:
    site = Workload("own", 0.0, 0.0, measured_s=(10.0, 20.0, 30.0, 40.0))
    assert [wait_quantile(site, z) for z in (-5, -0.1, 0.1, 5)] == [10, 20, 30, 40]


def test_use_of_last_week_counts_half() -> None:
    usage = DecayedUsage(4)
    assert usage.advance(7 * DAY_S, 4) == pytest.approx(0.5)
    assert usage.advance(14 * DAY_S, 0) == pytest.approx(0.25)


def test_waits_grow_with_our_own_use_where_the_site_says_so() -> None:
    scenario = Scenario(Workload("one", 100.0, 0.0), usage_weight=3.0)
    incidents = draw_incidents(scenario, Random(1))
    for usage, wait_s in ((0.0, 100), (1.0, 400)):
        drawn = draw_wait(scenario, incidents, Random(2), 0.0, usage)
        assert drawn == pytest.approx(wait_s)
