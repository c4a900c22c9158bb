"""The window's pixels: right pictures, whole factors, no overlaps, stale pictures marked."""

import math
import os
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

from Daddy.core.clock import SystemClock
from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.protocol.messages import Peer, row_from_report
from Daddy.streaming.viewer import pygame_window as painting
from Daddy.streaming.viewer.agent_trails import HistorySnapshot, ViewHistory
from Daddy.streaming.viewer.compose_window import arrange_panels, draw_window, find_panel_at
from Daddy.streaming.viewer.draw_list import (
    ADVANCE,
    BADGES,
    DEPTH,
    HEIGHT,
    THEMES,
    Box,
    Curve,
    GamePicture,
    Item,
    Rect,
    Text,
    TextPosition,
    bounding_box,
    fit_text,
    text_width,
)
from Daddy.streaming.viewer.key_bindings import TABLE, Overlay, ViewOptions
from Daddy.streaming.viewer.pygame_window import Painter, ViewerWindow, paint_items, save_picture
from Daddy.streaming.viewer.view_model import Panel, Scene, TunnelInfo
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.streaming.helpers import finish, free_port, picture, report, start
from tests.streaming.test_messages import status

WAITING = TunnelInfo(9999, "anna@login.example.edu")
SIZES = [(320, 240), (640, 480), (800, 600), (1280, 800), (1920, 1080), (500, 900)]


def panel(number: int = 0, *, pixels: bytes | None = None, silent_s: float = 0.1, **row) -> Panel:
    return Panel(
        name=f"slot-{number}/3",
        peer=Peer(f"slot-{number}", "linuxlab07", "4815162"),
        row=row_from_report(report(3, **row)),
        map_name="A Map Whose Name Is Rather Long",
        pixels=picture(number) if pixels is None else pixels,
        frames=100,
        bytes_per_frame=111.0,
        age_s=1.0,
        silent_s=silent_s,
        returns=tuple(float(n % 17) for n in range(120)),
    )


def scene(*panels: Panel, trouble: str = "", connected: bool = True) -> Scene:
    return Scene(
        panels=panels,
        statuses=(status(),) if connected else (),
        transport="ssh-R" if connected else "",
        notes=("slot-0/3 won badge 1", "slot-1/3 came to Lake Path"),
        trouble=trouble,
        frames={},
    )


@pytest.fixture
def no_display(monkeypatch) -> None:
    monkeypatch.delenv("DISPLAY", raising=False)


def test_every_pixel_of_the_game_is_in_the_png_at_a_whole_factor(tmp_path, no_display) -> None:
    shot = tmp_path / "window.png"
    pixels = picture(7)
    save_picture(shot, scene(panel(pixels=pixels), panel(1)), (800, 600), WAITING)
    image = pygame.image.load(str(shot))
    assert image.get_size() == (800, 600)
    place = arrange_panels(800, 600, 2).panels[0].picture
    assert place.width == 320, "two pictures at twice their size"
    shades = THEMES[0].shades
    for y in range(0, 144, 5):
        for x in range(0, 160, 3):
            value = pixels[y * 40 + x // 4] >> (6 - 2 * (x % 4)) & 3
            for corner in ((0, 0), (1, 1)):
                at = (place.x + 2 * x + corner[0], place.y + 2 * y + corner[1])
                assert tuple(image.get_at(at))[:3] == shades[value]


def test_a_stale_picture_is_dimmed_and_says_for_how_long(tmp_path, no_display) -> None:
    white = bytes(SCREEN_BYTES)
    live, stale = panel(pixels=white), panel(1, pixels=white, silent_s=12.0)
    things = draw_window(scene(live, stale), (800, 600), ViewOptions(2), WAITING)
    shades = [thing.shades for thing in things if isinstance(thing, GamePicture)]
    assert shades[0] == THEMES[0].shades
    assert sum(shades[1][0]) < sum(shades[0][0]) / 1.5
    assert "no new picture for 12 s" in texts(things)
    assert any(text.startswith("live") for text in texts(things))
    alone = texts(draw_window(scene(stale), (800, 600), ViewOptions(2), WAITING))
    assert not any(text.startswith("live") for text in alone)


def texts(things: list) -> list[str]:
    return [thing.text for thing in things if isinstance(thing, Text)]


def test_a_panel_says_who_where_and_how_far() -> None:
    things = draw_window(scene(panel(badges=3, story_flags=4, level=21, episode_return=12.34)),
                  (800, 600), ViewOptions(2), WAITING)  # fmt: skip
    output = texts(things)
    for word in ("slot-0/3", "score 7", "21", "12.3", "linuxlab07", "job 4815162"):
        assert word in output
    accent = [t.text for t in things if isinstance(t, Text) and t.colour == THEMES[0].accent]
    assert [icon for icon in accent if icon in BADGES] == list(BADGES[:3])


def test_waiting_offers_the_exact_line() -> None:
    output = texts(draw_window(scene(connected=False), (800, 600), ViewOptions(2), WAITING))
    assert "ssh -R 9999:localhost:9999 anna@login.example.edu" in output
    assert "listening on 127.0.0.1:9999" in output


def test_a_refused_token_offers_the_line_that_copies_it() -> None:
    trouble = "no token in common: viewer has 1a2b3c4d, relay has 99887766"
    refused = scene(trouble=trouble, connected=False)
    output = " ".join(texts(draw_window(refused, (800, 600), ViewOptions(2), WAITING)))
    assert trouble in output
    assert "ssh anna@login.example.edu cat .config/daddy/stream.token" in output


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("count", [1, 2, 3, 4, 6, 8])
def test_pictures_keep_whole_factors_and_never_overlap(size, count) -> None:
    layout = arrange_panels(*size, count)
    pictures = [place.picture for place in layout.panels]
    assert len(pictures) == count or size == (320, 240) or (size == (500, 900) and count > 6)
    assert all(rect.width % 160 == 0 and rect.height % 144 == 0 for rect in pictures)
    for rect in pictures:
        assert rect.x >= 0
        assert rect.right <= size[0]
        assert rect.bottom <= size[1]
    assert not any(overlap(a, b) for a in pictures for b in pictures if a is not b)


def overlap(a: Rect, b: Rect) -> bool:
    return a.x < b.right and b.x < a.right and a.y < b.bottom and b.y < a.bottom


def world(maps: int = 3, agents: int = 32, seconds: int = 30) -> HistorySnapshot:
    """Return the history of agents that walk and whose returns grow."""
    history = ViewHistory()
    for second in range(seconds):
        rows = [
            row_from_report(
                report(n, map_id=n % maps, episode_return=second * n / 9, x=n + second, y=n)
            )
            for n in range(agents)
        ]
        named = [(f"slot-0/{n}", "Long Name Of A Map", replace(row, place=n + 1 if n < 2 else 0))
                 for n, row in enumerate(rows)]  # fmt: skip
        history.add_telemetry(named)
    return history.snapshot


WORLD = world()


def test_below_the_panels_stand_maps_with_everybody_and_the_course_of_the_run() -> None:
    here = replace(scene(panel(), panel(1)), history=WORLD)
    things = draw_window(here, (800, 600), ViewOptions(2), WAITING)
    assert len([text for text in texts(things) if text.startswith("Long N")]) == 3
    assert "best return 99.9" in texts(things)
    assert len([thing for thing in things if isinstance(thing, Curve)]) == 2
    inside = [thing.rect for thing in things if isinstance(thing, Box)]
    assert all(r.x >= 0 and r.y >= 0 and r.right <= 800 and r.bottom <= 600 for r in inside)
    without = draw_window(here, (800, 600), ViewOptions(2, maps=False), WAITING)
    assert "best return 99.9" not in texts(without)


LOOKS = [
    ViewOptions(2), ViewOptions(2, full=True), ViewOptions(2, paused=True, chosen="slot-1/3"),
    ViewOptions(2, pins=("slot-0/3", "slot-9/9"), recording=True),
    ViewOptions(2, touring="slot-0/3"), ViewOptions(2, maps=False),
    ViewOptions(2, overlay=Overlay.HELP), ViewOptions(2, overlay=Overlay.SCORE),
    ViewOptions(2, overlay=Overlay.FIGURES),
]  # fmt: skip


@pytest.mark.parametrize("size", [(800, 600), (1280, 800), (320, 240)])
@pytest.mark.parametrize("count", [1, 2, 4, 8])
@pytest.mark.parametrize("view", LOOKS)
def test_no_text_runs_into_another_or_out_of_the_window(size, count, view) -> None:
    agents = [panel(n, badges=8, step=1_234_567) for n in range(count)]
    things = draw_window(replace(scene(*agents), history=WORLD), size, view, WAITING)
    boxes = [
        Rect(t.x, t.y, text_width(t.text, t.scale), HEIGHT * t.scale)
        for t in things
        if isinstance(t, Text) and t.text
    ]
    assert [box for box in boxes if box.x < 0 or box.right > size[0] or box.bottom > size[1]] == []
    clashes = [(a, b) for i, a in enumerate(boxes) for b in boxes[i + 1 :] if overlap(a, b)]
    assert clashes == []


@pytest.mark.parametrize(
    ("size", "count", "scale"),
    [
        ((800, 600), 1, 3), ((800, 600), 2, 2), ((800, 600), 4, 1), ((800, 600), 8, 1),
        ((1280, 800), 1, 4), ((1280, 800), 2, 4), ((1280, 800), 4, 2), ((1280, 800), 8, 2),
        ((320, 240), 1, 1), ((320, 240), 2, 1),
    ],
)  # fmt: skip
def test_pictures_are_as_large_as_they_can_be(size, count, scale) -> None:
    assert arrange_panels(*size, count).panels[0].picture.width == 160 * scale


def test_a_window_too_small_for_all_shows_fewer_and_says_so() -> None:
    things = draw_window(scene(*(panel(n) for n in range(8))), (320, 240), ViewOptions(8), WAITING)
    assert len([thing for thing in things if isinstance(thing, GamePicture)]) == 2
    assert "room for 2 of 8: a larger window shows more" in texts(things)


def test_help_lists_every_key_in_the_smallest_window() -> None:
    output = texts(
        draw_window(scene(panel()), (320, 240), ViewOptions(2, overlay=Overlay.HELP), WAITING)
    )
    assert [binding.help for binding in TABLE if binding.help not in output] == []


def test_the_score_is_taken_apart() -> None:
    agent = panel(badges=5, story_flags=52, episode_return=1234.5)
    output = texts(
        draw_window(scene(agent), (800, 600), ViewOptions(2, overlay=Overlay.SCORE), WAITING)
    )
    for word in ("5", "+ 52", "= 57", "1234.5", "Ties: the return, then the newest report."):
        assert word in output


def test_one_agent_can_fill_the_window_and_a_click_tells_which() -> None:
    two = scene(panel(), panel(1))
    alone = draw_window(two, (800, 600), ViewOptions(2, chosen="slot-1/3", full=True), WAITING)
    assert [t.pixels for t in alone if isinstance(t, GamePicture)] == [picture(1)]
    place = arrange_panels(800, 600, 2).panels[1].picture
    assert find_panel_at(two, (800, 600), ViewOptions(2), place.x + 5, place.y + 5) == "slot-1/3"
    assert find_panel_at(two, (800, 600), ViewOptions(2), 5, 5) == ""


def test_who_is_pinned_and_does_not_play_is_told() -> None:
    here = replace(scene(panel()), agents=("slot-0/3",))
    output = texts(draw_window(here, (800, 600), ViewOptions(2, pins=("slot-2/1",)), WAITING))
    assert "slot-2/1 is pinned and silent: back as soon as it plays" in output


_SEEN_AS = {
    "red-blind": ((0.152, 1.053, -0.205), (0.115, 0.786, 0.099), (-0.004, -0.048, 1.052)),
    "green-blind": ((0.367, 0.861, -0.228), (0.280, 0.673, 0.047), (-0.012, 0.043, 0.969)),
    "blue-blind": ((1.256, -0.077, -0.179), (-0.078, 0.931, 0.148), (0.005, 0.691, 0.304)),
}
"""Colours as seen with a colour blindness (Machado, Oliveira and Fernandes, 2009)."""


@pytest.mark.parametrize("eyes", _SEEN_AS)
def test_one_palette_can_be_read_by_all_eyes(eyes: str) -> None:
    theme = next(theme for theme in THEMES if theme.name == "clear")
    seen = [
        tuple(
            sum(share * part for share, part in zip(row, colour, strict=True))
            for row in _SEEN_AS[eyes]
        )
        for colour in (theme.ink, theme.soft, theme.accent, theme.alarm, theme.faint, theme.panel)
    ]
    gaps = [math.dist(a, b) for i, a in enumerate(seen) for b in seen[i + 1 :]]
    assert min(gaps) > 60


def test_one_agent_alone_gets_a_larger_picture_with_its_words_beside() -> None:
    place = arrange_panels(800, 600, 1).panels[0]
    assert place.picture.width == 480
    assert place.position is TextPosition.BESIDE


@pytest.mark.parametrize("scale", [1, 2, 3, 5])
def test_every_character_has_a_letter_of_its_own(scale: int) -> None:
    signs = [*map(chr, range(33, 127)), *BADGES, "…", "·", "✓", "é"]
    drawn = set()
    for sign in signs:
        surface = pygame.Surface((ADVANCE * scale, (HEIGHT + DEPTH) * scale))
        paint_items(surface, [Text(0, 0, sign, (255, 255, 255), scale)])
        drawn.add(pygame.image.tobytes(surface, "RGB"))
    assert len(drawn) == len(signs)


@pytest.mark.parametrize("sign", ["\ufe0f", "\u034f", "\u180b"])
def test_a_sign_without_a_width_is_a_blank(sign: str) -> None:
    assert sign.isprintable()  # the text comes from the network
    surface = pygame.Surface((50, 50))
    paint_items(surface, [Text(0, 0, sign, (255, 255, 255), 2)])
    assert not any(pygame.image.tobytes(surface, "RGB"))


@pytest.mark.parametrize("width", [0, 10, 40, 90, 400])
def test_text_is_shortened_until_it_fits(width: int) -> None:
    short = fit_text("A Map Whose Name Is Rather Long", width, 2)
    assert text_width(short, 2) <= width
    assert short in ("A Map Whose Name Is Rather Long", "") or short.endswith("…")


def test_nothing_new_is_not_painted_again(monkeypatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = ViewerWindow((800, 600), ViewOptions(2), WAITING, SystemClock())
    painted: list[int] = []
    monkeypatch.setattr(painting, "paint_items", lambda *_: painted.append(1))
    for _ in range(5):
        window._paint_scene(scene(panel()))
    window._paint_scene(scene(panel(level=6)))
    pygame.display.quit()
    assert len(painted) == 2


def test_only_what_changed_is_carried_to_the_display_and_nothing_of_it_is_missing(
    monkeypatch,
) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    window = ViewerWindow((800, 600), ViewOptions(2), WAITING, SystemClock())
    carried: list[list[Rect]] = []
    monkeypatch.setattr(pygame.display, "update", carried.append)
    window._paint_scene(scene(panel()))
    before = pygame.surfarray.array2d(window._surface)
    window._paint_scene(scene(panel(level=6, pixels=picture(2))))
    changed = before != pygame.surfarray.array2d(window._surface)
    pygame.display.quit()
    assert any(area[2:] == (800, 600) for area in carried[0])
    assert changed.any()
    for x, y, wide, tall in carried[1]:
        changed[x : x + wide, y : y + tall] = False
    assert not changed.any()
    assert 2 * sum(wide * tall for _, _, wide, tall in carried[1]) < 800 * 600


def test_a_window_that_was_painted_bit_by_bit_is_as_one_painted_at_once(no_display) -> None:
    seconds = [replace(scene(panel(), panel(1)), history=world(2, 8, second)) for second in (9, 20)]
    later = replace(seconds[1], notes=("slot-1/3 won badge 2",))
    scenes = [
        *seconds,
        replace(seconds[1], panels=(panel(pixels=picture(4)), panel(1, silent_s=9.0))),
        replace(later, panels=(panel(badges=3, level=30), panel(1, silent_s=9.0))),
        replace(later, panels=(panel(2), panel(5, pixels=picture(6)))),
        replace(later, panels=(panel(2),), history=world(3, 30, 40)),
        scene(),
        seconds[0],
    ]
    painter, surface, whole = Painter(), *(pygame.Surface((800, 600)) for _ in range(2))
    for number, each in enumerate(scenes):
        view = ViewOptions(2, pins=("slot-1/3",) if number > 1 else ())
        things = draw_window(each, (800, 600), view, WAITING)
        assert painter.update_surface(surface, things)
        paint_items(whole, things)
        assert pygame.image.tobytes(surface, "RGB") == pygame.image.tobytes(whole, "RGB")
        assert painter.update_surface(surface, draw_window(each, (800, 600), view, WAITING)) == []


@pytest.mark.parametrize(
    "thing",
    [
        Text(20, 20, "gjpqy_|@,;", (255, 255, 255), 3),
        Curve(((30, 50), (60, 20), (90, 70)), (255, 255, 255), (9, 9, 9), 80, 3),
        Box(Rect(10, 10, 30, 20), (9, 9, 9), (255, 255, 255)),
    ],
)
def test_nothing_is_painted_beyond_its_extent(thing: Item) -> None:
    surface = pygame.Surface((300, 120))
    paint_items(surface, [thing])
    painted = pygame.mask.from_threshold(surface, (0, 0, 0), (1, 1, 1, 255))
    painted.invert()
    where = pygame.Rect(bounding_box(thing))
    assert painted.count()
    assert all(where.contains(rect) for rect in painted.get_bounding_rects())


def played(keys: list[int], here: Scene) -> tuple[ViewerWindow, list]:
    """Open a window, send it these keys one after the other, and close it with Q."""
    window, wishes = ViewerWindow((800, 600), ViewOptions(2), WAITING, SystemClock()), []
    left = iter([*keys, pygame.K_q])

    def scene_of(_: int) -> Scene:
        pygame.event.post(pygame.event.Event(pygame.KEYDOWN, key=next(left)))
        return here

    window.run_window(
        scene_of, lambda *wish: wishes.append(wish), lambda _: None, threading.Event()
    )
    assert not pygame.display.get_init()
    return window, wishes


def test_keys_change_agents_palette_and_pins_and_leave(monkeypatch) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    keys = [pygame.K_PLUS, pygame.K_v, pygame.K_MINUS, pygame.K_MINUS, pygame.K_2, pygame.K_p]
    window, wishes = played(keys, scene(panel(), panel(1)))
    assert wishes == [(3, ()), (2, ()), (1, ()), (1, ("slot-1/3",))]
    assert window._state.view.theme == 1


def test_the_last_seconds_and_a_recording_become_films(monkeypatch, tmp_path) -> None:
    monkeypatch.setenv("SDL_VIDEODRIVER", "dummy")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    keys = [pygame.K_m, pygame.K_b, pygame.K_r, pygame.K_F12]
    played([*keys, *[pygame.K_m] * 3], scene(panel()))
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".gif", ".gif", ".png"]
    for film in tmp_path.glob("*.gif"):
        assert pygame.image.load(str(film)).get_size() == (320, 288)


@pytest.fixture
def display(tmp_path) -> Iterator[str]:
    program("Xvfb", "xvfb")
    read, write = os.pipe()
    server = subprocess.Popen(
        ["Xvfb", "-displayfd", str(write), "-screen", "0", "1024x768x24", "-nolisten", "tcp",
         "-noreset"],
        pass_fds=[write],
        stderr=subprocess.DEVNULL,
    )  # fmt: skip
    os.close(write)
    try:
        with os.fdopen(read) as answer:
            yield f":{answer.readline().strip()}"
    finally:
        server.terminate()
        server.wait(PATIENCE_S)


def test_real_key_presses_reach_a_window_on_a_real_display(display, tmp_path) -> None:
    """Keys are pressed at the X server, as by a keyboard: help, a picture of the window, and Q."""
    program("xdotool", "xdotool")
    viewer = start("Daddy.streaming.tunnel_server", "--port", free_port(), "--seconds", 120,
                   home=tmp_path, cwd=tmp_path, DISPLAY=display)  # fmt: skip

    def key(name: str) -> bool:
        env = {**os.environ, "DISPLAY": display}
        done = subprocess.run(["xdotool", "key", name], env=env, timeout=PATIENCE_S, check=False)
        return done.returncode == 0

    shots = lambda: list(tmp_path.glob("daddy-*.png"))  # noqa: E731
    try:
        seen = lambda: viewer.poll() is not None or (key("F12") and shots())  # noqa: E731
        assert until(seen, 30, 0.3), "the window is there"
        assert viewer.poll() is None, "and stays"
        assert not _has_a_sheet(shots()[0])
        assert "libGL" not in Path(f"/proc/{viewer.pid}/maps").read_text(), "pixels as they are"
        assert key("h")
        newest = lambda: max(shots(), key=_number)  # noqa: E731
        assert until(lambda: key("F12") and _has_a_sheet(newest()), 20, 0.3)
        assert key("q")
        assert viewer.wait(PATIENCE_S) == 0
    finally:
        finish(viewer)


def _has_a_sheet(shot: Path) -> bool:
    """Return True if the picture has a long upright line in the accent colour, a table's border."""
    image, accent = pygame.image.load(str(shot)), THEMES[0].accent
    return any(
        all(tuple(image.get_at((x, y)))[:3] == accent for y in range(200, 400)) for x in range(800)
    )


def _number(shot: Path) -> int:
    return int(shot.stem.rpartition("-")[2])


def test_the_window_opens_on_a_real_display_and_ends_in_good_order(display, tmp_path) -> None:
    viewer = start("Daddy.streaming.tunnel_server", "--port", free_port(), "--seconds", 1.5,
                   home=tmp_path, DISPLAY=display)  # fmt: skip
    output = finish_after(viewer)
    assert viewer.returncode == 0
    assert "no window" not in output
    assert "Traceback" not in output


def finish_after(viewer) -> str:
    try:
        return viewer.communicate(timeout=PATIENCE_S)[0]
    finally:
        finish(viewer) if viewer.poll() is None else None
