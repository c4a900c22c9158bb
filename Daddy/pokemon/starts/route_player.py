"""Plays a route by rules: small steps, each a closed loop over RAM with a bound and a reason.

Every press follows from a look; nothing is timed by counting frames, and no file is needed. A step
that gets nowhere ends in a StuckError that tells the step, the place and the reason. The player
knows no map: a press that does not move it closes that way out of that cell (`Ground`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING

from Daddy.core.errors import RomError
from Daddy.pokemon.starts.player_view import STEERING, STEPS, Cell, Menu, PlayerView, read_view
from Daddy.pokemon.starts.start_routes import (
    ChooseEntry,
    OpenTitleMenu,
    ReadIntroduction,
    ReadUntil,
    RouteStep,
    SetOptions,
    StartRoute,
    TalkUntil,
    WalkTo,
)

if TYPE_CHECKING:
    from Daddy.pokemon.emulator import Emulator

MAX_PRESSES = 1_500
"""Keys that one step may take; the longest of the real game's takes a few hundred."""
_PAUSE = 8
"""Frames between two looks while the game goes on by itself."""
_CALM_LOOKS = 3
"""Looks in a row with a free player: scripts let go for a moment between two scenes."""
_FLEE = ("b", "down", "right", "a")
"""Closes a text, then the lower right of a fight's menu: away. On the cartridge B alone does it."""
_ANY_SIZE = 256
_TOP_LIST = 1
"""The last entry of the list behind the title: a new game, options."""
_TEXT_ROW, _ANIMATION_ROW, _STYLE_ROW = 3, 8, 13
_FAST, _TEXT_SPEED, _SET_STYLE, _NO_ANIMATION = 1, 0b1111, 1 << 6, 1 << 7
_MENU_LOOKS = 30
"""Looks that a menu gets to appear before the key that calls for it is pressed again."""
_REOPENINGS = 3
"""Times that all closed ways are tried again, since people may have moved away."""
_TURNS = 2
"""Presses before a way counts as closed: the first may only turn the player."""


class StuckError(RomError):
    """A step of a route got nowhere."""


class WalkMap:
    """The ways known to be closed on one map of `rows` by `columns` cells.

    Ledges and doors are followed where they lead; `shunned` cells (doors, mostly) are stepped on as
    a goal only.
    """

    def __init__(self, rows: int, columns: int, shunned: frozenset[Cell] = frozenset()) -> None:
        self._rows, self._columns = rows, columns
        self._shunned = shunned
        self._closed: set[tuple[Cell, str]] = set()

    def mark_blocked(self, cell: Cell, button: str) -> None:
        """Note that the way out of `cell` did not open."""
        self._closed.add((cell, button))

    def clear_blocked(self) -> None:
        """Forget the closed ways."""
        self._closed.clear()

    def first_button(self, here: Cell, goal: Cell) -> str | None:
        """The first button of a shortest way that may be open, None when there is none.

        A goal may be a door, or lie one step beyond the edge; then the doors before it are passed.
        """
        doorsteps = {goal.neighbour(button) for button in STEPS} if self._beyond(goal) else set()
        first: dict[Cell, str] = {here: ""}
        queue = deque([here])
        while queue:
            at = queue.popleft()
            if at == goal:
                return first[at] or None
            for button in STEPS:
                to = at.neighbour(button)
                free = to == goal or self._free(to, doorsteps)
                if free and to not in first and (at, button) not in self._closed:
                    first[to] = first[at] or button
                    queue.append(to)
        return None

    def _free(self, cell: Cell, doorsteps: set[Cell]) -> bool:
        return not self._beyond(cell) and (cell not in self._shunned or cell in doorsteps)

    def _beyond(self, cell: Cell) -> bool:
        return not (0 <= cell.y < self._rows and 0 <= cell.x < self._columns)


class RoutePlayer:
    """Steers one console; `real`: Red or Blue, else the cartridge."""

    def __init__(self, console: Emulator, real: bool) -> None:
        self._console = console
        self._real = real
        self._left = MAX_PRESSES
        self._flight = cycle(_FLEE)
        self._steps: dict[type[RouteStep], Callable[..., None]] = {
            WalkTo: self._walk_to, TalkUntil: self._talk, ReadUntil: self._read,
            OpenTitleMenu: self._open_title_menu, ChooseEntry: self._choose,
            SetOptions: self._set_options, ReadIntroduction: self._read_introduction,
        }  # fmt: skip

    def play_route(self, route: StartRoute) -> None:
        """Take every step, and compare the end with the route's. StuckError."""
        for number, step in enumerate(route.steps, 1):
            self._left = MAX_PRESSES
            try:
                self._steps[type(step)](step)
            except StuckError as error:
                where = f"step {number} of {len(route.steps)}, {step}, at {self._place()}"
                raise StuckError(f"{where}: {error.message}") from error
        self._left = MAX_PRESSES
        now = self._settle("b")
        missing = [event for event in route.end_events if not now.has_event(event, self._real)]
        if missing or now.progress.map_id != route.end_map:
            lacking = f" without {', '.join(missing)}" if missing else ""
            raise StuckError(f"the route ended at {self._place()}{lacking}")

    def _look(self) -> PlayerView:
        return read_view(self._console.ram(STEERING))

    def _place(self) -> str:
        return self._look().place_text(self._real)

    def _press(self, button: str | None) -> PlayerView:
        """Press a key (None: only wait) and look; StuckError when the step had too many."""
        self._left -= 1
        if self._left < 0:
            raise StuckError(f"nothing came of {MAX_PRESSES} keys")
        if button is None:
            self._console.wait(_PAUSE)
        else:
            self._console.press(button)
        return self._look()

    def _react(self, now: PlayerView, button: str) -> PlayerView:
        """Advance a fight, a text or a scene: flee from wild creatures, fight, read, or wait."""
        if now.progress.battle == 1:
            return self._press(next(self._flight))
        if now.progress.battle:
            return self._press("a")
        return self._press(button if now.progress.text_box else None)

    def _settle(self, button: str) -> PlayerView:
        """Wait until the player is free and stays so; texts are closed with `button`."""
        calm = 0
        now = self._look()
        while calm < _CALM_LOOKS:
            calm = calm + 1 if now.free else 0
            now = self._press(None) if now.free else self._react(now, button)
        return now

    def _read(self, step: ReadUntil) -> None:
        self._until(step.until, lambda now: self._react(now, step.button))

    def _until(self, what: str, act: Callable[[PlayerView], PlayerView]) -> None:
        now = self._look()
        while not now.has_event(what, self._real):
            now = act(now)

    def _talk(self, step: TalkUntil) -> None:
        def speak(now: PlayerView) -> PlayerView:
            if not now.free:
                return self._react(now, "a")
            return self._press("a" if now.facing == step.toward else step.toward)

        self._until(step.until, speak)

    def _walk_to(self, step: WalkTo) -> None:
        """Walk to a cell. A scene or a door may take its time to lead on from there."""
        now = self._settle("b")
        here, goal, reopened = now.progress.map_id, Cell(step.y, step.x), 0
        ground = WalkMap(now.rows or _ANY_SIZE, now.columns or _ANY_SIZE, now.doors)
        while not (now.cell == goal and step.to is None):
            button = ground.first_button(now.cell, goal)
            if button is not None:
                now = self._step(now, button, ground)
            elif now.cell == goal:
                now = self._settle("b")
            elif reopened == _REOPENINGS:
                raise StuckError(f"found no way to ({step.x}, {step.y})")
            else:
                reopened += 1
                ground.clear_blocked()
                now = self._press(None)
            if now.progress.map_id == step.to:
                return
            if now.progress.map_id != here:
                raise StuckError(f"was carried off to map {now.progress.map_id}")

    def _step(self, before: PlayerView, button: str, ground: WalkMap) -> PlayerView:
        """Walk one cell, or learn that this way is closed."""
        for _ in range(_TURNS):
            self._press(button)
            now = self._settle("b")
            if now.cell != before.cell or now.progress.map_id != before.progress.map_id:
                return now
        ground.mark_blocked(before.cell, button)
        return now

    def _open_title_menu(self, _: OpenTitleMenu) -> None:
        self._call_menu("start", _TOP_LIST)

    def _call_menu(self, button: str, last: int) -> None:
        """Press `button` until the list of `last` + 1 entries is up; seldom, as it takes time."""
        while not _is_list(self._look().menu, last):
            now = self._press(button)
            for _ in range(_MENU_LOOKS):
                now = now if _is_list(now.menu, last) else self._press(None)

    def _choose(self, step: ChooseEntry) -> None:
        """Read on to the list; its cursor begins at the top, which tells it from one before it."""
        now = self._look()
        while not (_is_list(now.menu, step.last) and now.menu.entry == 0):
            now = self._press(None if step.last == _TOP_LIST else "a")
        now = self._press(None)
        while now.menu.entry != step.entry:
            now = self._press("down" if now.menu.entry < step.entry else "up")
        self._press("a")

    def _set_options(self, _: SetOptions) -> None:
        self._toggle(_TEXT_ROW, "left", lambda options: options & _TEXT_SPEED == _FAST)
        self._toggle(_ANIMATION_ROW, "right", lambda options: bool(options & _NO_ANIMATION))
        self._toggle(_STYLE_ROW, "right", lambda options: bool(options & _SET_STYLE))
        self._call_menu("b", _TOP_LIST)

    def _toggle(self, row: int, button: str, done: Callable[[int], bool]) -> None:
        now = self._look()
        while now.menu.y != row:
            now = self._press("down" if now.menu.y in (_TEXT_ROW, _ANIMATION_ROW) else None)
        while not done(now.progress.options):
            now = self._press(button)

    def _read_introduction(self, _: ReadIntroduction) -> None:
        now = self._look()
        while not (now.clock_runs and now.free):
            now = self._press("a" if not now.clock_runs or now.progress.text_box else None)
        self._settle("b")


def _is_list(menu: Menu, last: int) -> bool:
    """Return True for the upper left corner's lists: behind the title, and the names offered."""
    return (menu.y, menu.x, menu.last) == (2, 1, last)
