"""Pure. Defines every assist: its decision, and the test of its effect.

A decision takes the state before a key and returns an intervention or None; docs/assists.md lists
all assists. An assist that removes an obstacle sets the event flag that the game itself sets (the
flute was played, a boulder is on its switch); the game's own scripts then do the rest.
"""

from collections.abc import Callable
from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.assists.assist_state import EffectOutcome, Intervention, PendingEffect, StepState
from Daddy.pokemon.bag import FLUTE, HM_STRENGTH, HM_SURF, is_story_item
from Daddy.pokemon.party import FIELD_MOVES, STRENGTH, SURF, Creature

_RAINBOW, _SOUL = 3, 4
"""Badges without which the game permits neither Strength nor Surf."""

# -- the bag and money: the written bytes are the whole effect

_LIST_END: Final = 0xFF
_BALLS: Final = frozenset((1, 2, 3, 4))
"""Items that are never tossed: a creature that can learn Surf has to be caught."""
_ENOUGH: Final = 10_000
"""Money below which the purse is filled; nothing that the story needs costs more."""
_FULL: Final = 100_000
_FULL_PURSE: Final = (0x10, 0x00, 0x00)
"""`_FULL` in packed decimal, well below the game's limit, so that later prizes still fit."""


def toss_junk(now: StepState) -> Intervention | None:
    """Remove all but balls, key items and HMs from a full bag, to make room for key items."""
    bag = now.progress.bag
    if not now.calm or len(bag) < ram.BAG_SIZE:
        return None
    remaining = [pair for pair in bag if pair[0] in _BALLS or is_story_item(pair[0])]
    if len(remaining) == len(bag):
        return None
    listed = [value for pair in remaining for value in pair] + [_LIST_END]
    writes = [(ram.BAG + place, value) for place, value in enumerate(listed)]
    cursor = ((ram.BAG_COUNT, len(remaining)), (ram.BAG_CURSOR, 0), (ram.LIST_SCROLL, 0))
    tossed = len(bag) - len(remaining)
    return Intervention(f"bag was full: {tossed} of {len(bag)} items tossed", (*writes, *cursor))


def fill_purse(now: StepState) -> Intervention | None:
    """Set the money to 100,000 if it is below 10,000, so that drink and safari can be paid."""
    if not now.calm or now.progress.money >= _ENOUGH:
        return None
    purse = tuple((ram.MONEY + place, value) for place, value in enumerate(_FULL_PURSE))
    return Intervention(f"{now.progress.money} left: filled up to {_FULL:,}", purse)


# -- teaching a move from an HM in the bag

_PP: Final = 15
"""Uses (PP) of Surf and of Strength."""
SURFERS: Final = frozenset(
    bytes.fromhex(
        "01 02 07 08 0b 10 13 15 16 17 18 1b 1c 25 2f 3a 42 47 4e 58 59 5a 5b 5c 5d 62 63 69"
        "6e 6f 78 80 84 8a 8b 98 9b 9d 9e b1 b3"
    )
)
"""Numbers, as the game has them in memory, of the species that can learn Surf."""
STRONG: Final = frozenset(
    bytes.fromhex(
        "01 02 04 07 08 0a 0b 0e 10 11 12 13 15 16 1c 1d 22 25 27 28 29 2b 2c 2d 2f 31 33 35 39"
        "3a 3c 42 4e 60 61 64 65 6a 6c 6e 6f 75 78 7e 80 83 84 8a 8e 91 a9 b0 b1 b2 b3 b4"
    )
)
"""Species that can learn Strength."""


def teach_surf(now: StepState) -> Intervention | None:
    """Write Surf into a member's moves once HM03 is in the bag."""
    return _teach(now, HM_SURF, SURF, SURFERS)


def teach_strength(now: StepState) -> Intervention | None:
    """Write Strength into a member's moves once HM04 is in the bag."""
    return _teach(now, HM_STRENGTH, STRENGTH, STRONG)


def _teach(now: StepState, item: int, move: int, pupils: frozenset[int]) -> Intervention | None:
    """Write `move` into a free or fight-only move slot of the first member that can learn it."""
    if not now.calm or move in now.progress.moves or not now.has_item(item):
        return None
    for slot, member in enumerate(now.progress.party):
        place = _replaceable_slot(member)
        if member.species in pupils and place is not None:
            start = ram.PARTY_MONS + slot * ram.PARTY_STRIDE
            writes = ((start + ram.MON_MOVES + place, move), (start + ram.MON_PP + place, _PP))
            return Intervention(f"member {slot + 1} learns move {move}", writes)
    return None


def _replaceable_slot(member: Creature) -> int | None:
    """Return the index of an empty move, or of the first move for fights only, or None."""
    if 0 in member.moves:
        return member.moves.index(0)
    return next((n for n, move in enumerate(member.moves) if move not in FIELD_MOVES), None)


# -- field moves: the assist writes the bytes that the game writes after a choice in the menu

_SURFING: Final = 2
_WATER: Final = 0x14
_WATER_TILESETS: Final = frozenset((0, 3, 5, 7, 13, 14, 17, 22, 23))
"""Tilesets in which tile 0x14 is water."""
_CYCLING_ROAD: Final = 28
"""Map on which the game does not let the player get off the bicycle."""


def light_cave(now: StepState) -> Intervention | None:
    """Set the darkness byte of a dark cave to 0, as Flash does."""
    if not now.calm or not now.progress.dark:
        return None
    return Intervention("a dark cave is lit", ((ram.DARKNESS, 0),))


def cave_stayed_lit(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return WORKED if the cave is lit, FAILED if dark, MOOT on another map."""
    if now.progress.map_id != pending.place[0]:
        return EffectOutcome.MOOT
    return EffectOutcome.FAILED if now.progress.dark else EffectOutcome.WORKED


def use_strength(now: StepState) -> Intervention | None:
    """Set the Strength flag of the map, if a member knows Strength and the badge is won."""
    permitted = STRENGTH in now.progress.moves and now.has_badge(_RAINBOW)
    if not now.calm or not permitted or now.progress.strength_on:
        return None
    flags = now.read_byte(ram.STATUS_FLAGS_1) | ram.STRENGTH_ON
    return Intervention("boulders can be pushed", ((ram.STATUS_FLAGS_1, flags),))


def use_surf(now: StepState) -> Intervention | None:
    """Set the player to surfing before a step onto water, if Surf and badge permit it."""
    permitted = SURF in now.progress.moves and now.has_badge(_SOUL)
    if not now.calm or not permitted or now.progress.riding == _SURFING:
        return None
    if now.progress.map_id == _CYCLING_ROAD or not _walks_into_water(now):
        return None
    return Intervention("onto the water", ((ram.RIDING, _SURFING),))


def _walks_into_water(now: StepState) -> bool:
    if now.button != ram.FACINGS[now.progress.facing]:
        return False
    tile = now.read_byte(ram.TILES_AHEAD[now.progress.facing])
    return tile == _WATER and now.read_byte(ram.TILESET) in _WATER_TILESETS


def surf_worked(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return WORKED if the player surfs and has moved, OPEN before that, FAILED on land."""
    if now.progress.riding != _SURFING:
        return EffectOutcome.FAILED
    return EffectOutcome.OPEN if now.position == pending.place else EffectOutcome.WORKED


# -- obstacles of the story


class Sleeper(NamedTuple):
    """Holds a sleeping Snorlax's event flags, its toggle, and the cells (row, column) beside it."""

    woken: int
    beaten: int
    toggle: int
    beside: frozenset[tuple[int, int]]


SLEEPERS: Final = {
    23: Sleeper(0x48E, 0x48F, 0x1D, frozenset(((62, 9), (61, 10), (63, 10), (62, 11)))),
    27: Sleeper(0x4C8, 0x4C9, 0x21, frozenset(((10, 27), (10, 25)))),
}
"""Sleepers by map: Routes 12 and 16."""
SWITCHES: Final = {108: (0x917,), 194: (0x538, 0x53F), 198: (0x660,)}
"""Event flags, by map, of the switches without which a floor of Victory Road cannot be passed."""


def play_flute(now: StepState) -> Intervention | None:
    """Wake the sleeper by flag, if the player stands beside it with the flute."""
    sleeper = SLEEPERS.get(now.progress.map_id)
    if sleeper is None or not now.calm or not now.has_item(FLUTE):
        return None
    up = now.has_event(sleeper.woken) or now.has_event(sleeper.beaten)
    if up or _is_hidden(now, sleeper.toggle) or now.position[1:] not in sleeper.beside:
        return None
    return Intervention("the flute is played beside the sleeper", (now.event_write(sleeper.woken),))


def sleeper_woke(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return WORKED if the sleeper is gone or a fight began, MOOT on another map, else OPEN."""
    if now.progress.map_id != pending.place[0]:
        return EffectOutcome.MOOT
    gone = _is_hidden(now, SLEEPERS[pending.place[0]].toggle)
    return EffectOutcome.WORKED if gone or now.progress.battle else EffectOutcome.OPEN


def _is_hidden(now: StepState, toggle: int) -> bool:
    return bool(now.progress.toggles >> toggle & 1)


def set_switches(now: StepState) -> Intervention | None:
    """Set the event flag of a floor's next switch, if the party could push boulders there."""
    permitted = STRENGTH in now.progress.moves and now.has_badge(_RAINBOW)
    if not now.calm or not permitted:
        return None
    for switch in SWITCHES.get(now.progress.map_id, ()):
        if not now.has_event(switch):
            anew = (ram.MAP_SCRIPT_FLAGS, now.read_byte(ram.MAP_SCRIPT_FLAGS) | ram.SWITCHES_ANEW)
            return Intervention(f"boulder on switch {switch:#x}", (now.event_write(switch), anew))
    return None


def switches_took_effect(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return WORKED if the map's script has read its switches since, MOOT on another map."""
    if now.progress.map_id != pending.place[0]:
        return EffectOutcome.MOOT
    looked = not now.read_byte(ram.MAP_SCRIPT_FLAGS) & ram.SWITCHES_ANEW
    return EffectOutcome.WORKED if looked else EffectOutcome.OPEN


# -- prevention: no way out of the league's lobby, no wild creatures

LOBBY: Final = 174
_INSTEAD: Final = "b"
"""A key without effect while the player is free to walk."""
_KEEP_OFF: Final = 9
"""Cells without wild creatures: more than a bicycle passes in one step of the environment."""
STANDING: Final = frozenset((23, 27, 83, 147, 162, 194, 228))
"""Maps with creatures that fight when spoken to; in memory such a fight looks like a wild one."""
_WILD, _NORMAL = 1, 0


def block_indigo_exit(now: StepState) -> Intervention | None:
    """Press B in place of the key that would walk out of the door of the league's lobby."""
    last_row = 2 * now.read_byte(ram.MAP_HEIGHT) - 1
    if now.progress.map_id != LOBBY or now.progress.y != last_row or now.button != "down":
        return None
    return Intervention("the way out of the lobby is closed", button=_INSTEAD)


def exit_stayed_blocked(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return WORKED if the player is still in the lobby, or FAILED."""
    inside = now.progress.map_id == pending.place[0]
    return EffectOutcome.WORKED if inside else EffectOutcome.FAILED


def prevent_wild_fights(now: StepState) -> Intervention | None:
    """Set the game's count of cells without wild fights to 9 if the count is lower."""
    if not now.calm:
        return None
    low = now.read_byte(ram.NO_BATTLE_STEPS) < _KEEP_OFF
    writes = ((ram.NO_BATTLE_STEPS, _KEEP_OFF),) if low else ()
    return Intervention("wild creatures keep off", writes)


def no_wild_fight_began(pending: PendingEffect, now: StepState) -> EffectOutcome:
    """Return FAILED in a wild fight, or MOOT: a step without a fight proves nothing."""
    wild = now.progress.battle == _WILD and now.progress.battle_kind == _NORMAL
    if not wild or pending.place[0] in STANDING:
        return EffectOutcome.MOOT
    return EffectOutcome.FAILED


class Assist(NamedTuple):
    """Holds an assist: its decision, and the test of its effect.

    Without `worked` the written bytes are the whole effect, which tests prove without the real
    game. The other effects depend on the real game's program, which the tests do not have.
    """

    decide: Callable[[StepState], Intervention | None]
    worked: Callable[[PendingEffect, StepState], EffectOutcome] | None = None


ASSISTS: Final[dict[str, Assist]] = {
    "toss_junk": Assist(toss_junk),
    "money": Assist(fill_purse),
    "flash": Assist(light_cave, cave_stayed_lit),
    "flute": Assist(play_flute, sleeper_woke),
    "teach_surf": Assist(teach_surf),
    "use_surf": Assist(use_surf, surf_worked),
    "teach_strength": Assist(teach_strength),
    "use_strength": Assist(use_strength),
    "boulders": Assist(set_switches, switches_took_effect),
    "block_indigo_exit": Assist(block_indigo_exit, exit_stayed_blocked),
    "no_wild": Assist(prevent_wild_fights, no_wild_fight_began),
}
"""In the order of `assist_compatibility.ASSIST_NAMES`; an earlier one takes precedence."""
