"""Never more on its way than the link takes, always the newest, against what was acknowledged."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.streaming.login.flow_control import (
    KEY_EVERY_S,
    MAX_WINDOW,
    Sender,
    window,
)
from Daddy.streaming.protocol.frame_codec import KEEP, MAX_BASES, FrameDecoder
from Daddy.streaming.protocol.spool_segment import Picture
from tests.streaming.helpers import picture


def shot(number: int, captured_ms: int = 0) -> Picture:
    return Picture(0, number, 0, captured_ms, picture(number))


@pytest.mark.parametrize(
    ("rtt_s", "fps", "allowed"), [(0.0, 30, 2), (0.03, 30, 3), (0.3, 15, 7), (9.0, 60, 16)]
)
def test_the_window_is_a_round_trip_and_two_more(rtt_s, fps, allowed) -> None:
    assert window(rtt_s, fps) == allowed


def test_a_full_window_keeps_only_the_newest_picture() -> None:
    sender, viewer = Sender(), FrameDecoder()
    for number in range(5):
        sender.offer(shot(number))
        sender.next(0.0, allowed=2)
    assert (sender.sent, sender.dropped) == (2, 2)
    sender.acked(2, 0.0)
    frame = sender.next(0.0, allowed=2)
    assert frame is not None
    assert frame.step == 4
    assert frame.base == 2
    assert viewer.decode(frame) is None, "the base never reached this viewer"


def test_a_delta_leans_only_on_an_unbroken_run_of_pictures_that_were_acknowledged() -> None:
    sender, bases = Sender(), []
    for number in range(1, 8):
        sender.offer(shot(number))
        frame = sender.next(0.0, MAX_WINDOW)
        assert frame is not None
        bases.append((frame.base, frame.more))
        if number != 4:  # which the viewer could not decode, say
            sender.acked(number, 0.0)
    assert bases == [(0, 0), (1, 0), (2, 1), (3, 2), (3, 2), (5, 0), (6, 1)]
    assert sender.acked(4, 0.0) is None, "settled by those after it"


def test_what_a_delta_leans_on_is_what_a_viewer_still_remembers() -> None:
    assert MAX_BASES + MAX_WINDOW <= KEEP
    sender, viewer = Sender(), FrameDecoder()
    for number in range(1, 101):
        sender.offer(shot(number % 9))
        frame = sender.next(0.0, MAX_WINDOW)
        assert frame is not None
        assert viewer.decode(frame) == picture(number % 9)
        if number > MAX_WINDOW - 1:
            sender.acked(number - MAX_WINDOW + 1, 0.0)
    assert frame.more == MAX_BASES - 1


def test_an_older_viewer_is_sent_what_it_can_read() -> None:
    sender = Sender(version=1)
    for number in (1, 2, 3):
        sender.offer(shot(number))
        frame = sender.next(0.0, 2)
        assert frame is not None
        sender.acked(number, 0.0)
        assert (frame.base, frame.format, frame.more) == (number - 1, 1, 0)


def test_a_format_of_a_later_version_is_asked_for_anew() -> None:
    sender = Sender()
    sender.offer(shot(1))
    frame = sender.next(0.0, 2)
    assert frame is not None
    assert FrameDecoder().decode(replace(frame, format=3)) is None


def test_the_first_picture_and_one_every_ten_seconds_is_whole() -> None:
    sender = Sender()
    bases = []
    for second in range(int(KEY_EVERY_S) + 2):
        sender.offer(shot(second))
        frame = sender.next(float(second), allowed=2)
        assert frame is not None
        bases.append(frame.base)
        sender.acked(frame.seq, 0.0)
    assert [second for second, base in enumerate(bases) if base == 0] == [0, int(KEY_EVERY_S)]


def test_a_viewer_that_asks_gets_a_whole_picture() -> None:
    sender = Sender()
    sender.offer(shot(1))
    sender.acked(sender.next(0.0, 2).seq, 0.0)  # type: ignore[union-attr]
    sender.need_key()
    sender.offer(shot(2))
    assert sender.next(0.1, 2).base == 0  # type: ignore[union-attr]


def test_acknowledgements_of_pictures_never_sent_are_ignored() -> None:
    sender = Sender()
    sender.acked(99, 0.0)
    sender.offer(shot(1))
    assert sender.next(0.0, 2).base == 0  # type: ignore[union-attr]


@settings(max_examples=20)
@given(st.integers(0, 2**32), st.floats(0.0, 0.6), st.sampled_from([1, 2]))
def test_whatever_is_lost_the_viewer_shows_true_pictures_or_asks(
    seed: int, loss: float, version: int
) -> None:
    """Frames and acknowledgements are lost at random: no wrong picture is ever decoded."""
    chance, sender, viewer = random.Random(seed), Sender(version), FrameDecoder()
    shown = 0
    for number in range(40):
        sender.offer(shot(number))
        frame = sender.next(number * 0.1, allowed=16)
        if frame is None:
            sender.need_key()
            continue
        if chance.random() < loss:
            continue
        pixels = viewer.decode(frame)
        if pixels is None:
            sender.need_key()
        else:
            assert pixels == picture(number)
            shown += 1
            if chance.random() >= loss:
                sender.acked(frame.seq, 0.0)
    assert shown > 5
