"""Measures the health of a learner beyond its losses.

Counts the seconds of each activity, the visited cells of the world, the moves back to a recent
cell, and the milestones reached. Knows no game: movement needs the telemetry columns `map_id`, `y`
and `x`, and the workload names the milestones. Checkpoints hold the totals over the run.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from Daddy.core.clock import Clock
from Daddy.learning.interfaces import NamesFromFacts

POSITION = ("map_id", "y", "x")
"""Telemetry columns with the position of an agent."""
_RECENT = 20
"""Moves after which a return to a cell no longer counts as a loop."""
_NOWHERE = -1
_MOST_BUFFERED = 256
"""Recorded steps that are evaluated at once."""


@dataclass
class Stopwatch:
    """Adds up the seconds of each activity since the last `pop_seconds`."""

    clock: Clock
    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def measure(self, activity: str) -> Iterator[None]:
        """Add the time spent in the `with` block to the seconds of `activity`."""
        start = self.clock.monotonic()
        yield
        self.seconds[activity] = self.seconds.get(activity, 0.0) + self.clock.monotonic() - start

    def pop_seconds(self) -> dict[str, float]:
        """Return the seconds by activity since the last call, and reset all to zero."""
        seconds, self.seconds = self.seconds, {}
        return seconds


class MovementStats:
    """Counts the cells that agents visited and the moves back to a recent cell."""

    def __init__(self, names: Sequence[str], num_envs: int) -> None:
        """Set up empty statistics for telemetry with the columns `names`."""
        self._columns = [names.index(name) for name in POSITION if name in names]
        self.enabled = len(self._columns) == len(POSITION)
        """True if the telemetry has all columns of POSITION."""
        self._buffered: dict[int, list[NDArray[np.float32]]] = {}
        self._count = 0
        self._cells: set[int] = set()
        self._recent = np.full((num_envs, _RECENT), _NOWHERE)
        self._oldest = np.zeros(num_envs, np.int64)
        self._moves = self._loop_moves = 0
        self._last = np.full(num_envs, _NOWHERE)

    def set_start(self, rows: NDArray[np.float32]) -> None:
        """Set the agents' positions before their first step, from telemetry rows (N, columns)."""
        if self.enabled:
            self._last = self._codes(rows)

    @property
    def cells(self) -> set[int]:
        """The codes of all visited cells."""
        self._evaluate()
        return self._cells

    def _codes(self, rows: NDArray[np.float32]) -> NDArray[np.int64]:
        """Return one number per position in `rows`: map, row and column in a byte each."""
        positions = rows[..., self._columns].astype(np.int64) & 0xFF
        codes: NDArray[np.int64] = positions @ np.array([1 << 16, 1 << 8, 1])
        return codes

    def record_step(self, rows: NDArray[np.float32], first: int = 0) -> None:
        """Store telemetry rows (n, columns) of one step of the agents from number `first` on.

        Steps are evaluated many at a time: after each emulated step the processor's caches are
        cold, which makes single evaluations slow.
        """
        self._buffered.setdefault(first, []).append(rows)
        self._count += 1
        if self._count >= _MOST_BUFFERED:
            self._evaluate()

    def _evaluate(self) -> None:
        buffered, self._buffered, self._count = self._buffered, {}, 0
        for first, rows in buffered.items():
            self._follow(self._codes(np.stack(rows)), first)

    def _follow(self, codes: NDArray[np.int64], first: int) -> None:
        """Count cells and moves in codes (steps, n) of the agents from number `first` on.

        Steps on which the map changes are left out: their coordinates are still the old map's.
        """
        agents = slice(first, first + codes.shape[1])
        before = np.concatenate([self._last[None, agents], codes[:-1]])
        same_map = codes >> 16 == before >> 16
        self._cells.update(np.unique(codes[same_map]).tolist())
        moved = same_map & (codes != before)
        self._moves += int(moved.sum())
        for t in np.flatnonzero((moved | ~same_map).any(1)):
            self._count_loop_moves(codes[t], before[t], moved[t], same_map[t], first)
        self._last[agents] = codes[-1]

    def _count_loop_moves(
        self,
        codes: NDArray[np.int64],
        before: NDArray[np.int64],
        moved: NDArray[np.bool_],
        same_map: NDArray[np.bool_],
        first: int,
    ) -> None:
        """Count the moves of one step that led to a recent cell, and update the recent cells."""
        moves = np.flatnonzero(moved)
        movers = moves + first
        self._loop_moves += int((self._recent[movers] == codes[moves, None]).any(1).sum())
        self._recent[movers, self._oldest[movers]] = before[moves]
        self._oldest[movers] = (self._oldest[movers] + 1) % _RECENT
        self._recent[first + np.flatnonzero(~same_map)] = _NOWHERE

    def pop_gauges(self) -> dict[str, float]:
        """Return `loop_share`, of the moves since the last call, and `coverage`: visited cells."""
        if not self.enabled:
            return {}
        self._evaluate()
        moves, loops, self._moves, self._loop_moves = self._moves, self._loop_moves, 0, 0
        share = {"loop_share": loops / moves} if moves else {}
        return {**share, "coverage": float(len(self.cells))}

    def state_dict(self) -> dict[str, torch.Tensor]:
        """Return the codes of all visited cells as one int32 tensor, for the checkpoint."""
        return {"cells": torch.tensor(sorted(self.cells), dtype=torch.int32)}

    def load_state_dict(self, tensors: Mapping[str, torch.Tensor]) -> None:
        """Restore the visited cells from `state_dict`'s result; none if `tensors` has no cells."""
        self._cells = set(tensors["cells"].tolist()) if "cells" in tensors else set()


class Milestones:
    """Holds the learner's environment step at which each milestone was first reached.

    `assisted` maps a milestone to the assists in the game that first reached it, if any.
    """

    def __init__(self, reached: NamesFromFacts, assists: NamesFromFacts) -> None:
        self._reached_in, self._assists_in = reached, assists
        self.first: dict[str, int] = {}
        self.assisted: dict[str, list[str]] = {}

    def record_new(self, step: int, facts: Sequence[Mapping[str, Any]]) -> list[str]:
        """Record milestones that an environment reached first; return their names, sorted.

        If several environments reach a milestone at once, that with the fewest assists counts.
        """
        new: dict[str, list[str]] = {}
        for row in facts:
            assists = list(self._assists_in(row))
            for name in set(self._reached_in(row)) - self.first.keys():
                new[name] = min(new.get(name, assists), assists, key=len)
        self.first.update(dict.fromkeys(new, step))
        self.assisted.update({name: assists for name, assists in new.items() if assists})
        return sorted(new)


def rows_to_facts(names: Sequence[str], rows: NDArray[np.float32]) -> list[dict[str, float]]:
    """Return telemetry rows as one mapping per environment."""
    return [dict(zip(names, row, strict=True)) for row in rows.tolist()]
