"""Pure. Keeps where agents have been and how the run went, as a viewer saw it, within bounds."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Daddy.streaming.protocol.messages import Row

_TRAIL = 40
"""Seconds of a trail: telemetry comes once a second."""
_COURSE = 240
"""Points of the course; when there are more, every second one is left out from then on."""
_CELLS = 4000
_MAPS_KNOWN = 64
_WARMEST = 400
"""Cells of a map whose heat is shown."""
_MAPS = 12
Cell = tuple[int, int]


class Dot(NamedTuple):
    """An agent on a map; ``place`` is 0 when its pictures are not shown."""

    x: int
    y: int
    place: int


class Place(NamedTuple):
    """One map: agents, trails of the shown ones, and visits of each cell, 1 for the most."""

    name: str
    dots: tuple[Dot, ...]
    trails: tuple[tuple[Cell, ...], ...]
    heat: tuple[tuple[int, int, float], ...]


@dataclass(frozen=True, slots=True, eq=False)
class World:
    """The maps, those of shown agents first, and the best and mean return since we watch.

    Equal to itself alone: thousands of cells, made anew once a second and drawn thirty times.
    """

    places: tuple[Place, ...] = ()
    course: tuple[tuple[float, float], ...] = ()


NOWHERE = World()

Named = tuple[str, str, Row]
"""An agent's name, its map's name, its row."""


class History:
    """Learns from telemetry; :attr:`world` is what there is to see of it."""

    def __init__(self) -> None:
        self.world = NOWHERE
        self._trails: dict[str, deque[tuple[int, Cell]]] = {}
        self._heat: dict[int, Counter[Cell]] = {}
        self._course: list[tuple[float, float]] = []
        self._every, self._heard = 1, 0

    def add(self, agents: Sequence[Named]) -> None:
        if not agents:
            return
        returns = [row.episode_return for _, _, row in agents]
        if self._heard % self._every == 0:
            self._course.append((max(returns), sum(returns) / len(returns)))
        self._heard += 1
        if len(self._course) > _COURSE:
            self._course, self._every = self._course[::2], 2 * self._every
        placed = [one for one in agents if one[2].x >= 0 and one[2].y >= 0]
        for name, _, row in placed:
            cell = (row.x, row.y)
            self._warm(row.map_id, cell)
            self._trails.setdefault(name, deque(maxlen=_TRAIL)).append((row.map_id, cell))
        known = {name for name, _, _ in placed}
        self._trails = {name: one for name, one in self._trails.items() if name in known}
        self.world = World(self._places(placed), tuple(self._course))

    def _warm(self, number: int, cell: Cell) -> None:
        if number not in self._heat and len(self._heat) >= _MAPS_KNOWN:
            del self._heat[next(iter(self._heat))]
        heat = self._heat.setdefault(number, Counter())
        heat[cell] += 1
        if len(heat) > _CELLS:
            self._heat[number] = Counter(dict(heat.most_common(_CELLS // 2)))

    def _places(self, placed: Sequence[Named]) -> tuple[Place, ...]:
        there: dict[int, list[Named]] = {}
        for one in sorted(placed, key=lambda one: (one[2].place == 0, one[2].place)):
            there.setdefault(one[2].map_id, []).append(one)
        return tuple(self._place(number, there[number]) for number in list(there)[:_MAPS])

    def _place(self, number: int, agents: Sequence[Named]) -> Place:
        cells = self._heat[number].most_common(_WARMEST)
        most = cells[0][1]
        shown = [self._trails[name] for name, _, row in agents if row.place]
        trails = (tuple(cell for where, cell in trail if where == number) for trail in shown)
        dots = (Dot(row.x, row.y, row.place) for _, _, row in agents)
        heat = ((*cell, round(seen / most, 2)) for cell, seen in cells)
        return Place(agents[0][1], tuple(dots), tuple(trails), tuple(heat))
