"""Results: means, intervals, and their two formats."""

import re

import pytest

from scripts.simulator.baseline_policies import BASELINES
from scripts.simulator.run_simulations import (
    estimate_share,
    format_table,
    make_site,
    results_to_json,
)
from scripts.simulator.scenario import (
    NO_DAEMON,
    POLICIES,
    WORKLOADS,
    main_rows,
    variant_rows,
)
from scripts.simulator.simulated_site import GpuTime

WORKS = list(WORKLOADS.values())


def test_an_interval_is_of_the_mean_and_stays_a_share() -> None:
    used = {share: GpuTime(useful=share, allowed=1.0) for share in (0.5, 0.98, 0.99, 1.0)}
    share = estimate_share([used[0.98], used[0.99], used[1.0]])
    assert share.used == pytest.approx(0.99)
    assert share.low == pytest.approx(0.99 - 4.303 * 0.01 / 3**0.5, abs=0.002)
    assert share.high == 1.0
    single = estimate_share([used[0.5]])
    assert (single.low, single.high) == (0.0, 1.0)


def results(rows):
    months = [
        GpuTime(0.9, 0.9 / 0.998, 1.0, 780, 24_000),
        GpuTime(0.8, 0.8 / 0.996, 1.0, 780, 27_000),
    ]
    return {row: dict.fromkeys(row.policies, months) for row in rows}


def test_the_file_has_the_main_rows_policy_by_policy() -> None:
    found = results_to_json(results(main_rows(WORKS, 30.0)), 30.0, 20)
    assert set(found) == {"days", "seeds", "workloads"}
    assert set(found["workloads"]) == {"kalos", "philly", "busy"}
    for policies in found["workloads"].values():
        assert set(policies) == {
            "ours", "seed_gang", "seed_per_slot", "self_requeue", "singleton", "array",
        }  # fmt: skip
        for figures in policies.values():
            assert set(figures) == {"used", "low", "high"}
            assert 0 <= figures["low"] <= figures["used"] <= figures["high"] <= 1


def test_the_table_shows_every_scenario_that_was_asked_for() -> None:
    rows = [*main_rows(WORKS, 30.0), *variant_rows(WORKS, 30.0)]
    text = format_table(results(rows), 30.0, 20, 150)
    seen = {(row.scenario.correlation, row.scenario.credit) for row in rows}
    assert seen == {(share, credit) for share in (0.0, 0.9) for credit in (0.0, 0.5, 1.0)}
    for words in (
        "maintenance",
        "MaxSubmit = 4",
        "own usage",
        "no daemon",
        "85.00",
        "0.30%",
        "850",
        "26.0",
    ):
        assert words in text
    assert max(len(line) for line in text.splitlines()) < 150


def test_a_narrow_table_names_the_columns_that_it_leaves_out() -> None:
    rows = [*main_rows(WORKS, 30.0)]
    text = format_table(results(rows), 30.0, 20, 60)
    assert max(len(line) for line in text.splitlines()) <= 60
    assert re.search(r"too narrow for: .*array,.* idle, +calls, +sbatch", " ".join(text.split()))
    assert text.count("±") == 1 + 3 * len(rows)  # the heading's, and a share of each policy left


def test_every_policy_of_the_table_can_be_simulated_under_equal_terms() -> None:
    assert set(POLICIES) == {"ours", *BASELINES}
    scenario = main_rows(WORKS, 1.0)[0].scenario
    incidents = [make_site(scenario, policy, 3)[0].incidents for policy in (*POLICIES, NO_DAEMON)]
    assert all(drawn == incidents[0] for drawn in incidents)
