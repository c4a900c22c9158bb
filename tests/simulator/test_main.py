"""The program: order and floors of the table, its files, and its error messages."""

import json
from pathlib import Path
from statistics import fmean

import pytest

from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from scripts.simulator.__main__ import main
from scripts.simulator.baseline_policies import BASELINES
from scripts.simulator.run_simulations import simulate_month
from scripts.simulator.scenario import OURS, WORKLOADS, Scenario

FLOORS = {"kalos": 0.995, "philly": 0.992, "busy": 0.990}
SEEDS = range(3)


@pytest.mark.parametrize("name", FLOORS)
def test_ours_is_ahead_of_all_and_above_its_floor(name: str) -> None:
    scenario = Scenario(WORKLOADS[name])
    months = [simulate_month(scenario, OURS, seed) for seed in SEEDS]
    ours = fmean(month.used for month in months)
    assert ours >= FLOORS[name]
    assert fmean(month.idle for month in months) <= 0.01
    for baseline in BASELINES:
        assert ours > fmean(simulate_month(scenario, baseline, seed).used for seed in SEEDS)


def test_half_credit_on_a_busy_site_costs_little() -> None:
    scenario = Scenario(WORKLOADS["busy"], credit=0.5)
    assert fmean(simulate_month(scenario, OURS, seed).used for seed in SEEDS) >= 0.985


def test_where_waits_grow_with_our_own_use_it_still_leads_the_array() -> None:
    scenario = Scenario(WORKLOADS["busy"], usage_weight=3.0, days=20)
    ours = fmean(simulate_month(scenario, OURS, seed).used for seed in SEEDS)
    assert ours > fmean(simulate_month(scenario, "array", seed).used for seed in SEEDS)


def test_one_seed_gives_one_month() -> None:
    scenario = Scenario(WORKLOADS["philly"], days=3)
    assert simulate_month(scenario, OURS, 5) == simulate_month(scenario, OURS, 5)


def test_a_quick_run_prints_and_writes_what_it_says(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figures = tmp_path / "figures.json"
    argv = ["--quick", "--days", "2", "--seeds", "2"]
    assert main([*argv, "--json", str(figures)]) == 0
    found = json.loads(figures.read_text())
    assert (found["days"], found["seeds"]) == (2, 2)
    assert set(found["workloads"]) == {"kalos", "philly", "busy"}
    out = capsys.readouterr().out
    assert "correlated waits, credit 1" in out
    assert "seed gang" in out


def test_a_site_of_ones_own_takes_the_place_of_the_three(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    export = tmp_path / "export.txt"
    rows = (f"{100 * n}|{100 * n}|{100 * n + 30 * n}|{100 * n + 9999}|COMPLETED" for n in range(50))
    export.write_text("Submit|Eligible|Start|End|State\n" + "\n".join(rows))
    argv = ["--quick", "--days", "1", "--seeds", "2"]
    assert main([*argv, "--sacct", str(export)]) == 0
    out = capsys.readouterr().out
    assert "own site" in out
    assert "kalos" not in out


@pytest.mark.parametrize("argv", [["--days", "0"], ["--seeds", "none"]])
def test_nonsense_on_the_command_line_is_refused(argv: list[str]) -> None:
    with pytest.raises(SystemExit) as stop:
        main(argv)
    assert stop.value.code == ExitCode.USAGE


def test_a_poor_export_and_a_missing_folder_are_told_in_one_message(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    poor = tmp_path / "poor.txt"
    poor.write_text("JobID|State\n")
    assert run_entry(main, ["--sacct", str(poor)]) == ExitCode.USAGE
    assert run_entry(main, ["--json", str(tmp_path / "no" / "f.json")]) == ExitCode.FILES
    said = capsys.readouterr().err
    assert "no column Eligible" in said
    assert "Traceback" not in said
