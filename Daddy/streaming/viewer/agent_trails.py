"""Pure. Collects agents' positions and returns that a viewer received, within bounds."""

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Daddy.streaming.protocol.messages import TelemetryRow

_TRAIL = 40
"""Positions of a trail, one per second, as telemetry comes once a second."""
_MOST_RETURNS = 240
"""Most points of the return curve; beyond that every second point is dropped from then on."""
_CELLS = 4000
_MAPS_KNOWN = 64
_WARMEST = 400
"""Most visited cells of a map that are shown."""
_MAPS = 12
Cell = tuple[int, int]


class Dot(NamedTuple):
    """Marks an agent on a map; ``place`` is 0 for an agent that is not featured."""

    x: int
    y: int
    place: int


class MapView(NamedTuple):
    """Holds a map: agents, trails of featured ones, visits of cells relative to the maximum."""

    name: str
    dots: tuple[Dot, ...]
    trails: tuple[tuple[Cell, ...], ...]
    heat: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class HistorySnapshot:
    """Holds the maps, those of featured agents first, and (best, mean) returns since the start.

    Snapshots compare by identity: each has thousands of cells and is drawn 30 times a second.
    """

    maps: tuple[MapView, ...] = ()
    returns: tuple[tuple[float, float], ...] = ()


NO_HISTORY = HistorySnapshot()

Named = tuple[str, str, TelemetryRow]
"""An agent's name, its map's name and its row."""


class ViewHistory:
    """Collects telemetry; :attr:`snapshot` is the newest state to draw."""

    def __init__(self) -> None:
        self.snapshot = NO_HISTORY
        self._trails: dict[str, deque[tuple[int, Cell]]] = {}
        self._heat: dict[int, Counter[Cell]] = {}
        self._returns: list[tuple[float, float]] = []
        self._every, self._updates = 1, 0

    def add_telemetry(self, agents: Sequence[Named]) -> None:
        if not agents:
            return
        returns = [row.episode_return for _, _, row in agents]
        if self._updates % self._every == 0:
            self._returns.append((max(returns), sum(returns) / len(returns)))
        self._updates += 1
        if len(self._returns) > _MOST_RETURNS:
            self._returns, self._every = self._returns[::2], 2 * self._every
        placed = [agent for agent in agents if agent[2].x >= 0 and agent[2].y >= 0]
        for name, _, row in placed:
            cell = (row.x, row.y)
            self._count_visit(row.map_id, cell)
            self._trails.setdefault(name, deque(maxlen=_TRAIL)).append((row.map_id, cell))
        names = {name for name, _, _ in placed}
        self._trails = {name: trail for name, trail in self._trails.items() if name in names}
        self.snapshot = HistorySnapshot(self._make_maps(placed), tuple(self._returns))

    def _count_visit(self, number: int, cell: Cell) -> None:
        if number not in self._heat and len(self._heat) >= _MAPS_KNOWN:
            del self._heat[next(iter(self._heat))]
        heat = self._heat.setdefault(number, Counter())
        heat[cell] += 1
        if len(heat) > _CELLS:
            self._heat[number] = Counter(dict(heat.most_common(_CELLS // 2)))

    def _make_maps(self, placed: Sequence[Named]) -> tuple[MapView, ...]:
        by_map: dict[int, list[Named]] = {}
        for agent in sorted(placed, key=lambda agent: (agent[2].place == 0, agent[2].place)):
            by_map.setdefault(agent[2].map_id, []).append(agent)
        return tuple(self._make_map(number, by_map[number]) for number in list(by_map)[:_MAPS])

    def _make_map(self, number: int, agents: Sequence[Named]) -> MapView:
        cells = self._heat[number].most_common(_WARMEST)
        most = cells[0][1]
        shown = [self._trails[name] for name, _, row in agents if row.place]
        trails = (tuple(cell for map_id, cell in trail if map_id == number) for trail in shown)
        dots = (Dot(row.x, row.y, row.place) for _, _, row in agents)
        heat = ((*cell, round(visits / most, 2)) for cell, visits in cells)
        return MapView(agents[0][1], tuple(dots), tuple(trails), tuple(heat))
