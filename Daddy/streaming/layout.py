"""Pure: where everything in the window stands: the largest whole scale that fits."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH

LINE = 11
"""Rows from one line of text to the next, in letter pixels."""


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
    """One agent's place: its frame, the picture in it, and the whole scale of the picture."""

    frame: Rect
    picture: Rect
    scale: int


@dataclass(frozen=True, slots=True)
class Layout:
    """A window: header, panels, and what is left for news (may be of no height)."""

    text: int
    header: Rect
    panels: tuple[PanelLayout, ...]
    footer: Rect


def text_scale(width: int, height: int) -> int:
    """Whole scale of the letters: 2 at 800x600, never less than 1."""
    return max(1, min(width // 400, height // 300))


def arrange(width: int, height: int, count: int) -> Layout:
    """Lay ``count`` panels out in columns and rows so that their pictures are largest."""
    text = text_scale(width, height)
    pad = 4 * text
    header = Rect(0, 0, width, 2 * LINE * text + 4 * pad)
    room = Rect(pad, header.bottom, width - 2 * pad, height - header.height - pad)
    count = max(1, count)
    columns = max(range(1, count + 1), key=lambda one: (_scale(room, one, count, text), -one))
    scale = max(1, _scale(room, columns, count, text))
    rows = -(-count // columns)
    tall = min(room.height // rows, _tall(scale, text))
    panels = tuple(
        _panel(Rect(*_cell(room, index, columns, tall)), scale, text) for index in range(count)
    )
    bottom = header.bottom + rows * tall
    footer = Rect(pad, bottom + pad // 2, room.width, max(0, height - bottom - pad - pad // 2))
    return Layout(text, header, panels, footer)


def _furniture(text: int) -> tuple[int, int]:
    """What a panel needs beside its picture: (width, height)."""
    return 8 * text, (4 * LINE + 10 + 22) * text


def _tall(scale: int, text: int) -> int:
    return scale * SCREEN_HEIGHT + _furniture(text)[1]


def _scale(room: Rect, columns: int, count: int, text: int) -> int:
    rows = -(-count // columns)
    wide, tall = _furniture(text)
    return min(
        (room.width // columns - wide) // SCREEN_WIDTH,
        (room.height // rows - tall) // SCREEN_HEIGHT,
    )


def _cell(room: Rect, index: int, columns: int, tall: int) -> tuple[int, int, int, int]:
    wide = room.width // columns
    return room.x + index % columns * wide, room.y + index // columns * tall, wide, tall


def _panel(cell: Rect, scale: int, text: int) -> PanelLayout:
    pad = 2 * text
    frame = Rect(cell.x + pad, cell.y, cell.width - 2 * pad, cell.height - pad)
    width, height = scale * SCREEN_WIDTH, scale * SCREEN_HEIGHT
    left = frame.x + (frame.width - width) // 2
    top = frame.y + (LINE + 5) * text
    return PanelLayout(frame, Rect(left, top, width, height), scale)
