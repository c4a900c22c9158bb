"""Plays a route by rules, one key at a time; each key depends on the memory read before it.

The player has no map: if a key does not move the player, that direction is blocked at that cell
(`WalkMap`). A step of the route that takes too many keys raises StuckError with the reason.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from itertools import cycle
from typing import TYPE_CHECKING

from Daddy.core.errors import RomError
from Daddy.pokemon.starts.route_view import STEERING, STEPS, Cell, Menu, PlayerView, read_view
from Daddy.pokemon.starts.start_routes import (
    ChooseEntry,
    OpenMenu,
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
"""Keys that one step may take; the longest of the real game takes a few hundred."""
_PAUSE = 8
"""Frames between two readings of the memory while no key is pressed."""
_FREE_READINGS = 3
"""Readings in a row with a free player that end a script, since it may pause between scenes."""
_FLEE = ("b", "down", "right", "a")
"""Keys that close a text and choose RUN, lower right in a fight's menu (cartridge: B alone)."""
_ANY_SIZE = 256
_TOP_LIST = 1
"""Number of the last entry of the menu after the title: a new game, options."""
_TEXT_ROW, _ANIMATION_ROW, _STYLE_ROW = 3, 8, 13
_FAST, _TEXT_SPEED, _SET_STYLE, _NO_ANIMATION = 1, 0b1111, 1 << 6, 1 << 7
_MENU_READINGS = 30
"""Readings until a menu must have appeared; then its key is pressed again."""
_REOPENINGS = 3
"""Times that all blocked directions are tried again, since people may have moved away."""
_TURNS = 2
"""Presses before a direction counts as blocked: the first may only turn the player."""


class StuckError(RomError):
    """Reports that a step of a route took too many keys or cannot be done."""


class WalkMap:
    """Finds paths on one map of `rows` by `columns` cells; every direction is open until blocked.

    A path leads over `shunned` cells (doors, mostly) only if they are the goal.
    """

    def __init__(self, rows: int, columns: int, shunned: frozenset[Cell] = frozenset()) -> None:
        self._rows, self._columns = rows, columns
        self._shunned = shunned
        self.blocked: set[tuple[Cell, str]] = set()
        """Blocked directions, each out of a cell."""

    def first_button(self, start_map: Cell, goal: Cell) -> str | None:
        """Return the first button of a shortest path to `goal` that is not blocked, or None.

        A goal may be a door, or lie one step beyond the edge; then doors beside it may be crossed.
        """
        doorsteps = {goal.neighbour(button) for button in STEPS} if self._beyond(goal) else set()
        first: dict[Cell, str] = {start_map: ""}
        queue = deque([start_map])
        while queue:
            cell = queue.popleft()
            if cell == goal:
                return first[cell] or None
            for button in STEPS:
                neighbour = cell.neighbour(button)
                free = neighbour == goal or self._free(neighbour, doorsteps)
                if free and neighbour not in first and (cell, button) not in self.blocked:
                    first[neighbour] = first[cell] or button
                    queue.append(neighbour)
        return None

    def _free(self, cell: Cell, doorsteps: set[Cell]) -> bool:
        return not self._beyond(cell) and (cell not in self._shunned or cell in doorsteps)

    def _beyond(self, cell: Cell) -> bool:
        return not (0 <= cell.y < self._rows and 0 <= cell.x < self._columns)


class RoutePlayer:
    """Plays routes on one emulator; `real`: True for Red or Blue, False for the cartridge."""

    def __init__(self, console: Emulator, real: bool) -> None:
        self._console = console
        self._real = real
        self._left = MAX_PRESSES
        self._flight = cycle(_FLEE)
        self._steps: dict[type[RouteStep], Callable[..., None]] = {
            WalkTo: self._walk_to, TalkUntil: self._talk, ReadUntil: self._read,
            OpenMenu: lambda _: self._open_menu("start", _TOP_LIST), ChooseEntry: self._choose,
            SetOptions: self._set_options, ReadIntroduction: self._read_introduction,
        }  # fmt: skip

    def play_route(self, route: StartRoute) -> None:
        """Play every step of `route`, and check map and events at its end. StuckError."""
        for number, step in enumerate(route.steps, 1):
            self._left = MAX_PRESSES
            try:
                self._steps[type(step)](step)
            except StuckError as error:
                context = f"step {number} of {len(route.steps)}, {step}, at {self._place()}"
                raise StuckError(f"{context}: {error.message}") from error
        self._left = MAX_PRESSES
        now = self._settle("b")
        missing = [event for event in route.end_events if not now.has_event(event, self._real)]
        if missing or now.progress.map_id != route.end_map:
            lacking = f" without {', '.join(missing)}" if missing else ""
            raise StuckError(f"the route ended at {self._place()}{lacking}")

    def _read_view(self) -> PlayerView:
        return read_view(self._console.ram(STEERING))

    def _place(self) -> str:
        return self._read_view().place_text(self._real)

    def _press(self, button: str | None) -> PlayerView:
        """Press a key (None: only wait) and read the view; StuckError after too many keys."""
        self._left -= 1
        if self._left < 0:
            raise StuckError(f"the step did not end after {MAX_PRESSES} keys")
        if button is None:
            self._console.wait(_PAUSE)
        else:
            self._console.press(button)
        return self._read_view()

    def _advance(self, now: PlayerView, button: str) -> PlayerView:
        """Advance a fight, a text or a scene: flee from wild creatures, fight, read or wait."""
        if now.progress.battle == 1:
            return self._press(next(self._flight))
        if now.progress.battle:
            return self._press("a")
        return self._press(button if now.progress.text_box else None)

    def _settle(self, button: str) -> PlayerView:
        """Wait until the player can walk in 3 readings in a row; close texts with `button`."""
        free_looks = 0
        now = self._read_view()
        while free_looks < _FREE_READINGS:
            free_looks = free_looks + 1 if now.free else 0
            now = self._press(None) if now.free else self._advance(now, button)
        return now

    def _read(self, step: ReadUntil) -> None:
        self._until(step.until, lambda now: self._advance(now, step.button))

    def _until(self, event: str, press: Callable[[PlayerView], PlayerView]) -> None:
        now = self._read_view()
        while not now.has_event(event, self._real):
            now = press(now)

    def _talk(self, step: TalkUntil) -> None:
        def speak(now: PlayerView) -> PlayerView:
            if not now.free:
                return self._advance(now, "a")
            return self._press("a" if now.facing == step.toward else step.toward)

        self._until(step.until, speak)

    def _walk_to(self, step: WalkTo) -> None:
        """Walk to the step's cell; if it names a map, wait until the player is on that map."""
        now = self._settle("b")
        start_map, goal, reopened = now.progress.map_id, Cell(step.y, step.x), 0
        ground = WalkMap(now.rows or _ANY_SIZE, now.columns or _ANY_SIZE, now.doors)
        while not (now.cell == goal and step.to is None):
            button = ground.first_button(now.cell, goal)
            if button is not None:
                now = self._walk_one_cell(now, button, ground)
            elif now.cell == goal:
                now = self._settle("b")
            elif reopened == _REOPENINGS:
                raise StuckError(f"found no path to ({step.x}, {step.y})")
            else:
                reopened += 1
                ground.blocked.clear()
                now = self._press(None)
            if now.progress.map_id == step.to:
                return
            if now.progress.map_id != start_map:
                raise StuckError(f"left for map {now.progress.map_id}")

    def _walk_one_cell(self, before: PlayerView, button: str, ground: WalkMap) -> PlayerView:
        """Walk one cell, or mark the direction as blocked; return the view after that."""
        for _ in range(_TURNS):
            self._press(button)
            now = self._settle("b")
            if now.cell != before.cell or now.progress.map_id != before.progress.map_id:
                return now
        ground.blocked.add((before.cell, button))
        return now

    def _open_menu(self, button: str, last: int) -> None:
        """Press `button`, with long pauses, until the menu of `last` + 1 entries is open."""
        while not _is_list(self._read_view().menu, last):
            now = self._press(button)
            for _ in range(_MENU_READINGS):
                now = now if _is_list(now.menu, last) else self._press(None)

    def _choose(self, step: ChooseEntry) -> None:
        """Press A until the step's menu is open with the cursor at the top; choose the entry."""
        now = self._read_view()
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
        self._open_menu("b", _TOP_LIST)

    def _toggle(self, row: int, button: str, reached: Callable[[int], bool]) -> None:
        now = self._read_view()
        while now.menu.y != row:
            now = self._press("down" if now.menu.y in (_TEXT_ROW, _ANIMATION_ROW) else None)
        while not reached(now.progress.options):
            now = self._press(button)

    def _read_introduction(self, _: ReadIntroduction) -> None:
        now = self._read_view()
        while not (now.clock_runs and now.free):
            now = self._press("a" if not now.clock_runs or now.progress.text_box else None)
        self._settle("b")


def _is_list(menu: Menu, last: int) -> bool:
    """Return True if `menu` is in the upper left corner and has `last` + 1 entries."""
    return (menu.y, menu.x, menu.last) == (2, 1, last)
