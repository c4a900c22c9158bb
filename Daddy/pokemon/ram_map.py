"""Pure. Names every address of the game's work RAM that is read or written.

Valid for Pokémon Red and Blue (USA/Europe) and for our own cartridge, which has the same layout;
not for Yellow. Names follow the public disassembly (pret/pokered). Numbers of several bytes are
big-endian, money and coins are packed decimals, flags count from the least significant bit. Every
step reads `BLOCKS`; menu drivers, assists and tables read the other addresses.
"""

from typing import Final

RAM_START: Final = 0xC000
RAM_SIZE: Final = 0x2000
"""Bytes of work RAM, 0xC000 to 0xDFFF: the image that `game_progress` reads."""
RANDOM: Final = (0xFFD3, 0xFFD4)
"""The game's two random bytes, in high RAM; writing them seeds the game."""

PLAYER_SPRITE: Final = 0xC300
"""The player's first two sprites, four bytes each, beginning with line + 16 and column + 8."""
FACING: Final = 0xC109
"""The player's direction: 0 down, 4 up, 8 left, 12 right."""
TILES: Final = 0xC3A0
TILE_COLUMNS: Final = 20
"""The screen has 18 rows of 20 tiles, stored row by row."""
FACINGS: Final = ("down", "up", "left", "right")
"""Buttons by `Progress.facing`."""
TILES_AHEAD: Final = (
    *(TILES + 11 * TILE_COLUMNS + 8, TILES + 7 * TILE_COLUMNS + 8),
    *(TILES + 9 * TILE_COLUMNS + 6, TILES + 9 * TILE_COLUMNS + 10),
)
"""The lower left tile of the cell in front of the player, by `Progress.facing`."""
MENU_Y: Final = 0xCC24
MENU_X: Final = 0xCC25
"""Row and column, in tiles, of the open menu's first entry."""
MENU_ITEM: Final = 0xCC26
MENU_LAST: Final = 0xCC28
"""Number of the entry at the cursor, and of the last entry."""
BAG_CURSOR: Final = 0xCC2C
"""The entry on which the bag opens."""
LIST_SCROLL: Final = 0xCC36
WALKED_BY_GAME: Final = 0xCD38
"""Above 0 while the game moves the player by itself."""
JOY_IGNORE: Final = 0xCD6B
"""Bits of the buttons that the game ignores while a script has control: A bit 0, down bit 7."""
BUTTON_A: Final = 1 << 0
DIRECTIONS: Final = 0xF0
FONT_LOADED: Final = 0xCFC4
"""Bit 0 is set while a text box or menu is up in the overworld."""
WALK_COUNTER: Final = 0xCFC5
"""Frames left of the player's present walking step."""
ENEMY_SPECIES: Final = 0xCFE5
ENEMY_HP: Final = 0xCFE6
ENEMY_LEVEL: Final = 0xCFF3
ENEMY_MAX_HP: Final = 0xCFF4
IN_BATTLE: Final = 0xD057
"""0 none, 1 wild, 2 trainer, 0xFF just lost."""
BATTLE_KIND: Final = 0xD05A
"""0 normal, 1 the old man's lesson, 2 safari."""
REPEL_STEPS: Final = 0xD0DB
TEXT_BOX: Final = 0xD125
"""The kind of text box drawn last."""
QUESTION: Final = 0x14
"""Kind of a text box with two answers: yes and no, or buy and sell."""

MAP_SCRIPT_FLAGS: Final = 0xD126
"""Bit 5: the map's script reads its switches again, as after loading the map."""
SWITCHES_ANEW: Final = 1 << 5
NO_BATTLE_STEPS: Final = 0xD13C
"""Cells to walk until wild creatures can appear; set to 3 after a fight."""

PLAYER_NAME: Final = 0xD158
NAME_BYTES: Final = 11
PARTY_COUNT: Final = 0xD163
PARTY_SPECIES: Final = 0xD164
"""Up to six species and an end mark 0xFF."""
PARTY_SIZE: Final = 6
PARTY_MONS: Final = 0xD16B
PARTY_STRIDE: Final = 44
MON_HP: Final = 1
MON_MOVES: Final = 8
MON_PP: Final = 29
MON_LEVEL: Final = 33
MAX_LEVEL: Final = 100

POKEDEX_OWNED: Final = 0xD2F7
POKEDEX_SEEN: Final = 0xD30A
POKEDEX_BYTES: Final = 19
"""Bit n: the species n + 1 of the index of 151."""
BAG_COUNT: Final = 0xD31D
BAG: Final = 0xD31E
"""Pairs of item and quantity, ended by 0xFF."""
BAG_SIZE: Final = 20
MONEY: Final = 0xD347
MONEY_BYTES: Final = 3
RIVAL_NAME: Final = 0xD34A
OPTIONS: Final = 0xD355
"""Bits 0 to 2: text delay (1 fast, 3 medium, 5 slow); 6: set style; 7: animations off."""
BADGES: Final = 0xD356
PLAYER_ID: Final = 0xD359
DARKNESS: Final = 0xD35D
"""0 where it is light, 6 in a cave that Flash has not lit."""

MAP_ID: Final = 0xD35E
PLAYER_Y: Final = 0xD361
PLAYER_X: Final = 0xD362
LAST_MAP: Final = 0xD365
"""The outdoor map that a door leads back to."""
TILESET: Final = 0xD367
MAP_HEIGHT: Final = 0xD368
MAP_WIDTH: Final = 0xD369
"""Height and width of the map in blocks of 2x2 cells; 0 on a cartridge that does not set them."""
WARP_COUNT: Final = 0xD3AE
WARPS: Final = 0xD3AF
"""Four bytes per exit: row, column, number of the entrance on the target map, target map."""
SIGN_COUNT: Final = 0xD4B0
SIGNS: Final = 0xD4B1
MOST_SIGNS: Final = 16
"""Two bytes per sign of the map, at most 16 signs: row and column."""
PC_COUNT: Final = 0xD53A
PC_ITEMS: Final = 0xD53B
PC_SIZE: Final = 50
"""Items in the PC, in the bag's format."""

CURRENT_BOX: Final = 0xD5A0
HALL_OF_FAME: Final = 0xD5A2
"""Number of teams in the hall of fame: one more each time the game is won."""
COINS: Final = 0xD5A4
COIN_BYTES: Final = 2
TOGGLES: Final = 0xD5A6
TOGGLE_BYTES: Final = 32
"""One flag for each person or thing that a map can hide: set while hidden (gone or taken)."""
SHIP_SCRIPT: Final = 0xD665
"""State of the script of the ship's second floor; 4 once the rival there is beaten."""
SHIP_RIVAL_BEATEN: Final = 4
RIDING: Final = 0xD700
"""The player's way of moving: 0 on foot, 1 on the bicycle, 2 surfing."""
TOWNS: Final = 0xD70B
TOWN_BYTES: Final = 2
"""Bit n: town n was visited, so that Fly leads there; the only little-endian number here."""
SAFARI_STEPS: Final = 0xD70D
RIVAL_STARTER: Final = 0xD715
STARTER: Final = 0xD717
BLACKOUT_MAP: Final = 0xD719
"""The map to which a lost battle leads."""
STATUS_FLAGS_1: Final = 0xD728
"""Bit 0: Strength is on; 1: surfing is allowed; 3 to 5: rods; 6: the guards had their drink."""
STRENGTH_ON: Final = 1 << 0
GAVE_DRINK: Final = 1 << 6
BEATEN_LEADERS: Final = 0xD72A
"""Beaten leaders, one bit each, in the order of BADGES."""
DUNGEON_WARP: Final = 0xD72D
"""Bit 3: a warp by script is under way."""
STATUS_FLAGS_4: Final = 0xD72E
"""Bit 0: got Lapras; 2: a centre was used; 3: got the starter; 5: a battle is over."""
GOT_LAPRAS: Final = 1 << 0
STATUS_FLAGS_5: Final = 0xD730
"""Bit 5: the buttons are off; 7: a script moves the player."""
BUTTONS_OFF: Final = 1 << 5
SCRIPTED: Final = 1 << 7 | BUTTONS_OFF | 1 << 0
"""Bits of STATUS_FLAGS_5: a script moves a person or the player, or the buttons are off."""
STATUS_FLAGS_6: Final = 0xD732
"""Bit 0: the game's clock runs; bits 2 to 4: fly and dungeon warps."""
STATUS_FLAGS_7: Final = 0xD733
"""Bit 3: a trainer's battle; 7: Fly was used."""
FLYING: Final = 1 << 7
MOVEMENT_FLAGS: Final = 0xD736
"""Bit 1: leaving a door; 6: hopping off a ledge, or fishing; 7: spinning."""

EVENTS: Final = 0xD747
EVENT_BYTES: Final = 320
"""2,560 event bits, the least significant of each byte first."""
PLAY_TIME: Final = 0xDA41
PLAY_TIME_BYTES: Final = 5
"""Hours, hours maxed, minutes, seconds, frames."""
SAFARI_BALLS: Final = 0xDA47
BOX_COUNT: Final = 0xDA80
"""Creatures in the current box."""

BLOCKS: Final = (
    (FACING, FACING + 1),
    (PLAYER_SPRITE, PLAYER_SPRITE + 8),
    (TILES + 7 * TILE_COLUMNS + 8, TILES + 7 * TILE_COLUMNS + 9),
    (TILES + 9 * TILE_COLUMNS + 6, TILES + 9 * TILE_COLUMNS + 11),
    (TILES + 11 * TILE_COLUMNS + 8, TILES + 11 * TILE_COLUMNS + 9),
    (JOY_IGNORE, JOY_IGNORE + 1),
    (FONT_LOADED, FONT_LOADED + 1),
    (ENEMY_SPECIES, ENEMY_MAX_HP + 2),
    (IN_BATTLE, BATTLE_KIND + 1),
    (PARTY_COUNT, PARTY_MONS + PARTY_SIZE * PARTY_STRIDE),
    (POKEDEX_OWNED, BAG + 2 * BAG_SIZE),
    (MONEY, MONEY + MONEY_BYTES),
    (OPTIONS, MAP_WIDTH + 1),
    (SIGN_COUNT, SIGNS + 2 * MOST_SIGNS),
    (HALL_OF_FAME, TOGGLES + TOGGLE_BYTES),
    (SHIP_SCRIPT, SHIP_SCRIPT + 1),
    (RIDING, EVENTS + EVENT_BYTES),
    (PLAY_TIME, PLAY_TIME + PLAY_TIME_BYTES),
)
"""Spans of addresses (first, past the last) that every step reads: all that `Progress` uses.

The third to fifth are the tiles in the four cells around the player."""
ANSWERS: Final = ((MENU_ITEM, MENU_LAST + 1), (TEXT_BOX, TEXT_BOX + 1))
"""Spans that show if the game waits for the answer to a question."""
WHOLE: Final = ((RAM_START, RAM_START + RAM_SIZE),)
"""The whole work RAM as one span."""
OLD_MEN: Final = (0x01, 0x02)
SNORLAXES: Final = (0x1D, 0x21)
GAME_CORNER_ROCKET: Final = 0x46
SECRET_KEY_BALL: Final = 0xC2
GOLD_TEETH_BALL: Final = 0xCC
"""Numbers of toggles. OLD_MEN: the man who blocks the road north of Viridian, asleep and awake."""
