"""Pure. Draws agents' panels, the tables that cover them, and maps and returns below them."""

from collections.abc import Iterator, Sequence
from functools import lru_cache

from Daddy.core.humanize import format_count
from Daddy.streaming.viewer.agent_trails import Cell, HistorySnapshot, MapView
from Daddy.streaming.viewer.draw_list import (
    ADVANCE,
    BADGES,
    DEPTH,
    HEIGHT,
    LINE,
    PAD,
    Box,
    Colour,
    Curve,
    GamePicture,
    Item,
    PanelLayout,
    Rect,
    Text,
    TextPosition,
    Theme,
    draw_both_ends,
    draw_label,
    fit_text,
    mix_colours,
    text_width,
)
from Daddy.streaming.viewer.key_bindings import TABLE, Overlay
from Daddy.streaming.viewer.view_model import Panel, Scene

_CURVE = 2 * LINE
_ROOMY = 120
"""Width of a picture in letter pixels from which the text below keeps to its edges."""

ColouredText = tuple[str, Colour]


def draw_panel(
    panel: Panel,
    place: PanelLayout,
    text: int,
    theme: Theme,
    *,
    chosen: bool = False,
    mark: str = "",
) -> Iterator[Item]:
    """Draw one agent's panel, back to front; ``mark`` is a label such as "pinned"."""
    yield Box(place.frame, theme.panel, theme.accent if chosen else theme.faint)
    yield from _draw_screen(panel, place.picture, text, theme)
    if mark:
        yield from draw_label(mark, place.picture, text, theme.accent, theme, corner=True)
    words = place.words
    roomy = place.picture.width >= _ROOMY * text
    if place.position is not TextPosition.BESIDE and roomy:
        left, right = max(words.x, place.picture.x), min(words.right, place.picture.right)
        words = Rect(left, words.y, right - left, words.height)
    yield from _draw_texts(panel, place, words, text, theme)


def _draw_screen(panel: Panel, rect: Rect, text: int, theme: Theme) -> Iterator[Item]:
    rim = Rect(rect.x - text, rect.y - text, rect.width + 2 * text, rect.height + 2 * text)
    yield Box(rim, theme.shades[3], theme.faint)
    if panel.pixels is None:
        yield from draw_label("the first picture is on its way", rect, text, theme.soft, theme)
        return
    shades = tuple(mix_colours(s, theme.panel) if panel.stale else s for s in theme.shades)
    yield GamePicture(rect, panel.pixels, shades)
    if panel.stale:
        age = f"no new picture for {panel.silent_s:.0f} s"
        yield from draw_label(age, rect, text, theme.alarm, theme)


def _draw_texts(
    panel: Panel, place: PanelLayout, words: Rect, text: int, theme: Theme
) -> Iterator[Item]:
    """Draw name and score, badges, facts, and the return curve if there is room."""
    beside, pad = place.position is TextPosition.BESIDE, PAD * text
    y = words.y + (0 if beside else pad)
    yield from _draw_title(panel, words, y, text, theme, job=not beside)
    if place.position is TextPosition.BARE:
        return
    y = words.y + (LINE + 4) * text if beside else place.picture.bottom + pad
    yield from _draw_badges(panel.row.badges, words, y, text, theme)
    for step, left, right in _facts(
        panel, place.position, theme, narrow=words.width < _ROOMY * text
    ):
        y += step * text
        yield from draw_both_ends(words, y, text, left, right)
    y += LINE * text
    bottom = words.bottom if beside else place.frame.bottom - pad
    top = max(y, bottom - 2 * _CURVE * text) if beside else y
    if place.position is not TextPosition.COMPACT:
        room = Rect(words.x, top, words.width, bottom - top)
        area = mix_colours(theme.faint, theme.panel)
        yield from _draw_curves([(panel.returns, theme.soft, area)], room, text)


def _facts(
    panel: Panel, style: TextPosition, theme: Theme, *, narrow: bool
) -> Iterator[tuple[int, ColouredText, ColouredText]]:
    """Yield the lines below the title: rows from the line before, left text, right text."""
    row, ink, soft = panel.row, theme.ink, theme.soft
    total, steps = f"{row.episode_return:.1f}", format_count(row.step)
    if style is not TextPosition.BESIDE:
        named = total if narrow or style is TextPosition.COMPACT else f"return {total}"
        yield 0, ("", ink), (f"L{row.level}" if row.level else "", ink)
        yield LINE + 1, (panel.map_name, ink), (named, ink)
        if style is TextPosition.BELOW:
            yield LINE, (panel.peer.host, soft), (f"{steps} steps", soft)
        return
    yield LINE + 4, (panel.map_name, ink), ("", ink)
    facts = {"level": str(row.level), "story flags": str(row.story_flags), "return": total}
    step = LINE + 4
    for name, value in {**facts, "steps": steps}.items():
        yield step, (name, soft), (value, ink)
        step = LINE
    job = f"job {panel.peer.job}" if panel.peer.job else ""
    yield LINE, (panel.peer.host, soft), (job, theme.faint)


def _draw_title(
    panel: Panel, words: Rect, y: int, text: int, theme: Theme, *, job: bool
) -> Iterator[Item]:
    """Draw the agent's name, its job if there is room, and its score."""
    score = f"score {panel.row.score}"
    yield from draw_both_ends(words, y, text, (panel.name, theme.ink), (score, theme.accent))
    named = f"job {panel.peer.job}"
    x = words.x + text_width(panel.name, text) + 3 * text
    room = words.right - text_width(score, text) - 3 * text - x
    if job and panel.peer.job and text_width(named, text) <= room:
        yield Text(x, y, named, theme.faint, text)


def _draw_badges(count: int, rect: Rect, y: int, text: int, theme: Theme) -> Iterator[Item]:
    room = rect.width - 4 * LINE * text
    step = min(HEIGHT + 3, max(ADVANCE + 1, room // (8 * text))) * text
    for number, icon in enumerate(BADGES):
        sign, colour = (icon, theme.accent) if number < count else ("·", theme.soft)
        yield Text(rect.x + number * step, y, sign, colour, text)


Series = tuple[Sequence[float], Colour, Colour]
"""Values, colour of the line, and colour of the area below it."""


def _draw_curves(series: Sequence[Series], rect: Rect, text: int) -> Iterator[Item]:
    """Draw a line through each series' values on one scale; nothing if there is no room."""
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


def draw_table(kind: Overlay, scene: Scene, room: Rect, text: int, theme: Theme) -> Iterator[Item]:
    """Draw the table ``kind`` in the middle of ``room``, in the largest letters that fit."""
    lines_of = {Overlay.HELP: _keys, Overlay.SCORE: _scores, Overlay.FIGURES: _figures}
    title, rows, last = lines_of[kind](scene)
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
    yield from _draw_columns(lines, columns, step * text, inner, text, theme)


def _draw_columns(
    lines: Sequence[Line], columns: Sequence[int], step: int, rect: Rect, text: int, theme: Theme
) -> Iterator[Item]:
    """Draw texts in columns; a line of one text may span all columns."""
    for index, line in enumerate(lines):
        x, title = rect.x, theme.accent if index == 0 else theme.soft
        colours = (title,) if len(line) == 1 else (theme.ink, *[theme.soft] * len(line))
        for word, colour, across in zip(line, colours, (*columns, 0), strict=False):
            yield Text(x, rect.y + index * step, fit_text(word, rect.right - x, text), colour, text)
            x += (across + _GAP) * text


def _keys(_: Scene) -> tuple[str, list[Line], str]:
    rows: list[Line] = [(binding.label, binding.help) for binding in TABLE]
    return "keys", rows, "Watching never slows training."


def _scores(scene: Scene) -> tuple[str, list[Line], str]:
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
"""Least height of the band below the panels, in lines of text."""
_LEAST_CELLS = 6
"""Least width and height of a drawn map in cells, also if fewer cells are known."""
_MOST_CELL = 16
_KEPT = 4
"""Bands kept by the cache; each holds a whole history snapshot."""


@lru_cache(_KEPT)
def draw_band(
    history: HistorySnapshot, room: Rect, text: int, theme: Theme, news: tuple[str, ...]
) -> tuple[Item, ...]:
    """Draw maps on the left four sevenths; on the right the return curve, and news below it.

    Results are cached, as a large map takes longer to draw than the rest of the window.
    """
    pad = PAD * text
    left = Rect(room.x, room.y, room.width * 4 // 7 - pad, room.height)
    right = Rect(left.right + pad, room.y, room.right - left.right - pad, room.height)
    inner = Rect(right.x + pad, right.y + pad, right.width - 2 * pad, right.height - 2 * pad)
    lines = min(len(news), max(0, inner.height // (LINE * text) - 3), 4)
    tall = inner.height - lines * LINE * text
    curve = Rect(inner.x, inner.y, inner.width, tall)
    below = [
        Text(inner.x, inner.y + tall + (index * LINE + 2) * text, line, theme.soft, text)
        for index, line in enumerate(fit_text(note, inner.width, text) for note in news[:lines])
    ]
    frame = Box(right, theme.panel, theme.faint)
    maps = _draw_maps(history.maps, left, text, theme)
    return (*maps, frame, *_draw_returns(history.returns, curve, text, theme), *below)


def _draw_maps(places: Sequence[MapView], room: Rect, text: int, theme: Theme) -> Iterator[Item]:
    count = max(1, min(len(places), room.width // max(1, room.height * 3 // 5), 4))
    wide, pad = room.width // count, PAD * text
    for index, place in enumerate(places[:count]):
        gap = pad if index < count - 1 else 0
        rect = Rect(room.x + index * wide, room.y, wide - gap, room.height)
        yield from _draw_map(place, rect, text, theme)
    if not places:
        yield Box(room, theme.panel, theme.faint)
        hint = fit_text("no agent reports its position", room.width - 2 * pad, text)
        yield Text(room.x + pad, room.y + pad, hint, theme.soft, text)


def _draw_map(place: MapView, rect: Rect, text: int, theme: Theme) -> Iterator[Item]:
    yield Box(rect, theme.panel, theme.faint)
    pad = PAD * text
    inner = Rect(rect.x + pad, rect.y + pad, rect.width - 2 * pad, rect.height - 2 * pad)
    agents = str(len(place.dots)) if text_width(place.name, text) < inner.width else ""
    yield from draw_both_ends(inner, inner.y, text, (place.name, theme.ink), (agents, theme.soft))
    top = inner.y + LINE * text
    grid = _Grid(place, Rect(inner.x, top, inner.width, inner.bottom - top))
    for x, y, share in place.heat:
        warm = mix_colours(theme.faint, theme.panel, 0.35 + 0.65 * share)
        yield Box(grid.rect((x, y)), warm, warm)
    for cell in (cell for trail in place.trails for cell in trail):
        yield Box(grid.rect(cell, -(grid.size // 3)), theme.soft, theme.soft)
    for dot in reversed(place.dots):
        rect = grid.rect((dot.x, dot.y), max(0, 2 * text - grid.size // 3))
        yield Box(rect, theme.accent if dot.place else theme.ink, theme.panel)


class _Grid:
    """Converts cells of a map to window pixels, as large as the visited part allows."""

    def __init__(self, place: MapView, room: Rect) -> None:
        cells = [(dot.x, dot.y) for dot in place.dots]
        cells += [(x, y) for x, y, _ in place.heat]
        cells += [cell for trail in place.trails for cell in trail]
        self._least_x, across = _axis_range([x for x, _ in cells])
        self._least_y, down = _axis_range([y for _, y in cells])
        self._scale = min(_MOST_CELL, room.width / across, max(1, room.height) / down)
        self._x = room.x + (room.width - across * self._scale) / 2
        self._y = room.y + (room.height - down * self._scale) / 2
        self.size = max(1, int(self._scale))
        """Window pixels of a cell."""

    def rect(self, cell: Cell, larger: int = 0) -> Rect:
        """Return the rectangle of a cell, extended by ``larger`` pixels at each side."""
        x = self._x + (cell[0] - self._least_x) * self._scale
        y = self._y + (cell[1] - self._least_y) * self._scale
        wide = max(1, int(x + self._scale) - int(x))
        tall = max(1, int(y + self._scale) - int(y))
        sides = max(1, wide + 2 * larger), max(1, tall + 2 * larger)
        return Rect(int(x) - larger, int(y) - larger, *sides)


def _axis_range(cells: Sequence[int]) -> tuple[int, int]:
    """Return the first cell to draw and the number of cells, with ``cells`` in the middle."""
    length = max(cells) - min(cells) + 1
    shown = max(_LEAST_CELLS, length)
    return min(cells) - (shown - length) // 2, shown


def _draw_returns(
    returns: Sequence[tuple[float, float]], rect: Rect, text: int, theme: Theme
) -> Iterator[Item]:
    """Draw the curves of the best and the mean return since this viewer started."""
    if not returns:
        return
    best, mean = zip(*returns, strict=True)
    left, right = f"best return {best[-1]:.1f}", f"mean {mean[-1]:.1f}"
    yield from draw_both_ends(rect, rect.y, text, (left, theme.ink), (right, theme.accent))
    room = Rect(rect.x, rect.y + LINE * text, rect.width, rect.height - LINE * text)
    series = [(best, theme.soft, mix_colours(theme.faint, theme.panel))]
    series += [(mean, theme.accent, mix_colours(theme.accent, theme.panel))]
    yield from _draw_curves(series, room, text)
