"""Pure. Reads a `Progress`, the game's present facts, from an image of the work RAM.

During a warp the map is new and the coordinates are old; then `placed` is False.
"""

from dataclasses import dataclass, field
from functools import lru_cache

from Daddy.pokemon import bag as bags
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order
from Daddy.pokemon.memory_decoding import (
    Image,
    bit_set,
    bits,
    byte,
    bytes_at,
    packed_decimal,
    span,
    word,
)
from Daddy.pokemon.party import Creature, read_party

_CLOCK_RUNS = 0b1
_LOST = 0xFF
_MOST_HP = 999
_LEAVING_DOOR = 0b10
_SCRIPT_WARP = 0b1000
_FLY_OR_DUNGEON_WARP = 0b11100
_SPRITE_Y, _SPRITE_X = 12, 8
"""Offset of a sprite from its cell: 16 and 8 by the hardware, and sprites are 4 lines higher."""
_LAST_CELL_Y, _LAST_CELL_X = 128, 144
CENTRE_Y, CENTRE_X = 64, 64
"""Pixels from the screen's corner to the player's cell, as the real game places it."""
_PLACE = bytes_at(
    *(ram.MOVEMENT_FLAGS, ram.DUNGEON_WARP, ram.STATUS_FLAGS_6, ram.MAP_HEIGHT, ram.MAP_WIDTH),
    *(ram.PLAYER_X, ram.PLAYER_Y, ram.MAP_ID),
)
_SPRITES = bytes_at(ram.PLAYER_SPRITE, ram.PLAYER_SPRITE + 1, ram.PLAYER_SPRITE + 5)


_HOLDINGS = (
    slice(ram.PARTY_COUNT - ram.RAM_START, ram.MAP_ID + 1 - ram.RAM_START),
    slice(ram.LAST_MAP - ram.RAM_START, ram.EVENTS + ram.EVENT_BYTES - ram.RAM_START),
)
"""Slices of an image: all that a player holds or has done. The place is between them."""
Holdings = tuple[int, int, int, tuple[Creature, ...], int, int, int, int, int]
"""The fields of a Progress from `events` to `wins`, which few steps change."""


@dataclass(slots=True)  # not frozen, which would take 3 us of every step
class Progress:
    """Holds the game's present facts; `events` has the 320 event bytes as one integer."""

    holdings: Holdings
    """The next nine fields. The same object as before tells that no byte of them has changed."""
    events: int
    story_flags: int
    badges: int
    party: tuple[Creature, ...]
    seen: int
    owned: int
    items: int
    money: int
    wins: int
    map_id: int
    x: int
    y: int
    placed: bool
    """False during a warp, while map and coordinates do not match, and before a game has begun."""
    screen_y: int
    screen_x: int
    """Line and column in pixels of the upper left corner of the player's cell on the screen."""
    facing: int
    battle: int
    text_box: bool
    joypad_ignored: bool
    enemy_level: int
    enemy_hp: float
    image: bytes = field(default=bytes(ram.RAM_SIZE), repr=False, compare=False)
    """The image, from which the properties below are read when they are needed."""

    @property
    def bag(self) -> tuple[tuple[int, int], ...]:
        """Pairs of item and quantity, in the bag's order."""
        return bags.read_item_pairs(self.image, ram.BAG_COUNT, ram.BAG, ram.BAG_SIZE)

    @property
    def moves(self) -> frozenset[int]:
        """Numbers of the moves that a member of the party knows."""
        return frozenset(b"".join([creature.moves for creature in self.party])) - {0}

    @property
    def item_bits(self) -> int:
        """Integer whose bit n is set if item n is in the bag."""
        return bags.item_bits(self.image)

    @property
    def move_bits(self) -> int:
        """Integer whose bit n is set if a member of the party knows move n."""
        return bit_set(b"".join([creature.moves for creature in self.party])) & ~1

    @property
    def signs(self) -> tuple[tuple[int, int], ...]:
        """Row and column of each sign of the map."""
        return bags.read_item_pairs(self.image, ram.SIGN_COUNT, ram.SIGNS, ram.MOST_SIGNS)

    @property
    def toggles(self) -> int:
        """Integer whose bit n is set if the n-th person or thing that a map can hide is hidden."""
        return bits(self.image, ram.TOGGLES, ram.TOGGLE_BYTES)

    @property
    def ship_script(self) -> int:
        """State of the script of the ship's second floor (`ram_map.SHIP_SCRIPT`)."""
        return byte(self.image, ram.SHIP_SCRIPT)

    @property
    def drink_given(self) -> bool:
        """True once the player has given the guards of Saffron a drink."""
        return bool(byte(self.image, ram.STATUS_FLAGS_1) & ram.GAVE_DRINK)

    @property
    def strength_on(self) -> bool:
        """True if boulders can be pushed: Strength was used on this map."""
        return bool(byte(self.image, ram.STATUS_FLAGS_1) & ram.STRENGTH_ON)

    @property
    def dark(self) -> bool:
        """True in a cave that Flash has not lit."""
        return byte(self.image, ram.DARKNESS) != 0

    @property
    def flying(self) -> bool:
        """True from the use of Fly until the landing."""
        return bool(byte(self.image, ram.STATUS_FLAGS_7) & ram.FLYING)

    @property
    def riding(self) -> int:
        """The player's way of moving: 0 on foot, 1 on the bicycle, 2 surfing."""
        return byte(self.image, ram.RIDING)

    @property
    def blackout_map(self) -> int:
        """The map that a lost battle leads back to."""
        return byte(self.image, ram.BLACKOUT_MAP)

    @property
    def battle_kind(self) -> int:
        """Kind of battle: 0 normal, 1 the old man's lesson, 2 safari."""
        return byte(self.image, ram.BATTLE_KIND)

    @property
    def opponent(self) -> int:
        """The opponent's species, 0 outside battles."""
        return byte(self.image, ram.ENEMY_SPECIES) if self.battle else 0

    @property
    def safari_steps(self) -> int:
        return word(self.image, ram.SAFARI_STEPS)

    @property
    def options(self) -> int:
        """Options: text delay in bits 0 to 2 (1 fast), bit 6 set style, bit 7 animations off."""
        return byte(self.image, ram.OPTIONS)

    @property
    def level_sum(self) -> int:
        return sum(creature.level for creature in self.party)

    @property
    def badge_count(self) -> int:
        return self.badges.bit_count()

    @property
    def hp(self) -> int:
        """Sum of the party's HP, at most 999 per member."""
        return sum(min(creature.hp, _MOST_HP) for creature in self.party)

    @property
    def hp_fraction(self) -> float:
        """HP of the party over its maximum, 0 to 1; 0 without a party."""
        return fraction(sum(c.hp for c in self.party), sum(c.max_hp for c in self.party))


def fraction(part: int, whole: int) -> float:
    """Return part / whole, at most 1 (HP may exceed their maximum); 0 when whole is 0."""
    return min(part / whole, 1.0) if whole else 0.0


def read_progress(image: Image) -> Progress:
    """Read the Progress from an image of the work RAM, 0xC000 to 0xDFFF (8,192 bytes)."""
    image = bytes(image)
    holdings = _read_holdings(image[_HOLDINGS[0]], image[_HOLDINGS[1]])
    map_id, y, x, facing, in_battle, font, ignored = _SINGLE(image)
    battle = 0 if in_battle == _LOST else min(in_battle, 2)
    screen_y, screen_x = player_on_screen(image)
    return Progress(
        holdings,
        *holdings,
        map_id,
        x,
        y,
        has_valid_place(image),
        screen_y,
        screen_x,
        facing >> 2 & 3,
        battle,
        bool(font & 1),
        ignored != 0,
        byte(image, ram.ENEMY_LEVEL) if in_battle else 0,
        fraction(word(image, ram.ENEMY_HP), word(image, ram.ENEMY_MAX_HP)) if in_battle else 0.0,
        image,
    )


@lru_cache(maxsize=256)
def _read_holdings(before_place: bytes, after_place: bytes) -> Holdings:
    image = bytearray(ram.RAM_SIZE)
    image[_HOLDINGS[0]], image[_HOLDINGS[1]] = before_place, after_place
    events = bits(image, ram.EVENTS, ram.EVENT_BYTES)
    return (
        events,
        (events & _STORY).bit_count(),
        byte(image, ram.BADGES),
        read_party(image),
        bits(image, ram.POKEDEX_SEEN, ram.POKEDEX_BYTES).bit_count(),
        bits(image, ram.POKEDEX_OWNED, ram.POKEDEX_BYTES).bit_count(),
        min(byte(image, ram.BAG_COUNT), ram.BAG_SIZE),
        packed_decimal(span(image, ram.MONEY, ram.MONEY_BYTES)),
        byte(image, ram.HALL_OF_FAME),
    )


def has_valid_place(image: Image) -> bool:
    """Return True if map and coordinates match, which is not so during a warp."""
    moving, dungeon, flight, height, width, x, y, map_id = _PLACE(image)
    if moving & _LEAVING_DOOR or dungeon & _SCRIPT_WARP or flight & _FLY_OR_DUNGEON_WARP:
        return False
    if height and width:
        return y < 2 * height and x < 2 * width
    return bool(x or y or map_id)


def player_on_screen(image: Image) -> tuple[int, int]:
    """Return line and column (pixels) of the player's cell; the centre if no player is drawn."""
    line, left, right = _SPRITES(image)
    y, x = line - _SPRITE_Y, min(left, right) - _SPRITE_X
    drawn = 0 <= y <= _LAST_CELL_Y and 0 <= x <= _LAST_CELL_X
    return (y, x) if drawn else (CENTRE_Y, CENTRE_X)


def is_free(now: Progress, image: Image) -> bool:
    """Return True if the next key can move the player: no fight, text, menu, script or walking.

    `image` is the one of `now`, with up-to-date bytes at WALKED_BY_GAME and WALK_COUNTER.
    """
    if now.battle or now.text_box or now.joypad_ignored or not now.placed:
        return False
    scripted = byte(image, ram.STATUS_FLAGS_5) & ram.SCRIPTED
    return not (scripted or byte(image, ram.WALKED_BY_GAME) or byte(image, ram.WALK_COUNTER))


def not_started_reason(image: Image, earlier: Image | None = None) -> str | None:
    """Return the reason for which no game is running in `image`; None if a game is running.

    `earlier`: an image at least 60 frames older, to check that the game's clock moves.
    """
    if not byte(image, ram.STATUS_FLAGS_6) & _CLOCK_RUNS:
        return "the game's clock does not run (bit 0 of 0xD732): title screen or introduction"
    places = (ram.PARTY_COUNT, ram.MAP_ID, ram.PLAYER_Y, ram.PLAYER_X)
    if not any(byte(image, address) for address in places):
        return "no party, map 0, row 0, column 0: the memory of a game that was never begun"
    times = [span(memory, ram.PLAY_TIME, ram.PLAY_TIME_BYTES) for memory in (image, earlier or b"")]
    if times[0] == times[1] and not times[0][1]:
        hours, _, minutes, seconds, frames = times[0]
        return f"the play time stands still at {hours}:{minutes:02}:{seconds:02}, {frames} frames"
    return None


def rewardable_events(events: int) -> int:
    """Return the bits of `events` that can be rewarded: all but `story_order.UNPAID`."""
    return events & _ACHIEVEMENTS


_SINGLE = bytes_at(
    *(ram.MAP_ID, ram.PLAYER_Y, ram.PLAYER_X, ram.FACING),
    *(ram.IN_BATTLE, ram.FONT_LOADED, ram.JOY_IGNORE),
)
_STORY = story_order.event_mask(story_order.STORY)
_ACHIEVEMENTS = ((1 << 8 * ram.EVENT_BYTES) - 1) & ~story_order.UNPAID
