"""A window painted in parts equals one painted whole; keys and clicks do what the help says."""

import os
import random
from collections.abc import Iterator
from dataclasses import replace

import pygame
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.clock import SystemClock
from Daddy.streaming.protocol.messages import row_from_report
from Daddy.streaming.viewer.agent_trails import HistorySnapshot, ViewHistory
from Daddy.streaming.viewer.clip_writer import BUFFER_S
from Daddy.streaming.viewer.compose_window import draw_window
from Daddy.streaming.viewer.draw_list import (
    MOST_PLACES,
    THEMES,
    Box,
    Curve,
    GamePicture,
    Item,
    Rect,
    Text,
    changed_areas,
    unpack_pixels,
)
from Daddy.streaming.viewer.key_bindings import ViewOptions, WindowAction
from Daddy.streaming.viewer.pygame_window import Painter, ViewerState, paint_items
from tests.streaming.helpers import picture, report
from tests.streaming.test_viewer import WAITING, panel, scene

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")


SIZE = (240, 160)
BACK = Box(Rect(0, 0, *SIZE), (6, 17, 23), (9, 9, 9))
COLOURS = st.sampled_from([(248, 200, 88), (52, 104, 86), (255, 255, 255)])
XS, YS = st.integers(0, 200), st.integers(0, 140)
BOXES = st.builds(Box, st.builds(Rect, XS, YS, st.integers(1, 60), st.integers(1, 40)),
                  COLOURS, COLOURS)  # fmt: skip
TEXTS = st.builds(Text, XS, YS, st.text("agjW_|…", min_size=1, max_size=12), COLOURS,
                  st.integers(1, 2))  # fmt: skip
PICTURES = st.builds(
    lambda x, y, seed: GamePicture(Rect(x, y, 160, 144), picture(seed), THEMES[0].shades),
    XS, YS, st.integers(0, 3),
)  # fmt: skip
CURVES = st.builds(
    lambda x, ys, width, colour: Curve(
        tuple((x + 17 * n, y) for n, y in enumerate(ys)), colour, (9, 60, 40), 150, width
    ),
    st.integers(0, 100), st.lists(YS, min_size=2, max_size=8), st.integers(1, 3), COLOURS,
)  # fmt: skip
THINGS = st.one_of(BOXES, TEXTS, PICTURES, CURVES)


def pixels(surface: pygame.Surface) -> bytes:
    return pygame.image.tobytes(surface, "RGB")


def at_once(things: list[Item], size: tuple[int, int] = SIZE) -> bytes:
    surface = pygame.Surface(size)
    paint_items(surface, things)
    return pixels(surface)


@settings(max_examples=150)
@given(
    st.lists(THINGS, min_size=3, max_size=9),
    st.lists(st.tuples(st.integers(1, 9), THINGS), min_size=1, max_size=6),
)
def test_whatever_takes_whosever_place(things: list[Item], changes: list[tuple[int, Item]]) -> None:
    painter, surface, shown = Painter(), pygame.Surface(SIZE), [BACK, *things]
    painter.update_surface(surface, shown)
    for number, thing in changes:
        place = 1 + number % len(things)
        shown = [*shown[:place], thing, *shown[place + 1 :]]
        painter.update_surface(surface, shown)
        assert pixels(surface) == at_once(shown)
        assert painter.update_surface(surface, shown) == []


def test_a_line_that_another_thing_cuts_keeps_its_pixels() -> None:
    curve = Curve(((10, 20), (90, 131), (230, 37)), (255, 255, 255), (9, 60, 40), 150, 1)
    painter, surface = Painter(), pygame.Surface(SIZE)
    for sentence in ("a", "a word", "a long word over the line", "a"):
        shown = [BACK, curve, Text(60, 60, sentence, (248, 200, 88), 1)]
        places = painter.update_surface(surface, shown)
        assert pixels(surface) == at_once(shown)
    assert 0 < sum(wide * tall for _, _, wide, tall in places) < 0.1 * SIZE[0] * SIZE[1]


def worlds(agents: int, maps: int, seconds: int) -> Iterator[HistorySnapshot]:
    """Yield snapshots of agents that walk on maps of 20 by 20 cells; two of them are on screen."""
    chance, history = random.Random(3), ViewHistory()
    cells = [(chance.randrange(20), chance.randrange(20)) for _ in range(agents)]
    for _ in range(seconds):
        cells = [_beside(cell, chance) for cell in cells]
        rows = [
            row_from_report(report(n, map_id=n % maps, x=x, y=y)) for n, (x, y) in enumerate(cells)
        ]
        history.add_telemetry([
            (f"slot-0/{n}", "A Map", replace(row, place=n + 1 if n < 2 else 0))
            for n, row in enumerate(rows)
        ])  # fmt: skip
        yield history.snapshot


def _beside(cell: tuple[int, int], chance: random.Random) -> tuple[int, int]:
    x, y = (min(19, max(0, at + chance.randint(-1, 1))) for at in cell)
    return x, y


def test_a_map_that_is_known_is_painted_at_once_and_not_in_a_thousand_pieces() -> None:
    painter, surface, before = Painter(), pygame.Surface((800, 600)), list[Item]()
    known = 0
    for second, world in enumerate(worlds(agents=32, maps=3, seconds=320)):
        if second < 300:
            continue
        shown = draw_window(
            replace(scene(panel(), panel(1)), history=world), (800, 600), ViewOptions(2), WAITING
        )
        apart = sum(old != new for old, new in zip(before, shown, strict=False))
        known += len(before) == len(shown) and apart > 2 * MOST_PLACES
        assert 0 < len(painter.update_surface(surface, shown)) <= MOST_PLACES
        assert pixels(surface) == at_once(shown, (800, 600))
        before = shown
    assert known > 5, "as many things as a second before, and hundreds of them others"


def test_what_changes_in_a_few_places_is_told_of_these() -> None:
    before = [BACK, *(Text(8 * n, 9, "a", (9, 9, 9), 1) for n in range(40))]
    few = [item._replace(text="W") if 2 <= n < 2 + MOST_PLACES // 2 else item
           for n, item in enumerate(before)]  # fmt: skip
    most = [item if n == 0 else item._replace(text="W") for n, item in enumerate(before)]
    assert 0 < len(changed_areas(before, few)) <= MOST_PLACES
    assert BACK.rect not in changed_areas(before, few)
    assert changed_areas(before, most) == changed_areas(before, before[:-1]) == {BACK.rect}
    assert changed_areas(before, before) == set()


def test_a_pixel_in_each_shade_at_every_place_of_a_byte() -> None:
    assert unpack_pixels(bytes([0b00_01_10_11, 0b11_00_00_10])) == bytes([0, 1, 2, 3, 3, 0, 0, 2])
    assert unpack_pixels(bytes([0b00_01_10_11]), (9, 8, 7, 200)) == bytes([9, 8, 7, 200])


SMALL = (800, 600)


class Hands(SystemClock):
    """A clock that the test sets."""

    time = 1000.0

    def monotonic(self) -> float:
        return self.time


@pytest.fixture
def watcher() -> Iterator[ViewerState]:
    made = ViewerState(ViewOptions(2), WAITING, Hands())
    yield made
    made.close()


def seen(watcher: ViewerState) -> list[bytes]:
    return [item.pixels for item in watcher.draw_items(SMALL) if isinstance(item, GamePicture)]


def words(watcher: ViewerState) -> list[str]:
    return [item.text for item in watcher.draw_items(SMALL) if isinstance(item, Text)]


def test_a_paused_window_keeps_its_picture_and_never_calls_it_live(watcher) -> None:
    watcher.show_scene(scene(panel(pixels=picture(1))))
    watcher.press_key("space")
    watcher.show_scene(scene(panel(pixels=picture(2))))
    assert seen(watcher) == [picture(1)]
    assert "paused  ·  Space goes on" in words(watcher)
    assert not any(word.startswith("live") for word in words(watcher))
    watcher.press_key("space")
    watcher.show_scene(scene(panel(pixels=picture(2))))
    assert seen(watcher) == [picture(2)]


def test_a_word_in_the_header_passes(watcher) -> None:
    watcher.show_scene(scene(panel()))
    watcher.press_key("v")
    assert "palette: silver" in words(watcher)
    watcher._clock.time += 4.0
    assert "palette: silver" not in words(watcher)


def test_a_recording_ends_by_itself_and_becomes_a_film(watcher, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", "")
    watcher.show_scene(scene(panel(pixels=picture(1))))
    watcher.press_key("r")
    watcher._clock.time += BUFFER_S
    watcher.show_scene(scene(panel(pixels=picture(2))))
    assert not watcher.view.recording
    watcher.close()
    assert [path.suffix for path in tmp_path.iterdir()] == [".gif"]


def test_without_a_picture_nothing_is_written_and_that_is_said(
    watcher, tmp_path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    watcher.show_scene(scene())
    assert watcher.press_key("b") is None
    assert "there is no picture to write yet" in words(watcher)
    assert list(tmp_path.iterdir()) == []


def test_what_only_the_window_can_do_is_handed_on(watcher) -> None:
    assert [watcher.press_key(key) for key in ("f12", "c", "q")] == [
        WindowAction.SHOT,
        WindowAction.COPY,
        WindowAction.LEAVE,
    ]
