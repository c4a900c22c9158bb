"""Provides a work RAM laid out as in the fact sheet, with the emulator's `ram` and `write`."""

from __future__ import annotations

from collections.abc import Iterable

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.assist_state import Intervention, StepState, state_before_key
from Daddy.pokemon.game_progress import Progress, read_progress
from tests.pokemon.images import creature, put

RAINBOW, SOUL = 1 << 3, 1 << 4
LAPRAS, SNORLAX, PIDGEY, BULBASAUR = 0x13, 0x84, 0x24, 0x99
CUT, SURF, STRENGTH = 0x0F, 0x39, 0x46
FLUTE, HM_SURF, HM_STRENGTH = 0x49, 0xC6, 0xC7
WATER = 0x14


class Paper:
    """Holds a work RAM that can be read and written; no game runs."""

    def __init__(self, **values: int) -> None:
        self.image = bytearray(ram.RAM_SIZE)
        self.set(map_id=1, map_height=20, map_width=20, player_y=5, player_x=5)
        self.set(**{"money": 0x09, **values})
        put(self.image, ram.BAG, 0xFF)
        put(self.image, ram.PARTY_SPECIES, 0xFF)

    def set(self, **values: int) -> Paper:
        """Set bytes by the names of `ram_map`, in lower case."""
        for name, value in values.items():
            put(self.image, getattr(ram, name.upper()), value)
        return self

    def bag(self, *items: int, quantity: int = 1) -> Paper:
        """Fill the bag with these items."""
        listed = [value for item in items for value in (item, quantity)] + [0xFF]
        put(self.image, ram.BAG, *listed)
        return self.set(bag_count=len(items))

    def member(self, slot: int, species: int, *moves: int) -> Paper:
        """Add a member to the party."""
        creature(self.image, slot, species, 20, 20, 20)
        start = ram.PARTY_MONS + slot * ram.PARTY_STRIDE
        put(self.image, start + ram.MON_MOVES, *moves, *[0] * (4 - len(moves)))
        put(self.image, ram.PARTY_SPECIES + slot, species, 0xFF)
        return self

    def event(self, number: int, *, happened: bool = True) -> Paper:
        """Set an event flag."""
        at = ram.EVENTS + number // 8 - ram.RAM_START
        bit = 1 << number % 8
        self.image[at] = self.image[at] | bit if happened else self.image[at] & ~bit
        return self

    def hide(self, toggle: int) -> Paper:
        """Hide a person or thing."""
        self.image[ram.TOGGLES + toggle // 8 - ram.RAM_START] |= 1 << toggle % 8
        return self

    @property
    def progress(self) -> Progress:
        return read_progress(self.image)

    def moment(self, button: str = "a") -> StepState:
        return state_before_key(self.progress, self.image, button)

    def apply(self, act: Intervention | None) -> dict[int, int]:
        """Apply an intervention; return the bytes that changed, by address."""
        assert act is not None
        before = bytes(self.image)
        for address, value in act.writes:
            self.write(address, value)
        pairs = enumerate(zip(before, self.image, strict=True), ram.RAM_START)
        return {address: now for address, (was, now) in pairs if was != now}

    # -- the emulator's interface

    def ram(self, blocks: Iterable[tuple[int, int]] = ()) -> bytearray:
        return self.image

    def write(self, address: int, value: int) -> None:
        self.image[address - ram.RAM_START] = value
