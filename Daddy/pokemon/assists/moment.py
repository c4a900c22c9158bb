"""Pure: what an assist sees, what it wants done, and what it makes of the outcome."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.memory import Image, byte
from Daddy.pokemon.progress import Progress

_SCRIPTED: Final = 0b10100001
"""Of STATUS_FLAGS_5: somebody is moved by a script, the buttons are off, the player is moved."""
SPANS: Final = (
    (ram.TILES, ram.TILES + 360),
    *(
        (address, address + 1)
        for address in (
            *(ram.BAG_CURSOR, ram.LIST_SCROLL, ram.WALKED_BY_GAME, ram.WALK_COUNTER),
            *(ram.MAP_SCRIPT_FLAGS, ram.NO_BATTLE_STEPS),
        )
    ),
)
"""What assists read beyond the blocks of every step."""

Writes = tuple[tuple[int, int], ...]
"""Pairs of address and byte."""


@dataclass(frozen=True, slots=True)
class Moment:
    """Between two steps: the facts, the memory they were read from, and the key that is next.

    `calm`: the player stands free: no fight, text, menu, script, or step under way.
    """

    progress: Progress
    image: Image
    button: str
    calm: bool

    @property
    def place(self) -> tuple[int, int, int]:
        """Map, row, column."""
        return self.progress.map_id, self.progress.y, self.progress.x

    def at(self, address: int) -> int:
        """One byte."""
        return byte(self.image, address)

    def has_badge(self, number: int) -> bool:
        """Whether badge `number` (0: Boulder, 7: Earth) was won."""
        return bool(self.progress.badges >> number & 1)

    def has_event(self, number: int) -> bool:
        """Whether event flag `number` is set."""
        return bool(self.progress.events >> number & 1)

    def holds(self, item: int) -> bool:
        """Whether `item` is in the bag."""
        return any(one == item for one, _ in self.progress.bag)

    def with_event(self, number: int) -> tuple[int, int]:
        """The write that sets event flag `number` and leaves its neighbours as they are."""
        address = ram.EVENTS + number // 8
        return address, self.at(address) | 1 << number % 8


def look(progress: Progress, image: Image, button: str) -> Moment:
    """The moment before `button` is pressed; `SPANS` are fresh in `image`."""
    busy = progress.battle or progress.text_box or progress.joypad_ignored or not progress.placed
    led = byte(image, ram.WALKED_BY_GAME) or byte(image, ram.STATUS_FLAGS_5) & _SCRIPTED
    return Moment(progress, image, button, calm=not (busy or led or byte(image, ram.WALK_COUNTER)))


@dataclass(frozen=True, slots=True)
class Act:
    """What to do now and why: bytes to write, or a key to press in place of the agent's.

    With neither it only watches over what follows.
    """

    reason: str
    writes: Writes = ()
    button: str = ""


@dataclass(frozen=True, slots=True)
class Trace:
    """An act whose effect is still to be seen: where it was, and what stood there before.

    `writes` are triples of address, byte before, byte after; `looks` counts calm moments since.
    """

    place: tuple[int, int, int]
    writes: tuple[tuple[int, int, int], ...] = ()
    looks: int = 0


class Verdict(Enum):
    """What a later moment says of an act; MOOT when it can no longer be told."""

    WORKED = "worked"
    FAILED = "failed"
    OPEN = "open"
    MOOT = "moot"
