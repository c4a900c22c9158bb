"""Pure. Composes the whole window as a list of items: header, panels, news or waiting screen."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import product
from operator import attrgetter
from textwrap import wrap
from typing import NamedTuple

from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.viewer.draw_list import (
    ADVANCE,
    HEIGHT,
    LINE,
    PAD,
    THEMES,
    Box,
    Item,
    PanelLayout,
    Rect,
    Text,
    TextPosition,
    Theme,
    draw_both_ends,
    fit_text,
)
from Daddy.streaming.viewer.key_bindings import HINT, Overlay, ViewOptions, focused_agent
from Daddy.streaming.viewer.panels import MIN_LINES, draw_band, draw_panel, draw_table
from Daddy.streaming.viewer.view_model import (
    Panel,
    Scene,
    TunnelInfo,
    fleet_line,
    headline,
    line_to_copy,
    run_names,
    waiting_steps,
)


def draw_window(
    scene: Scene, size: tuple[int, int], view: ViewOptions, tunnel: TunnelInfo, toast: str = ""
) -> list[Item]:
    """Return the items of a window of ``size`` pixels, back to front; ``toast``: a header line."""
    theme, scene = THEMES[view.theme], visible_scene(scene, view)
    layout = _place_panels(scene, size, view)
    items: list[Item] = [Box(Rect(0, 0, *size), theme.back, theme.back)]
    items += _header(scene, layout, theme, view, toast)
    if view.overlay is not Overlay.NONE:
        room = Rect(8, layout.header.bottom, size[0] - 16, size[1] - layout.header.height - 8)
        return items + list(draw_table(view.overlay, scene, room, layout.text, theme))
    if not scene.panels:
        return items + list(_draw_waiting(scene, layout, size, theme, tunnel))
    shown = [panel.name for panel in scene.panels]
    for panel, place in zip(scene.panels, layout.panels, strict=False):
        mark = _mark(panel, view, shown)
        chosen = panel.name == view.chosen and len(shown) > 1
        items += draw_panel(panel, place, layout.text, theme, chosen=chosen, mark=mark)
    return items + list(_below(scene, layout, theme, view))


def _place_panels(scene: Scene, size: tuple[int, int], view: ViewOptions) -> WindowLayout:
    return arrange_panels(*size, len(scene.panels), band=_has_band(scene, view))


def _has_band(scene: Scene, view: ViewOptions) -> bool:
    return view.maps and bool(scene.history.returns)


def _below(scene: Scene, layout: WindowLayout, theme: Theme, view: ViewOptions) -> Iterator[Item]:
    """Draw maps, returns and news if there is room for all; otherwise only news, newest first."""
    text, rect = layout.text, layout.footer
    if _has_band(scene, view) and rect.height >= MIN_LINES * LINE * text:
        yield from draw_band(scene.history, rect, text, theme, scene.notes[::-1])
        return
    x, width = rect.x + PAD * text, rect.width - 2 * PAD * text
    for index, line in enumerate(scene.notes[::-1][: rect.height // (LINE * text)]):
        yield Text(x, rect.y + index * LINE * text, fit_text(line, width, text), theme.faint, text)


def visible_scene(scene: Scene, view: ViewOptions) -> Scene:
    """Return the scene with its visible panels: all, or only the one that fills the window."""
    if not view.full or not scene.panels:
        return scene
    name = focused_agent(view, [panel.name for panel in scene.panels])
    return replace(scene, panels=tuple(panel for panel in scene.panels if panel.name == name))


def find_panel_at(scene: Scene, size: tuple[int, int], view: ViewOptions, x: int, y: int) -> str:
    """Return the agent whose panel is at pixel ``x, y``; empty if there is none."""
    panels = visible_scene(scene, view).panels
    layout = _place_panels(replace(scene, panels=panels), size, view)
    for panel, place in zip(panels, layout.panels, strict=False):
        frame = place.frame
        if frame.x <= x < frame.right and frame.y <= y < frame.bottom:
            return panel.name
    return ""


def _mark(panel: Panel, view: ViewOptions, shown: Sequence[str]) -> str:
    name = panel.name
    marks = [
        "on tour" if name == view.touring else "",
        "pinned" if name in view.pins else "",
        "recording" if view.recording and name == focused_agent(view, shown) else "",
    ]
    return "  ·  ".join(mark for mark in marks if mark)


def _header(
    scene: Scene, layout: WindowLayout, theme: Theme, view: ViewOptions, toast: str
) -> Iterator[Item]:
    text, rect = layout.text, layout.header
    inner = Rect(rect.x + 8 * text, rect.y, rect.width - 16 * text, rect.height)
    top = rect.y + 6 * text
    state, mood = ("paused  ·  Space goes on", "calls") if view.paused else headline(scene)
    colour = {"calls": theme.accent, "alarm": theme.alarm}.get(mood, theme.soft)
    yield from draw_both_ends(inner, top, text, (run_names(scene), theme.ink), (state, colour))
    second = fit_text(toast or _second_line(scene, layout, view), inner.width, text)
    colour = theme.accent if toast else theme.soft
    yield Text(inner.x, top + (LINE + 1) * text, second, colour, text)


def _second_line(scene: Scene, layout: WindowLayout, view: ViewOptions) -> str:
    """Return a line on silent pinned agents or on panels without room; otherwise on the fleet."""
    gone = [name for name in view.pins if scene.agents and name not in scene.agents]
    if gone:
        return f"{', '.join(gone)} is pinned and silent: back as soon as it plays"
    shown, wanted = len(layout.panels), len(scene.panels)
    if shown < wanted:
        return f"room for {shown} of {wanted}: a larger window shows more"
    return fleet_line(scene)


def _draw_waiting(
    scene: Scene, layout: WindowLayout, size: tuple[int, int], theme: Theme, tunnel: TunnelInfo
) -> Iterator[Item]:
    text = layout.text
    margin = max(12 * text, size[0] // 12)
    room = Rect(margin, layout.header.bottom, size[0] - 2 * margin, size[1])
    steps = waiting_steps(scene, tunnel)
    big = 2 if any(not state for state, _ in steps) else 5
    y = max(layout.header.bottom, size[1] // 5 if big > 2 else size[1] // 12)  # noqa: PLR2004
    yield Text(room.x, y, "Daddy", theme.ink, big * text)
    y += big * (HEIGHT + 4) * text
    marks = {"done": "✓", "now": ">", "later": "·", "alarm": "!"}
    colours = {"now": theme.accent, "later": theme.faint, "alarm": theme.alarm}
    for state, sentence in steps:
        colour = colours.get(state, theme.soft)
        yield Text(room.x, y, marks.get(state, ""), colour, text)
        for line in _wrap(sentence, room.width - 12 * text, text):
            yield Text(room.x + 12 * text, y, line, colour, text)
            y += (LINE + 2) * text
    caption, copy = line_to_copy(scene, tunnel)
    y += 6 * text
    if y + 4 * LINE * text < size[1]:  # without room C copies the line all the same
        yield Text(room.x, y, fit_text(caption, room.width, text), theme.soft, text)
        yield from _card(copy, Rect(room.x, y + (LINE + 1) * text, room.width, 0), text, theme)
    keys = fit_text(HINT, room.width, text)
    yield Text(room.x, size[1] - 12 * text, keys, theme.faint, text)


def _card(copy: str, rect: Rect, text: int, theme: Theme) -> Iterator[Item]:
    """Draw a frame with a command to copy, wrapped if the command is too long."""
    lines = _wrap(copy, rect.width - 10 * text, text)
    height = ((len(lines) - 1) * LINE + HEIGHT + 10) * text
    yield Box(Rect(rect.x, rect.y, rect.width, height), theme.panel, theme.faint)
    for index, line in enumerate(lines):
        y = rect.y + (5 + index * LINE) * text
        yield Text(rect.x + 5 * text, y, line, theme.ink, text)


def _wrap(sentence: str, width: int, text: int) -> list[str]:
    return wrap(sentence, max(1, width // (ADVANCE * text)), break_on_hyphens=False)


_BESIDE_HEIGHT = 10 * LINE
"""Least height of a picture in letter pixels that has text beside it."""


class WindowLayout(NamedTuple):
    """Holds the rectangles of a window; the ``footer`` for news may have the height 0."""

    text: int
    header: Rect
    panels: tuple[PanelLayout, ...]
    footer: Rect


class _Grid(NamedTuple):
    merit: tuple[float, ...]
    scale: int
    style: TextPosition
    columns: int
    rows: int
    text: int
    gap: int
    """Letter pixels between panels; 0 if that makes larger pictures possible."""
    room: Rect


_SMALLER_LETTERS = 0.79
"""Factor on the merit of small letters or missing text: pictures a third larger outweigh them."""


@lru_cache
def arrange_panels(width: int, height: int, count: int, *, band: bool = False) -> WindowLayout:
    """Lay out ``count`` panels with the largest possible pictures; fewer panels if not all fit.

    ``band``: panels without return curves, which leaves room for maps and returns below them.
    """
    styles = [style for style in TextPosition if not (band and style is TextPosition.BELOW)]
    best = (
        max(_grids(width, height, number, styles), key=attrgetter("merit"), default=None)
        for number in range(max(1, count), 0, -1)
    )
    smallest = _Grid((), 1, TextPosition.BARE, 1, 1, 1, 0, _room(width, height, 1, 0))
    grid = next((grid for grid in best if grid), smallest)
    room, text = grid.room, grid.text
    needed = grid.scale * SCREEN_HEIGHT + grid.style.value[1] * text
    wide, tall = room.width // grid.columns, min(room.height // grid.rows, needed)
    panels = tuple(
        _panel(Rect(room.x + column * wide, room.y + row * tall, wide, tall), grid)
        for row in range(grid.rows)
        for column in range(grid.columns)
    )
    pad, bottom = PAD * text, room.y + grid.rows * tall
    low = max(0, height - bottom - pad - pad // 2)
    footer = Rect(pad, bottom + pad // 2, width - 2 * pad, low)
    return WindowLayout(text, Rect(0, 0, width, room.y), panels[:count], footer)


def _room(width: int, height: int, text: int, gap: int) -> Rect:
    """Return the rectangle below the header, with ``gap`` letter pixels at both sides."""
    top, side = (2 * LINE + 4 * PAD) * text, gap * text
    return Rect(side, top, width - 2 * side, height - top - side)


def _grids(width: int, height: int, count: int, styles: Sequence[TextPosition]) -> Iterator[_Grid]:
    """Yield grids of ``count`` panels in which whole pictures fit.

    Merit, in this order: larger pictures, text in panels, larger letters, more text, gaps, fewer
    rows.
    """
    full, order = max(1, min(width // 400, height // 300)), list(TextPosition)
    choices = product(range(full, 0, -1), (PAD, 0), range(1, count + 1), styles)
    for text, gap, columns, style in choices:
        room, rows = _room(width, height, text, gap), -(-count // columns)
        wide, tall = style.value
        beside, worded = style is TextPosition.BESIDE, style is not TextPosition.BARE
        sides = wide + gap if gap or beside else 0
        across = (room.width // columns - sides * text) // SCREEN_WIDTH
        scale = min(across, (room.height // rows - tall * text) // SCREEN_HEIGHT)
        if scale >= 1 and (not beside or scale * SCREEN_HEIGHT >= _BESIDE_HEIGHT * text):
            size = scale * (1.0 if text == full and worded else _SMALLER_LETTERS)
            merit = (size, worded, text, -order.index(style), gap, -rows)
            yield _Grid(merit, scale, style, columns, rows, text, gap, room)


def _panel(cell: Rect, grid: _Grid) -> PanelLayout:
    text, pad, gap = grid.text, PAD * grid.text, grid.gap * grid.text
    frame = Rect(cell.x + gap // 2, cell.y, cell.width - gap, cell.height - gap // 2)
    width, height = grid.scale * SCREEN_WIDTH, grid.scale * SCREEN_HEIGHT
    if grid.style is TextPosition.BESIDE:
        picture = Rect(frame.x + pad, frame.y + pad, width, height)
        left = picture.right + pad + pad // 2
        words = Rect(left, picture.y, frame.right - pad - left, height)
        return PanelLayout(frame, picture, words, grid.style)
    top = frame.y + (LINE + 5) * text
    picture = Rect(frame.x + (frame.width - width) // 2, top, width, height)
    words = Rect(frame.x + pad, frame.y, frame.width - 2 * pad, frame.height)
    return PanelLayout(frame, picture, words, grid.style)
