from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.weights.records.sequential import MOST_PAIRS, TOLERATED, Outcome, Trial, balance, compare
from scripts.benches._sharing_revert import revert

RETURNS = st.floats(allow_nan=False, allow_infinity=False)
PAIRS = st.lists(st.tuples(RETURNS, RETURNS), max_size=40)


@given(RETURNS, RETURNS)
def test_a_balance_is_bounded_and_turns_round_with_its_pair(ours, theirs):
    found = balance(ours, theirs)
    assert -1.0 <= found <= 1.0
    assert balance(theirs, ours) == -found
    assert balance(ours, ours) == 0.0


@given(PAIRS, st.randoms(use_true_random=False))
def test_the_order_of_the_pairs_does_not_matter(pairs, chance):
    mixed = list(pairs)
    chance.shuffle(mixed)
    assert compare(mixed).outcome is compare(pairs).outcome


@given(st.lists(st.tuples(st.floats(0, 1e6), st.floats(0, 1e6)), max_size=40))
def test_what_is_no_worse_in_any_pair_is_never_bad(pairs):
    ours_higher = [(max(pair), min(pair)) for pair in pairs]
    assert compare(ours_higher).outcome in (Outcome.FINE, Outcome.OPEN)


def test_nothing_but_ties_is_fine_and_nothing_at_all_is_undecided():
    assert compare([(0.0, 0.0)] * 40).outcome is Outcome.FINE
    assert compare([]).outcome is Outcome.OPEN


def test_a_collapse_is_found_within_two_dozen_pairs():
    found = compare([(0.0, 7.0)] * 24)
    assert found.outcome is Outcome.BAD
    assert "0 % of the older one's return in 24 pairs" in found.reason


def test_one_ruinous_episode_condemns_nobody():
    assert compare([(0.0, 1e300)] + [(5.0, 5.0)] * 60).outcome is Outcome.FINE


def test_what_lost_a_third_and_cannot_be_told_is_let_go():
    found = compare([(0.7, 1.0)] * MOST_PAIRS)
    assert found.outcome in (Outcome.LET_GO, Outcome.BAD)
    assert compare([(0.7, 1.0)] * 40).outcome is Outcome.OPEN


def test_on_the_edge_of_what_is_forgiven_the_promise_is_kept_although_one_looks_after_every_pair():
    """The hardest case: balances of -1 and 1 alone, worse exactly as far as is forgiven."""
    alpha, trials = 0.05, 1_000
    dice = np.random.default_rng(3)
    called = 0
    for _ in range(trials):
        trial = Trial()
        for lost in dice.random(MOST_PAIRS) < (1 + TOLERATED) / 2:
            trial.add(*((0.0, 1.0) if lost else (1.0, 0.0)))
            if trial.finding(alpha).outcome is Outcome.BAD:
                called += 1
                break
    assert 0 < called <= trials * alpha  # it can happen, and not more often than promised


@pytest.fixture(scope="module")
def simulated():
    return revert(quick=True)


def test_the_bench_takes_no_clean_version_back_where_the_plain_rule_does(simulated):
    assert simulated["passed"]
    assert simulated["falsely_reverted"] == 0
    for world in simulated["worlds"].values():
        assert world["clean"]["plain_rule_fired"] > 0.05


def test_the_bench_finds_collapses_in_both_worlds(simulated):
    for world in simulated["worlds"].values():
        assert world["bad"]["keeps 0.1"]["bad"] == 1.0
        assert world["bad"]["keeps 0.1"]["pairs_median"] < 36
