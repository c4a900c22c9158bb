"""Adapter for pygame: paints ``draw_list`` lists, and brings the person's keys and clicks.

The window belongs to the main thread; the network has its own. It is painted only where something
changed, at most 30 times a second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError
from Daddy.core.shared_types import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.viewer.clip_writer import Films
from Daddy.streaming.viewer.draw_list import (
    DEPTH,
    HEIGHT,
    THEMES,
    Box,
    Colour,
    Curve,
    Draw,
    Picture,
    Rect,
    Text,
    changed,
    extent,
    measure,
    unpacked,
)
from Daddy.streaming.viewer.key_bindings import Act, View, choose, focus, press, tick
from Daddy.streaming.viewer.view_model import Scene, Waiting
from Daddy.streaming.viewer.window_layout import draw, panel_at

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

_TEXTS_KEPT = 256
_FONT = str(
    distribution("matplotlib").locate_file("matplotlib/mpl-data/fonts/ttf/DejaVuSansMono.ttf")
)
"""The same on every machine, and every letter of one width."""
_POINTS, _ABOVE = 10, 2
"""The size at which letters have the width of ``drawing.ADVANCE``, and the rows above capitals."""


class Painter:
    """Keeps a surface up to date. Most of a window stays as it is, and is not touched."""

    def __init__(self) -> None:
        self._shown: Sequence[Draw] = ()
        self._extents: list[pygame.Rect] = []

    def update(self, surface: Any, things: Sequence[Draw]) -> list[Rect]:
        """Bring ``surface`` to ``things``, back to front; returns the places that changed."""
        places = changed(self._shown, things)
        if not places:
            return []
        self._shown, self._extents = things, self._extents_of(things)
        for place in places:
            surface.set_clip(place)
            there = pygame.Rect(place).collidelistall(self._extents)
            paint(surface, [things[one] for one in there])
        surface.set_clip(None)
        return list(places)

    def forget(self) -> None:
        """The next surface has nothing on it."""
        self._shown, self._extents = (), []

    def _extents_of(self, things: Sequence[Draw]) -> list[pygame.Rect]:
        """The extents of ``things`` as pygame's; those of things that stayed are taken over."""
        if len(things) != len(self._extents):
            return [pygame.Rect(extent(one)) for one in things]
        before = zip(things, self._shown, self._extents, strict=True)
        return [at if one is same else pygame.Rect(extent(one)) for one, same, at in before]


def paint(surface: Any, things: Iterable[Draw]) -> None:
    """Paint ``things`` in their order; a clip changes no pixel inside it."""
    for thing in things:
        _PAINTERS[type(thing)](surface, thing)


def save(surface: Any, path: Path) -> None:
    """Write a PNG file; one that is there is replaced whole."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".tmp-{path.stem}.png")
    pygame.image.save(surface, str(temp))
    temp.replace(path)


def _box(surface: Any, what: Box) -> None:
    """In fills: pygame's outlines come out otherwise where a clip cuts them."""
    x, y, wide, tall = what.rect
    surface.fill(what.border, what.rect)
    surface.fill(what.fill, (x + 1, y + 1, max(0, wide - 2), max(0, tall - 2)))


def _text(surface: Any, what: Text) -> None:
    surface.blit(_written(what.text, what.colour, what.scale), (what.x, what.y))


@lru_cache(_TEXTS_KEPT)
def _written(text: str, colour: Colour, scale: int) -> Any:
    """A text as large as its cells, whatever the font does beyond them."""
    cells = pygame.Surface((measure(text, scale), (HEIGHT + DEPTH) * scale), pygame.SRCALPHA)
    with contextlib.suppress(pygame.error):  # a text that is no wider than nothing
        cells.blit(_font(scale).render(text, True, colour), (0, -_ABOVE * scale))
    return cells


@lru_cache
def _font(scale: int) -> Any:
    pygame.font.init()
    return pygame.font.Font(_FONT, _POINTS * scale)


def _picture(surface: Any, what: Picture) -> None:
    size = (SCREEN_WIDTH, SCREEN_HEIGHT)
    image = pygame.image.frombuffer(unpacked(what.pixels), size, "P")
    image.set_palette([*what.shades, *[(0, 0, 0)] * (256 - len(what.shades))])
    surface.blit(pygame.transform.scale(image, what.rect[2:]), what.rect[:2])


def _curve(surface: Any, what: Curve) -> None:
    """On a sheet of its own first: a line that a clip cuts has other pixels."""
    left, top, *size = extent(what)
    sheet = pygame.Surface(size, pygame.SRCALPHA)
    points = [(x - left, y - top) for x, y in what.points]
    area = [*points, (points[-1][0], what.floor - top), (points[0][0], what.floor - top)]
    pygame.draw.polygon(sheet, what.area, area)
    pygame.draw.lines(sheet, what.colour, closed=False, points=points, width=what.width)
    surface.blit(sheet, (left, top))


_PAINTERS: dict[type, Callable[[Any, Any], None]] = {
    Box: _box,
    Text: _text,
    Picture: _picture,
    Curve: _curve,
}
_TOAST_S = 3.0


class Watcher:
    """Looks at scenes, presses keys. :meth:`close` finishes the films that were asked for."""

    def __init__(self, view: View, waiting: Waiting, clock: Clock) -> None:
        self.view = view
        self.films = Films(clock)
        self._waiting = waiting
        self._clock = clock
        self._scene: Scene | None = None
        self._toast, self._toast_until = "", 0.0

    def look(self, scene: Scene) -> None:
        """There is a new scene to see; while paused the one before stays."""
        now = self._clock.monotonic()
        self.view = tick(self.view, scene.agents, now)
        self.films.reel.see(((one.name, one.pixels) for one in scene.panels), now)
        if self.view.recording and self.films.full(now):
            self.press("r")
        if said := self.films.said():
            self.say(said)
        if self._scene is None or not self.view.paused:
            self._scene = scene

    def drawings(self, size: tuple[int, int]) -> list[Draw]:
        """The window of ``size`` pixels at this moment; empty before the first scene."""
        if self._scene is None:
            return []
        toast = self._toast if self._clock.monotonic() < self._toast_until else ""
        return draw(self._scene, size, self.view, self._waiting, toast)

    def press(self, key: str) -> Act | None:
        """A key; returns what only the window can do about it."""
        self.view, toast, act = press(self.view, key, self._names())
        if act in (Act.CLIP, Act.RECORD, Act.SAVE):
            name, theme = focus(self.view, self._names()), THEMES[self.view.theme]
            toast, act = self.films.take(act, name, theme), None
        if toast:
            self.say(toast)
        return act

    def click(self, at: tuple[int, int], size: tuple[int, int]) -> None:
        name = panel_at(self._scene, size, self.view, *at) if self._scene else ""
        if name:
            self.view = choose(self.view, name)

    def say(self, text: str) -> None:
        """A word in the header for three seconds."""
        self._toast, self._toast_until = text, self._clock.monotonic() + _TOAST_S

    def close(self) -> None:
        """End a recording and wait for what is being written."""
        if self.view.recording:
            self.press("r")
        self.films.close()

    def _names(self) -> list[str]:
        return [panel.name for panel in self._scene.panels] if self._scene else []


FPS = 30
_WAITING_S = 0.1
"""Between two looks while there is nobody to see: a hundredth of a core is enough to wait with."""


def save_picture(path: Path, scene: Scene, size: tuple[int, int], waiting: Waiting) -> None:
    """Paint ``scene`` into a PNG file; needs no display. Replaces the file whole."""
    surface = pygame.Surface(size)
    paint(surface, draw(scene, size, View(max(1, len(scene.panels))), waiting))
    save(surface, path)


class Window:
    """The viewer's window; :meth:`run` returns when it is closed."""

    def __init__(self, size: tuple[int, int], view: View, waiting: Waiting, clock: Clock) -> None:
        """Open the window; NetworkError where there is no display."""
        title = "Daddy: the best agents, live"
        self._surface = _on_display(title, size, pygame.RESIZABLE, "use --headless")
        self._painter = Painter()
        self._watcher = Watcher(view, waiting, clock)
        self._leave = False
        self._waiting = waiting
        self._clock = clock

    def run(
        self,
        scene_of: Callable[[int], Scene],
        wish: Callable[[int, tuple[str, ...]], None],
        each_second: Callable[[Scene], None],
        stop: threading.Event,
    ) -> None:
        """Show ``scene_of(top_k)`` until closed or ``stop``; ``wish`` is told of another wish."""
        next_second, asked, pause = 0.0, self._watcher.view, 1 / FPS
        try:
            while not self._clock.wait(stop, pause) and not self._leave:
                scene = scene_of(asked.top_k)
                self._show(scene)
                pause = 1 / FPS if scene.panels else _WAITING_S
                self._listen()
                view = self._watcher.view
                if (view.top_k, view.wanted) != (asked.top_k, asked.wanted):
                    wish(view.top_k, view.wanted)
                asked = view
                if self._clock.monotonic() >= next_second:
                    next_second = self._clock.monotonic() + 1.0
                    each_second(scene)
        finally:
            self._watcher.close()
            pygame.display.quit()

    def _show(self, scene: Scene) -> None:
        self._watcher.look(scene)
        things = self._watcher.drawings(self._surface.get_size())
        if places := self._painter.update(self._surface, things):
            pygame.display.update(places)

    def _listen(self) -> None:
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                self._leave = True
            elif event.type == pygame.KEYDOWN:
                self._press(_key_name(event))
            elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
                self._watcher.click(event.pos, self._surface.get_size())
            elif event.type in (pygame.VIDEORESIZE, pygame.VIDEOEXPOSE):
                self._surface = pygame.display.get_surface()
                self._painter.forget()

    def _press(self, key: str) -> None:
        act = self._watcher.press(key)
        if act is Act.LEAVE:
            self._leave = True
        elif act is Act.COPY:
            line = self._waiting.ssh_line
            with contextlib.suppress(pygame.error):
                pygame.scrap.init()
                pygame.scrap.put(pygame.SCRAP_TEXT, line.encode())
            print(line, flush=True)
            self._watcher.say("copied, and printed to the terminal")
        elif act is Act.SHOT:
            path = self._watcher.films.next_path("png")
            save(self._surface, path)
            self._watcher.say(f"saved {path}")


def _on_display(caption: str, size: tuple[int, int], flags: int, otherwise: str) -> Any:
    """The surface of a window; NetworkError with the remedy ``otherwise`` without a display.

    X11 takes pixels as they are. SDL would go through OpenGL, and without a GPU a program then
    paints every picture once more: half of what watching costs.
    """
    try:
        pygame.display.init()
        pygame.display.set_caption(caption)
        if pygame.display.get_driver() == "x11":
            os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        return pygame.display.set_mode(size, flags)
    except pygame.error as error:
        raise NetworkError(f"no display ({error})", otherwise) from error


def _key_name(event: Any) -> str:
    """The character that a key writes if it means something, else its name: ``+``, ``f12``."""
    written = str(getattr(event, "unicode", ""))
    named = str(pygame.key.name(event.key)).strip("[]").replace("enter", "return")
    return written if written in {"+", "-", "?"} else named


class Handheld:
    """A window with nothing in it but the game, and the keys of the person before it."""

    def __init__(self, caption: str, scale: int = 4) -> None:
        """Open it; NetworkError where there is no display."""
        size = (SCREEN_WIDTH * scale, SCREEN_HEIGHT * scale)
        self._surface = _on_display(caption, size, 0, "play into a file: --gif FILE")
        self.caption, self._rect = caption, Rect(0, 0, *size)
        self.held: set[str] = set()
        """Names of the keys that are down, as pygame has them: left, return, z."""
        self.closed = False

    def show(self, pixels: bytes) -> list[str]:
        """Show a picture (2 bits a pixel); names of the keys pressed since the last one."""
        pygame.display.set_caption(self.caption)
        paint(self._surface, [Picture(self._rect, pixels, THEMES[0].shades)])
        pygame.display.flip()
        struck = []
        for event in pygame.event.get((pygame.QUIT, pygame.KEYDOWN, pygame.KEYUP)):
            if event.type == pygame.QUIT:
                self.closed = True
            elif event.type == pygame.KEYDOWN:
                struck.append(pygame.key.name(event.key))
                self.held.add(struck[-1])
            else:
                self.held.discard(pygame.key.name(event.key))
        return struck

    def close(self) -> None:
        pygame.display.quit()
