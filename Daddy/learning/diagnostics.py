"""What tells whether a learner is well, beyond its losses.

Where its time goes, whether its agents walk in circles, how much of the world they have stood on,
and which milestones they have reached. Knows no game: a workload whose telemetry has a place
(`map_id`, `y`, `x`) is watched, and milestones are whatever the workload names. What adds up over
the run is part of every checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from Daddy.core.clock import Clock
from Daddy.learning.interfaces import NamesFromFacts

PLACE = ("map_id", "y", "x")
"""Telemetry columns that say where an agent stands."""
_RECENT = 20
"""Moves after which coming back to a cell counts as walking on, not as a loop."""
_NOWHERE = -1
_MOST_NOTED = 256
"""Steps that wait until they are worked out."""


@dataclass
class Watch:
    """Seconds by what they were spent on, since they were last taken."""

    clock: Clock
    spent: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def on(self, what: str) -> Iterator[None]:
        """Add the time inside to `what`."""
        began = self.clock.monotonic()
        yield
        self.spent[what] = self.spent.get(what, 0.0) + self.clock.monotonic() - began

    def take(self) -> dict[str, float]:
        """Seconds by what they were spent on; begin anew."""
        spent, self.spent = self.spent, {}
        return spent


class Walks:
    """Cells that agents stood on, and how often a move led back to one that was just left."""

    def __init__(self, names: Sequence[str], num_envs: int) -> None:
        """`names` are the columns of the telemetry that will be looked at."""
        self._columns = [names.index(name) for name in PLACE if name in names]
        self.watching = len(self._columns) == len(PLACE)
        """Whether the workload says where its agents are."""
        self._noted: dict[int, list[NDArray[np.float32]]] = {}
        self._count = 0
        self._cells: set[int] = set()
        self._recent = np.full((num_envs, _RECENT), _NOWHERE)
        self._oldest = np.zeros(num_envs, np.int64)
        self._moves = self._back = 0
        self._last = np.full(num_envs, _NOWHERE)

    def begin(self, rows: NDArray[np.float32]) -> None:
        """Where everybody stands, (N, columns), before the first step."""
        if self.watching:
            self._last = self._codes(rows)

    @property
    def cells(self) -> set[int]:
        """The cells of the world that were stood on."""
        self._settle()
        return self._cells

    def _codes(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """One number per cell of the world: map, row, column, a byte each."""
        places = rows[..., self._columns].astype(np.int64) & 0xFF
        codes: NDArray[np.int64] = places @ np.array([1 << 16, 1 << 8, 1])
        return codes

    def look(self, rows: NDArray[np.float32], first: int = 0) -> None:
        """One step of the agents from number `first` on; `rows` (n, columns) is kept.

        It is only noted: what it means is worked out for many steps at once, between which no
        emulator has emptied the processor's caches.
        """
        self._noted.setdefault(first, []).append(rows)
        self._count += 1
        if self._count >= _MOST_NOTED:
            self._settle()

    def _settle(self) -> None:
        noted, self._noted, self._count = self._noted, {}, 0
        for first, rows in noted.items():
            self._follow(self._codes(np.stack(rows)), first)

    def _follow(self, codes: NDArray[np.int64], first: int) -> None:
        """Cells (steps, n) of the agents from number `first` on.

        While a map changes, the coordinates are still the old map's.
        """
        agents = slice(first, first + codes.shape[1])
        before = np.concatenate([self._last[None, agents], codes[:-1]])
        same_map = codes >> 16 == before >> 16
        self._cells.update(np.unique(codes[same_map]).tolist())
        moved = same_map & (codes != before)
        self._moves += int(moved.sum())
        for t in np.flatnonzero((moved | ~same_map).any(1)):
            self._turn(codes[t], before[t], moved[t], same_map[t], first)
        self._last[agents] = codes[-1]

    def _turn(
        self,
        codes: NDArray[np.int64],
        before: NDArray[np.int64],
        moved: NDArray[np.bool_],
        same_map: NDArray[np.bool_],
        first: int,
    ) -> None:
        """Whether those who moved went back to where they were, and where that was."""
        moves = np.flatnonzero(moved)
        movers = moves + first
        self._back += int((self._recent[movers] == codes[moves, None]).any(1).sum())
        self._recent[movers, self._oldest[movers]] = before[moves]
        self._oldest[movers] = (self._oldest[movers] + 1) % _RECENT
        self._recent[first + np.flatnonzero(~same_map)] = _NOWHERE

    def take(self) -> dict[str, float]:
        """The gauges since the last time: `loop_share` of the moves, `coverage` of the run."""
        if not self.watching:
            return {}
        self._settle()
        moves, back, self._moves, self._back = self._moves, self._back, 0, 0
        share = {"loop_share": back / moves} if moves else {}
        return {**share, "coverage": float(len(self.cells))}

    def tensors(self) -> dict[str, torch.Tensor]:
        """What adds up over the run."""
        return {"cells": torch.tensor(sorted(self.cells), dtype=torch.int32)}

    def load(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Go on from `tensors()`; older checkpoints have none."""
        self._cells = set(tensors["cells"].tolist()) if "cells" in tensors else set()


class Milestones:
    """When each milestone was first seen, in this learner's own steps, and with whose help.

    `helped` has those that were first seen in games in which scripted helps had acted: which ones.
    """

    def __init__(self, reached: NamesFromFacts, helped: NamesFromFacts) -> None:
        self._reached, self._helped = reached, helped
        self.first: dict[str, int] = {}
        self.helped: dict[str, list[str]] = {}

    def look(self, step: int, facts: Sequence[Mapping[str, Any]]) -> list[str]:
        """Names that some environment shows for the first time at `step`, sorted.

        Of several environments at once, the one with the fewest helps counts.
        """
        helps: dict[str, list[str]] = {}
        for one in facts:
            mine = list(self._helped(one))
            for name in set(self._reached(one)) - self.first.keys():
                helps[name] = min(helps.get(name, mine), mine, key=len)
        self.first.update(dict.fromkeys(helps, step))
        self.helped.update({name: names for name, names in helps.items() if names})
        return sorted(helps)


def named(names: Sequence[str], rows: NDArray[np.float32]) -> list[dict[str, float]]:
    """Telemetry as one mapping per environment."""
    return [dict(zip(names, row, strict=True)) for row in rows.tolist()]
