"""Door to pygame's windows: what is shown in them, and what the person before them presses.

The window belongs to the main thread; the network has its own. It is painted only when something
changed, at most 30 times a second.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError
from Daddy.core.vocabulary import SCREEN_HEIGHT, SCREEN_WIDTH
from Daddy.streaming.home.scene import Scene
from Daddy.streaming.show.drawing import THEMES, Picture
from Daddy.streaming.show.keys import Act, View
from Daddy.streaming.show.layout import Rect
from Daddy.streaming.show.painter import Painter, paint, save
from Daddy.streaming.show.watcher import Watcher
from Daddy.streaming.show.window import Waiting, draw

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
import pygame

FPS = 30
_WAITING_S = 0.1
"""Between two looks while there is nobody to see: a hundredth of a core is enough to wait with."""
_SHOT_EVERY_S = 5.0


def save_picture(
    path: Path, scene: Scene, size: tuple[int, int], waiting: Waiting, view: View | None = None
) -> None:
    """Paint ``scene`` into a PNG file; needs no display. Replaces the file whole."""
    surface = pygame.Surface(size)
    view = view or View(max(1, len(scene.panels)))
    paint(surface, draw(scene, size, view, waiting))
    save(surface, path)


class Window:
    """The viewer's window; :meth:`run` returns when it is closed."""

    def __init__(
        self,
        size: tuple[int, int],
        view: View,
        waiting: Waiting,
        clock: Clock,
        screenshot: Path | None = None,
    ) -> None:
        """Open the window; ``pygame.error`` where there is no display."""
        self._surface = _on_display("Daddy: the best agents, live", size, pygame.RESIZABLE)
        self._painter = Painter()
        self._watcher = Watcher(view, waiting, clock)
        self._leave = False
        self._waiting = waiting
        self._clock = clock
        self._screenshot = screenshot
        self._shot_at = 0.0

    def run(
        self,
        scene_of: Callable[[int], Scene],
        wish: Callable[[int, tuple[str, ...]], None],
        each_second: Callable[[Scene], None],
        stop: threading.Event,
    ) -> None:
        """Show ``scene_of(top_k)`` until the window is closed or ``stop`` is set.

        ``wish`` is told when the person wants another number of agents, or certain ones.
        """
        next_second, asked, pause = 0.0, self._watcher.wish, 1 / FPS
        try:
            while not self._clock.wait(stop, pause) and not self._leave:
                scene = scene_of(asked[0])
                self._show(scene)
                pause = 1 / FPS if scene.panels else _WAITING_S
                self._listen()
                if self._watcher.wish != asked:
                    asked = self._watcher.wish
                    wish(*asked)
                if self._clock.monotonic() >= next_second:
                    next_second = self._clock.monotonic() + 1.0
                    each_second(scene)
                    self._keep_screenshot(scene)
        finally:
            self._watcher.close()
            if self._screenshot and self._shot_at:
                save(self._surface, self._screenshot)
            pygame.display.quit()

    def _show(self, scene: Scene) -> None:
        self._watcher.look(scene)
        things = self._watcher.drawings(self._surface.get_size())
        if places := self._painter.update(self._surface, things):
            pygame.display.update(places)

    def _keep_screenshot(self, scene: Scene) -> None:
        now = self._clock.monotonic()
        playing = any(panel.pixels for panel in scene.panels)
        if self._screenshot and playing and now - self._shot_at >= _SHOT_EVERY_S:
            self._shot_at = now
            save(self._surface, self._screenshot)

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
            self._copy()
        elif act is Act.SHOT:
            path = self._watcher.films.next_path("png")
            save(self._surface, path)
            self._watcher.say(f"saved {path}")

    def _copy(self) -> None:
        with contextlib.suppress(pygame.error):
            pygame.scrap.init()
            pygame.scrap.put(pygame.SCRAP_TEXT, self._waiting.ssh_line.encode())
        print(self._waiting.ssh_line, flush=True)
        self._watcher.say("copied, and printed to the terminal")


def _on_display(caption: str, size: tuple[int, int], flags: int = 0) -> Any:
    """The surface of a window; ``pygame.error`` where there is no display.

    X11 takes pixels as they are. SDL would go through OpenGL, and without a GPU a program then
    paints every picture once more: half of what watching costs.
    """
    pygame.display.init()
    pygame.display.set_caption(caption)
    if pygame.display.get_driver() == "x11":
        os.environ.setdefault("SDL_FRAMEBUFFER_ACCELERATION", "0")
    return pygame.display.set_mode(size, flags)


def _key_name(event: Any) -> str:
    """What the key writes where that means something, else what is on it: ``+``, ``f12``."""
    written = str(getattr(event, "unicode", ""))
    named = str(pygame.key.name(event.key)).strip("[]").replace("enter", "return")
    return written if written in {"+", "-", "?"} else named


def open_window(
    size: tuple[int, int], view: View, waiting: Waiting, clock: Clock, screenshot: Path | None
) -> Window:
    """A window, or DaddyError where there is no display to open it on."""
    try:
        return Window(size, view, waiting, clock, screenshot)
    except pygame.error as error:
        raise NetworkError(f"no display ({error})", "use --headless") from error


class Handheld:
    """A window with nothing in it but the game, and the keys of the person before it."""

    def __init__(self, caption: str, scale: int = 4) -> None:
        """Open it; NetworkError where there is no display."""
        size = (SCREEN_WIDTH * scale, SCREEN_HEIGHT * scale)
        try:
            self._surface = _on_display(caption, size)
        except pygame.error as error:
            raise NetworkError(f"no display ({error})", "play into a file: --gif FILE") from error
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
        """Close the window."""
        pygame.display.quit()
