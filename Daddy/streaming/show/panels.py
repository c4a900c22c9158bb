"""Pure: one agent's panel: its picture and what there is to say about it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from Daddy.streaming.home.scene import Panel
from Daddy.streaming.show.drawing import (
    Box,
    Curve,
    Draw,
    Picture,
    Text,
    Theme,
    between,
    label,
    mix,
    short,
)
from Daddy.streaming.show.font import BADGES, GAP, HEIGHT, fit, measure
from Daddy.streaming.show.layout import LINE, PanelLayout, Rect, Style

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
    yield Box(
        Rect(x - pad, rect.y, wide + 2 * pad, HEIGHT * text + 2 * pad), theme.back, theme.accent
    )
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
    """Who: the agent, its job where there is room, and its score."""
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
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    across = rect.width / (len(values) - 1)
    tall = rect.height - 2 * text
    points = tuple(
        (
            round(rect.x + index * across),
            round(rect.bottom - text - (value - low) / span * tall),
        )
        for index, value in enumerate(values)
    )
    area = mix(theme.faint, theme.panel)
    yield Curve(points, theme.soft, area, rect.bottom, max(1, text // 2))
