"""Pure: what may lie over the panels: all keys, what scores are made of, figures of the stream."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from Daddy.streaming.home.scene import Panel, Scene
from Daddy.streaming.show.drawing import Box, Colour, Draw, Text, Theme
from Daddy.streaming.show.font import DEPTH, HEIGHT, fit, measure
from Daddy.streaming.show.keys import TABLE, Sheet
from Daddy.streaming.show.layout import LINE, Rect

_GAP = 8
"""Letter pixels between two columns."""

Line = tuple[str, ...]


def draw_sheet(sheet: Sheet, scene: Scene, room: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """The sheet in the middle of ``room``, in the largest letters in which it is whole; without
    its first and last line where that does not help.
    """
    if sheet is Sheet.NONE:
        return
    title, lines, last = {
        Sheet.HELP: _help,
        Sheet.SCORE: _score,
        Sheet.FIGURES: _figures,
    }[sheet](scene)
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


def _score(scene: Scene) -> tuple[str, list[Line], str]:
    lines: list[Line] = [("agent", "badges", "flags", "score", "return")]
    for panel in scene.panels:
        row = panel.row
        gained = f"{row.episode_return:.1f}"
        flags = f"+ {row.story_flags}"
        lines.append((panel.name, str(row.badges), flags, f"= {row.score}", gained))
    return (
        "badges + story flags",
        lines,
        "Ties: the return, then the newest report.",
    )


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
    return wide <= room.width and _height(len(lines), text) <= room.height


def _height(count: int, text: int) -> int:
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
            yield from _line(line, widths, place, text, theme)


def _line(
    line: Line, widths: Sequence[int], place: Rect, text: int, theme: Theme
) -> Iterator[Draw]:
    x = place.x
    for index, (word, wide) in enumerate(zip(line, widths, strict=True)):
        colour: Colour = theme.ink if index == 0 else theme.soft
        yield Text(x, place.y, fit(word, place.right - x, text), colour, text)
        x += wide + _GAP * text
