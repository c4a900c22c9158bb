"""Shows a recording in a window at the pace of the person before it, as far as it is verified.

Owns pace, pause and where to go. Every frame of the game is drawn at its own speed; faster, as many
as sixty a second. Nothing is shown that the scout has not verified.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final, Protocol

from Daddy.core.clock import Clock
from Daddy.pokemon.emulator import FRAMES_PER_SECOND
from Daddy.pokemon.recordings.verifying_player import time_text

if TYPE_CHECKING:
    from Daddy.pokemon.recordings.verifying_player import ReadAhead, VerifyingPlayer

HELP: Final = (
    "space pauses; [ slower, ] faster; left and right: 10 s back and ahead; N and P: the next "
    "milestone and the one before; Home: from the start; Q leaves"
)
_PACES = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
_LEAP = round(10 * FRAMES_PER_SECOND)
_BEFORE = round(3 * FRAMES_PER_SECOND)
"""Frames before a milestone at which to begin to look."""
_STILL_S = 1 / 30
_LEAVE = frozenset({"q", "escape"})


class Window(Protocol):
    """What shows (`streaming.viewer.Handheld`)."""

    closed: bool
    caption: str

    def show(self, pixels: bytes) -> list[str]: ...


class Projector:
    """One deck, the scout ahead of it, and a window."""

    def __init__(
        self,
        scout: ReadAhead,
        deck: VerifyingPlayer,
        window: Window,
        clock: Clock,
        pace: float = 1.0,
    ) -> None:
        self._scout, self._deck, self._window, self._clock = scout, deck, window, clock
        self._title, self.pace, self.paused = window.caption, pace, False
        self._goal: int | None = None
        self._seen = 0
        self._due = clock.monotonic()
        self._never = threading.Event()

    def run(self, first: int, seconds: float) -> None:
        """Show from a frame on until the window is closed, or for so many seconds of the game.

        Where verifying failed, or all was shown, the last picture stays.
        """
        self._goal = first
        most = seconds * FRAMES_PER_SECOND
        while not self._window.closed and self._seen < most:
            if self._goal is not None and not self._is_early(self._goal):
                self._go(self._goal)
            elif self._goal is not None or self._deck.frames >= self._scout.report.frames:
                self._stay()
            else:
                self._deck.step()

    def _is_early(self, goal: int) -> bool:
        """Whether the scout has not been there, and still may come there."""
        ended = self._scout.over or self._scout.failure is not None
        return goal > self._scout.report.frames and not ended

    def _go(self, goal: int) -> None:
        """To the operation that ends at a frame or just after it, unseen."""
        self._deck.watch(None, 1)
        goal = max(0, min(goal, self._scout.report.frames))
        if not self._deck.frames <= goal < self._deck.frames + _LEAP:
            self._scout.send(self._deck, goal)
        while self._deck.frames < goal:
            self._deck.step()
        self._goal, self._due = None, self._clock.monotonic()
        self._deck.watch(self._frame, 1)

    def _frame(self) -> None:
        """After each frame: draw it when it is due, and wait; not at all on the way out."""
        if self._window.closed or self._goal is not None:
            return
        self._seen += 1
        if self._seen % max(1, round(self.pace)) == 0:
            self._draw("")
        while self.paused and self._goal is None and not self._window.closed:
            self._stay()
        pause = 1 / FRAMES_PER_SECOND / self.pace
        self._due = max(self._due + pause, self._clock.monotonic())
        self._clock.wait(self._never, self._due - self._clock.monotonic())

    def _stay(self) -> None:
        """The picture that stands, while nothing can or shall be played."""
        if self.paused:
            why = "paused"
        elif self._scout.failure is not None:
            why = "not verified from here on"
        else:
            why = "the end" if self._scout.over and self._goal is None else "verifying"
        self._draw(why)
        self._clock.wait(self._never, _STILL_S)

    def _draw(self, why: str) -> None:
        last = [name for name, at in self._scout.report.reached.items() if at <= self._deck.frames]
        pace = "" if self.pace == 1 else f"{self.pace:g} x"
        said = (self._title, time_text(self._deck.frames), *last[-1:], pace, why)
        self._window.caption = "  ·  ".join(filter(None, said))
        for key in self._window.show(self._deck.picture()):
            self._strike(key)

    def _strike(self, key: str) -> None:
        """Do what a key means."""
        here = self._deck.frames
        if key in _LEAVE:
            self._window.closed = True
        elif key == "space":
            self.paused = not self.paused
        elif key == "[":
            self.pace = max((one for one in _PACES if one < self.pace), default=self.pace)
        elif key == "]":
            self.pace = min((one for one in _PACES if one > self.pace), default=self.pace)
        elif key in ("left", "right", "home"):
            self._goal = {"left": max(0, here - _LEAP), "right": here + _LEAP, "home": 0}[key]
        elif key in ("n", "p"):
            self._goal = self._milestone(here, ahead=key == "n")

    def _milestone(self, here: int, *, ahead: bool) -> int | None:
        """Shortly before the next milestone, or the one before; None where there is none."""
        places = [max(0, at - _BEFORE) for at in self._scout.report.reached.values()]
        if ahead:
            return min((at for at in places if at > here), default=None)
        return max((at for at in places if at < here - _BEFORE), default=None)
