"""The live table, the summary and the decisions behind them."""

import io
from collections.abc import Sequence

import pytest
from rich.console import Console, RenderableType

from Daddy.core.errors import ConfigError
from Daddy.fanout.estimate import (
    Machine,
    ProgramCost,
    concurrency_limit,
    estimate_lines,
    stated_cost,
)
from Daddy.fanout.fanout_screen import change_line, choose_rows, draw_live, draw_summary
from Daddy.fanout.fanout_settings import RATES, FanoutSettings, settings_from, split_batches
from Daddy.fanout.fanout_state import FanoutState, SandboxRow
from Daddy.fanout.rate_summary import compare_rates, results_by_rate
from Daddy.fanout.slurm_engine import sbatch_options

MIB = 1 << 20


def state_of(
    done: int, running: int, failed: int, total: int, scores: Sequence[float] = (500.0,)
) -> FanoutState:
    """A run in which the first sandboxes are done, further ones failed or run."""
    state = FanoutState(FanoutSettings(sandboxes=total), "t")
    for index, row in state.rows.items():
        if index <= done + failed + running:
            row.state, row.episode, row.average, row.best = "running", 150, 213.4, 500.0
        if index <= done + failed:
            row.state, row.message = "error", "ended by signal 9"
        if index <= done:
            row.state, row.episode, row.cpu_s = "done", 300, 5.7
            row.average = scores[index % len(scores)]
            row.solved_at = 100 if row.average >= 195 else None
    return state


def rendered(picture: RenderableType, width: int, height: int = 24) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, height=height, force_terminal=False).print(picture)
    return [line.rstrip() for line in text.getvalue().splitlines()]


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_a_hundred_sandboxes_are_twenty_rows_and_eighty_more(width: int, height: int) -> None:
    lines = rendered(draw_live(state_of(40, 8, 2, 100), 75.0, height), width)
    assert sum("sb-00" in line for line in lines) == 20
    assert lines[-1] == "80 more"
    assert len(lines) < height
    assert max(map(len, lines)) <= width
    head = "75 s elapsed  8 running  40/100 complete  100 % solved  average 500.0  2 failed"
    assert lines[0] == head


def test_a_low_terminal_shows_fewer_rows_and_counts_the_rest() -> None:
    lines = rendered(draw_live(state_of(0, 8, 0, 100), 1.0, 12), 80)
    assert (sum("sb-00" in line for line in lines), lines[-1]) == (8, "92 more")
    assert len(lines) < 12


def test_twenty_five_thousand_sandboxes_fit_their_columns() -> None:
    state = state_of(24_000, 200, 0, 25_000)
    lines = rendered(draw_live(state, 9000.0, 24), 80)
    assert "2 h 30 min elapsed  200 running  24,000/25,000 complete" in lines[0]
    assert any("sb-24001" in line and "at" not in line for line in lines)


def test_running_ones_come_first_then_errors_then_the_newest_done() -> None:
    rows = list(state_of(30, 3, 2, 50).rows.values())
    shown = choose_rows(rows, 20)
    assert [row.index for row in shown] == [*range(16, 31), 31, 32, 33, 34, 35]
    assert [row.index for row in choose_rows(rows, 4)] == [31, 33, 34, 35]
    few = list(state_of(0, 2, 0, 5).rows.values())
    assert [row.index for row in choose_rows(few, 20)] == [1, 2, 3, 4, 5]


def test_a_message_of_a_sandbox_is_made_harmless() -> None:
    state = state_of(0, 1, 0, 1)
    row = state.fail(1, "\x1b]0;owned\x07 \nsecond line")
    assert change_line(state, row) == "sb-00001 error: ?]0;owned? ?second line"


def test_rates_are_told_apart_by_their_intervals_alone() -> None:
    def compared(scores: dict[float, list[float]]) -> str:
        settings = FanoutSettings(sandboxes=1000)
        left = {rate: list(values) for rate, values in scores.items()}
        rows = [
            SandboxRow(index, "done", average=left[rate].pop())
            for index in settings.indices
            if left.get(rate := settings.rate_of(index))
        ]
        return compare_rates(results_by_rate(rows, settings))

    high, low = [490.0, 500.0, 495.0], [9.0, 10.0, 11.0]
    assert compared({0.001: high, 0.005: high, 0.05: low}) == (
        "Rate 0.001 is above 0.05 beyond the 95 % intervals; it is not told apart from 0.005."
    )
    assert compared({0.001: high, 0.02: low, 0.05: low}) == (
        "Rate 0.001 is above 0.02 and 0.05 beyond the 95 % intervals."
    )
    assert compared({0.001: [1.0, 500.0], 0.05: [9.0, 11.0]}).startswith("No learning rate differs")
    assert compared({0.001: [500.0], 0.05: [9.0]}).startswith("Too few")


def test_the_summary_has_an_interval_for_each_rate() -> None:
    lines = rendered(draw_summary(state_of(200, 0, 1, 201, (500.0, 9.3)), 61.0), 80)
    assert lines[0] == "sandboxes  201: 200 done, 1 failed"
    assert "19 min of CPU time" in lines[3]
    assert sum(line.strip().startswith(tuple(map(str, RATES))) for line in lines) == 5
    assert max(map(len, lines)) <= 80


def test_a_run_without_a_result_has_a_summary() -> None:
    assert rendered(draw_summary(state_of(0, 0, 2, 2), 3.0), 80)[0].endswith("0 done, 2 failed")


def test_each_bound_of_the_live_sandboxes_decides_and_is_named() -> None:
    def cap(workers: int | None, sandboxes: int, cores: int, free_mb: int) -> tuple[int, str]:
        machine = Machine(cores, free_mb * MIB)
        return concurrency_limit(workers, sandboxes, machine, ProgramCost(5.7, 512, "stated"))

    assert cap(None, 25, 8, 20_000) == (25, "there are 25")
    assert cap(None, 1000, 64, 200_000) == (200, "200 is the most")
    assert cap(None, 1000, 2, 200_000) == (8, "2 cores, 4 to each")
    assert cap(None, 3, 1, 10_000) == (3, "there are 3")
    assert cap(20, 50, 2, 20_000) == (20, "--workers 20")
    assert cap(500, 1000, 8, 200_000) == (200, "200 is the most")
    assert cap(150, 1000, 2, 200_000) == (150, "--workers 150")
    assert cap(20, 50, 2, 2_000) == (3, "2,000 MiB are free, 512 MiB each")
    assert cap(20, 50, 2, 10)[0] == 1


def test_a_vendors_sandboxes_take_nothing_of_this_machine() -> None:
    cost = ProgramCost(5.7, 512, "stated")
    assert concurrency_limit(None, 1000, None, cost) == (200, "200 is the most")
    assert concurrency_limit(50, 1000, None, cost) == (50, "--workers 50")


def test_the_estimate_shows_its_arithmetic() -> None:
    cost = stated_cost(FanoutSettings())
    first, here, there = estimate_lines(25_000, cost, 2)
    assert first.startswith("25,000 x 5.70 CPU s (stated: 3 s + 50,000 steps")
    assert "39 h 35 min of CPU" in first
    assert here == "here: 19 h 47 min (39 h 35 min / 2 cores)"
    assert there == "on 4 jobs: 1 h 14 min (39 h 35 min / 32 cores)"


def test_a_program_of_unknown_cost_has_a_core_for_itself() -> None:
    cost = stated_cost(FanoutSettings(own_program=True, policy="controller"))
    machine = Machine(2, 20_000 * MIB)
    live, why = concurrency_limit(None, 25, machine, cost)
    assert (live, why) == (2, "2 cores, 1 to each")
    assert concurrency_limit(9, 25, machine, cost)[0] == 9
    assert "at most" in estimate_lines(25, cost, 2)[0]


def test_short_programs_are_bound_by_the_starts_of_sandboxes() -> None:
    _, here, _ = estimate_lines(25_000, ProgramCost(0.01, 64, "stated"), 2)
    assert here == "here: 11 min (25,000 / 35 starts a second)"


def test_a_sandbox_draws_its_rate_from_seed_and_index_alone() -> None:
    few, many = FanoutSettings(sandboxes=5), FanoutSettings(sandboxes=5000)
    assert [few.rate_of(i) for i in few.indices] == [many.rate_of(i) for i in few.indices]
    drawn = [many.rate_of(index) for index in many.indices]
    assert all(800 < drawn.count(rate) < 1200 for rate in RATES)
    assert len({many.seed_of(index) for index in many.indices}) == 5000
    assert FanoutSettings(seed=1).seed_of(1) != few.seed_of(1)


def test_a_longer_training_has_more_time() -> None:
    assert FanoutSettings(timesteps=100).time_limit_s == 600
    assert FanoutSettings(timesteps=100_000).time_limit_s == 1200


def test_indices_are_split_in_their_order() -> None:
    assert split_batches([1, 2, 5, 7, 9], 2) == [(1, 2), (5, 7), (9,)]
    assert settings_from({"seed": 3}, None) == FanoutSettings(seed=3)


def test_events_of_other_attempts_and_of_unknown_sandboxes_change_nothing() -> None:
    state = FanoutState(FanoutSettings(sandboxes=2), "now")

    def event(index: int, token: str, **data: object) -> dict[str, object]:
        return {"source": {"index": index}, "data": {"token": token, **data}}

    assert state.add_events([event(1, "old", state="done"), event(9, "now", state="done")]) == []
    (row,) = state.add_events([event(1, "now", state="done", average=3.0), event(1, "now")])
    assert (row.index, row.average) == (1, 3.0)
    assert state.add_events([event(1, "now", state="error")]) == []


@pytest.mark.parametrize(("cpu_s", "minutes"), [(0.0, "10"), (300.0, "30"), (15_000.0, "240")])
def test_a_job_is_given_time_for_its_sandboxes_but_four_hours_at_most(
    cpu_s: float, minutes: str
) -> None:
    assert sbatch_options([], {}, cpu_s)["time"] == minutes
    assert sbatch_options(["time=600"], {}, cpu_s)["time"] == "600"
    with pytest.raises(ConfigError, match="--sbatch array belongs to the run"):
        sbatch_options(["array=2"], {}, cpu_s)
