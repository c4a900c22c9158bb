"""The person before the window: what they look at, what they were told, what they keep.

Everything of a window but the window: ``viewer.py`` brings the keys and paints what is to be seen.
"""

from __future__ import annotations

from Daddy.core.clock import Clock
from Daddy.streaming.home.scene import Scene
from Daddy.streaming.show.drawing import THEMES, Draw
from Daddy.streaming.show.films import Films
from Daddy.streaming.show.keys import Act, View, choose, focus, press, tick
from Daddy.streaming.show.window import Waiting, draw, panel_at

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

    @property
    def wish(self) -> tuple[int, tuple[str, ...]]:
        """How many agents are to be shown, and who whatever their rank."""
        return self.view.top_k, self.view.wanted

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
        """A click at a point of the window."""
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
