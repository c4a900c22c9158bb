"""Pure. Remembers the cells, map changes, signs and healings that an environment has found.

Each find pays once. The memory is cleared every `span` steps, so that an agent which goes back (to
deliver an item, for example) is paid for the way again. Clearing itself pays nothing, because the
present cell is marked at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from Daddy.pokemon.game_progress import Progress
from Daddy.pokemon.observation import COLUMNS, ROWS

_LIGHTLY_HURT: Final = 0.02
"""Smallest rise of the party's HP fraction that counts as a healing; less is rounding."""
_AHEAD: Final = ((1, 0), (-1, 0), (0, -1), (0, 1))
"""Row and column of the cell in front of a player who faces down, up, left, right."""
_SIDE: Final = 64
"""Initial side of a map's grid in cells; doubled for larger maps (coordinates are bytes)."""
_MARGIN: Final = max(ROWS, COLUMNS)
"""Cells around each grid, so that a window at the edge of a map needs no clipping."""


class VisitedCells:
    """Holds the cells (map, y, x) on which the player has stood."""

    def __init__(self, data: bytes = b"") -> None:
        """Read the cells that `encode_cells` wrote; ValueError for damaged bytes."""
        self.cells = 0
        self._maps: dict[int, NDArray[np.bool_]] = {}
        for map_id, y, x in np.frombuffer(data, np.uint8).reshape(-1, 3).tolist():
            self.visit_cell(map_id, y, x)

    def visit_cell(self, map_id: int, y: int, x: int) -> bool:
        """Mark a cell; return True if it is new."""
        grid = self._grid(map_id, max(y, x))
        row, column = y + _MARGIN, x + _MARGIN
        if grid[row, column]:
            return False
        grid[row, column] = True
        self.cells += 1
        return True

    def window(self, map_id: int, top: int, left: int) -> NDArray[np.bool_]:
        """Return the visited cells of a map from row `top` and column `left`: (10, 11) bool."""
        if map_id not in self._maps:
            return np.zeros((ROWS, COLUMNS), np.bool_)
        grid = self._grid(map_id, max(top + ROWS, left + COLUMNS))
        row, column = top + _MARGIN, left + _MARGIN
        return grid[row : row + ROWS, column : column + COLUMNS]

    def _grid(self, map_id: int, furthest: int) -> NDArray[np.bool_]:
        """Return the grid of a map, enlarged first if row or column `furthest` is near its edge."""
        grid = self._maps.get(map_id)
        if grid is None:
            grid = self._maps[map_id] = np.zeros((_SIDE + 2 * _MARGIN,) * 2, np.bool_)
        while furthest + _MARGIN >= len(grid):
            room = len(grid) - 2 * _MARGIN
            grid = self._maps[map_id] = np.pad(grid, (0, room))
        return grid

    def encode_cells(self) -> bytes:
        """Encode the cells, three bytes (map, y, x) each, maps in the order of their discovery."""
        return b"".join(_cells(map_id, grid) for map_id, grid in self._maps.items())


def _cells(map_id: int, grid: NDArray[np.bool_]) -> bytes:
    rows, columns = np.nonzero(grid)
    cells = np.empty((len(rows), 3), np.uint8)
    cells[:, 0] = map_id
    cells[:, 1] = rows - _MARGIN
    cells[:, 2] = columns - _MARGIN
    return cells.tobytes()


class Exploration:
    """Holds the exploration memory of one environment; `cells` counts the episode's new cells."""

    def __init__(self, span: int, facts: Mapping[str, Any], cells: bytes = b"") -> None:
        """Restore the memory from results of `memory_facts` and `encode_cells`, if any.

        The memory is cleared after ``facts["left"]`` steps, then every `span` steps; 0: never.
        ValueError for a damaged memory.
        """
        self.visited = VisitedCells(cells)
        self.cells = int(facts.get("cells", self.visited.cells))
        self._span, self._left = span, int(facts.get("left", span))
        self._map = int(facts.get("map", -1))
        self._ways: set[int] = set(facts.get("ways", ()))
        self._signs: set[int] = set(facts.get("signs", ()))
        self._healed: dict[int, float] = dict(facts.get("healed", ()))

    def mark_present_cell(self, now: Progress) -> None:
        """Mark the player's present cell as visited, without a reward."""
        if now.placed:
            self.visited.visit_cell(now.map_id, now.y, now.x)
            self._map = now.map_id
            self.cells = max(self.cells, 1)

    def find_new(self, was: Progress, now: Progress) -> dict[str, float]:
        """Record a step's finds; return their units by reward part: cell, way, sign, heal."""
        finds: dict[str, float] = {}
        if now.placed:
            self._enter(now, finds)
        if now.text_box and not was.text_box:
            self._read(now, finds)
        if now.party is not was.party:
            self._heal(was, now, finds)
        self._left -= 1
        if self._left == 0:
            self._clear(now)
        return finds

    def _enter(self, now: Progress, finds: dict[str, float]) -> None:
        if self.visited.visit_cell(now.map_id, now.y, now.x):
            self.cells += 1
            finds["cell"] = 1.0
        if now.map_id != self._map:
            way, self._map = self._map << 8 | now.map_id, now.map_id
            if way >= 0 and way not in self._ways:
                self._ways.add(way)
                finds["way"] = 1.0

    def _read(self, now: Progress, finds: dict[str, float]) -> None:
        down, right = _AHEAD[now.facing]
        place = now.y + down, now.x + right
        sign = now.map_id << 16 | place[0] << 8 | place[1]
        if place in now.signs and sign not in self._signs:
            self._signs.add(sign)
            finds["sign"] = 1.0

    def _heal(self, was: Progress, now: Progress, finds: dict[str, float]) -> None:
        """Add to `finds` the part of a healing that exceeds the best so far on this map."""
        gain, best = healed_fraction(was, now), self._healed.get(now.map_id, 0.0)
        if gain > best:
            self._healed[now.map_id] = gain
            finds["heal"] = gain - best

    def _clear(self, now: Progress) -> None:
        self._left = self._span
        self.visited = VisitedCells()
        self._ways, self._signs, self._healed = set(), set(), {}
        self.mark_present_cell(now)

    def adopt(self, other: Exploration) -> None:
        """Use `other`'s cells, ways, signs and healings, but clear them at the own time."""
        self.visited, self._map = other.visited, other._map
        self._ways, self._signs, self._healed = other._ways, other._signs, other._healed

    def memory_facts(self) -> dict[str, Any]:
        """Return the memory, except the visited cells, as a JSON object for `__init__`."""
        return {
            "left": self._left,
            "cells": self.cells,
            "map": self._map,
            "ways": sorted(self._ways),
            "signs": sorted(self._signs),
            "healed": sorted(self._healed.items()),
        }


def healed_fraction(was: Progress, now: Progress) -> float:
    """Return the HP fraction that an unchanged party gained outside a battle.

    The result is 0 for gains up to 0.02, level-ups, swaps, and the healing after a defeat.
    """
    same_party = [(c.species, c.level, c.max_hp) for c in was.party] == [
        (c.species, c.level, c.max_hp) for c in now.party
    ]
    if not same_party or was.battle or now.battle or was.hp_fraction == 0.0:
        return 0.0
    gain = now.hp_fraction - was.hp_fraction
    return gain if gain > _LIGHTLY_HURT else 0.0
