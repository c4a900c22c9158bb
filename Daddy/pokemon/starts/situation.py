"""Pure: what somebody who plays by rules needs to know: place, menu, who has control."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from Daddy.pokemon import ladder, story
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.progress import Progress, read_progress
from Daddy.pokemon.starts.ground import Cell
from Daddy.pokemon.starts.route import CREATURE

_SCRIPTED = 0b10100001
"""Of STATUS_FLAGS_5: somebody is moved by a script, the buttons are off, the player is moved."""
_WALK_COUNTER = ram.WALK_COUNTER
"""Above 0 while the player is between two cells."""
_DOORS_MOST = 32
STEERING = (
    *ram.BLOCKS,
    (ram.MENU_Y, ram.MENU_LAST + 1),
    (ram.WALKED_BY_GAME, ram.WALKED_BY_GAME + 1),
    (_WALK_COUNTER, _WALK_COUNTER + 1),
    (ram.WARP_COUNT, ram.WARPS + 4 * _DOORS_MOST),
)
"""What a look reads."""
_FACING = ("down", "up", "left", "right")
_CLOCK_RUNS = 1


@dataclass(frozen=True, slots=True)
class Menu:
    """Where its first entry stands on the screen, and its cursor."""

    y: int
    x: int
    entry: int
    last: int


@dataclass(frozen=True, slots=True)
class Situation:
    """One look at the game. `free`: the next key is the player's."""

    progress: Progress
    menu: Menu
    options: int
    free: bool
    clock_runs: bool
    doors: frozenset[Cell]
    rows: int
    columns: int

    @property
    def cell(self) -> Cell:
        """Where the player stands."""
        return Cell(self.progress.y, self.progress.x)

    @property
    def facing(self) -> str:
        """The button that leads where the player looks."""
        return _FACING[self.progress.facing]

    def place(self, real: bool) -> str:
        """For people: the map and the cell."""
        now = self.progress
        return f"{map_name(now.map_id, real)} ({now.x}, {now.y})"

    def has(self, what: str, real: bool) -> bool:
        """Whether an event of the story has happened, or there is a creature."""
        if what == CREATURE:
            return bool(self.progress.party)
        return bool(self.progress.events & _bit(what, real))


@lru_cache(maxsize=64)
def _bit(name: str, real: bool) -> int:
    steps = ladder.STORY if real else story.CARTRIDGE
    return ladder.mask(tuple(step for step in steps if step.name == name))


def read_situation(image: bytes | bytearray) -> Situation:
    """From an image of the work RAM in which `STEERING` is fresh."""
    progress = read_progress(image)
    menu = (ram.MENU_Y, ram.MENU_X, ram.MENU_ITEM, ram.MENU_LAST)
    scripted = _at(image, ram.WALKED_BY_GAME) or _at(image, ram.STATUS_FLAGS_5) & _SCRIPTED
    busy = progress.text_box or progress.joypad_ignored or progress.battle or scripted
    return Situation(
        progress=progress,
        menu=Menu(*(_at(image, address) for address in menu)),
        options=_at(image, ram.OPTIONS),
        free=progress.placed and not busy and not _at(image, _WALK_COUNTER),
        clock_runs=bool(_at(image, ram.STATUS_FLAGS_6) & _CLOCK_RUNS),
        doors=_doors(image),
        rows=2 * _at(image, ram.MAP_HEIGHT),
        columns=2 * _at(image, ram.MAP_WIDTH),
    )


def _doors(image: bytes | bytearray) -> frozenset[Cell]:
    count = min(_at(image, ram.WARP_COUNT), _DOORS_MOST)
    first = (ram.WARPS + 4 * door for door in range(count))
    return frozenset(Cell(_at(image, place), _at(image, place + 1)) for place in first)


def _at(image: bytes | bytearray, address: int) -> int:
    return image[address - ram.RAM_START]
