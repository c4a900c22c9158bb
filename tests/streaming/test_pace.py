"""A full line is sent fewer pictures, and more when it has room again."""

from __future__ import annotations

import pytest

from Daddy.streaming.login.flow_control import FLOOR_FPS, PERIOD_S, Pace


def hear(pace: Pace, rtt_s: float, seconds: float, begin: float) -> float:
    """An acknowledgement every 0.1 s; returns when the last came."""
    for tenth in range(round(seconds * 10) + 1):
        now = begin + tenth / 10
        pace.heard(rtt_s, 30.0, now)
    return now


def test_a_queue_before_the_line_lowers_the_rate_until_there_is_room_again() -> None:
    pace = Pace()
    now = hear(pace, 0.15, 3.0, 0.0)
    assert pace.fps > 30
    now = hear(pace, 0.6, 2.6, now + 0.1)
    assert pace.fps == pytest.approx(21.0)
    assert pace.least_s == 0.15, "the window follows the line, not the queue"
    now = hear(pace, 0.3, 9.0, now + 0.1)
    assert pace.fps == pytest.approx(21.0), "neither full nor free"
    hear(pace, 0.2, 12.0, now + 0.1)
    assert pace.fps >= 30, "2 after five seconds, and 2 a second from then on"


def test_at_the_floor_the_first_agent_is_left_and_the_others_come_back_first() -> None:
    pace = Pace()
    now = hear(pace, 0.15, 1.0, 0.0)
    now = hear(pace, 2.0, 12.0, now + 0.1)
    assert (pace.fps, pace.alone) == (FLOOR_FPS, True)
    hear(pace, 0.15, 7.8, now + 0.1)
    assert (pace.fps, pace.alone) == (FLOOR_FPS, False)


def test_one_quick_answer_is_enough_to_go_on() -> None:
    pace = Pace()
    now = hear(pace, 0.15, 1.0, 0.0)
    for _ in range(5):
        now = hear(pace, 0.6, 0.8, now + 0.1)
        now = hear(pace, 0.2, 0.1, now + 0.1)
    assert pace.fps > 30


def test_a_busy_viewer_on_a_fast_line_is_not_a_full_line() -> None:
    pace = Pace()
    hear(pace, 0.08, 5.0, hear(pace, 0.001, 1.0, 0.0) + 0.1)
    assert pace.fps > 30


def test_a_line_that_has_become_longer_is_believed_after_a_minute() -> None:
    pace = Pace()
    now = hear(pace, 0.03, 1.0, 0.0)
    hear(pace, 0.25, PERIOD_S + 6, now + 0.1)
    assert pace.least_s == 0.25


def test_late_answers_among_many_do_not_keep_a_line_slow() -> None:
    pace = Pace()
    now = hear(pace, 0.6, 4.0, hear(pace, 0.03, 1.0, 0.0) + 0.1)
    assert pace.fps < 30
    for _ in range(18):
        now = hear(pace, 0.12, 0.0, now + 0.1)
        now = hear(pace, 0.035, 0.9, now + 0.1)
    assert pace.fps >= 30
