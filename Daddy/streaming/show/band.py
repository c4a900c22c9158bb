"""Pure: what stands below the panels: maps with everybody as dots, the run's course, the news."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from Daddy.streaming.home.history import Cell, Place, World
from Daddy.streaming.show.drawing import Box, Colour, Curve, Draw, Text, Theme, between, mix
from Daddy.streaming.show.font import HEIGHT, fit, measure
from Daddy.streaming.show.layout import LINE, Rect

MIN_LINES = 5
"""Lines of text that a band needs in height."""
_PAD = 4
_LEAST_CELLS = 6
"""A map is drawn as if at least so many cells wide and high were known of it."""
_MOST_CELL = 16
_KEPT = 4
"""Bands that were drawn last: few, as each holds its world."""


@lru_cache(_KEPT)
def draw_band(
    world: World, room: Rect, text: int, theme: Theme, *, heat: bool, news: tuple[str, ...]
) -> tuple[Draw, ...]:
    """Maps on the left three fifths; on the right the course, and below it the news.

    What was drawn last is kept: a large map takes longer than all the rest of the window.
    """
    return tuple(_band(world, room, text, theme, heat=heat, news=news))


def _band(
    world: World, room: Rect, text: int, theme: Theme, *, heat: bool, news: Sequence[str]
) -> Iterator[Draw]:
    pad = _PAD * text
    left = Rect(room.x, room.y, room.width * 3 // 5 - pad, room.height)
    right = Rect(left.right + pad, room.y, room.right - left.right - pad, room.height)
    yield from _maps(world.places, left, text, theme, heat=heat)
    yield Box(right, theme.panel, theme.faint)
    inner = Rect(right.x + pad, right.y + pad, right.width - 2 * pad, right.height - 2 * pad)
    lines = min(len(news), max(0, inner.height // (LINE * text) - 3), 4)
    tall = inner.height - lines * LINE * text
    yield from _course(world.course, Rect(inner.x, inner.y, inner.width, tall), text, theme)
    for index, what in enumerate(news[:lines]):
        y = inner.y + tall + index * LINE * text + 2 * text
        yield Text(inner.x, y, fit(what, inner.width, text), theme.soft, text)


def _maps(
    places: Sequence[Place], room: Rect, text: int, theme: Theme, *, heat: bool
) -> Iterator[Draw]:
    count = max(1, min(len(places), room.width // max(1, room.height * 3 // 5), 4))
    wide = room.width // count
    for index, place in enumerate(places[:count]):
        pad = _PAD * text if index < count - 1 else 0
        rect = Rect(room.x + index * wide, room.y, wide - pad, room.height)
        yield from _map(place, rect, text, theme, heat=heat)
    if not places:
        yield Box(room, theme.panel, theme.faint)
        pad = _PAD * text
        word = fit("nobody says where it is", room.width - 2 * pad, text)
        yield Text(room.x + pad, room.y + pad, word, theme.soft, text)


def _map(place: Place, rect: Rect, text: int, theme: Theme, *, heat: bool) -> Iterator[Draw]:
    yield Box(rect, theme.panel, theme.faint)
    pad = _PAD * text
    top = rect.y + pad
    inner = Rect(rect.x + pad, top, rect.width - 2 * pad, 0)
    agents = str(len(place.dots)) if measure(place.name, text) < inner.width else ""
    yield from between(inner, top, text, (place.name, theme.ink), (agents, theme.soft))
    top += LINE * text
    ground = Rect(inner.x, top, inner.width, rect.bottom - pad - top)
    grid = _Grid(place, ground)
    for cell, share in place.heat if heat else ():
        yield _square(grid, cell, _warm(share, theme))
    for trail in place.trails:
        for cell in trail:
            yield _square(grid, cell, theme.soft, larger=-(grid.size // 3))
    for dot in reversed(place.dots):
        rect = _square(
            grid, (dot.x, dot.y), theme.ink, larger=max(0, 2 * text - grid.size // 3)
        ).rect
        yield Box(rect, theme.accent if dot.place else theme.ink, theme.panel)


class _Grid:
    """Cells of a map on a piece of the window: as large as the known part of the map lets them."""

    def __init__(self, place: Place, ground: Rect) -> None:
        cells = [(dot.x, dot.y) for dot in place.dots]
        cells += [cell for cell, _ in place.heat]
        cells += [cell for trail in place.trails for cell in trail]
        self._least_x, across = _extent([x for x, _ in cells])
        self._least_y, down = _extent([y for _, y in cells])
        self._scale = min(_MOST_CELL, ground.width / across, max(1, ground.height) / down)
        self._x = ground.x + (ground.width - across * self._scale) / 2
        self._y = ground.y + (ground.height - down * self._scale) / 2

    @property
    def size(self) -> int:
        """Window pixels of a cell, at least one."""
        return max(1, int(self._scale))

    def rect(self, cell: Cell) -> Rect:
        """The cell in window pixels, at least one."""
        x = self._x + (cell[0] - self._least_x) * self._scale
        y = self._y + (cell[1] - self._least_y) * self._scale
        wide = max(1, int(x + self._scale) - int(x))
        return Rect(int(x), int(y), wide, max(1, int(y + self._scale) - int(y)))


def _extent(known: Sequence[int]) -> tuple[int, int]:
    """The first of the cells to draw, and how many, the known ones in the middle."""
    length = max(known) - min(known) + 1
    shown = max(_LEAST_CELLS, length)
    return min(known) - (shown - length) // 2, shown


def _square(grid: _Grid, cell: Cell, colour: Colour, larger: int = 0) -> Box:
    rect = grid.rect(cell)
    wide, tall = max(1, rect.width + 2 * larger), max(1, rect.height + 2 * larger)
    return Box(Rect(rect.x - larger, rect.y - larger, wide, tall), colour, colour)


def _warm(share: float, theme: Theme) -> Colour:
    """From the panel's colour to the faint one by how often a cell was seen."""
    part = 0.35 + 0.65 * share
    red, green, blue = (
        round(cold + part * (warm - cold))
        for cold, warm in zip(theme.panel, theme.faint, strict=True)
    )
    return red, green, blue


def _course(
    course: Sequence[tuple[float, float]], rect: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    """Best and mean return since we watch, on one scale."""
    if not course:
        return
    best, mean = course[-1]
    left, right = (f"best return {best:.1f}", theme.ink), (f"mean {mean:.1f}", theme.accent)
    yield from between(rect, rect.y, text, left, right)
    top = rect.y + LINE * text
    low = min(min(pair) for pair in course)
    span = (max(max(pair) for pair in course) - low) or 1.0
    tall = rect.bottom - 2 * text - top
    if tall < HEIGHT * text or len(course) < 2:  # noqa: PLR2004 - a line needs two points
        return
    across = rect.width / (len(course) - 1)
    for which, colour in ((0, theme.soft), (1, theme.accent)):
        points = tuple(
            (round(rect.x + n * across), round(top + tall - (pair[which] - low) / span * tall))
            for n, pair in enumerate(course)
        )
        area = mix(theme.faint if which == 0 else colour, theme.panel)
        yield Curve(points, colour, area, top + tall, max(1, text // 2))
