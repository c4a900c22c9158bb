"""Pure. Reads the facts that `RoutePlayer` needs: cell, menu, doors, and control."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.game_progress import Progress, is_free, read_progress
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.memory_decoding import Image, byte
from Daddy.pokemon.starts.start_routes import CREATURE

STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}
_DOORS_MOST = 32
STEERING = (
    *ram.BLOCKS,
    (ram.MENU_Y, ram.MENU_LAST + 1),
    (ram.WALKED_BY_GAME, ram.WALKED_BY_GAME + 1),
    (ram.WALK_COUNTER, ram.WALK_COUNTER + 1),
    (ram.WARP_COUNT, ram.WARPS + 4 * _DOORS_MOST),
)
"""Spans of memory from which a view is read."""
_CLOCK_RUNS = 1


class Cell(NamedTuple):
    """Names a cell of a map as (row, column); (-1, x) is one step beyond the upper edge."""

    y: int
    x: int

    def neighbour(self, button: str) -> Cell:
        down, right = STEPS[button]
        return Cell(self.y + down, self.x + right)


@dataclass(frozen=True, slots=True)
class Menu:
    """Holds row and column of a menu's first entry, the entry at the cursor, and the last entry."""

    y: int
    x: int
    entry: int
    last: int


@dataclass(frozen=True, slots=True)
class PlayerView:
    """Holds the facts for choosing a key. `free`: the next key can move the player."""

    progress: Progress
    menu: Menu
    free: bool
    clock_runs: bool
    doors: frozenset[Cell]
    rows: int
    columns: int

    @property
    def cell(self) -> Cell:
        return Cell(self.progress.y, self.progress.x)

    @property
    def facing(self) -> str:
        """The button that leads to the cell in front of the player."""
        return ram.FACINGS[self.progress.facing]

    def place_text(self, real: bool) -> str:
        """Return the map's name and the cell's column and row as text."""
        now = self.progress
        return f"{map_name(now.map_id, real)} ({now.x}, {now.y})"

    def has_event(self, event: str, real: bool) -> bool:
        """Return True if `event` of the story has happened; CREATURE: the party is not empty."""
        if event == CREATURE:
            return bool(self.progress.party)
        return bool(self.progress.events >> _flag(event, real) & 1)


@lru_cache(maxsize=64)
def _flag(name: str, real: bool) -> int:
    return next(step.flag for step in story_milestones.story_events(real) if step.name == name)


def read_view(image: Image) -> PlayerView:
    """Read the view from an image of the work RAM with up-to-date bytes in `STEERING`."""
    progress = read_progress(image)
    menu = (ram.MENU_Y, ram.MENU_X, ram.MENU_ITEM, ram.MENU_LAST)
    return PlayerView(
        progress=progress,
        menu=Menu(*(byte(image, address) for address in menu)),
        free=is_free(progress, image),
        clock_runs=bool(byte(image, ram.STATUS_FLAGS_6) & _CLOCK_RUNS),
        doors=_doors(image),
        rows=2 * byte(image, ram.MAP_HEIGHT),
        columns=2 * byte(image, ram.MAP_WIDTH),
    )


def _doors(image: Image) -> frozenset[Cell]:
    count = min(byte(image, ram.WARP_COUNT), _DOORS_MOST)
    first = (ram.WARPS + 4 * door for door in range(count))
    return frozenset(Cell(byte(image, place), byte(image, place + 1)) for place in first)
