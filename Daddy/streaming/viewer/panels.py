"""Pure. Draws an agent's panel, the sheets over the panels, and maps and course below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from Daddy.core.humanize import format_count
from Daddy.streaming.viewer.draw_list import (
    ADVANCE,
    BADGES,
    DEPTH,
    HEIGHT,
    LINE,
    Box,
    Colour,
    Curve,
    Draw,
    PanelLayout,
    Picture,
    Rect,
    Style,
    Text,
    Theme,
    between,
    fit,
    label,
    measure,
    mix,
)
from Daddy.streaming.viewer.key_bindings import TABLE, Sheet
from Daddy.streaming.viewer.view_history import Cell, Place, World
from Daddy.streaming.viewer.view_model import Panel, Scene

_CURVE = 2 * LINE
_ROOMY = 120
"""Letter pixels that a picture must be wide for the words below to keep to its edges."""
_PAD = 4

Word = tuple[str, Colour]


def draw_panel(
    panel: Panel,
    place: PanelLayout,
    text: int,
    theme: Theme,
    *,
    chosen: bool = False,
    mark: str = "",
) -> Iterator[Draw]:
    """Everything of one agent, back to front; ``mark`` is a word for it, such as that it stays."""
    yield Box(place.frame, theme.panel, theme.accent if chosen else theme.faint)
    yield from _screen(panel, place.picture, text, theme)
    if mark:
        yield from label(mark, place.picture, text, theme.accent, theme, corner=True)
    words = place.words
    roomy = place.picture.width >= _ROOMY * text
    if place.style is not Style.BESIDE and roomy:
        left, right = max(words.x, place.picture.x), min(words.right, place.picture.right)
        words = Rect(left, words.y, right - left, words.height)
    yield from _words(panel, place, words, text, theme)


def _screen(panel: Panel, rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    rim = Rect(rect.x - text, rect.y - text, rect.width + 2 * text, rect.height + 2 * text)
    yield Box(rim, theme.shades[3], theme.faint)
    if panel.pixels is None:
        yield from label("the first picture is on its way", rect, text, theme.soft, theme)
        return
    shades = tuple(mix(one, theme.panel) if panel.stale else one for one in theme.shades)
    yield Picture(rect, panel.pixels, shades)
    if panel.stale:
        age = f"no new picture for {panel.silent_s:.0f} s"
        yield from label(age, rect, text, theme.alarm, theme)


def _words(
    panel: Panel, place: PanelLayout, words: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    """Name and score, badges, facts, and the curve of the return where there is room for it."""
    beside, pad = place.style is Style.BESIDE, _PAD * text
    yield from _title(panel, words, words.y + (0 if beside else pad), text, theme, job=not beside)
    if place.style is Style.BARE:
        return
    y = words.y + (LINE + 4) * text if beside else place.picture.bottom + pad
    yield from _badges(panel.row.badges, words, y, text, theme)
    for step, left, right in _facts(panel, place.style, theme, narrow=words.width < _ROOMY * text):
        y += step * text
        yield from between(words, y, text, left, right)
    y += LINE * text
    bottom = words.bottom if beside else place.frame.bottom - pad
    top = max(y, bottom - 2 * _CURVE * text) if beside else y
    if place.style is not Style.COMPACT:
        room = Rect(words.x, top, words.width, bottom - top)
        area = mix(theme.faint, theme.panel)
        yield from _curves([(panel.returns, theme.soft, area)], room, text)


def _facts(
    panel: Panel, style: Style, theme: Theme, *, narrow: bool
) -> Iterator[tuple[int, Word, Word]]:
    """Lines below the title: letter pixels from the line before, left word, right word."""
    row, ink, soft = panel.row, theme.ink, theme.soft
    gained, steps = f"{row.episode_return:.1f}", format_count(row.step)
    if style is not Style.BESIDE:
        named = gained if narrow or style is Style.COMPACT else f"return {gained}"
        yield 0, ("", ink), (f"L{row.level}" if row.level else "", ink)
        yield LINE + 1, (panel.map_name, ink), (named, ink)
        if style is Style.BELOW:
            yield LINE, (panel.peer.host, soft), (f"{steps} steps", soft)
        return
    yield LINE + 4, (panel.map_name, ink), ("", ink)
    facts = {"level": str(row.level), "story flags": str(row.story_flags), "return": gained}
    step = LINE + 4
    for name, value in {**facts, "steps": steps}.items():
        yield step, (name, soft), (value, ink)
        step = LINE
    job = f"job {panel.peer.job}" if panel.peer.job else ""
    yield LINE, (panel.peer.host, soft), (job, theme.faint)


def _title(
    panel: Panel, words: Rect, y: int, text: int, theme: Theme, *, job: bool
) -> Iterator[Draw]:
    """The agent, its job if that is wanted and there is room, and its score."""
    score = f"score {panel.row.score}"
    yield from between(words, y, text, (panel.name, theme.ink), (score, theme.accent))
    named = f"job {panel.peer.job}"
    x = words.x + measure(panel.name, text) + 3 * text
    room = words.right - measure(score, text) - 3 * text - x
    if job and panel.peer.job and measure(named, text) <= room:
        yield Text(x, y, named, theme.faint, text)


def _badges(count: int, rect: Rect, y: int, text: int, theme: Theme) -> Iterator[Draw]:
    room = rect.width - 4 * LINE * text
    step = min(HEIGHT + 3, max(ADVANCE + 1, room // (8 * text))) * text
    for number, icon in enumerate(BADGES):
        sign, colour = (icon, theme.accent) if number < count else ("·", theme.soft)
        yield Text(rect.x + number * step, y, sign, colour, text)


Series = tuple[Sequence[float], Colour, Colour]
"""Values, colour of the line, and colour of the area below it."""


def _curves(series: Sequence[Series], rect: Rect, text: int) -> Iterator[Draw]:
    """Lines through the values of each series, on one scale; nothing where there is no room."""
    numbers = [number for values, _, _ in series for number in values]
    if rect.height < HEIGHT * text or len(numbers) < 2 * len(series):
        return
    low, span = min(numbers), (max(numbers) - min(numbers)) or 1.0
    tall, bottom = rect.height - 2 * text, rect.bottom - text
    for values, colour, area in series:
        across = rect.width / (len(values) - 1)
        points = tuple(
            (round(rect.x + index * across), round(bottom - (value - low) / span * tall))
            for index, value in enumerate(values)
        )
        yield Curve(points, colour, area, rect.bottom, max(1, text // 2))


_GAP = 8
"""Letter pixels between two columns."""

Line = tuple[str, ...]


def draw_sheet(sheet: Sheet, scene: Scene, room: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """The sheet in the middle of ``room``, in the largest letters in which it is whole."""
    makers = {Sheet.HELP: _help, Sheet.SCORE: _score_lines, Sheet.FIGURES: _figures}
    title, rows, last = makers[sheet](scene)
    lines, step = [(title,), *rows, (last,)], LINE
    columns = [max(map(len, column)) * ADVANCE for column in zip(*rows, strict=True)]
    alone = max(len(title), len(last)) * ADVANCE
    wide = max(sum(columns) + _GAP * (len(columns) - 1), alone) + 2 * _GAP
    tall = len(lines) * LINE + 2 * _GAP
    text = max(1, min(text, room.width // wide, room.height // tall))
    if tall * text > room.height:
        lines, step = rows, HEIGHT + DEPTH
    wide, tall = min(room.width, wide * text), len(lines) * step * text + 2 * _GAP * text
    rect = Rect(room.x + (room.width - wide) // 2, room.y + (room.height - tall) // 2, wide, tall)
    yield Box(rect, theme.back, theme.accent)
    inner = Rect(rect.x + _GAP * text, rect.y + _GAP * text, wide - 2 * _GAP * text, tall)
    yield from _table(lines, columns, step * text, inner, text, theme)


def _table(
    lines: Sequence[Line], columns: Sequence[int], step: int, rect: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    """Words in columns; a line of one word goes across all of them."""
    for index, line in enumerate(lines):
        x, title = rect.x, theme.accent if index == 0 else theme.soft
        colours = (title,) if len(line) == 1 else (theme.ink, *[theme.soft] * len(line))
        for word, colour, across in zip(line, colours, (*columns, 0), strict=False):
            yield Text(x, rect.y + index * step, fit(word, rect.right - x, text), colour, text)
            x += (across + _GAP) * text


def _help(_: Scene) -> tuple[str, list[Line], str]:
    rows: list[Line] = [(one.label, one.what) for one in TABLE]
    return "keys", rows, "Watching never slows training."


def _score_lines(scene: Scene) -> tuple[str, list[Line], str]:
    rows: list[Line] = [("agent", "badges", "flags", "score", "return")]
    for panel in scene.panels:
        row = panel.row
        score = (str(row.badges), f"+ {row.story_flags}", f"= {row.score}")
        rows.append((panel.name, *score, f"{row.episode_return:.1f}"))
    return "badges + story flags", rows, "Ties: the return, then the newest report."


def _figures(scene: Scene) -> tuple[str, list[Line], str]:
    rows: list[Line] = [("agent", "a second", "bytes each", "kbit/s", "old")]
    total = 0.0
    for panel in scene.panels:
        size, rate = panel.bytes_per_frame, panel.per_second
        kilobits = size * rate / 125
        total += kilobits
        figures = (f"{rate:.1f}", f"{size:.0f}", f"{kilobits:.1f}", f"{panel.age_s:.2f} s")
        rows.append((panel.name, *figures))
    return "pictures", rows, f"{total:.1f} kbit/s, {sum(scene.frames.values()):,} pictures so far"


MIN_LINES = 5
"""Lines of text that a band needs in height."""
_LEAST_CELLS = 6
"""A map is drawn as if at least so many cells wide and high were known of it."""
_MOST_CELL = 16
_KEPT = 4
"""Bands that were drawn last: few, as each holds its world."""


@lru_cache(_KEPT)
def draw_band(
    world: World, room: Rect, text: int, theme: Theme, news: tuple[str, ...]
) -> tuple[Draw, ...]:
    """Maps on the left four sevenths; on the right the course, and below it the news.

    The last drawings are kept: a large map takes longer than all the rest of the window.
    """
    pad = _PAD * text
    left = Rect(room.x, room.y, room.width * 4 // 7 - pad, room.height)
    right = Rect(left.right + pad, room.y, room.right - left.right - pad, room.height)
    inner = Rect(right.x + pad, right.y + pad, right.width - 2 * pad, right.height - 2 * pad)
    lines = min(len(news), max(0, inner.height // (LINE * text) - 3), 4)
    tall = inner.height - lines * LINE * text
    course = Rect(inner.x, inner.y, inner.width, tall)
    below = [
        Text(inner.x, inner.y + tall + (index * LINE + 2) * text, line, theme.soft, text)
        for index, line in enumerate(fit(what, inner.width, text) for what in news[:lines])
    ]
    frame = Box(right, theme.panel, theme.faint)
    maps = _maps(world.places, left, text, theme)
    return (*maps, frame, *_course(world.course, course, text, theme), *below)


def _maps(places: Sequence[Place], room: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    count = max(1, min(len(places), room.width // max(1, room.height * 3 // 5), 4))
    wide, pad = room.width // count, _PAD * text
    for index, place in enumerate(places[:count]):
        gap = pad if index < count - 1 else 0
        rect = Rect(room.x + index * wide, room.y, wide - gap, room.height)
        yield from _draw_map(place, rect, text, theme)
    if not places:
        yield Box(room, theme.panel, theme.faint)
        word = fit("nobody says where it is", room.width - 2 * pad, text)
        yield Text(room.x + pad, room.y + pad, word, theme.soft, text)


def _draw_map(place: Place, rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    yield Box(rect, theme.panel, theme.faint)
    pad = _PAD * text
    inner = Rect(rect.x + pad, rect.y + pad, rect.width - 2 * pad, rect.height - 2 * pad)
    agents = str(len(place.dots)) if measure(place.name, text) < inner.width else ""
    yield from between(inner, inner.y, text, (place.name, theme.ink), (agents, theme.soft))
    top = inner.y + LINE * text
    grid = _Grid(place, Rect(inner.x, top, inner.width, inner.bottom - top))
    for x, y, share in place.heat:
        warm = mix(theme.faint, theme.panel, 0.35 + 0.65 * share)
        yield Box(grid.rect((x, y)), warm, warm)
    for cell in (cell for trail in place.trails for cell in trail):
        yield Box(grid.rect(cell, -(grid.size // 3)), theme.soft, theme.soft)
    for dot in reversed(place.dots):
        rect = grid.rect((dot.x, dot.y), max(0, 2 * text - grid.size // 3))
        yield Box(rect, theme.accent if dot.place else theme.ink, theme.panel)


class _Grid:
    """Cells of a map on a piece of the window: as large as the known part of the map lets them."""

    def __init__(self, place: Place, ground: Rect) -> None:
        cells = [(dot.x, dot.y) for dot in place.dots]
        cells += [(x, y) for x, y, _ in place.heat]
        cells += [cell for trail in place.trails for cell in trail]
        self._least_x, across = _extent([x for x, _ in cells])
        self._least_y, down = _extent([y for _, y in cells])
        self._scale = min(_MOST_CELL, ground.width / across, max(1, ground.height) / down)
        self._x = ground.x + (ground.width - across * self._scale) / 2
        self._y = ground.y + (ground.height - down * self._scale) / 2
        self.size = max(1, int(self._scale))
        """Window pixels of a cell."""

    def rect(self, cell: Cell, larger: int = 0) -> Rect:
        """The cell in window pixels, at least one, ``larger`` by so many at each side."""
        x = self._x + (cell[0] - self._least_x) * self._scale
        y = self._y + (cell[1] - self._least_y) * self._scale
        wide = max(1, int(x + self._scale) - int(x))
        tall = max(1, int(y + self._scale) - int(y))
        sides = max(1, wide + 2 * larger), max(1, tall + 2 * larger)
        return Rect(int(x) - larger, int(y) - larger, *sides)


def _extent(known: Sequence[int]) -> tuple[int, int]:
    """The first of the cells to draw, and how many, the known ones in the middle."""
    length = max(known) - min(known) + 1
    shown = max(_LEAST_CELLS, length)
    return min(known) - (shown - length) // 2, shown


def _course(
    course: Sequence[tuple[float, float]], rect: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    """Best and mean return since we watch."""
    if not course:
        return
    best, mean = zip(*course, strict=True)
    left, right = f"best return {best[-1]:.1f}", f"mean {mean[-1]:.1f}"
    yield from between(rect, rect.y, text, (left, theme.ink), (right, theme.accent))
    room = Rect(rect.x, rect.y + LINE * text, rect.width, rect.height - LINE * text)
    series = [(best, theme.soft, mix(theme.faint, theme.panel))]
    series += [(mean, theme.accent, mix(theme.accent, theme.panel))]
    yield from _curves(series, room, text)
