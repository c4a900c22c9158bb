"""What befalls a month follows from its seed, and happens as often as was assumed."""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest

from Daddy.cluster.orchestrator.simulate.scenario import WORKLOADS, Scenario
from Daddy.cluster.orchestrator.simulate.weather import make_weather, within

MONTH = Scenario(WORKLOADS["philly"], maintenance=True)


def months(count: int):
    return [make_weather(MONTH, Random(seed)) for seed in range(count)]


def test_one_seed_is_one_month() -> None:
    assert make_weather(MONTH, Random("a")) == make_weather(MONTH, Random("a"))
    assert make_weather(MONTH, Random("a")) != make_weather(MONTH, Random("b"))


def test_outages_and_deaths_come_as_often_as_assumed() -> None:
    found = months(150)
    assert fmean(len(one.outages) for one in found) == pytest.approx(2, rel=0.2)
    assert fmean(len(one.deaths) for one in found) == pytest.approx(3, rel=0.2)
    lengths = [end - begin for one in found for begin, end in one.outages]
    assert fmean(lengths) == pytest.approx(1200, rel=0.2)


def test_each_month_has_its_bad_deploy_its_black_hole_and_its_maintenance() -> None:
    for one in months(20):
        for windows, hours in ((one.deploys, 8), (one.black_holes, 12), (one.maintenance, 8)):
            ((begin, end),) = windows
            assert 0 < begin < end < MONTH.span_s
            assert end - begin == pytest.approx(hours * 3600)


def test_a_window_is_found_from_its_beginning_to_before_its_end() -> None:
    windows = ((10.0, 20.0), (30.0, 40.0))
    assert within(windows, 10) == (10, 20)
    assert within(windows, 20) is None
    assert within(windows, 35) == (30, 40)
