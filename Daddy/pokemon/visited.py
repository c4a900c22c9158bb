"""Pure: which cells of which maps an episode has stepped on.

Owns the exploration memory: counts for the reward, the window in sight for the observation, bytes
for a save state.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from Daddy.pokemon import observation

_SIDE = 256
"""Coordinates are bytes, so no map is larger."""


class Visited:
    """Cells (map, y, x) seen so far, each counted once."""

    def __init__(self) -> None:
        self.cells = 0
        self._maps: dict[int, NDArray[np.bool_]] = {}

    @property
    def maps(self) -> int:
        """Different maps seen."""
        return len(self._maps)

    def add(self, map_id: int, y: int, x: int) -> None:
        """Step on a cell."""
        grid = self._grid(map_id)
        row, column = y + observation.ABOVE, x + observation.LEFT
        if not grid[row, column]:
            grid[row, column] = True
            self.cells += 1

    def window(self, map_id: int, y: int, x: int) -> NDArray[np.bool_]:
        """(9, 10) bool: the visited cells of this map that a player at (y, x) has in sight."""
        grid = self._maps.get(map_id)
        if grid is None:
            return np.zeros((observation.ROWS, observation.COLUMNS), np.bool_)
        return grid[y : y + observation.ROWS, x : x + observation.COLUMNS]

    def _grid(self, map_id: int) -> NDArray[np.bool_]:
        """A map's cells with a margin as wide as the sight, so that a window needs no clipping."""
        grid = self._maps.get(map_id)
        if grid is None:
            shape = (_SIDE + observation.ROWS, _SIDE + observation.COLUMNS)
            grid = self._maps[map_id] = np.zeros(shape, np.bool_)
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
    cells[:, 1] = rows - observation.ABOVE
    cells[:, 2] = columns - observation.LEFT
    return cells.tobytes()
