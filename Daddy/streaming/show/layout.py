"""Pure: where everything in the window stands: the largest whole scale that fits.

A panel's words stand below its picture, or beside it where that makes the picture larger, or are
fewer where many panels share a small window.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from functools import lru_cache
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
    BARE = (2 * _PAD, LINE + _PAD + 2)


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
    text: int
    gap: int
    """Letter pixels between panels: none where that lets larger pictures in."""
    room: Rect


_SMALLER_LETTERS = 0.79
"""Letters and words give way to pictures that become larger by a third, not by a quarter."""


def text_scale(width: int, height: int) -> int:
    """Whole scale of the letters: 2 at 800x600, never less than 1."""
    return max(1, min(width // 400, height // 300))


@lru_cache
def arrange(
    width: int, height: int, count: int, *, bare: bool = False, band: bool = False
) -> Layout:
    """Lay ``count`` panels out so that their pictures are as large as they can be.

    ``bare``: with nothing but the agent's name and score, which leaves more room for pictures;
    ``band``: without curves of their own, which leaves more room below.
    Where so many do not fit as whole pictures there are fewer panels.
    """
    styles = (Style.BARE,) if bare else tuple(Style)
    if band:
        styles = tuple(style for style in styles if style is not Style.BELOW)
    wanted = max(1, count)
    grid = next(
        (best for n in range(wanted, 0, -1) if (best := _best_grid(width, height, n, styles))),
        None,
    )
    grid = grid or _Grid(1, Style.BARE, 1, 1, 1, 0, _room(width, height, 1, 0))
    room, text = grid.room, grid.text
    tall = _height(grid)
    wide = room.width // grid.columns
    places = min(count, grid.columns * grid.rows)
    panels = tuple(
        _panel(
            Rect(
                room.x + index % grid.columns * wide,
                room.y + index // grid.columns * tall,
                wide,
                tall,
            ),
            grid,
        )
        for index in range(places)
    )
    pad, bottom = _PAD * text, room.y + grid.rows * tall
    header = Rect(0, 0, width, room.y)
    low = max(0, height - bottom - pad - pad // 2)
    return Layout(text, header, panels, Rect(pad, bottom + pad // 2, width - 2 * pad, low))


def _room(width: int, height: int, text: int, gap: int) -> Rect:
    """What the header leaves for the panels."""
    top, side = (2 * LINE + 4 * _PAD) * text, gap * text
    return Rect(side, top, width - 2 * side, height - top - side)


def _best_grid(width: int, height: int, count: int, styles: tuple[Style, ...]) -> _Grid | None:
    """Largest pictures; among equals larger letters, fuller words, wider gaps, fewer rows."""
    full = text_scale(width, height)
    grids = (
        grid
        for text in range(full, 0, -1)
        for gap in (_PAD, 0)
        for grid in _grids(_room(width, height, text, gap), count, text, gap, styles)
    )
    return max(
        grids,
        key=lambda one: (
            one.scale * _weight(one, full),
            one.style is not Style.BARE,
            one.text,
            -list(Style).index(one.style),
            one.gap,
            -one.rows,
        ),
        default=None,
    )


def _weight(grid: _Grid, full: int) -> float:
    whole = grid.text == full and grid.style is not Style.BARE
    return 1.0 if whole else _SMALLER_LETTERS


def _grids(
    room: Rect, count: int, text: int, gap: int, styles: tuple[Style, ...]
) -> Iterator[_Grid]:
    for columns in range(1, count + 1):
        rows = -(-count // columns)
        for style in styles:
            wide, tall = style.value
            beside = style is Style.BESIDE
            sides = wide + gap if gap or beside else 0
            across = (room.width // columns - sides * text) // SCREEN_WIDTH
            down = (room.height // rows - tall * text) // SCREEN_HEIGHT
            scale = min(across, down)
            high_enough = scale * SCREEN_HEIGHT >= _BESIDE_HEIGHT * text
            if scale >= 1 and (not beside or high_enough):
                yield _Grid(scale, style, columns, rows, text, gap, room)


def _height(grid: _Grid) -> int:
    needed = grid.scale * SCREEN_HEIGHT + grid.style.value[1] * grid.text
    return min(grid.room.height // grid.rows, needed)


def _panel(cell: Rect, grid: _Grid) -> PanelLayout:
    text, pad, gap = grid.text, _PAD * grid.text, grid.gap * grid.text
    frame = Rect(cell.x + gap // 2, cell.y, cell.width - gap, cell.height - gap // 2)
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
