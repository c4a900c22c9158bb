"""A person before the window: what they see when they pause, and what they keep of it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from Daddy.core.clock import SystemClock
from Daddy.streaming.viewer.clips import REEL_S
from Daddy.streaming.viewer.drawing import Picture, Text
from Daddy.streaming.viewer.keys import Act, View
from Daddy.streaming.viewer.window import Watcher
from tests.streaming.helpers import picture
from tests.streaming.test_viewer import WAITING, panel, scene

SIZE = (800, 600)


class Hands(SystemClock):
    """A clock that is turned by hand."""

    time = 1000.0

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def watcher() -> Iterator[Watcher]:
    made = Watcher(View(2), WAITING, Hands())
    yield made
    made.close()


def seen(watcher: Watcher) -> list[bytes]:
    return [one.pixels for one in watcher.drawings(SIZE) if isinstance(one, Picture)]


def words(watcher: Watcher) -> list[str]:
    return [one.text for one in watcher.drawings(SIZE) if isinstance(one, Text)]


def test_a_paused_window_keeps_its_picture_and_never_calls_it_live(watcher) -> None:
    watcher.look(scene(panel(pixels=picture(1))))
    watcher.press("space")
    watcher.look(scene(panel(pixels=picture(2))))
    assert seen(watcher) == [picture(1)]
    assert "paused  ·  Space goes on" in words(watcher)
    assert not any(word.startswith("live") for word in words(watcher))
    watcher.press("space")
    watcher.look(scene(panel(pixels=picture(2))))
    assert seen(watcher) == [picture(2)]


def test_a_word_in_the_header_passes(watcher) -> None:
    watcher.look(scene(panel()))
    watcher.press("v")
    assert "palette: pea" in words(watcher)
    watcher._clock.time += 4.0
    assert "palette: pea" not in words(watcher)


def test_a_recording_ends_by_itself_and_becomes_a_film(watcher, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    watcher.look(scene(panel(pixels=picture(1))))
    watcher.press("r")
    watcher._clock.time += REEL_S
    watcher.look(scene(panel(pixels=picture(2))))
    assert not watcher.view.recording
    watcher.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".gif"]


def test_without_a_picture_nothing_is_written_and_that_is_said(
    watcher, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watcher.look(scene())
    assert watcher.press("b") is None
    assert "there is no picture to keep yet" in words(watcher)
    assert list(tmp_path.iterdir()) == []


def test_what_only_the_window_can_do_is_handed_on(watcher) -> None:
    assert [watcher.press(key) for key in ("f12", "c", "q")] == [Act.SHOT, Act.COPY, Act.LEAVE]
