"""Pure: finding a way over a map that is known only by having bumped into it.

Owns the memory of one walk: a press that did not move the player closes that way out of that cell,
everything else counts as open. So it needs no map, follows ledges and doors where they lead, and
goes around people; when nothing is left open the closed ways are forgotten, since people walk.
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}


class Cell(NamedTuple):
    """A place on a map; (-1, x) lies one step beyond its upper edge."""

    y: int
    x: int

    def beside(self, button: str) -> Cell:
        """The next cell that way."""
        down, right = STEPS[button]
        return Cell(self.y + down, self.x + right)


class Ground:
    """One map of `rows` by `columns` cells; `shunned` (doors, mostly) are never stepped on."""

    def __init__(self, rows: int, columns: int, shunned: frozenset[Cell] = frozenset()) -> None:
        self._rows, self._columns = rows, columns
        self._shunned = shunned
        self._closed: set[tuple[Cell, str]] = set()

    def close(self, cell: Cell, button: str) -> None:
        """The way out of `cell` did not open."""
        self._closed.add((cell, button))

    def reopen(self) -> None:
        """Forget what was closed."""
        self._closed.clear()

    def way(self, here: Cell, goal: Cell) -> str | None:
        """The first button of a shortest way that may be open, None when there is none.

        A goal may be a door, or lie one step beyond the edge; a door before it hinders nobody.
        """
        doorsteps = {goal.beside(button) for button in STEPS} if self._beyond(goal) else set()
        first: dict[Cell, str] = {here: ""}
        queue = deque([here])
        while queue:
            at = queue.popleft()
            if at == goal:
                return first[at] or None
            for button in STEPS:
                to = at.beside(button)
                free = to == goal or self._free(to, doorsteps)
                if free and to not in first and (at, button) not in self._closed:
                    first[to] = first[at] or button
                    queue.append(to)
        return None

    def _free(self, cell: Cell, doorsteps: set[Cell]) -> bool:
        return not self._beyond(cell) and (cell not in self._shunned or cell in doorsteps)

    def _beyond(self, cell: Cell) -> bool:
        return not (0 <= cell.y < self._rows and 0 <= cell.x < self._columns)
