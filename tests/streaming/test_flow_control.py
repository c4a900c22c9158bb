"""Pictures are sent when the link has room, newest first, at the pace of their capture."""

import random
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.streaming.login.flow_control import (
    FLOOR_FPS,
    KEY_EVERY_S,
    LONGEST_S,
    MAX_WINDOW,
    MEMORY_S,
    PERIOD_S,
    PlayoutBuffer,
    RateController,
    StreamSender,
    window_size,
)
from Daddy.streaming.protocol.frame_codec import KEEP, MAX_BASES, FrameDecoder
from Daddy.streaming.protocol.spool_segment import CapturedPicture
from tests.streaming.helpers import picture


def shot(number: int, captured_ms: int = 0) -> CapturedPicture:
    return CapturedPicture(0, number, 0, captured_ms, picture(number))


@pytest.mark.parametrize(
    ("rtt_s", "fps", "allowed"), [(0.0, 30, 2), (0.03, 30, 3), (0.3, 15, 7), (9.0, 60, 16)]
)
def test_the_window_is_a_round_trip_and_two_more(rtt_s, fps, allowed) -> None:
    assert window_size(rtt_s, fps) == allowed


def test_a_full_window_keeps_only_the_newest_picture() -> None:
    sender, viewer = StreamSender(), FrameDecoder()
    for number in range(5):
        sender.set_picture(shot(number))
        sender.next_frame(0.0, allowed=2)
    assert sender._seq == 2
    sender.handle_ack(2, 0.0)
    frame = sender.next_frame(0.0, allowed=2)
    assert frame is not None
    assert frame.step == 4
    assert frame.base == 2
    assert viewer.decode(frame) is None, "the base never reached this viewer"


def test_a_delta_leans_only_on_an_unbroken_run_of_pictures_that_were_acknowledged() -> None:
    sender, bases = StreamSender(), []
    for number in range(1, 8):
        sender.set_picture(shot(number))
        frame = sender.next_frame(0.0, MAX_WINDOW)
        assert frame is not None
        bases.append((frame.base, frame.more))
        if number != 4:  # frame 4 stands for one that the viewer could not decode
            sender.handle_ack(number, 0.0)
    assert bases == [(0, 0), (1, 0), (2, 1), (3, 2), (3, 2), (5, 0), (6, 1)]
    assert sender.handle_ack(4, 0.0) is None, "settled by those after it"


def test_what_a_delta_leans_on_is_what_a_viewer_still_remembers() -> None:
    assert MAX_BASES + MAX_WINDOW <= KEEP
    sender, viewer = StreamSender(), FrameDecoder()
    for number in range(1, 101):
        sender.set_picture(shot(number % 9))
        frame = sender.next_frame(0.0, MAX_WINDOW)
        assert frame is not None
        assert viewer.decode(frame) == picture(number % 9)
        if number > MAX_WINDOW - 1:
            sender.handle_ack(number - MAX_WINDOW + 1, 0.0)
    assert frame.more == MAX_BASES - 1


def test_a_format_of_a_later_version_is_asked_for_anew() -> None:
    sender = StreamSender()
    sender.set_picture(shot(1))
    frame = sender.next_frame(0.0, 2)
    assert frame is not None
    assert FrameDecoder().decode(replace(frame, format=3)) is None


def test_the_first_picture_and_one_every_ten_seconds_is_whole() -> None:
    sender = StreamSender()
    bases = []
    for second in range(int(KEY_EVERY_S) + 2):
        sender.set_picture(shot(second))
        frame = sender.next_frame(float(second), allowed=2)
        assert frame is not None
        bases.append(frame.base)
        sender.handle_ack(frame.seq, 0.0)
    assert [second for second, base in enumerate(bases) if base == 0] == [0, int(KEY_EVERY_S)]


def test_a_viewer_that_asks_gets_a_whole_picture() -> None:
    sender = StreamSender()
    sender.set_picture(shot(1))
    sender.handle_ack(sender.next_frame(0.0, 2).seq, 0.0)  # type: ignore[union-attr]
    sender.require_whole_picture()
    sender.set_picture(shot(2))
    assert sender.next_frame(0.1, 2).base == 0  # type: ignore[union-attr]


def test_acknowledgements_of_pictures_never_sent_are_ignored() -> None:
    sender = StreamSender()
    sender.handle_ack(99, 0.0)
    sender.set_picture(shot(1))
    assert sender.next_frame(0.0, 2).base == 0  # type: ignore[union-attr]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.floats(0.0, 0.6))
def test_whatever_is_lost_the_viewer_shows_true_pictures_or_asks(seed: int, loss: float) -> None:
    """Lose frames and acknowledgements at random: no wrong picture is ever decoded."""
    chance, sender, viewer = random.Random(seed), StreamSender(), FrameDecoder()
    shown = 0
    for number in range(40):
        sender.set_picture(shot(number))
        frame = sender.next_frame(number * 0.1, allowed=16)
        if frame is None:
            sender.require_whole_picture()
            continue
        if chance.random() < loss:
            continue
        pixels = viewer.decode(frame)
        if pixels is None:
            sender.require_whole_picture()
        else:
            assert pixels == picture(number)
            shown += 1
            if chance.random() >= loss:
                sender.handle_ack(frame.seq, 0.0)
    assert shown > 5


def hear(pace: RateController, rtt_s: float, seconds: float, begin: float) -> float:
    """Acknowledge a picture every 0.1 s; return the time of the last one."""
    for tenth in range(round(seconds * 10) + 1):
        now = begin + tenth / 10
        pace.handle_ack(rtt_s, 30.0, now)
    return now


def test_a_queue_before_the_line_lowers_the_rate_until_there_is_room_again() -> None:
    pace = RateController()
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
    pace = RateController()
    now = hear(pace, 0.15, 1.0, 0.0)
    now = hear(pace, 2.0, 12.0, now + 0.1)
    assert (pace.fps, pace.first_agent_only) == (FLOOR_FPS, True)
    hear(pace, 0.15, 7.8, now + 0.1)
    assert (pace.fps, pace.first_agent_only) == (FLOOR_FPS, False)


def test_one_quick_answer_is_enough_to_go_on() -> None:
    pace = RateController()
    now = hear(pace, 0.15, 1.0, 0.0)
    for _ in range(5):
        now = hear(pace, 0.6, 0.8, now + 0.1)
        now = hear(pace, 0.2, 0.1, now + 0.1)
    assert pace.fps > 30


def test_a_busy_viewer_on_a_fast_line_is_not_a_full_line() -> None:
    pace = RateController()
    hear(pace, 0.08, 5.0, hear(pace, 0.001, 1.0, 0.0) + 0.1)
    assert pace.fps > 30


def test_a_line_that_has_become_longer_is_believed_after_a_minute() -> None:
    pace = RateController()
    now = hear(pace, 0.03, 1.0, 0.0)
    hear(pace, 0.25, PERIOD_S + 6, now + 0.1)
    assert pace.least_s == 0.25


def test_late_answers_among_many_do_not_keep_a_line_slow() -> None:
    pace = RateController()
    now = hear(pace, 0.6, 4.0, hear(pace, 0.03, 1.0, 0.0) + 0.1)
    assert pace.fps < 30
    for _ in range(18):
        now = hear(pace, 0.12, 0.0, now + 0.1)
        now = hear(pace, 0.035, 0.9, now + 0.1)
    assert pace.fps >= 30


def at_second(taken: float) -> CapturedPicture:
    return CapturedPicture(0, round(taken * 1000), 0, round(taken * 1000) % 2**32, picture(1))


def lumps(playout: PlayoutBuffer, begin: float, seconds: float, jitter: float = 0.0) -> list[float]:
    """Add half a second's pictures at once, 20 a second, each segment late by up to ``jitter``;
    return the times at which they were played, polled every 5 ms.
    """
    chance = random.Random(7)
    arrivals = []
    for lump in range(int(seconds * 2)):
        taken = [begin + lump / 2 + number / 20 for number in range(10)]
        arrivals.append((begin + lump / 2 + 0.5 + chance.random() * jitter, taken))
    played = []
    for tick in range(int((seconds + 2) * 200)):
        now = begin + tick / 200
        while arrivals and arrivals[0][0] <= now:
            playout.add_pictures([at_second(at) for at in arrivals.pop(0)[1]], now)
        played += [now for _ in playout.take_due(now)]
    return played


def gaps(played: list[float]) -> list[float]:
    return [round(after - before, 3) for before, after in pairwise(played)]


def test_lumps_are_played_evenly_at_the_pace_at_which_they_were_taken() -> None:
    played = lumps(PlayoutBuffer(), begin=50.0, seconds=5)
    assert len(played) == 100
    assert set(gaps(played)) <= {0.045, 0.05, 0.055}
    assert played[0] == pytest.approx(50.5), "no later than the lump makes it"


def test_lumps_that_come_unevenly_are_even_after_the_latest_of_them() -> None:
    playout = PlayoutBuffer()
    later = lumps(playout, 100.0, seconds=12, jitter=0.2)[60:]
    assert len(later) == 180
    assert sum(gap > 0.06 for gap in gaps(later)) <= 2, "twice later than ever before"
    assert min(gaps(later)) >= 0.035


def test_a_delay_that_is_no_longer_needed_is_played_off_a_fifth_faster() -> None:
    playout = PlayoutBuffer()
    playout.add_pictures([at_second(10.0)], now=12.0)
    assert playout.take_due(12.0)
    played = lumps(playout, 12.5, seconds=MEMORY_S + 15)
    assert min(gaps(played)) >= 0.035
    assert max(gaps(played)) <= 0.06
    last_taken = 12.5 + MEMORY_S + 15 - 0.05
    assert played[-1] - last_taken == pytest.approx(0.5, abs=0.03)


def test_a_pause_of_the_learner_does_not_hold_up_what_follows() -> None:
    playout = PlayoutBuffer()
    playout.add_pictures([at_second(1.0)], now=1.0)
    playout.take_due(1.0)
    playout.add_pictures([at_second(9.0)], now=9.0)
    assert len(playout.take_due(9.0)) == 1


def test_what_is_too_late_is_dropped_but_for_the_newest() -> None:
    playout = PlayoutBuffer()
    playout.add_pictures([at_second(number / 10) for number in range(100)], now=10.0)
    assert len(playout._queue) == pytest.approx(10 * LONGEST_S, abs=1)
    assert [taken.step for _, taken in playout.take_due(20.0)][-1] == 9900
    playout.add_pictures([at_second(11.0)], now=30.0)
    assert [taken.step for _, taken in playout.take_due(30.0)] == [11000], (
        "old, but the newest there is"
    )


def test_a_clock_that_wraps_or_runs_ahead_stops_nothing() -> None:
    playout = PlayoutBuffer()
    wrap = 2**32 / 1000
    playout.add_pictures([at_second(wrap - 0.05), at_second(wrap + 0.05)], now=wrap + 0.1)
    assert len(playout.take_due(wrap + 0.3)) == 2
    playout.add_pictures([at_second(wrap + 60 + 2 * number) for number in range(20)], now=wrap + 1)
    assert len(playout.take_due(wrap + 1 + LONGEST_S)) == 20


@pytest.mark.parametrize(("direct", "late_s"), [(True, 0.05), (False, 0.55)])
def test_pictures_that_come_one_by_one_do_not_wait_as_lumps_did(
    direct: bool, late_s: float
) -> None:
    playout, late = PlayoutBuffer(), 0.0
    lumps(playout, begin=50.0, seconds=5)
    for tick in range(10 * 200):
        now = 57.0 + tick / 200
        if tick % 10 == 0:  # 20 pictures a second, each at once
            playout.add_pictures([at_second(now)], now, direct=direct)
        for _, taken in playout.take_due(now):
            late = now - taken.captured_ms / 1000
    assert late_s - 0.06 <= late <= late_s


def test_what_comes_straight_after_a_while_is_shown_at_once_and_delays_nothing_after_it() -> None:
    playout = PlayoutBuffer()
    playout.add_pictures([at_second(57.0 - number / 10) for number in (3, 2, 1)], 57.0, direct=True)
    assert [taken.step for _, taken in playout.take_due(57.0)] == [56_900], (
        "the newest of what had waited"
    )
    waits = []
    for tick in range(1, 201):
        now = 57.0 + tick / 200
        if tick % 10 == 0:
            playout.add_pictures([at_second(now)], now, direct=True)
        waits += [now - taken.captured_ms / 1000 for _, taken in playout.take_due(now)]
    assert max(waits) < 0.1
    assert max(waits[-8:]) < 0.01, "the lump is made up for, not remembered for half a minute"
