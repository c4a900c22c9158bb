"""The demo ends by steps, never by a time, and says in one sentence whether its agents learnt."""

from types import SimpleNamespace
from typing import Any

import pytest

from Daddy.dashboard import Episode
from scripts.demonstration.__main__ import EndConditions
from scripts.demonstration.summary import judge_learning, tenths


def view(steps: int, handovers: int, *live: str) -> Any:
    viewer = SimpleNamespace(live=frozenset(live), frames=SimpleNamespace(total=lambda: 12))
    fleet = SimpleNamespace(handovers=lambda: [object()] * handovers, viewer=viewer)
    return SimpleNamespace(steps=steps, fleet=fleet)


def test_it_ends_once_steps_handovers_and_two_live_agents_were_seen() -> None:
    end = EndConditions(steps=1000, handovers=8, expected_s=100.0)
    assert end.reason(view(999, 8, "a", "b"), 200.0) is None
    assert end.reason(view(1000, 7, "a", "b"), 200.0) is None
    assert end.reason(view(1000, 8, "a"), 200.0) is None
    assert end.reason(view(1000, 8, "a", "b"), 201.0) == "1,000 steps and 8 hand-overs after 3 min"


def test_a_slow_machine_is_waited_for_as_long_as_steps_come() -> None:
    end = EndConditions(steps=80_000, handovers=8, expected_s=100.0)
    for minute in range(1, 400):
        assert end.reason(view(100 * minute, 3), 60.0 * minute) is None
    assert "no step and no hand-over" in str(end.reason(view(39_900, 3), 60.0 * 420))


def test_a_second_live_agent_is_waited_for_thirty_seconds_from_when_all_else_was_seen() -> None:
    end = EndConditions(steps=1000, handovers=8, expected_s=100.0)
    assert end.reason(view(999, 8, "a"), 400.0) is None
    assert end.reason(view(1000, 8, "a"), 401.0) is None
    assert end.reason(view(1000, 8, "a"), 430.0) is None
    assert end.reason(view(1000, 8, "a"), 431.0) is not None


def test_progress_names_the_time_left_first_by_the_expected_then_by_the_measured_rate() -> None:
    end = EndConditions(steps=60_000, handovers=8, expected_s=630.0)
    assert "about 10 min left" in end.progress(view(0, 0), 30.0)
    assert "about 20 min left" in end.progress(view(20_000, 2), 600.0)


@pytest.mark.parametrize(("expected", "limit"), [(100.0, 75.0), (320.0, 100.0), (5000.0, 150.0)])
def test_jobs_live_a_quarter_of_the_expected_time_within_bounds(
    expected: float, limit: float
) -> None:
    assert EndConditions(steps=80_000, handovers=8, expected_s=expected).time_limit_s == limit


def test_tenths_are_of_episodes_so_a_pause_at_the_end_leaves_none_empty() -> None:
    episodes = [Episode(float(second), "slot-0", float(second)) for second in range(30)]
    late = [*episodes, *(Episode(10_000.0 + n, "slot-1", 99.0) for n in range(10))]
    first, last = tenths(late)
    assert [episode.value for episode in first] == [0.0, 1.0, 2.0, 3.0]
    assert [episode.value for episode in last] == [99.0] * 4
    assert tenths([]) == ([], [])


def returns(first: float, last: float, error: float) -> dict[str, float]:
    return {"random": 10.0, "first_tenth": first, "last_tenth": last, "standard_error": error}


def test_the_verdict_needs_both_conditions_and_names_the_one_that_failed() -> None:
    assert judge_learning(returns(11.0, 40.0, 2.0), 80_000)[0]
    assert not judge_learning(returns(11.0, 40.0, 0.0), 80)[0], "a tenth was one episode"
    learnt, why = judge_learning(returns(8.0, 14.9, 2.0), 80_000)
    assert not learnt
    assert "less than 1.5 times random play" in why
    learnt, why = judge_learning(returns(16.0, 19.9, 2.0), 80_000)
    assert not learnt
    assert "less than 4.0, two standard errors" in why
    learnt, why = judge_learning(returns(9.0, 9.5, 2.0), 11_008)
    assert not learnt
    assert "11,008 steps are few" in why
