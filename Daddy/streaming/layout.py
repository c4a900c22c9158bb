"""Pure: where everything in the window stands: the largest whole scale that fits.

A panel's words stand below its picture, or beside it where that makes the picture larger, or are
fewer where many panels share a small window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import NamedTuple

from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH

LINE = 11
"""Rows from one line of text to the next, in letter pixels."""
_PAD = 4


class Style(Enum):
    """Where a panel's words stand, and what they need in letter pixels: width and height."""

    BELOW = (2 * _PAD, 8 * LINE)
    BESIDE = (3 * _PAD + 120, 2 * _PAD + 2)
    COMPACT = (2 * _PAD, 4 * LINE + _PAD)


_BESIDE_HEIGHT = 10 * LINE
"""Letter pixels that a picture must be high to have a column of words beside it."""


class Rect(NamedTuple):
    """A rectangle in window pixels."""

    x: int
    y: int
    width: int
    height: int

    @property
    def right(self) -> int:
        return self.x + self.width

    @property
    def bottom(self) -> int:
        return self.y + self.height


@dataclass(frozen=True, slots=True)
class PanelLayout:
    """One agent's place: its frame, the picture in it, the words, and how they stand."""

    frame: Rect
    picture: Rect
    words: Rect
    style: Style


@dataclass(frozen=True, slots=True)
class Layout:
    """A window: header, panels, and what is left for news (may be of no height)."""

    text: int
    header: Rect
    panels: tuple[PanelLayout, ...]
    footer: Rect


class _Grid(NamedTuple):
    scale: int
    style: Style
    columns: int
    rows: int


def text_scale(width: int, height: int) -> int:
    """Whole scale of the letters: 2 at 800x600, never less than 1."""
    return max(1, min(width // 400, height // 300))


def arrange(width: int, height: int, count: int) -> Layout:
    """Lay ``count`` panels out so that their pictures are as large as they can be."""
    text = text_scale(width, height)
    pad = _PAD * text
    header = Rect(0, 0, width, 2 * LINE * text + 4 * pad)
    room = Rect(pad, header.bottom, width - 2 * pad, height - header.height - pad)
    grid = _best_grid(room, max(1, count), text)
    tall = _height(grid, room, text)
    wide = room.width // grid.columns
    panels = tuple(
        _panel(
            Rect(
                room.x + index % grid.columns * wide,
                room.y + index // grid.columns * tall,
                wide,
                tall,
            ),
            grid,
            text,
        )
        for index in range(count)
    )
    bottom = room.y + grid.rows * tall
    footer = Rect(pad, bottom + pad // 2, room.width, max(0, height - bottom - pad - pad // 2))
    return Layout(text, header, panels, footer)


def _best_grid(room: Rect, count: int, text: int) -> _Grid:
    """Largest pictures; among equals the fuller words, then the fewer rows."""
    squeezed = _Grid(1, Style.COMPACT, count, 1)
    return max(
        _grids(room, count, text),
        key=lambda one: (one.scale, -_order(one), -one.rows),
        default=squeezed,
    )


def _order(grid: _Grid) -> int:
    return list(Style).index(grid.style)


def _grids(room: Rect, count: int, text: int) -> Iterator[_Grid]:
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        for style in Style:
            wide, tall = style.value
            across = (room.width // columns - (wide + _PAD) * text) // SCREEN_WIDTH
            down = (room.height // rows - tall * text) // SCREEN_HEIGHT
            scale = min(across, down)
            high_enough = scale * SCREEN_HEIGHT >= _BESIDE_HEIGHT * text
            if scale >= 1 and (style is not Style.BESIDE or high_enough):
                yield _Grid(scale, style, columns, rows)


def _height(grid: _Grid, room: Rect, text: int) -> int:
    return min(room.height // grid.rows, grid.scale * SCREEN_HEIGHT + grid.style.value[1] * text)


def _panel(cell: Rect, grid: _Grid, text: int) -> PanelLayout:
    pad = _PAD * text
    frame = Rect(cell.x + pad // 2, cell.y, cell.width - pad, cell.height - pad // 2)
    width, height = grid.scale * SCREEN_WIDTH, grid.scale * SCREEN_HEIGHT
    if grid.style is Style.BESIDE:
        picture = Rect(frame.x + pad, frame.y + pad, width, height)
        left = picture.right + pad + pad // 2
        words = Rect(left, picture.y, frame.right - pad - left, height)
        return PanelLayout(frame, picture, words, grid.style)
    top = frame.y + (LINE + 5) * text
    picture = Rect(frame.x + (frame.width - width) // 2, top, width, height)
    words = Rect(frame.x + pad, frame.y, frame.width - 2 * pad, frame.height)
    return PanelLayout(frame, picture, words, grid.style)
