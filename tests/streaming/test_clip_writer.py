"""The clip buffer returns the pictures that were shown, and its size is bounded."""

import math
import threading
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.streaming.viewer import clip_writer
from Daddy.streaming.viewer.clip_writer import BUFFER_S, CLIP_FPS, ClipBuffer, ClipWriter
from Daddy.streaming.viewer.draw_list import THEMES
from Daddy.streaming.viewer.key_bindings import WindowAction
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import picture


def test_a_film_shows_what_was_on_screen_when_it_was() -> None:
    reel = ClipBuffer()
    for second in range(10):
        reel.add_pictures([("slot-0/3", picture(second)), ("slot-1/3", None)], float(second))
    film = reel.pictures_between("slot-0/3", 2.0, 6.0)
    assert len(film) == 4 * CLIP_FPS
    assert [film[math.ceil(n * CLIP_FPS)] for n in range(4)] == [picture(2 + n) for n in range(4)]
    assert reel.pictures_between("slot-1/3", 0.0, 9.0) == []
    assert reel.pictures_between("slot-7/3", 0.0, 9.0) == []


def test_a_film_begins_where_the_reel_does() -> None:
    reel = ClipBuffer()
    reel.add_pictures([("slot-0/3", picture(1))], 100.0)
    assert reel.pictures_between("slot-0/3", 70.0, 102.0) == [picture(1)] * 25


def test_a_still_picture_costs_nothing_and_a_long_time_is_forgotten() -> None:
    reel = ClipBuffer()
    for tick in range(2 * 1500):
        reel.add_pictures([("slot-0/3", picture(tick % 40 if tick < 2000 else 1))], tick / 10)
    kept = reel._pictures["slot-0/3"]
    assert len(kept) <= BUFFER_S * 10
    assert kept[1][0] >= 300 - BUFFER_S - 0.2
    assert len(reel.pictures_between("slot-0/3", 290.0, 299.0)) == int(9 * CLIP_FPS)


def test_agents_that_have_gone_are_forgotten() -> None:
    reel = ClipBuffer()
    for number in range(100):
        reel.add_pictures([(f"slot-0/{number}", picture(number))], float(number))
    assert len(reel._pictures) <= 33


def test_only_two_films_wait_to_be_written(monkeypatch) -> None:
    gate, written, clock = threading.Event(), list[Path](), SystemClock()

    def save(path: Path, *_: object, **__: object) -> None:
        assert gate.wait(PATIENCE_S)
        written.append(path)

    monkeypatch.setattr(clip_writer, "write_video", save)
    films = ClipWriter(clock)
    films.buffer.add_pictures([("slot-0/3", picture(1))], clock.monotonic() - 1)
    messages = [films.do_action(WindowAction.CLIP, "slot-0/3", THEMES[1]) for _ in range(5)]
    assert [word.split()[0] for word in messages] == ["writing", "writing", "not", "not", "not"]
    gate.set()
    assert until(lambda: len(written) == 2 and films.take_outcome(), 10)
    assert until(lambda: "writing" in films.do_action(WindowAction.CLIP, "slot-0/3", THEMES[1]), 10)
    films.close()
    assert len(written) == 3
