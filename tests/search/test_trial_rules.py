"""Judging the end of an attempt, and the breaker of a sweep."""

import math

import pytest

from Daddy.search.trial_rules import (
    MOST_ATTEMPTS,
    Training,
    find_breaker,
    judge_attempt,
)

PLAYED = Training([(100, 10.0), (800, 20.0), (1000, 40.0)], steps=1000, cpu_seconds=3.0)


def judge(*exit_codes, reasons=None, training=PLAYED, attempts=1, **end):
    return judge_attempt(dict(enumerate(exit_codes)), reasons or {}, training, attempts, **end)


def test_the_score_is_the_mean_return_in_the_last_quarter_of_the_steps():
    verdict = judge(0, 0)
    assert (verdict.outcome, verdict.score, verdict.cost) == ("complete", 30.0, 3.0)


def test_without_an_episode_in_the_last_quarter_all_episodes_count():
    assert judge(0, training=Training([(1, 4.0), (2, 8.0)], 1000, 1.0)).score == 6.0


def test_a_training_without_an_episode_fails_and_says_what_to_raise():
    verdict = judge(0, training=Training([], 50, 1.0))
    assert verdict.outcome == "failed"
    assert "raise trainer.total_timesteps" in verdict.reason


@pytest.mark.parametrize("returns", [math.nan, math.inf])
def test_a_score_that_is_no_number_fails_and_is_repeated(returns):
    verdict = judge(0, training=Training([(1, returns)], 1, 1.0))
    assert (verdict.outcome, verdict.repeat) == ("failed", True)


def test_a_policy_that_diverged_fails_and_is_repeated():
    verdict = judge(8, 93, reasons={0: "waited for rank 1", 1: "nan in the loss"})
    assert (verdict.outcome, verdict.repeat) == ("failed", True)
    assert "rank 1: nan in the loss" in verdict.reason


def test_the_rank_that_failed_by_itself_gives_the_reason():
    assert judge(8, 137, reasons={0: "waited for rank 1"}).reason == "rank 1: exit code 137"
    stopped = judge(8, None, reasons={0: "waited 120 s"})
    assert stopped.reason == "rank 1: it was lost (waited 120 s)"
    assert judge(7, reasons={0: "there is no ROM"}).reason == "there is no ROM"


def test_the_first_of_ranks_that_failed_by_themselves_gives_the_reason():
    assert judge_attempt({1: 137, 0: 139}, {}, PLAYED, 1).reason == "rank 1: exit code 137"


def test_a_rank_that_drained_after_rank_0_was_done_cuts_the_attempt_off():
    assert judge(0, 10).outcome == "cut off"


@pytest.mark.parametrize(
    "end", [{"exit_codes": (10, 8)}, {"exit_codes": (8, 10)}, {"exit_codes": (10,)}]
)
def test_an_attempt_that_was_drained_is_cut_off(end):
    assert judge(*end["exit_codes"]).outcome == "cut off"


def test_an_attempt_that_the_driver_stopped_is_cut_off_whatever_its_exit_codes():
    assert judge(137, None, stopped=True).outcome == "cut off"


def test_a_trial_is_not_cut_off_for_ever():
    assert judge(10, attempts=MOST_ATTEMPTS).outcome == "failed"


def test_a_full_disk_ends_the_sweep_at_once_and_fails_no_trial():
    verdict = judge(9, full_disk="No space left on device: /scratch")
    assert (verdict.outcome, verdict.fatal) == ("cut off", True)


def test_the_breaker_opens_after_three_failures_with_one_cause():
    assert not find_breaker(["lost", "lost"])
    assert not find_breaker(["lost", None, "lost"])
    assert not find_breaker(["lost", "no ROM", "lost"])
    assert "no port from 29501" in find_breaker(
        [None, "no port from 29500", "no port from 29500", "no port from 29501"]
    )
