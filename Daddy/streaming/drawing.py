"""Pure: the window as a list of things to draw, made from what there is to see.

Whoever draws (``viewer.py``) needs no idea of agents, and equal lists need no drawing at all.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Daddy.streaming.font import BADGES, GAP, HEIGHT, fit, measure
from Daddy.streaming.layout import LINE, Layout, PanelLayout, Rect, arrange
from Daddy.streaming.scene import Panel, Scene
from Daddy.streaming.tokens import copy_line

Colour = tuple[int, int, int]


class Box(NamedTuple):
    """A filled rectangle with a border."""

    rect: Rect
    fill: Colour
    border: Colour


class Text(NamedTuple):
    """One line of text; ``x, y`` is the top left of its letters."""

    x: int
    y: int
    text: str
    colour: Colour
    scale: int


class Picture(NamedTuple):
    """A game picture (row-major, 2 bits a pixel) in four shades, lightest first."""

    rect: Rect
    pixels: bytes
    shades: tuple[Colour, ...]


class Curve(NamedTuple):
    """A line through points, and the area below it down to ``floor``."""

    points: tuple[tuple[int, int], ...]
    colour: Colour
    area: Colour
    floor: int
    width: int


_ROOMY = 120
"""Letter pixels that a picture must be wide for the text to keep to its edges."""

Draw = Box | Text | Picture | Curve


@dataclass(frozen=True, slots=True)
class Theme:
    """Four shades of the game's screen, lightest first, and two colours that call."""

    name: str
    shades: tuple[Colour, Colour, Colour, Colour]
    back: Colour
    panel: Colour
    accent: Colour = (248, 200, 88)
    alarm: Colour = (240, 112, 88)

    @property
    def ink(self) -> Colour:
        return self.shades[0]

    @property
    def soft(self) -> Colour:
        return self.shades[1]

    @property
    def faint(self) -> Colour:
        return self.shades[2]


THEMES = (
    Theme(
        "lagoon",
        ((224, 248, 208), (136, 192, 112), (52, 104, 86), (8, 24, 32)),
        (6, 17, 23),
        (11, 32, 41),
    ),
    Theme(
        "pea",
        ((202, 220, 159), (155, 188, 15), (48, 98, 48), (15, 56, 15)),
        (8, 28, 10),
        (14, 44, 16),
    ),
    Theme(
        "silver",
        ((255, 255, 255), (168, 168, 168), (84, 84, 84), (0, 0, 0)),
        (12, 12, 14),
        (26, 26, 30),
    ),
)


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the waiting screen has to say: the port we listen on and whose login it would be."""

    port: int
    login: str

    @property
    def ssh_line(self) -> str:
        """The line to copy."""
        return f"ssh -R 9999:localhost:{self.port} {self.login}"


def draw(
    scene: Scene, size: tuple[int, int], theme: Theme, waiting: Waiting, toast: str = ""
) -> list[Draw]:
    """Everything in a window of ``size`` pixels, back to front; ``toast`` is a passing word."""
    layout = arrange(*size, len(scene.panels))
    things: list[Draw] = [Box(Rect(0, 0, *size), theme.back, theme.back)]
    things += _header(scene, layout, theme, toast)
    if not scene.panels:
        return things + list(_waiting(scene, layout, size, theme, waiting))
    for panel, place in zip(scene.panels, layout.panels, strict=True):
        things += _panel(panel, place, layout.text, theme)
    return things + list(_news(scene, layout, theme))


def _between(
    rect: Rect, y: int, scale: int, left: tuple[str, Colour], right: tuple[str, Colour]
) -> Iterator[Draw]:
    """A text at each end of a line; the left one gives way."""
    wide = measure(right[0], scale)
    gap = 4 * scale if right[0] else 0
    yield Text(rect.x, y, fit(left[0], rect.width - wide - gap, scale), left[1], scale)
    yield Text(rect.right - wide, y, right[0], right[1], scale)


def _header(scene: Scene, layout: Layout, theme: Theme, toast: str) -> Iterator[Draw]:
    text, rect = layout.text, layout.header
    pad = 4 * text
    inner = Rect(rect.x + 2 * pad, rect.y, rect.width - 4 * pad, rect.height)
    run = " + ".join(status.run for status in scene.statuses) or "Daddy"
    top = rect.y + 6 * text
    yield from _between(inner, top, text, (run, theme.ink), _state(scene, theme))
    facts = toast or _fleet(scene)
    yield Text(
        inner.x,
        top + (LINE + 1) * text,
        fit(facts, inner.width, text),
        theme.accent if toast else theme.soft,
        text,
    )


def _state(scene: Scene, theme: Theme) -> tuple[str, Colour]:
    if not scene.connected:
        return "waiting", theme.accent
    if scene.panels and all(panel.stale for panel in scene.panels):
        return f"no new picture · {scene.transport}", theme.alarm
    delay = max((status.delay_s for status in scene.statuses), default=0.0)
    return f"live · {delay:.1f} s behind · {scene.transport}", theme.soft


def _fleet(scene: Scene) -> str:
    if not scene.statuses:
        return "Watching never slows training, and closing this window never stops it."
    statuses = scene.statuses
    jobs = sum(len(one.peers) for one in statuses)
    parts = [
        f"{jobs} {'job' if jobs == 1 else 'jobs'}",
        f"{sum(one.agents for one in statuses)} agents",
        f"{sum(one.steps_per_s for one in statuses):,.0f} steps/s",
        f"{sum(one.steps for one in statuses):,} steps",
        f"best score {max(one.best for one in statuses)}",
    ]
    return "  ·  ".join(parts)


def _panel(panel: Panel, place: PanelLayout, text: int, theme: Theme) -> Iterator[Draw]:
    row, frame, picture = panel.row, place.frame, place.picture
    pad = 4 * text
    inner = Rect(frame.x + pad, frame.y, frame.width - 2 * pad, frame.height)
    if picture.width >= _ROOMY * text:
        inner = Rect(picture.x, frame.y, picture.width, frame.height)
    yield Box(frame, theme.panel, theme.faint)
    title = (panel.name, theme.ink), (f"score {row.score}", theme.accent)
    yield from _between(inner, frame.y + pad, text, *title)
    yield from _screen(panel, picture, text, theme)
    y = picture.bottom + pad
    yield from _badges(row.badges, inner, y, text, theme)
    level = (f"L{row.level}", theme.ink)
    yield from _between(inner, y + text // 2, text, ("", theme.ink), level)
    y += (LINE + 1) * text
    where = (panel.map_name, theme.ink), (f"return {row.episode_return:.1f}", theme.ink)
    yield from _between(inner, y, text, *where)
    y += LINE * text
    host = f"{panel.peer.host} job {panel.peer.job}" if panel.peer.job else panel.peer.host
    who = (host, theme.soft), (f"step {row.step:,}", theme.soft)
    yield from _between(inner, y, text, *who)
    y += LINE * text
    yield from _curve(panel.returns, Rect(inner.x, y, inner.width, frame.bottom - pad - y), theme)


def _screen(panel: Panel, rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    rim = Rect(rect.x - text, rect.y - text, rect.width + 2 * text, rect.height + 2 * text)
    yield Box(rim, theme.shades[3], theme.faint)
    if panel.pixels is None:
        yield from _label("the first picture is on its way", rect, text, theme.soft, theme)
        return
    shades = tuple(_mix(one, theme.panel) if panel.stale else one for one in theme.shades)
    yield Picture(rect, panel.pixels, shades)
    if panel.stale:
        age = f"no new picture for {panel.silent_s:.0f} s"
        yield from _label(age, rect, text, theme.alarm, theme)


def _mix(colour: Colour, towards: Colour) -> Colour:
    """A third of ``colour``, the rest ``towards``."""
    red, green, blue = ((one + 2 * other) // 3 for one, other in zip(colour, towards, strict=True))
    return red, green, blue


def _label(what: str, rect: Rect, text: int, colour: Colour, theme: Theme) -> Iterator[Draw]:
    what = fit(what, rect.width - 8 * text, text)
    wide, pad = measure(what, text), 4 * text
    x = rect.x + (rect.width - wide) // 2
    y = rect.y + (rect.height - HEIGHT * text) // 2
    box = Rect(x - pad, y - pad, wide + 2 * pad, HEIGHT * text + 2 * pad)
    yield Box(box, theme.back, theme.faint)
    yield Text(x, y, what, colour, text)


def _badges(count: int, rect: Rect, y: int, text: int, theme: Theme) -> Iterator[Draw]:
    step = (HEIGHT + 3 * GAP) * text
    for number, icon in enumerate(BADGES):
        colour = theme.accent if number < count else theme.faint
        yield Text(rect.x + number * step, y, icon, colour, text)


def _curve(values: Sequence[float], rect: Rect, theme: Theme) -> Iterator[Draw]:
    """The return over the last two minutes, its own least and greatest at the edges."""
    if rect.height < HEIGHT or len(values) < 2:  # noqa: PLR2004 - a line needs two points
        return
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    across = rect.width / (len(values) - 1)
    points = tuple(
        (
            round(rect.x + index * across),
            round(rect.bottom - 2 - (value - low) / span * (rect.height - 4)),
        )
        for index, value in enumerate(values)
    )
    area = _mix(theme.faint, theme.panel)
    yield Curve(points, theme.soft, area, rect.bottom, max(1, rect.height // 22))


def _news(scene: Scene, layout: Layout, theme: Theme) -> Iterator[Draw]:
    """Who would be next, and what happened last, newest first, as far as there is room."""
    text, rect = layout.text, layout.footer
    lines = [(one, theme.soft) for one in _next(scene)]
    lines += [(one, theme.faint) for one in reversed(scene.notes)]
    for index, (what, colour) in enumerate(lines[: max(0, rect.height // (LINE * text))]):
        fitted = fit(what, rect.width - 8 * text, text)
        yield Text(rect.x + 4 * text, rect.y + index * LINE * text, fitted, colour, text)


def _next(scene: Scene) -> list[str]:
    if not scene.next_up:
        return []
    return ["next  " + "  ·  ".join(f"{name} {score}" for name, score in scene.next_up)]


def _waiting(
    scene: Scene, layout: Layout, size: tuple[int, int], theme: Theme, waiting: Waiting
) -> Iterator[Draw]:
    text = layout.text
    room = Rect(16 * text, layout.header.bottom, size[0] - 32 * text, size[1])
    y = layout.header.bottom + 8 * text
    yield Text(room.x, y, "Daddy", theme.ink, 4 * text)
    y += 4 * (HEIGHT + 4) * text
    for mark, what, colour in _steps(scene, waiting, theme):
        yield Text(room.x, y, mark, colour, text)
        fitted = fit(what, room.width - 12 * text, text)
        yield Text(room.x + 12 * text, y, fitted, colour, text)
        y += (LINE + 2) * text
    for caption, line in _to_copy(scene, waiting):
        y += 6 * text
        yield Text(room.x, y, caption, theme.soft, text)
        y += LINE * text
        yield Box(Rect(room.x, y, room.width, (HEIGHT + 10) * text), theme.panel, theme.faint)
        fitted = fit(line, room.width - 10 * text, text)
        yield Text(room.x + 5 * text, y + 5 * text, fitted, theme.ink, text)
        y += (HEIGHT + 10) * text


def _steps(scene: Scene, waiting: Waiting, theme: Theme) -> list[tuple[str, str, Colour]]:
    """What has worked so far, and what is missing."""
    done, now, later = ("*", theme.soft), (">", theme.accent), ("-", theme.faint)
    seen = scene.connected or bool(scene.trouble)
    refused = bool(scene.trouble) and not scene.connected
    steps = [
        (done, f"listening on 127.0.0.1:{waiting.port}"),
        (done if seen else now, "the ssh tunnel brings a relay here"),
        (done if scene.connected else now if seen else later, "the relay proves the token"),
        (now if scene.connected else later, "a learner plays"),
    ]
    lines = [(mark, what, colour) for (mark, colour), what in steps]
    if refused:
        lines.append(("!", scene.trouble, theme.alarm))
    return lines


def _to_copy(scene: Scene, waiting: Waiting) -> list[tuple[str, str]]:
    if scene.connected:
        return [("Nothing plays yet. On the login node:", "run_controller status")]
    if "token" in scene.trouble:
        return [("Once, on this computer (the token stays private):", copy_line(waiting.login))]
    return [("In another terminal (C copies it):", waiting.ssh_line)]
