"""Plays a route by rules: small steps, each a closed loop over RAM with a bound and a reason.

Nothing is timed by counting frames and no file is needed: every press follows from a look. Promises
to end: a step that gets nowhere is a StuckError that says which, where, and what was seen.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import cycle
from typing import Protocol

from Daddy.core.errors import RomError
from Daddy.pokemon.starts.ground import Cell, Ground
from Daddy.pokemon.starts.route import (
    Begin,
    Choose,
    Go,
    Read,
    Route,
    SetOptions,
    Step,
    Talk,
    Title,
)
from Daddy.pokemon.starts.situation import STEERING, Menu, Situation, read_situation

PRESSES = 1_500
"""Keys that one step may take; the longest of the real game's takes a few hundred."""
_PAUSE = 8
"""Frames between two looks while the game goes on by itself."""
_CALM_LOOKS = 3
"""So often in a row the player must be free: scripts let go for a moment between two scenes."""
_FLEE = ("b", "down", "right", "a")
"""Closes a text, then the lower right of a fight's menu: away. On the cartridge B alone does it."""
_ANY_SIZE = 256
_TOP_LIST = 1
"""The last entry of the list behind the title: a new game, options."""
_TEXT_ROW, _ANIMATION_ROW, _STYLE_ROW = 3, 8, 13
_FAST, _TEXT_SPEED, _SET_STYLE, _NO_ANIMATION = 1, 0b1111, 1 << 6, 1 << 7
_MENU_LOOKS = 30
"""Looks that a menu gets to appear before the key that calls for it is pressed again."""
_FORGIVEN = 3
"""So often all closed ways are tried again: people have moved away by then, or never will."""
_TURNS = 2
"""Presses that may pass before a way counts as closed: the first may only turn the player."""


class StuckError(RomError):
    """A step of a route got nowhere."""


class Console(Protocol):
    """What the driver needs of an emulator."""

    def press(self, button: str) -> None: ...
    def wait(self, frames: int) -> None: ...
    def ram(self, blocks: tuple[tuple[int, int], ...]) -> bytes | bytearray: ...


class Driver:
    """Steers one console; `real`: Red or Blue, else the cartridge."""

    def __init__(self, console: Console, real: bool) -> None:
        self._console = console
        self._real = real
        self._left = PRESSES
        self._flight = cycle(_FLEE)
        self._steps: dict[type[Step], Callable[..., None]] = {
            Go: self._go, Talk: self._talk, Read: self._read, Title: self._title,
            Choose: self._choose, SetOptions: self._set_options, Begin: self._begin,
        }  # fmt: skip

    def drive(self, route: Route) -> None:
        """Take every step and look whether the route ends as it says. StuckError."""
        for number, step in enumerate(route.steps, 1):
            self._left = PRESSES
            try:
                self._steps[type(step)](step)
            except StuckError as error:
                where = f"step {number} of {len(route.steps)}, {step}, at {self._place()}"
                raise StuckError(f"{where}: {error.message}") from error
        self._left = PRESSES
        now = self._settle("b")
        missing = [event for event in route.holds if not now.has(event, self._real)]
        if missing or now.progress.map_id != route.there:
            lacking = f" without {', '.join(missing)}" if missing else ""
            raise StuckError(f"the route ended at {self._place()}{lacking}")

    def _look(self) -> Situation:
        return read_situation(self._console.ram(STEERING))

    def _place(self) -> str:
        return self._look().place(self._real)

    def _press(self, button: str | None) -> Situation:
        """One key (None: only time) and what came of it; StuckError when the step had too many."""
        self._left -= 1
        if self._left < 0:
            raise StuckError(f"nothing came of {PRESSES} keys")
        if button is None:
            self._console.wait(_PAUSE)
        else:
            self._console.press(button)
        return self._look()

    def _react(self, now: Situation, button: str) -> Situation:
        """Whatever goes on without us, a bit further: flee, fight, read, or wait."""
        if now.progress.battle == 1:
            return self._press(next(self._flight))
        if now.progress.battle:
            return self._press("a")
        return self._press(button if now.progress.text_box else None)

    def _settle(self, button: str) -> Situation:
        """Until the player is free and stays so; texts are closed with `button`."""
        calm = 0
        now = self._look()
        while calm < _CALM_LOOKS:
            calm = calm + 1 if now.free else 0
            now = self._press(None) if now.free else self._react(now, button)
        return now

    def _read(self, step: Read) -> None:
        self._until(step.until, lambda now: self._react(now, step.button))

    def _until(self, what: str, act: Callable[[Situation], Situation]) -> None:
        now = self._look()
        while not now.has(what, self._real):
            now = act(now)

    def _talk(self, step: Talk) -> None:
        def speak(now: Situation) -> Situation:
            if not now.free:
                return self._react(now, "a")
            return self._press("a" if now.facing == step.toward else step.toward)

        self._until(step.until, speak)

    def _go(self, step: Go) -> None:
        """What leads on from a cell may take its time: a scene, a door's darkness."""
        now = self._settle("b")
        here, goal, forgiven = now.progress.map_id, Cell(step.y, step.x), 0
        ground = Ground(now.rows or _ANY_SIZE, now.columns or _ANY_SIZE, now.doors)
        while not (now.cell == goal and step.to is None):
            button = ground.way(now.cell, goal)
            if button is not None:
                now = self._step(now, button, ground)
            elif now.cell == goal:
                now = self._settle("b")
            elif forgiven == _FORGIVEN:
                raise StuckError(f"found no way to ({step.x}, {step.y})")
            else:
                forgiven += 1
                ground.reopen()
                now = self._press(None)
            if now.progress.map_id == step.to:
                return
            if now.progress.map_id != here:
                raise StuckError(f"was carried off to map {now.progress.map_id}")

    def _step(self, before: Situation, button: str, ground: Ground) -> Situation:
        """One cell, or the knowledge that this way is closed."""
        for _ in range(_TURNS):
            self._press(button)
            now = self._settle("b")
            moved = now.cell != before.cell or now.progress.map_id != before.progress.map_id
            if moved:
                return now
        ground.close(before.cell, button)
        return now

    def _title(self, _: Title) -> None:
        self._call_menu("start", _TOP_LIST)

    def _call_menu(self, button: str, last: int) -> None:
        """Press `button` until the list of `last` + 1 entries is up; seldom, as it takes time."""
        while not _is_list(self._look().menu, last):
            now = self._press(button)
            for _ in range(_MENU_LOOKS):
                now = now if _is_list(now.menu, last) else self._press(None)

    def _choose(self, step: Choose) -> None:
        """Read on to the list; its cursor begins at the top, which tells it from one before it."""
        now = self._look()
        while not (_is_list(now.menu, step.last) and now.menu.entry == 0):
            now = self._press(None if step.last == _TOP_LIST else "a")
        now = self._press(None)
        while now.menu.entry != step.entry:
            now = self._press("down" if now.menu.entry < step.entry else "up")
        self._press("a")

    def _set_options(self, _: SetOptions) -> None:
        self._toggle(_TEXT_ROW, "left", lambda now: now.options & _TEXT_SPEED == _FAST)
        self._toggle(_ANIMATION_ROW, "right", lambda now: bool(now.options & _NO_ANIMATION))
        self._toggle(_STYLE_ROW, "right", lambda now: bool(now.options & _SET_STYLE))
        self._call_menu("b", _TOP_LIST)

    def _toggle(self, row: int, button: str, done: Callable[[Situation], bool]) -> None:
        now = self._look()
        while now.menu.y != row:
            now = self._press("down" if now.menu.y in (_TEXT_ROW, _ANIMATION_ROW) else None)
        while not done(now):
            now = self._press(button)

    def _begin(self, _: Begin) -> None:
        now = self._look()
        while not (now.clock_runs and now.free):
            now = self._press("a" if not now.clock_runs or now.progress.text_box else None)
        self._settle("b")


def _is_list(menu: Menu, last: int) -> bool:
    """The upper left corner's lists: behind the title, and the names that are offered."""
    return (menu.y, menu.x, menu.last) == (2, 1, last)
