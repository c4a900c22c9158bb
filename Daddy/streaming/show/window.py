"""Pure: the whole window as a list of drawings: header, panels, news, or what it waits for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from Daddy.core.vocabulary import TUNNEL_PORT
from Daddy.streaming.home.scene import Panel, Scene
from Daddy.streaming.home.ways import KNOCK_S, usual_causes
from Daddy.streaming.show.band import MIN_LINES, draw_band
from Daddy.streaming.show.drawing import THEMES, Box, Colour, Draw, Text, Theme, between, short
from Daddy.streaming.show.font import HEIGHT, fit, measure
from Daddy.streaming.show.keys import HINT, Band, Sheet, View, focus
from Daddy.streaming.show.layout import LINE, Layout, Rect, arrange
from Daddy.streaming.show.panels import draw_panel
from Daddy.streaming.show.sheets import draw_sheet
from Daddy.streaming.wire.auth import copy_line


@dataclass(frozen=True, slots=True)
class Waiting:
    """What the waiting screen has to say: the port we listen on, whose login it would be, and how
    ssh gets there (``options`` end in a space).
    """

    port: int
    login: str
    options: str = ""

    @property
    def ssh_line(self) -> str:
        """The line to copy."""
        return f"ssh {self.options}-R {TUNNEL_PORT}:localhost:{self.port} {self.login}"


def draw(
    scene: Scene, size: tuple[int, int], view: View, waiting: Waiting, toast: str = ""
) -> list[Draw]:
    """Everything in a window of ``size`` pixels, back to front; ``toast`` is a passing word."""
    theme, scene = THEMES[view.theme], seen(scene, view)
    layout = arrange_view(scene, size, view)
    things: list[Draw] = [Box(Rect(0, 0, *size), theme.back, theme.back)]
    things += _header(scene, layout, theme, view, toast)
    if view.sheet is not Sheet.NONE:
        room = Rect(8, layout.header.bottom, size[0] - 16, size[1] - layout.header.height - 8)
        return things + list(draw_sheet(view.sheet, scene, room, layout.text, theme))
    if not scene.panels:
        return things + list(_waiting(scene, layout, size, theme, waiting))
    shown = [panel.name for panel in scene.panels]
    for panel, place in zip(scene.panels, layout.panels, strict=False):
        mark = _mark(panel, view, shown)
        chosen = panel.name == view.chosen and len(shown) > 1
        things += draw_panel(panel, place, layout.text, theme, chosen=chosen, mark=mark)
    return things + list(_below(scene, layout, theme, view))


def arrange_view(scene: Scene, size: tuple[int, int], view: View) -> Layout:
    """Where the panels on screen stand."""
    band = _has_band(scene, view)
    return arrange(*size, len(scene.panels), bare=view.bare, band=band)


def _has_band(scene: Scene, view: View) -> bool:
    return view.band is not Band.NONE and bool(scene.world.course)


def _below(scene: Scene, layout: Layout, theme: Theme, view: View) -> Iterator[Draw]:
    """Maps, course and news where there is room for them, else the news alone."""
    text, rect = layout.text, layout.footer
    if not _has_band(scene, view) or rect.height < MIN_LINES * LINE * text:
        yield from _news(scene, layout, theme)
        return
    room = Rect(rect.x, rect.y, rect.width, rect.height)
    news = (*_next(scene, rect.width // 3, text), *reversed(scene.notes))
    heat = view.band is Band.HEAT
    yield from draw_band(scene.world, room, text, theme, heat=heat, news=news)


def seen(scene: Scene, view: View) -> Scene:
    """The scene with the panels that are on screen: all, or the one that fills the window."""
    if not view.full or not scene.panels:
        return scene
    name = focus(view, [panel.name for panel in scene.panels])
    return replace(scene, panels=tuple(one for one in scene.panels if one.name == name))


def panel_at(scene: Scene, size: tuple[int, int], view: View, x: int, y: int) -> str:
    """The agent whose panel is at a point of the window, if any."""
    panels = seen(scene, view).panels
    layout = arrange_view(replace(scene, panels=panels), size, view)
    for panel, place in zip(panels, layout.panels, strict=False):
        frame = place.frame
        if frame.x <= x < frame.right and frame.y <= y < frame.bottom:
            return panel.name
    return ""


def _mark(panel: Panel, view: View, shown: Sequence[str]) -> str:
    name = panel.name
    marks = [
        "on tour" if name == view.touring else "",
        "pinned" if name in view.pins else "",
        "recording" if view.recording and name == focus(view, shown) else "",
    ]
    return "  ·  ".join(mark for mark in marks if mark)


def _header(scene: Scene, layout: Layout, theme: Theme, view: View, toast: str) -> Iterator[Draw]:
    text, rect = layout.text, layout.header
    pad = 4 * text
    inner = Rect(rect.x + 2 * pad, rect.y, rect.width - 4 * pad, rect.height)
    run = " + ".join(status.run for status in scene.statuses) or "Daddy"
    top = rect.y + 6 * text
    yield from between(inner, top, text, (run, theme.ink), _state(scene, theme, view))
    said = toast or _missing(scene, view) or _crowded(scene, layout) or _fleet(scene)
    facts = fit(said, inner.width, text)
    colour = theme.accent if toast else theme.soft
    yield Text(inner.x, top + (LINE + 1) * text, facts, colour, text)


def _missing(scene: Scene, view: View) -> str:
    """Who is pinned and does not play, once agents are known at all."""
    gone = [name for name in view.pins if scene.agents and name not in scene.agents]
    return f"{', '.join(gone)} is pinned and silent: back as soon as it plays" if gone else ""


def _crowded(scene: Scene, layout: Layout) -> str:
    shown, there = len(layout.panels), len(scene.panels)
    return f"room for {shown} of {there}: a larger window shows more" if shown < there else ""


def _state(scene: Scene, theme: Theme, view: View) -> tuple[str, Colour]:
    if view.paused:
        return "paused  ·  Space goes on", theme.accent
    if not scene.connected:
        return "waiting", theme.accent
    if not scene.panels:
        return f"connected  ·  {scene.transport}", theme.soft
    if all(panel.stale for panel in scene.panels):
        return f"no new picture  ·  {scene.transport}", theme.alarm
    return f"live  ·  {scene.way}  ·  {scene.transport}", theme.soft


def _fleet(scene: Scene) -> str:
    if not scene.statuses:
        return "Watching never slows training, and closing this window never stops it."
    statuses = scene.statuses
    jobs = sum(len(one.peers) for one in statuses)
    agents = sum(one.agents for one in statuses)
    parts = [
        f"{jobs} {'job' if jobs == 1 else 'jobs'}",
        f"{agents} {'agent' if agents == 1 else 'agents'}",
        f"{sum(one.steps_per_s for one in statuses):,.0f} steps/s",
        f"{short(sum(one.steps for one in statuses))} steps",
        f"best score {max(one.best for one in statuses)}",
    ]
    return "  ·  ".join(parts)


def _news(scene: Scene, layout: Layout, theme: Theme) -> Iterator[Draw]:
    """Who would be next, and what happened last, newest first, as far as there is room."""
    text, rect = layout.text, layout.footer
    inner = Rect(rect.x + 4 * text, rect.y, rect.width - 8 * text, rect.height)
    lines = [(one, theme.soft) for one in _next(scene, inner.width, text)]
    lines += [(one, theme.faint) for one in reversed(scene.notes)]
    for index, (what, colour) in enumerate(lines[: max(0, rect.height // (LINE * text))]):
        y = rect.y + index * LINE * text
        yield Text(inner.x, y, fit(what, inner.width, text), colour, text)


def _next(scene: Scene, width: int, text: int) -> list[str]:
    """As many of those who wait as fit into one line."""
    line = "next"
    for name, score in scene.next_up:
        longer = f"{line}   {name} {score}"
        if measure(longer, text) > width:
            break
        line = longer
    return [line] if scene.next_up else []


def _waiting(
    scene: Scene, layout: Layout, size: tuple[int, int], theme: Theme, waiting: Waiting
) -> Iterator[Draw]:
    text = layout.text
    margin = max(12 * text, size[0] // 12)
    room = Rect(margin, layout.header.bottom, size[0] - 2 * margin, size[1])
    big = 2 if _how_it_goes(scene, waiting) else 5
    y = max(layout.header.bottom, size[1] // 5 if big > 2 else size[1] // 12)  # noqa: PLR2004
    yield Text(room.x, y, "Daddy", theme.ink, big * text)
    y += big * (HEIGHT + 4) * text
    for mark, what, colour in _steps(scene, waiting, theme):
        yield Text(room.x, y, mark, colour, text)
        for line in _wrap(what, room.width - 12 * text, text):
            yield Text(room.x + 12 * text, y, line, colour, text)
            y += (LINE + 2) * text
    caption, copy = _to_copy(scene, waiting)
    y += 6 * text
    if y + 4 * LINE * text < size[1]:  # else C copies it all the same
        yield Text(room.x, y, fit(caption, room.width, text), theme.soft, text)
        yield from _card(copy, Rect(room.x, y + (LINE + 1) * text, room.width, 0), text, theme)
    keys = fit(HINT, room.width, text)
    yield Text(room.x, size[1] - 12 * text, keys, theme.faint, text)


def _card(copy: str, rect: Rect, text: int, theme: Theme) -> Iterator[Draw]:
    """A framed line to copy, broken where it is too long."""
    lines = _wrap(copy, rect.width - 10 * text, text)
    height = ((len(lines) - 1) * LINE + HEIGHT + 10) * text
    yield Box(Rect(rect.x, rect.y, rect.width, height), theme.panel, theme.faint)
    for index, line in enumerate(lines):
        y = rect.y + (5 + index * LINE) * text
        yield Text(rect.x + 5 * text, y, line, theme.ink, text)


def _wrap(what: str, width: int, text: int) -> list[str]:
    lines = [""]
    for word in what.split(" "):
        longer = f"{lines[-1]} {word}".strip()
        if measure(longer, text) <= width or not lines[-1]:
            lines[-1] = longer
        else:
            lines.append(word)
    return [fit(line, width, text) for line in lines]


def _steps(scene: Scene, waiting: Waiting, theme: Theme) -> list[tuple[str, str, Colour]]:
    """What has worked so far, and what is missing."""
    done, now, later = ("✓", theme.soft), (">", theme.accent), ("·", theme.faint)
    seen = scene.connected or bool(scene.trouble)
    steps = [
        (done, f"listening on 127.0.0.1:{waiting.port}"),
        (done if seen else now, "ssh brings a relay here"),
        (done if scene.connected else now if seen else later, "the relay proves the token"),
        (now if scene.connected else later, "a learner plays"),
    ]
    lines = [(mark, what, colour) for (mark, colour), what in steps]
    if scene.trouble and not scene.connected:
        lines.append(("!", scene.trouble, theme.alarm))
    return lines + [("", line, theme.soft) for line in _how_it_goes(scene, waiting)]


def _how_it_goes(scene: Scene, waiting: Waiting) -> tuple[str, ...]:
    """What ``connect`` says, or what usually is wrong when nobody has knocked for long."""
    if scene.connected or scene.carrier:
        return () if scene.connected else scene.carrier
    if scene.trouble or scene.alone_s <= KNOCK_S:
        return ()
    return usual_causes(waiting.login, TUNNEL_PORT)


def _to_copy(scene: Scene, waiting: Waiting) -> tuple[str, str]:
    if scene.connected:
        return "Nothing plays yet. On the login node:", "run_controller status"
    if "token" in scene.trouble:
        return "Once, on this computer (the token stays private):", copy_line(waiting.login)
    caption = "Or by hand, in another" if scene.carrier else "In another"
    return f"{caption} terminal (C copies it):", waiting.ssh_line
