"""The selector features the best agents and does not replace them too often."""

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.streaming.best_selector import (
    AgentKey,
    Candidate,
    FeaturedAgent,
    FeaturingRules,
    Selection,
    select_top,
)
from Daddy.streaming.login.fleet_state import EpisodeLengths
from Daddy.streaming.protocol.messages import row_from_report
from scripts.benches import _stream_selection
from tests.streaming.helpers import report

RULES = FeaturingRules(
    short_dwell_s=10, dwell_s=20, long_dwell_s=60, margin=2, grace_s=3, stale_s=10
)


def agent(name: str, score: int = 0, gain: float = 0.0, seen: float = 100.0, episode: int = 0):
    peer, agent = name.split("/")
    facts = report(
        int(agent), badges=score // 2, story_flags=score - score // 2, episode_return=gain,
        episode=episode,
    )  # fmt: skip
    return Candidate(AgentKey(peer, int(agent)), row_from_report(facts), seen)


def place(name: str, since: float, episode: int = 0, ended: float | None = None) -> FeaturedAgent:
    peer, agent = name.split("/")
    return FeaturedAgent(AgentKey(peer, int(agent)), since, episode, ended)


def names(selection: Selection) -> list[str]:
    return [str(place.key) for place in selection.places]


@pytest.mark.parametrize(
    ("candidates", "best"),
    [
        ([agent("a/0", 1), agent("b/0", 3), agent("c/0", 2)], ["b/0", "c/0"]),
        ([agent("a/0", 1, 5.0), agent("b/0", 1, 9.0), agent("c/0", 1, 7.0)], ["b/0", "c/0"]),
        ([agent("a/0", seen=98), agent("b/0", seen=99.5), agent("c/0", seen=99)], ["b/0", "c/0"]),
        ([agent("a/0", 4), agent("a/1", 5), agent("b/0", 1)], ["a/1", "a/0"]),
        ([agent("a/0", 4)], ["a/0"]),
        ([], []),
    ],
    ids=[
        "score first",
        "then return",
        "then the newest",
        "two of one job",
        "fewer",
        "nobody",
    ],
)
def test_badges_and_flags_then_return_then_recency(candidates, best) -> None:
    assert names(select_top(candidates, [], 2, 100.0, RULES)) == best


@pytest.mark.parametrize(
    ("holder", "rival", "since", "ended", "stays"),
    [
        (agent("a/0", 5), agent("b/0", 9), 90, None, True),
        (agent("a/0", 5), agent("b/0", 9), 80, None, False),
        (agent("a/0", 5), agent("b/0", 6), 70, None, True),
        (agent("a/0", 5), agent("b/0", 6), 40, None, False),
        (agent("a/0", 5), agent("b/0", 5, 0.5), 40, None, False),
        (agent("a/0", 5, seen=95.0), agent("b/0", 5, seen=100.0), 0, None, True),
        (agent("a/0", 0), agent("b/0", 1), 85, 98.0, True),
        (agent("a/0", 0), agent("b/0", 1), 85, 97.0, False),
        (agent("a/0", 0), agent("b/0", 1), 95, 96.0, True),
        (agent("a/0", 5, seen=89), agent("b/0", 1), 95, None, False),
    ],
    ids=[
        "within the dwell time",
        "after it, by the margin",
        "after it, but not by the margin",
        "long shown, by a point",
        "long shown, by return",
        "equal, merely newer",
        "its episode ended a moment ago",
        "its episode is over",
        "its episode is over, but it has only just come",
        "it fell silent",
    ],
)
def test_a_place_is_kept_until_there_is_reason(holder, rival, since, ended, stays) -> None:
    current = [place("a/0", since, ended=ended)]
    chosen = names(select_top([holder, rival], current, 1, 100.0, RULES))
    assert chosen == (["a/0"] if stays else ["b/0"])


def test_every_change_has_a_reason_and_no_change_has_none() -> None:
    first = select_top([agent("a/0", 1)], [], 2, 100.0, RULES)
    assert first.reasons == ("a/0 takes a free place",)
    assert select_top([agent("a/0", 1)], first.places, 2, 101.0, RULES).reasons == ()
    rivals = [agent("a/0", 1, seen=130), agent("b/0", 9, seen=130)]
    changed = select_top(rivals, first.places, 1, 130.0, RULES)
    assert changed.reasons == ("b/0 replaces a/0: 8 points ahead",)


def test_who_stays_keeps_the_side_of_the_window() -> None:
    current = [place("a/0", 90), place("b/0", 90)]
    chosen = select_top([agent("a/0", 1), agent("b/0", 9)], current, 2, 100.0, RULES)
    assert names(chosen) == ["a/0", "b/0"]


def test_the_end_of_an_episode_is_noted_once() -> None:
    current = [place("a/0", 50, episode=0)]
    after = select_top([agent("a/0", episode=1)], current, 1, 100.0, RULES)
    assert after.places[0].ended == 100.0
    later = select_top([agent("a/0", episode=1, seen=105)], after.places, 1, 105.0, RULES)
    assert later.places[0].ended == 100.0


def test_fewer_places_are_filled_by_those_who_came_first() -> None:
    current = [place("a/0", 90), place("b/0", 90)]
    chosen = select_top([agent("a/0", 1), agent("b/0", 2)], current, 1, 100.0, RULES)
    assert names(chosen) == ["a/0"]


def test_who_would_only_flash_by_waits_unless_nobody_else_does() -> None:
    soon = agent("a/0", 9)._replace(episode_left_s=RULES.flash_s - 1)
    assert names(select_top([soon, agent("b/0", 5)], [], 1, 100.0, RULES)) == ["b/0"]
    assert names(select_top([soon, agent("b/0", 5)], [], 2, 100.0, RULES)) == ["b/0", "a/0"]
    current = [place("c/0", 50)]
    fleet = [soon, agent("b/0", 5), agent("c/0", 1)]
    assert names(select_top(fleet, current, 1, 100.0, RULES)) == ["b/0"]
    assert names(select_top([soon, agent("c/0", 1)], current, 1, 100.0, RULES)) == ["a/0"]
    assert names(select_top(fleet, current, 1, 100.0, RULES, pins("a/0"))) == ["a/0"]
    shown = [place("a/0", 90)]
    assert names(select_top(fleet, shown, 1, 100.0, RULES)) == ["a/0"], "who is shown already stays"


def test_how_long_episodes_last_is_learnt_from_whole_ones() -> None:
    seen = EpisodeLengths()
    for now in range(0, 261, 10):
        seen.add_rows([row_from_report(report(0, episode=(now + 70) // 100))], now)
    assert [seen.seconds_left(0, now) for now in (260.0, 330.0, 350.0)] == [70.0, 0.0, -20.0]
    assert seen.seconds_left(1, 260.0) == inf
    seen.forget_starts()
    seen.add_rows([row_from_report(report(0))], 300)
    assert seen.seconds_left(0, 310.0) == inf, "who knows how much was before"


def test_the_choice_is_calm_and_still_shows_the_best() -> None:
    """Run the bench's simulation for less time and with other random numbers."""
    result = _stream_selection._simulate(0.6, FeaturingRules(), seed=5)
    assert result["median_dwell_s"] >= 25
    assert result["of_best_score"] >= 0.93


def pins(*names: str) -> list[AgentKey]:
    return [AgentKey(name.split("/")[0], int(name.split("/")[1])) for name in names]


def test_who_is_pinned_gets_the_weakest_place_at_once_and_keeps_it() -> None:
    fleet = [agent("a/0", 9), agent("b/0", 8), agent("c/0", 1)]
    current = [place("a/0", 99), place("b/0", 99)]
    entered = select_top(fleet, current, 2, 100.0, RULES, pins("c/0"))
    assert names(entered) == ["a/0", "c/0"]
    assert entered.reasons == ("c/0 replaces b/0: it is pinned",)
    later = [agent(str(c.key), c.rank[0], seen=500.0) for c in fleet]
    assert names(select_top(later, entered.places, 2, 500.0, RULES, pins("c/0"))) == ["a/0", "c/0"]
    freed = select_top(later, entered.places, 2, 500.0, RULES)
    assert names(freed) == ["a/0", "b/0"]


def test_who_is_pinned_comes_back_after_a_change_of_jobs() -> None:
    others = [agent("a/0", 9, seen=120.0), agent("b/0", 8, seen=120.0)]
    current = [place("c/0", 90), place("a/0", 90)]
    gone = select_top([*others, agent("c/0", 1, seen=100.0)], current, 2, 120.0, RULES, pins("c/0"))
    assert set(names(gone)) == {"a/0", "b/0"}, "no place stays empty meanwhile"
    back = select_top(
        [*others, agent("c/0", 0, seen=121.0)], gone.places, 2, 121.0, RULES, pins("c/0")
    )
    assert set(names(back)) == {"a/0", "c/0"}


def test_with_fewer_places_the_pinned_stay() -> None:
    current = [place("a/0", 90), place("b/0", 90), place("c/0", 90)]
    fleet = [agent("a/0", 5), agent("b/0", 5), agent("c/0", 1)]
    assert names(select_top(fleet, current, 2, 100.0, RULES, pins("c/0"))) == ["a/0", "c/0"]
    assert names(select_top(fleet, current, 1, 100.0, RULES, pins("c/0", "b/0"))) == ["c/0"]


agents = st.lists(
    st.builds(
        agent,
        st.sampled_from([f"{peer}/{agent}" for peer in "abcd" for agent in range(4)]),
        st.integers(0, 20),
        st.floats(-10, 10),
        st.floats(80, 100),
        st.integers(0, 2),
    ),
    max_size=16,
    unique_by=lambda c: c.key,
)


keys = st.builds(AgentKey, st.sampled_from("abcdx"), st.integers(0, 3))


@given(st.lists(agents, min_size=1, max_size=6), st.integers(1, 5), st.lists(keys, unique=True))
def test_places_are_never_doubled_never_stale_and_never_needlessly_empty(
    rounds, top_k, pinned
) -> None:
    current: tuple[FeaturedAgent, ...] = ()
    for number, candidates in enumerate(rounds):
        now = 100.0 + number
        current = select_top(candidates, current, top_k, now, RULES, pinned).places
        keys = [place.key for place in current]
        fresh = {c.key for c in candidates if now - c.reported_at <= RULES.stale_s}
        assert len(set(keys)) == len(keys)
        assert set(keys) <= fresh
        assert len(keys) == min(top_k, len(fresh))
        assert set([key for key in pinned if key in fresh][:top_k]) <= set(keys)
