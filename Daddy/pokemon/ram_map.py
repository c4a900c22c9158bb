"""Pure: where the game keeps what we read, as addresses of its work RAM.

Owns every address of the project. Valid for Pokémon Red and Blue (USA/Europe) and for our own
cartridge, which keeps the same layout; not for Yellow. Names follow the public disassembly
(pret/pokered). Numbers of several bytes are big-endian, money is packed decimal.
"""

from __future__ import annotations

from typing import Final

RAM_START: Final = 0xC000
RAM_SIZE: Final = 0x2000
"""Bytes of work RAM, 0xC000 to 0xDFFF: the image that `progress` reads."""
RANDOM: Final = (0xFFD3, 0xFFD4)
"""The game's two dice, in high RAM; writing them seeds it."""

PLAYER_SPRITE: Final = 0xC300
"""The player's first two sprites, four bytes each: screen line + 16, screen column + 8."""
FACING: Final = 0xC109
"""0 down, 4 up, 8 left, 12 right."""
JOY_IGNORE: Final = 0xCD6B
FONT_LOADED: Final = 0xCFC4
"""Bit 0 is set while a text box or menu is up in the overworld."""
ENEMY_HP: Final = 0xCFE6
ENEMY_LEVEL: Final = 0xCFF3
ENEMY_MAX_HP: Final = 0xCFF4
IN_BATTLE: Final = 0xD057
"""0 none, 1 wild, 2 trainer, 0xFF just lost."""

PARTY_COUNT: Final = 0xD163
PARTY_SIZE: Final = 6
PARTY_MONS: Final = 0xD16B
PARTY_STRIDE: Final = 44
MON_HP: Final = 1
MON_MOVES: Final = 8
MON_LEVEL: Final = 33
MON_MAX_HP: Final = 34
MAX_LEVEL: Final = 100

POKEDEX_OWNED: Final = 0xD2F7
POKEDEX_SEEN: Final = 0xD30A
POKEDEX_BYTES: Final = 19
BAG_COUNT: Final = 0xD31D
BAG_SIZE: Final = 20
MONEY: Final = 0xD347
BADGES: Final = 0xD356

MAP_ID: Final = 0xD35E
PLAYER_Y: Final = 0xD361
PLAYER_X: Final = 0xD362
MAP_HEIGHT: Final = 0xD368
MAP_WIDTH: Final = 0xD369
"""Height and width count blocks of 2x2 cells; 0 where a cartridge does not keep them."""

HALL_OF_FAME: Final = 0xD5A2
"""Teams in the hall of fame: one more each time the game is won."""
DUNGEON_WARP: Final = 0xD72D
"""Bit 3: a warp by script is under way."""
STATUS_FLAGS_6: Final = 0xD732
"""Bit 0: the game's clock runs; bits 2 to 4: fly and dungeon warps."""
MOVEMENT_FLAGS: Final = 0xD736
"""Bit 1: leaving a door."""

EVENTS: Final = 0xD747
EVENT_BYTES: Final = 320
"""2,560 event bits, the least significant of each byte first."""
PLAY_TIME: Final = 0xDA41
"""Hours, hours maxed, minutes, seconds, frames."""

BLOCKS: Final = (
    (FACING, FACING + 1),
    (PLAYER_SPRITE, PLAYER_SPRITE + 8),
    (JOY_IGNORE, JOY_IGNORE + 1),
    (FONT_LOADED, FONT_LOADED + 1),
    (ENEMY_HP, ENEMY_MAX_HP + 2),
    (IN_BATTLE, IN_BATTLE + 1),
    (PARTY_COUNT, PARTY_MONS + PARTY_SIZE * PARTY_STRIDE),
    (POKEDEX_OWNED, BAG_COUNT + 1),
    (MONEY, MAP_WIDTH + 1),
    (HALL_OF_FAME, HALL_OF_FAME + 1),
    (DUNGEON_WARP, EVENTS + EVENT_BYTES),
    (PLAY_TIME, PLAY_TIME + 5),
)
"""The spans (first, past the last) that one step reads: all we use, about 800 bytes."""

UNSTABLE_EVENTS: Final = (
    *((0xD754, 0), (0xD773, 1), (0xD7F2, 6), (0xD7EB, 0), (0xD7EB, 1), (0xD7EB, 7)),
    *((0xD7D8, 6), (0xD7E0, 0), (0xD7F0, 1), (0xD796, 0), (0xD790, 7), (0xD790, 6)),
    *((0xD7E7, 0), (0xD768, 1), (0xD765, 0), (0xD771, 7), (0xD771, 6), (0xD747, 3)),
    *((0xD7A3, 0), (0xD7A3, 1), (0xD7A3, 2)),
)
"""Bits that say how things stand or can be had twice (the museum ticket): never rewarded."""

STORY_LADDER: Final = (
    *((0xD747, 0), (0xD74B, 1), (0xD74B, 2), (0xD74B, 3), (0xD74E, 1), (0xD74E, 0), (0xD74B, 5)),
    *((0xD74B, 4), (0xD74A, 0), (0xD7EB, 5), (0xD755, 7), (0xD755, 6), (0xD7F6, 1), (0xD7F6, 6)),
    *((0xD7F6, 7), (0xD75A, 0), (0xD7EF, 0), (0xD7EF, 1), (0xD7F1, 0), (0xD7F2, 3), (0xD7F2, 4)),
    *((0xD7F2, 7), (0xD75E, 7), (0xD75B, 7), (0xD803, 1), (0xD803, 0), (0xD803, 2), (0xD773, 0)),
    *((0xD773, 7), (0xD771, 1), (0xD75F, 0), (0xD7C2, 0), (0xD765, 1), (0xD77C, 1), (0xD77E, 1)),
    *((0xD81B, 6), (0xD81B, 5), (0xD81B, 7), (0xD769, 1), (0xD7E0, 7), (0xD76A, 1), (0xD76C, 2)),
    *((0xD7D8, 7), (0xD7E0, 1), (0xD7E0, 6), (0xD857, 0), (0xD78E, 1), (0xD78E, 0), (0xD792, 1)),
    *((0xD82F, 0), (0xD838, 7), (0xD838, 5), (0xD7B3, 1), (0xD79A, 1), (0xD74C, 0), (0xD751, 1)),
    *((0xD7EB, 6), (0xD7ED, 0), (0xD7ED, 6), (0xD869, 7), (0xD7EE, 0), (0xD813, 0), (0xD863, 1)),
    *((0xD864, 1), (0xD865, 1), (0xD866, 6), (0xD867, 1)),
)
"""The 67 events of a normal game, in the order it passes them: byte address and bit."""
