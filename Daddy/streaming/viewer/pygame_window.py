"""Adapter for pygame: paints ``draw_list`` items, and reads keys and clicks.

The window runs on the main thread and the network on another. At most 30 times a second the window
repaints its changed areas.
"""

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
from Daddy.streaming.viewer import key_bindings as keys
from Daddy.streaming.viewer.clip_writer import ClipWriter
from Daddy.streaming.viewer.compose_window import draw_window, find_panel_at
from Daddy.streaming.viewer.draw_list import (
    DEPTH,
    HEIGHT,
    THEMES,
    Box,
    Colour,
    Curve,
    GamePicture,
    Item,
    Rect,
    Text,
    bounding_box,
    changed_areas,
    text_width,
    unpack_pixels,
)
from Daddy.streaming.viewer.view_model import Scene, TunnelInfo

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

_TEXTS_KEPT = 256
_FONT = str(
    distribution("matplotlib").locate_file("matplotlib/mpl-data/fonts/ttf/DejaVuSansMono.ttf")
)
"""The font file of matplotlib, which is the same on every machine; its letters have one width."""
_POINTS, _ABOVE = 10, 2
"""Size at which letters are ``draw_list.ADVANCE`` wide, and the rows above capital letters."""


class Painter:
    """Keeps a pygame surface up to date by repainting the areas that changed."""

    def __init__(self) -> None:
        self._shown: Sequence[Item] = ()
        self._boxes: list[pygame.Rect] = []

    def update_surface(self, surface: Any, items: Sequence[Item]) -> list[Rect]:
        """Paint ``items``, back to front, onto ``surface``; return the changed areas."""
        areas = changed_areas(self._shown, items)
        if not areas:
            return []
        self._shown, self._boxes = items, self._boxes_of(items)
        for area in areas:
            surface.set_clip(area)
            touched = pygame.Rect(area).collidelistall(self._boxes)
            paint_items(surface, [items[index] for index in touched])
        surface.set_clip(None)
        return list(areas)

    def forget_surface(self) -> None:
        """Make the next update repaint all items, because the surface is a new one."""
        self._shown, self._boxes = (), []

    def _boxes_of(self, items: Sequence[Item]) -> list[pygame.Rect]:
        """Return the items' bounding boxes; reuse boxes of items that stayed in their place."""
        if len(items) != len(self._boxes):
            return [pygame.Rect(bounding_box(item)) for item in items]
        before = zip(items, self._shown, self._boxes, strict=True)
        return [box if new is old else pygame.Rect(bounding_box(new)) for new, old, box in before]


def paint_items(surface: Any, items: Iterable[Item]) -> None:
    """Paint ``items`` in order onto ``surface``; pixels inside its clip do not depend on it."""
    for item in items:
        _PAINTERS[type(item)](surface, item)


def save_png(surface: Any, path: Path) -> None:
    """Write ``surface`` as a PNG file, atomically; make missing folders."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temp = path.with_name(f".tmp-{path.stem}.png")
    pygame.image.save(surface, str(temp))
    temp.replace(path)


def _paint_box(surface: Any, box: Box) -> None:
    """Paint a box as two fills: pygame's outlines change at the edge of a clip."""
    x, y, wide, tall = box.rect
    surface.fill(box.border, box.rect)
    surface.fill(box.fill, (x + 1, y + 1, max(0, wide - 2), max(0, tall - 2)))


def _paint_text(surface: Any, text: Text) -> None:
    surface.blit(_render_text(text.text, text.colour, text.scale), (text.x, text.y))


@lru_cache(_TEXTS_KEPT)
def _render_text(text: str, colour: Colour, scale: int) -> Any:
    """Render a text exactly as large as its cells; cut off font pixels beyond the cells."""
    cells = pygame.Surface((text_width(text, scale), (HEIGHT + DEPTH) * scale), pygame.SRCALPHA)
    with contextlib.suppress(pygame.error):  # pygame refuses a surface of zero width
        cells.blit(_font(scale).render(text, True, colour), (0, -_ABOVE * scale))
    return cells


@lru_cache
def _font(scale: int) -> Any:
    pygame.font.init()
    return pygame.font.Font(_FONT, _POINTS * scale)


def _paint_picture(surface: Any, picture: GamePicture) -> None:
    size = (SCREEN_WIDTH, SCREEN_HEIGHT)
    image = pygame.image.frombuffer(unpack_pixels(picture.pixels), size, "P")
    image.set_palette([*picture.shades, *[(0, 0, 0)] * (256 - len(picture.shades))])
    surface.blit(pygame.transform.scale(image, picture.rect[2:]), picture.rect[:2])


def _paint_curve(surface: Any, curve: Curve) -> None:
    """Paint a curve onto a surface of its own first: pygame's lines change at a clip's edge."""
    left, top, *size = bounding_box(curve)
    own = pygame.Surface(size, pygame.SRCALPHA)
    points = [(x - left, y - top) for x, y in curve.points]
    area = [*points, (points[-1][0], curve.floor - top), (points[0][0], curve.floor - top)]
    pygame.draw.polygon(own, curve.area, area)
    pygame.draw.lines(own, curve.colour, closed=False, points=points, width=curve.width)
    surface.blit(own, (left, top))


_PAINTERS: dict[type, Callable[[Any, Any], None]] = {
    Box: _paint_box,
    Text: _paint_text,
    GamePicture: _paint_picture,
    Curve: _paint_curve,
}
_TOAST_S = 3.0
Size = tuple[int, int]


class ViewerState:
    """Holds the state of a window: scene, view and clips; :meth:`close` waits for clips."""

    def __init__(self, view: keys.ViewOptions, tunnel: TunnelInfo, clock: Clock) -> None:
        self.view = view
        self.clips = ClipWriter(clock)
        self._tunnel = tunnel
        self._clock = clock
        self._scene: Scene | None = None
        self._toast, self._toast_until = "", 0.0

    def show_scene(self, scene: Scene) -> None:
        """Store the newest scene; while the view is paused the old scene stays."""
        now = self._clock.monotonic()
        self.view = keys.advance_tour(self.view, scene.agents, now)
        self.clips.buffer.add_pictures(((panel.name, panel.pixels) for panel in scene.panels), now)
        if self.view.recording and self.clips.is_full(now):
            self.press_key("r")
        if outcome := self.clips.take_outcome():
            self.show_toast(outcome)
        if self._scene is None or not self.view.paused:
            self._scene = scene

    def draw_items(self, size: Size) -> list[Item]:
        """Return the items of a window of ``size`` pixels; empty before the first scene."""
        if self._scene is None:
            return []
        toast = self._toast if self._clock.monotonic() < self._toast_until else ""
        return draw_window(self._scene, size, self.view, self._tunnel, toast)

    def press_key(self, key: str) -> keys.WindowAction | None:
        """Apply a key; return the action that only the window can carry out."""
        self.view, toast, action = keys.apply_key(self.view, key, self._names())
        if action in (keys.WindowAction.CLIP, keys.WindowAction.RECORD, keys.WindowAction.SAVE):
            name, theme = keys.focused_agent(self.view, self._names()), THEMES[self.view.theme]
            toast, action = self.clips.do_action(action, name, theme), None
        if toast:
            self.show_toast(toast)
        return action

    def click_at(self, at: tuple[int, int], size: Size) -> None:
        name = find_panel_at(self._scene, size, self.view, *at) if self._scene else ""
        if name:
            self.view = keys.click_panel(self.view, name)

    def show_toast(self, text: str) -> None:
        """Show a sentence in the header for three seconds."""
        self._toast, self._toast_until = text, self._clock.monotonic() + _TOAST_S

    def close(self) -> None:
        """End a recording and wait until all clips are written."""
        if self.view.recording:
            self.press_key("r")
        self.clips.close()

    def _names(self) -> list[str]:
        return [panel.name for panel in self._scene.panels] if self._scene else []


FPS = 30
_WAITING_S = 0.1
"""Seconds between two scenes without an agent; this takes about a hundredth of a core."""


def save_picture(path: Path, scene: Scene, size: Size, tunnel: TunnelInfo) -> None:
    """Paint ``scene`` into a PNG file, atomically; needs no display."""
    surface = pygame.Surface(size)
    view = keys.ViewOptions(max(1, len(scene.panels)))
    paint_items(surface, draw_window(scene, size, view, tunnel))
    save_png(surface, path)


class ViewerWindow:
    """Shows the viewer's window; :meth:`run_window` returns when it is closed."""

    def __init__(
        self, size: Size, view: keys.ViewOptions, tunnel: TunnelInfo, clock: Clock
    ) -> None:
        """Open the window. Raise NetworkError without a display."""
        title = "Daddy: the best agents, live"
        self._surface = _open_display(title, size, pygame.RESIZABLE, "use --headless")
        self._painter = Painter()
        self._state = ViewerState(view, tunnel, clock)
        self._leave = False
        self._tunnel = tunnel
        self._clock = clock

    def run_window(
        self,
        scene_of: Callable[[int], Scene],
        subscribe: Callable[[int, tuple[str, ...]], None],
        each_second: Callable[[Scene], None],
        stop: threading.Event,
    ) -> None:
        """Show ``scene_of(top_k)`` until closed or ``stop``; call ``subscribe`` on changes."""
        next_second, asked, pause = 0.0, self._state.view, 1 / FPS
        try:
            while not self._clock.wait(stop, pause) and not self._leave:
                scene = scene_of(asked.top_k)
                self._paint_scene(scene)
                pause = 1 / FPS if scene.panels else _WAITING_S
                self._handle_events()
                view = self._state.view
                if (view.top_k, view.requested_agents) != (asked.top_k, asked.requested_agents):
                    subscribe(view.top_k, view.requested_agents)
                asked = view
                if self._clock.monotonic() >= next_second:
                    next_second = self._clock.monotonic() + 1.0
                    each_second(scene)
        finally:
            self._state.close()
            pygame.display.quit()

    def _paint_scene(self, scene: Scene) -> None:
        self._state.show_scene(scene)
        items = self._state.draw_items(self._surface.get_size())
        if places := self._painter.update_surface(self._surface, items):
            pygame.display.update(places)

    def _handle_events(self) -> None:
        for event in pygame.event.get():
            if event.type == pygame.QUIT:
                self._leave = True
            elif event.type == pygame.KEYDOWN:
                self._press(_key_name(event))
            elif event.type == pygame.MOUSEBUTTONDOWN and event.button == 1:
                self._state.click_at(event.pos, self._surface.get_size())
            elif event.type in (pygame.VIDEORESIZE, pygame.VIDEOEXPOSE):
                self._surface = pygame.display.get_surface()
                self._painter.forget_surface()

    def _press(self, key: str) -> None:
        action = self._state.press_key(key)
        if action is keys.WindowAction.LEAVE:
            self._leave = True
        elif action is keys.WindowAction.COPY:
            line = self._tunnel.line
            with contextlib.suppress(pygame.error):
                pygame.scrap.init()
                pygame.scrap.put(pygame.SCRAP_TEXT, line.encode())
            print(line, flush=True)
            self._state.show_toast("copied, and printed to the terminal")
        elif action is keys.WindowAction.SHOT:
            path = self._state.clips.next_path("png")
            save_png(self._surface, path)
            self._state.show_toast(f"saved {path}")


def _open_display(caption: str, size: Size, flags: int, remedy: str) -> Any:
    """Open a window and return its surface; NetworkError with ``remedy`` without a display.

    On X11, SDL is told to send pixels without OpenGL: without a GPU, OpenGL would paint every
    picture a second time and take half of the viewer's CPU time.
    """
    try:
        pygame.display.init()
        pygame.display.set_caption(caption)
        if pygame.display.get_driver() == "x11":
            os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
        return pygame.display.set_mode(size, flags)
    except pygame.error as error:
        raise NetworkError(f"no display for a window ({error})", remedy) from error


def _key_name(event: Any) -> str:
    """Return ``+``, ``-`` or ``?`` if the key writes that character; or pygame's name."""
    character = str(getattr(event, "unicode", ""))
    name = str(pygame.key.name(event.key)).strip("[]").replace("enter", "return")
    return character if character in {"+", "-", "?"} else name


class GameWindow:
    """Shows only the game's picture, and collects the person's keys."""

    def __init__(self, caption: str) -> None:
        """Open the window. Raise NetworkError without a display."""
        size = (4 * SCREEN_WIDTH, 4 * SCREEN_HEIGHT)
        self._surface = _open_display(caption, size, 0, "play into a file: --gif FILE")
        self.caption, self._rect = caption, Rect(0, 0, *size)
        self.held: set[str] = set()
        """Pygame's names of the keys that are held down: left, return, z."""
        self.closed = False

    def show_picture(self, pixels: bytes) -> list[str]:
        """Show a picture (2 bits a pixel); return names of keys pressed since the last call."""
        pygame.display.set_caption(self.caption)
        paint_items(self._surface, [GamePicture(self._rect, pixels, THEMES[0].shades)])
        pygame.display.flip()
        pressed = []
        for event in pygame.event.get((pygame.QUIT, pygame.KEYDOWN, pygame.KEYUP)):
            if event.type == pygame.QUIT:
                self.closed = True
            elif event.type == pygame.KEYDOWN:
                pressed.append(pygame.key.name(event.key))
                self.held.add(pressed[-1])
            else:
                self.held.discard(pygame.key.name(event.key))
        return pressed

    def close(self) -> None:
        pygame.display.quit()
