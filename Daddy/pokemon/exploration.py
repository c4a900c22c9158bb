"""Pure: what is new to an environment where it goes, and when that memory is forgotten.

Owns the exploration memory: cells, ways between maps, signs, healings. Each is found once, and all
is forgotten every `span` steps while the game goes on, so that ground which must be crossed again
(an item to fetch and bring back) is worth crossing again. To forget finds nothing: the place where
one stands is known at once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from Daddy.pokemon.progress import Progress
from Daddy.pokemon.visited import Visited

_LIGHTLY_HURT: Final = 0.02
"""Smallest rise of the party's HP fraction that counts as a healing (less is rounding)."""
_AHEAD: Final = ((1, 0), (-1, 0), (0, -1), (0, 1))
"""Row and column of the cell in front of a player who faces down, up, left, right."""


class Exploration:
    """The memory of one environment. `cells` counts what was found in the episode."""

    def __init__(self, span: int, told: Mapping[str, Any], cells: bytes = b"") -> None:
        """What `to_facts` and `visited.to_bytes` told; facts that are not told begin empty.

        All is forgotten in ``told["left"]`` steps, then every `span`; 0: never. ValueError for a
        damaged memory.
        """
        self.visited = Visited.from_bytes(cells)
        self.cells = int(told.get("cells", self.visited.cells))
        self._span, self._left = span, int(told.get("left", span))
        self._map = int(told.get("map", -1))
        self._ways: set[int] = set(told.get("ways", ()))
        self._signs: set[int] = set(told.get("signs", ()))
        self._healed: dict[int, float] = dict(told.get("healed", ()))

    def begin(self, now: Progress) -> None:
        """Know the place where the game stands; that is no find."""
        if now.placed:
            self.visited.add(now.map_id, now.y, now.x)
            self._map = now.map_id
            self.cells = max(self.cells, 1)

    def find(self, was: Progress, now: Progress) -> dict[str, float]:
        """What is new after a step, by part of the reward: cell, way, sign, heal."""
        found: dict[str, float] = {}
        if now.placed:
            self._enter(now, found)
        if now.text_box and not was.text_box:
            self._read(now, found)
        if now.party is not was.party:
            self._recover(was, now, found)
        self._left -= 1
        if self._left == 0:
            self._forget(now)
        return found

    def _enter(self, now: Progress, found: dict[str, float]) -> None:
        if self.visited.add(now.map_id, now.y, now.x):
            self.cells += 1
            found["cell"] = 1.0
        if now.map_id != self._map:
            way, self._map = self._map << 8 | now.map_id, now.map_id
            if way >= 0 and way not in self._ways:
                self._ways.add(way)
                found["way"] = 1.0

    def _read(self, now: Progress, found: dict[str, float]) -> None:
        down, right = _AHEAD[now.facing]
        place = now.y + down, now.x + right
        sign = now.map_id << 16 | place[0] << 8 | place[1]
        if place in now.signs and sign not in self._signs:
            self._signs.add(sign)
            found["sign"] = 1.0

    def _recover(self, was: Progress, now: Progress, found: dict[str, float]) -> None:
        """A map's best healing counts: to be hurt and healed there again finds nothing."""
        gain, best = healed(was, now), self._healed.get(now.map_id, 0.0)
        if gain > best:
            self._healed[now.map_id] = gain
            found["heal"] = gain - best

    def _forget(self, now: Progress) -> None:
        self._left = self._span
        self.visited = Visited()
        self._ways, self._signs, self._healed = set(), set(), {}
        self.begin(now)

    def adopt(self, other: Exploration) -> None:
        """Know what `other` knows; when to forget stays one's own."""
        self.visited, self._map = other.visited, other._map
        self._ways, self._signs, self._healed = other._ways, other._signs, other._healed

    def to_facts(self) -> dict[str, Any]:
        """JSON with everything but the visited cells."""
        return {
            "left": self._left,
            "cells": self.cells,
            "map": self._map,
            "ways": sorted(self._ways),
            "signs": sorted(self._signs),
            "healed": sorted(self._healed.items()),
        }


def healed(was: Progress, now: Progress) -> float:
    """HP fraction gained outside battle by an unchanged party; 0 for level-ups and swaps.

    A party that comes home from a defeat is healed too: that is no merit.
    """
    same_party = [(c.species, c.level, c.max_hp) for c in was.party] == [
        (c.species, c.level, c.max_hp) for c in now.party
    ]
    if not same_party or was.battle or now.battle or was.hp_fraction == 0.0:
        return 0.0
    gain = now.hp_fraction - was.hp_fraction
    return gain if gain > _LIGHTLY_HURT else 0.0
