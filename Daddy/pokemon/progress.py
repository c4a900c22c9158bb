"""Pure: an image of the work RAM becomes a Progress, the facts of one moment of the game.

Owns what a byte means; promises no side effects and that a half-finished warp (new map, old
coordinates) is never reported as a position.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from Daddy.pokemon import ram_map as ram

_LEAVING_DOOR = 0b10
_SCRIPT_WARP = 0b1000
_FLY_OR_DUNGEON_WARP = 0b11100
_LOST = 0xFF
_SPRITE_Y, _SPRITE_X = 12, 8
"""A sprite's place is that of its cell plus this: the hardware's 16 and 8, drawn 4 lines higher."""
_LAST_CELL_Y, _LAST_CELL_X = 128, 144
CENTRE_Y, CENTRE_X = 64, 64
"""Pixels from the screen's corner to the player's cell, where the real game keeps it."""


@dataclass(frozen=True, slots=True)
class Creature:
    """One party member: HP as the game keeps them, level 1 to 100."""

    species: int
    hp: int
    max_hp: int
    level: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How far the game is and where. `events` are the 320 packed event bytes as one integer."""

    map_id: int
    x: int
    y: int
    placed: bool
    """False while map and coordinates do not belong together (a warp) or no game has begun."""
    screen_y: int
    screen_x: int
    """Where on the screen the player's cell begins, in pixels."""
    facing: int
    events: int
    story_flags: int
    badges: int
    party: tuple[Creature, ...]
    seen: int
    owned: int
    items: int
    money: int
    battle: int
    text_box: bool
    joypad_ignored: bool
    enemy_level: int
    enemy_hp: float
    play_time_s: int
    wins: int

    @property
    def level_sum(self) -> int:
        """Levels of the whole party."""
        return sum(creature.level for creature in self.party)

    @property
    def badge_count(self) -> int:
        """Badges won, 0 to 8."""
        return self.badges.bit_count()

    @property
    def hp_fraction(self) -> float:
        """HP of the party over its maximum, 0 to 1; 0 without a party."""
        return fraction(sum(c.hp for c in self.party), sum(c.max_hp for c in self.party))


def fraction(part: int, whole: int) -> float:
    """Part / whole, at most 1 (HP may exceed their maximum in real play); 0 when whole is 0."""
    return min(part / whole, 1.0) if whole else 0.0


def read_progress(image: bytes | bytearray) -> Progress:
    """The Progress that an image of 0xC000 to 0xDFFF (8,192 bytes) holds."""
    events = int.from_bytes(_span(image, ram.EVENTS, ram.EVENT_BYTES), "little")
    battle = _byte(image, ram.IN_BATTLE)
    screen_y, screen_x = _on_screen(image)
    return Progress(
        map_id=_byte(image, ram.MAP_ID),
        x=_byte(image, ram.PLAYER_X),
        y=_byte(image, ram.PLAYER_Y),
        placed=_placed(image),
        screen_y=screen_y,
        screen_x=screen_x,
        facing=_byte(image, ram.FACING) >> 2 & 3,
        events=events,
        story_flags=story_flags(events),
        badges=_byte(image, ram.BADGES),
        party=_party(image),
        seen=_count_bits(image, ram.POKEDEX_SEEN, ram.POKEDEX_BYTES),
        owned=_count_bits(image, ram.POKEDEX_OWNED, ram.POKEDEX_BYTES),
        items=min(_byte(image, ram.BAG_COUNT), ram.BAG_SIZE),
        money=packed_decimal(_span(image, ram.MONEY, 3)),
        battle=0 if battle == _LOST else min(battle, 2),
        text_box=bool(_byte(image, ram.FONT_LOADED) & 1),
        joypad_ignored=_byte(image, ram.JOY_IGNORE) != 0,
        enemy_level=_byte(image, ram.ENEMY_LEVEL) if battle else 0,
        enemy_hp=_enemy_hp(image) if battle else 0.0,
        play_time_s=_play_time_s(image),
        wins=_byte(image, ram.HALL_OF_FAME),
    )


def story_flags(events: int) -> int:
    """How many of the 67 events of a normal game have happened."""
    return (events & _LADDER).bit_count()


def rewardable(events: int) -> int:
    """The event bits that stand for an achievement."""
    return events & _ACHIEVEMENTS


def packed_decimal(data: bytes | bytearray) -> int:
    """Two decimal digits a byte, most significant first: the bytes 0x12 0x34 are 1234."""
    value = 0
    for byte in data:
        value = value * 100 + (byte >> 4) * 10 + (byte & 15)
    return value


def _byte(image: bytes | bytearray, address: int) -> int:
    return image[address - ram.RAM_START]


def _word(image: bytes | bytearray, address: int) -> int:
    return _byte(image, address) << 8 | _byte(image, address + 1)


def _span(image: bytes | bytearray, address: int, length: int) -> bytes | bytearray:
    return image[address - ram.RAM_START : address - ram.RAM_START + length]


def _count_bits(image: bytes | bytearray, address: int, length: int) -> int:
    return int.from_bytes(_span(image, address, length), "little").bit_count()


def _party(image: bytes | bytearray) -> tuple[Creature, ...]:
    """Members below the count; what lies behind them in memory is stale."""
    count = min(_byte(image, ram.PARTY_COUNT), ram.PARTY_SIZE)
    starts = (ram.PARTY_MONS + slot * ram.PARTY_STRIDE for slot in range(count))
    return tuple(_creature(image, start) for start in starts)


def _creature(image: bytes | bytearray, start: int) -> Creature:
    return Creature(
        species=_byte(image, start),
        hp=_word(image, start + ram.MON_HP),
        max_hp=_word(image, start + ram.MON_MAX_HP),
        level=min(_byte(image, start + ram.MON_LEVEL), ram.MAX_LEVEL),
    )


def _placed(image: bytes | bytearray) -> bool:
    """Whether map and coordinates belong together: they change in different frames of a warp."""
    if _byte(image, ram.MOVEMENT_FLAGS) & _LEAVING_DOOR:
        return False
    if _byte(image, ram.DUNGEON_WARP) & _SCRIPT_WARP:
        return False
    if _byte(image, ram.STATUS_FLAGS_6) & _FLY_OR_DUNGEON_WARP:
        return False
    height, width = _byte(image, ram.MAP_HEIGHT), _byte(image, ram.MAP_WIDTH)
    x, y = _byte(image, ram.PLAYER_X), _byte(image, ram.PLAYER_Y)
    if height and width:
        return y < 2 * height and x < 2 * width
    return bool(x or y or _byte(image, ram.MAP_ID))


def _on_screen(image: bytes | bytearray) -> tuple[int, int]:
    """Line and column of the player's cell; the centre while the player is not drawn."""
    sprites = _span(image, ram.PLAYER_SPRITE, 8)
    y, x = sprites[0] - _SPRITE_Y, min(sprites[1], sprites[5]) - _SPRITE_X
    drawn = 0 <= y <= _LAST_CELL_Y and 0 <= x <= _LAST_CELL_X
    return (y, x) if drawn else (CENTRE_Y, CENTRE_X)


def _enemy_hp(image: bytes | bytearray) -> float:
    return fraction(_word(image, ram.ENEMY_HP), _word(image, ram.ENEMY_MAX_HP))


def _play_time_s(image: bytes | bytearray) -> int:
    hours, _, minutes, seconds, _ = _span(image, ram.PLAY_TIME, 5)
    return hours * 3600 + minutes * 60 + seconds


def _mask(bits: Iterable[tuple[int, int]]) -> int:
    """Event bits, given as (byte address, bit), as one integer."""
    return sum(1 << 8 * (address - ram.EVENTS) + bit for address, bit in set(bits))


_LADDER = _mask(ram.STORY_LADDER)
_ACHIEVEMENTS = ((1 << 8 * ram.EVENT_BYTES) - 1) & ~_mask(ram.UNSTABLE_EVENTS)
