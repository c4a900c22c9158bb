"""Pure. Reads the maps of a built cartridge from its bytes.

A directory at 0x150 of the ROM has the addresses of its tables. The scripted player, the tests and
the README's picture of the world use only these maps.
"""

from collections.abc import Container
from dataclasses import dataclass

DIRECTORY = 0x150
WALK, GRASS, LEDGE, COUNTER, CAVE = 1, 2, 4, 8, 16
NONE = 0xFF
STAYS, GOES, REGROWS, COMES = range(4)
"""Kinds of things: always present; absent once their flag is set; a shrub; present if it is set."""
RECORD, FORK_RECORD = 23, 8
LINK_BUTTONS = ("down", "up", "left", "right")
DIRECTIONS = {0: "down", 4: "up", 8: "left", 12: "right"}


@dataclass(frozen=True)
class Warp:
    """Holds a warp: stepping on (y, x) leads to (to_y, to_x) of map `to`."""

    y: int
    x: int
    to: int
    to_y: int
    to_x: int


@dataclass(frozen=True)
class Fork:
    """Holds stairs number `side` of a floor; the floor's true ones lead to (to, to_y, to_x)."""

    y: int
    x: int
    floor: int
    side: int
    to: int
    to_y: int
    to_x: int


@dataclass(frozen=True)
class Thing:
    """Holds a person or thing at (y, x); `flag` is an index into the flags, or None."""

    y: int
    x: int
    direction: str
    watches: int
    flag: int | None
    kind: int

    def stands(self, flags: Container[int]) -> bool:
        """Return True if it is present while `flags` are set; a shrub is, until it is cut."""
        if self.kind == GOES:
            return self.flag not in flags
        return self.kind != COMES or self.flag in flags


@dataclass(frozen=True)
class MapPlan:
    """Holds one map: `cells` are its rows of cell numbers, `links` button → (map, shift)."""

    number: int
    cells: tuple[bytes, ...]
    warps: tuple[Warp, ...]
    forks: tuple[Fork, ...]
    things: tuple[Thing, ...]
    links: dict[str, tuple[int, int]]

    @property
    def height(self) -> int:
        """Rows of cells."""
        return len(self.cells)

    @property
    def width(self) -> int:
        """Columns of cells."""
        return len(self.cells[0])


@dataclass(frozen=True)
class Atlas:
    """Holds all maps by number; `rules` and `letters` by cell number; `flags` as (address, bit).

    `fall` is the place (map, y, x) to which stairs lead that are not the true ones.
    """

    maps: dict[int, MapPlan]
    fall: tuple[int, int, int]
    rules: bytes
    letters: str
    flags: tuple[tuple[int, int], ...]

    def draw(self, number: int) -> list[str]:
        """Draw the map as rows of letters, with people and things as ``@``."""
        plan = self.maps[number]
        rows = [[self.letters[cell] for cell in row] for row in plan.cells]
        for thing in plan.things:
            rows[thing.y][thing.x] = "@"
        return ["".join(row) for row in rows]


def read_atlas(rom: bytes) -> Atlas:
    """Read all maps from the cartridge's image."""
    maps, rules, flags, letters, forks = (
        _word(rom, DIRECTORY + 2 * address) for address in range(5)
    )
    leading = _records(rom, forks + 3, FORK_RECORD)
    plans = {}
    while rom[maps] != NONE:
        plans[rom[maps]] = _read_map(rom, maps, leading)
        maps += RECORD
    return Atlas(
        maps=plans,
        fall=(rom[forks], rom[forks + 1], rom[forks + 2]),
        rules=rom[rules:letters],
        letters=rom[letters : 2 * letters - rules].decode("ascii"),
        flags=_read_flags(rom, flags, 1 + max(_flags_of(plans))),
    )


def _flags_of(plans: dict[int, MapPlan]) -> list[int]:
    return [t.flag for plan in plans.values() for t in plan.things if t.flag is not None]


def _read_flags(rom: bytes, address: int, count: int) -> tuple[tuple[int, int], ...]:
    places = range(address, address + 3 * count, 3)
    return tuple((_word(rom, place), rom[place + 2].bit_length() - 1) for place in places)


def _read_map(rom: bytes, address: int, forks: list[bytes]) -> MapPlan:
    height, width = rom[address + 1], rom[address + 2]
    cells, warps, things = (_word(rom, address + offset) for offset in (5, 7, 9))
    links = {}
    for button, place in zip(LINK_BUTTONS, range(address + 11, address + 19, 2), strict=True):
        if rom[place] != NONE:
            links[button] = (rom[place], (rom[place + 1] ^ 128) - 128)
    return MapPlan(
        number=rom[address],
        cells=tuple(rom[cells + y * width : cells + (y + 1) * width] for y in range(height)),
        warps=tuple(Warp(*record) for record in _records(rom, warps, 5)),
        forks=tuple(Fork(*record[1:]) for record in forks if record[0] == rom[address]),
        things=tuple(_thing(record) for record in _records(rom, things, 8)),
        links=links,
    )


def _thing(record: bytes) -> Thing:
    y, x, _picture, look, flag, kind = record[:6]
    own_flag = None if flag == NONE or kind == REGROWS else flag
    return Thing(y, x, DIRECTIONS[look & 15], look >> 4, own_flag, kind)


def _records(rom: bytes, address: int, size: int) -> list[bytes]:
    records = []
    while rom[address] != NONE:
        records.append(rom[address : address + size])
        address += size
    return records


def _word(rom: bytes, address: int) -> int:
    return rom[address] | rom[address + 1] << 8
