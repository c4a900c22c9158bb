"""Pure: which cells of which maps an episode has stepped on.

Owns the exploration memory: counts for the reward, the window in sight for the observation, bytes
for a save state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from Daddy.pokemon import observation

_SIDE = 64
"""Cells of a map's grid at first; a larger map doubles it (coordinates are bytes, so twice)."""
_MARGIN = max(observation.ROWS, observation.COLUMNS)
"""Cells around each grid, so that a window at the edge of a map needs no clipping."""


class Visited:
    """Cells (map, y, x) seen so far, each counted once."""

    def __init__(self) -> None:
        self.cells = 0
        self._maps: dict[int, NDArray[np.bool_]] = {}

    @property
    def maps(self) -> int:
        """Different maps seen."""
        return len(self._maps)

    def add(self, map_id: int, y: int, x: int) -> bool:
        """Step on a cell; whether it is new."""
        grid = self._grid(map_id, max(y, x))
        row, column = y + _MARGIN, x + _MARGIN
        if grid[row, column]:
            return False
        grid[row, column] = True
        self.cells += 1
        return True

    def window(self, map_id: int, top: int, left: int) -> NDArray[np.bool_]:
        """(10, 11) bool: the visited cells of a map from row `top` and column `left`."""
        if map_id not in self._maps:
            return np.zeros((observation.ROWS, observation.COLUMNS), np.bool_)
        grid = self._grid(map_id, max(top + observation.ROWS, left + observation.COLUMNS))
        row, column = top + _MARGIN, left + _MARGIN
        return grid[row : row + observation.ROWS, column : column + observation.COLUMNS]

    def _grid(self, map_id: int, furthest: int) -> NDArray[np.bool_]:
        """The cells of a map, with room for the coordinate `furthest` and a window around it."""
        grid = self._maps.get(map_id)
        if grid is None:
            grid = self._maps[map_id] = np.zeros((_SIDE + 2 * _MARGIN,) * 2, np.bool_)
        while furthest + _MARGIN >= len(grid):
            room = len(grid) - 2 * _MARGIN
            grid = self._maps[map_id] = np.pad(grid, (0, room))
        return grid

    def to_bytes(self) -> bytes:
        """Three bytes (map, y, x) a cell, maps in the order they were found."""
        return b"".join(_cells(map_id, grid) for map_id, grid in self._maps.items())

    @staticmethod
    def from_bytes(data: bytes) -> Visited:
        """The same memory again; ValueError for a damaged one."""
        visited = Visited()
        for map_id, y, x in np.frombuffer(data, np.uint8).reshape(-1, 3).tolist():
            visited.add(map_id, y, x)
        return visited


def _cells(map_id: int, grid: NDArray[np.bool_]) -> bytes:
    rows, columns = np.nonzero(grid)
    cells = np.empty((len(rows), 3), np.uint8)
    cells[:, 0] = map_id
    cells[:, 1] = rows - _MARGIN
    cells[:, 2] = columns - _MARGIN
    return cells.tobytes()
