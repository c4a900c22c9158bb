"""Pure. Draws an agent's panel, the sheets over the panels, and maps and course below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from Daddy.streaming.viewer.drawing import (
    BADGES,
    DEPTH,
    GAP,
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
from Daddy.streaming.viewer.history import Cell, Place, World
from Daddy.streaming.viewer.keys import TABLE, Sheet
from Daddy.streaming.viewer.view_model import Panel, Scene, short

_CURVE = 2 * LINE
_ROOMY = 120
"""Letter pixels that a picture must be wide for the words below to keep to its edges."""


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
        yield from _mark(mark, place.picture, text, theme)
    if place.style is Style.BESIDE:
        yield from _beside(panel, place.words, text, theme)
    else:
        yield from _below(panel, place, text, theme)


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


def _mark(mark: str, rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """A small sign in the upper right corner of the picture."""
    fitted = fit(mark, rect.width - 6 * text, text)
    wide, pad = measure(fitted, text), 3 * text
    x, y = rect.right - wide - pad, rect.y + pad
    sign = Rect(x - pad, rect.y, wide + 2 * pad, HEIGHT * text + 2 * pad)
    yield Box(sign, theme.back, theme.accent)
    yield Text(x, y, fitted, theme.accent, text)


def _below(panel: Panel, place: PanelLayout, text: int, theme: Theme) -> Iterator[Draw]:
    row, words, pad = panel.row, place.words, 4 * text
    if place.picture.width >= _ROOMY * text:
        left, right = max(words.x, place.picture.x), min(words.right, place.picture.right)
        words = Rect(left, words.y, right - left, words.height)
    narrow = place.style is Style.COMPACT or words.width < _ROOMY * text
    yield from _title(panel, words, words.y + pad, text, theme)
    if place.style is Style.BARE:
        return
    y = place.picture.bottom + pad
    yield from _badges(row.badges, words, y, text, theme)
    level = (f"L{row.level}" if row.level else "", theme.ink)
    yield from between(words, y, text, ("", theme.ink), level)
    y += (LINE + 1) * text
    gained = f"{row.episode_return:.1f}" if narrow else f"return {row.episode_return:.1f}"
    yield from between(words, y, text, (panel.map_name, theme.ink), (gained, theme.ink))
    if place.style is not Style.COMPACT:
        y += LINE * text
        steps = (f"{short(row.step)} steps", theme.soft)
        yield from between(words, y, text, (panel.peer.host, theme.soft), steps)
        y += LINE * text
        room = Rect(words.x, y, words.width, place.frame.bottom - pad - y)
        yield from _curve(panel.returns, room, text, theme)


def _beside(panel: Panel, words: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    row, y = panel.row, words.y
    score = (f"score {row.score}", theme.accent)
    yield from between(words, y, text, (panel.name, theme.ink), score)
    y += (LINE + 4) * text
    yield from _badges(row.badges, words, y, text, theme)
    y += (LINE + 4) * text
    yield Text(words.x, y, fit(panel.map_name, words.width, text), theme.ink, text)
    y += (LINE + 4) * text
    facts = {
        "level": str(row.level),
        "story flags": str(row.story_flags),
        "return": f"{row.episode_return:.1f}",
        "steps": short(row.step),
    }
    for what, value in facts.items():
        yield from between(words, y, text, (what, theme.soft), (value, theme.ink))
        y += LINE * text
    job = f"job {panel.peer.job}" if panel.peer.job else ""
    yield from between(words, y, text, (panel.peer.host, theme.soft), (job, theme.faint))
    y += LINE * text
    top = max(y, words.bottom - 2 * _CURVE * text)
    yield from _curve(
        panel.returns, Rect(words.x, top, words.width, words.bottom - top), text, theme
    )


def _title(panel: Panel, words: Rect, y: int, text: int, theme: Theme) -> Iterator[Draw]:
    """The agent, its job if there is room, and its score."""
    score = (f"score {panel.row.score}", theme.accent)
    yield from between(words, y, text, (panel.name, theme.ink), score)
    job = f"job {panel.peer.job}"
    x = words.x + measure(panel.name, text) + 5 * text
    room = words.right - measure(score[0], text) - 5 * text - x
    if panel.peer.job and measure(job, text) <= room:
        yield Text(x, y, job, theme.faint, text)


def _badges(count: int, rect: Rect, y: int, text: int, theme: Theme) -> Iterator[Draw]:
    room = rect.width - 4 * LINE * text
    step = min(HEIGHT + 3 * GAP, max(HEIGHT + GAP, room // (8 * text))) * text
    for number, icon in enumerate(BADGES):
        won = number < count
        x = rect.x + number * step + (0 if won else 3 * text)
        yield Text(x, y, icon if won else "·", theme.accent if won else theme.soft, text)


def _curve(values: Sequence[float], rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """The return over the last two minutes, its own least and greatest at the edges."""
    if rect.height < HEIGHT * text or len(values) < 2:  # noqa: PLR2004 - a line needs two points
        return
    low, span = min(values), (max(values) - min(values)) or 1.0
    points = _points(values, rect, rect.height - 2 * text, rect.bottom - text, low, span)
    area = mix(theme.faint, theme.panel)
    yield Curve(points, theme.soft, area, rect.bottom, max(1, text // 2))


_GAP = 8
"""Letter pixels between two columns."""

Line = tuple[str, ...]


def draw_sheet(sheet: Sheet, scene: Scene, room: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """The sheet in the middle of ``room``, in the largest letters in which it is whole."""
    if sheet is Sheet.NONE:
        return
    makers = {Sheet.HELP: _help, Sheet.SCORE: _score_lines, Sheet.FIGURES: _figures}
    title, lines, last = makers[sheet](scene)
    while text > 1 and not _fits([(title,), (last,), *lines], room, text):
        text -= 1
    if _fits([(title,), (last,), *lines], room, text):
        lines, step = [(title,), *lines, (last,)], LINE
    else:
        step = HEIGHT + DEPTH
    yield from _table(lines, step, room, text, theme)


def _help(_: Scene) -> tuple[str, list[Line], str]:
    lines: list[Line] = [(one.label, one.what) for one in TABLE]
    return "keys", lines, "Watching never slows training."


def _score_lines(scene: Scene) -> tuple[str, list[Line], str]:
    lines: list[Line] = [("agent", "badges", "flags", "score", "return")]
    for panel in scene.panels:
        row = panel.row
        gained = f"{row.episode_return:.1f}"
        flags = f"+ {row.story_flags}"
        lines.append((panel.name, str(row.badges), flags, f"= {row.score}", gained))
    return "badges + story flags", lines, "Ties: the return, then the newest report."


def _figures(scene: Scene) -> tuple[str, list[Line], str]:
    lines: list[Line] = [("agent", "a second", "bytes each", "kbit/s", "old")]
    lines += [_figures_of(panel) for panel in scene.panels]
    total = sum(panel.per_second * panel.bytes_per_frame for panel in scene.panels) / 125
    return "pictures", lines, f"{total:.1f} kbit/s, {sum(scene.frames.values()):,} pictures so far"


def _figures_of(panel: Panel) -> Line:
    each, rate = panel.bytes_per_frame, panel.per_second
    kilobits = f"{each * rate / 125:.1f}"
    return panel.name, f"{rate:.1f}", f"{each:.0f}", kilobits, f"{panel.age_s:.2f} s"


def _widths(lines: Sequence[Line], text: int) -> list[int]:
    """Each column as wide as its widest word; lines of one word belong to none."""
    rows = [line for line in lines if len(line) > 1]
    return [max(measure(word, text) for word in column) for column in zip(*rows, strict=True)]


def _fits(lines: Sequence[Line], room: Rect, text: int) -> bool:
    widths = _widths(lines, text)
    wide = sum(widths) + _GAP * text * (len(widths) + 1)
    return wide <= room.width and _tall(len(lines), text) <= room.height


def _tall(count: int, text: int) -> int:
    return (count * LINE + 2 * _GAP) * text


def _table(lines: Sequence[Line], step: int, room: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    pad, widths = _GAP * text, _widths(lines, text)
    lines = lines[: max(0, (room.height - 2 * pad) // (step * text))]
    alone = max((measure(line[0], text) for line in lines if len(line) == 1), default=0)
    wide = min(room.width, max(sum(widths) + pad * (len(widths) - 1), alone) + 2 * pad)
    tall = len(lines) * step * text + 2 * pad
    rect = Rect(room.x + (room.width - wide) // 2, room.y + (room.height - tall) // 2, wide, tall)
    yield Box(rect, theme.back, theme.accent)
    for index, line in enumerate(lines):
        place = Rect(rect.x + pad, rect.y + pad + index * step * text, wide - 2 * pad, 0)
        if len(line) == 1:
            colour = theme.accent if index == 0 else theme.soft
            yield Text(place.x, place.y, fit(line[0], place.width, text), colour, text)
        else:
            yield from _row_of(line, widths, place, text, theme)


def _row_of(
    line: Line, widths: Sequence[int], place: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    x = place.x
    for index, (word, wide) in enumerate(zip(line, widths, strict=True)):
        colour: Colour = theme.ink if index == 0 else theme.soft
        yield Text(x, place.y, fit(word, place.right - x, text), colour, text)
        x += wide + _GAP * text


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

    The last drawings are kept: a large map takes longer than all the rest of the window.
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
        yield from _draw_map(place, rect, text, theme, heat=heat)
    if not places:
        yield Box(room, theme.panel, theme.faint)
        pad = _PAD * text
        word = fit("nobody says where it is", room.width - 2 * pad, text)
        yield Text(room.x + pad, room.y + pad, word, theme.soft, text)


def _draw_map(place: Place, rect: Rect, text: int, theme: Theme, *, heat: bool) -> Iterator[Draw]:
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
        larger = max(0, 2 * text - grid.size // 3)
        rect = _square(grid, (dot.x, dot.y), theme.ink, larger).rect
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
    pairs = zip(theme.panel, theme.faint, strict=True)
    red, green, blue = (round(cold + part * (warm - cold)) for cold, warm in pairs)
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
    for which, colour in ((0, theme.soft), (1, theme.accent)):
        values = [pair[which] for pair in course]
        points = _points(values, rect, tall, top + tall, low, span)
        area = mix(theme.faint if which == 0 else colour, theme.panel)
        yield Curve(points, colour, area, top + tall, max(1, text // 2))


def _points(
    values: Sequence[float], rect: Rect, tall: int, bottom: int, low: float, span: float
) -> tuple[tuple[int, int], ...]:
    """A line through ``values`` from the left of ``rect`` to its right, ``tall`` at most."""
    across = rect.width / (len(values) - 1)
    return tuple(
        (round(rect.x + index * across), round(bottom - (value - low) / span * tall))
        for index, value in enumerate(values)
    )
