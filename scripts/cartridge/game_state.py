"""Pure. Reads the facts that the scripted player uses from the cartridge's memory."""

from collections.abc import Callable
from dataclasses import dataclass

from scripts.cartridge.distances import Place, World
from scripts.cartridge.symbols import MENU_ADDRESS, MODE_ADDRESS, SECRET_ADDRESS, STORY, SWITCHES

FACING = {0: "down", 4: "up", 8: "left", 12: "right"}
CUT = 0x0F
_MENU_MODE = 6
_SHRUB_TILE = 0x3D
_TILES = 0xC3A0
_AHEAD = {
    "down": _TILES + 20 * 11 + 8,
    "up": _TILES + 20 * 7 + 8,
    "left": _TILES + 20 * 9 + 6,
    "right": _TILES + 20 * 9 + 10,
}
"""Addresses of the tile in front of the player, in the memory of the screen."""

Read = Callable[[int], int]
"""Function that returns the byte at an address."""


@dataclass(frozen=True)
class Facts:
    """Holds the present facts of the game."""

    started: bool
    place: Place
    facing: str
    text_box: bool
    fighting: bool
    menu: int | None
    """Number of the open menu, see `symbols.MENU_ADDRESS`."""
    entry: int
    """Number of the menu's entry at the cursor."""
    set_flags: frozenset[int]
    health: float
    finished: bool
    bag: tuple[int, ...]
    party: tuple[int, ...]
    cutters: tuple[int, ...]
    """Party slots of the members that know Cut."""
    shrub_tile: bool
    """True if the cell ahead looks like a shrub; meaningless while a menu is open."""
    secret: tuple[int, int]

    @property
    def world(self) -> World:
        """The facts on which the present roads depend."""
        return World(self.set_flags, bool(self.cutters), self.secret)


def read_facts(read: Read) -> Facts:
    """Read the present facts."""
    facing = FACING.get(read(0xC109), "down")
    slots = range(min(read(0xD163), 6))
    return Facts(
        started=bool(read(0xD732) & 1),
        place=Place(read(0xD35E), read(0xD361), read(0xD362)),
        facing=facing,
        text_box=bool(read(0xD125)),
        fighting=bool(read(0xD057)),
        menu=read(MENU_ADDRESS) if read(MODE_ADDRESS) == _MENU_MODE else None,
        entry=read(0xCC26),
        set_flags=_flags(read),
        health=_health(read, slots),
        finished=bool(read(0xD5A2)),
        bag=tuple(read(0xD31E + 2 * index) for index in range(min(read(0xD31D), 20))),
        party=tuple(read(0xD164 + slot) for slot in slots),
        cutters=tuple(slot for slot in slots if CUT in _moves(read, slot)),
        shrub_tile=read(_AHEAD[facing]) == _SHRUB_TILE,
        secret=(read(SECRET_ADDRESS), read(SECRET_ADDRESS + 1)),
    )


def _flags(read: Read) -> frozenset[int]:
    flags = enumerate(STORY + SWITCHES)
    return frozenset(index for index, flag in flags if read(flag.address) >> flag.bit & 1)


def _health(read: Read, slots: range) -> float:
    maximum = sum(read(0xD18E + 44 * slot) for slot in slots)
    return sum(read(0xD16D + 44 * slot) for slot in slots) / maximum if maximum else 1.0


def _moves(read: Read, slot: int) -> list[int]:
    return [read(0xD173 + 44 * slot + index) for index in range(4)]
