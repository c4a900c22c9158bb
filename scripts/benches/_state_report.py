"""Pure. Formats all facts in one memory image as a table for people, and lists contradictions.

A person who knows the game sees in the table of `scripts/bench fidelity` if an address is right.
`doubts` are contradictions that a running game never has: damage, or another game.
"""

from collections.abc import Iterable, Iterator
from itertools import chain

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones, story_order
from Daddy.pokemon.bag import read_item_pairs
from Daddy.pokemon.game_progress import Progress, not_started_reason, read_progress
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.memory_decoding import Image, bits, byte, packed_decimal, span, word
from Daddy.pokemon.party import FIELD_MOVES, Creature

_FACING = ("down", "up", "left", "right")
_BATTLE = ("none", "wild", "trainer")
_RIDING = {0: "on foot", 1: "bicycle", 2: "surfing"}
_BADGES = ("boulder", "cascade", "thunder", "rainbow", "soul", "marsh", "volcano", "earth")
_MOVE_NAMES = dict(zip(FIELD_MOVES, ("cut", "fly", "surf", "strength", "flash"), strict=True))
_END = 0xFF
_MOST_OF_ONE = 99
_LARGEST_STAT = 999
_SPECIES = 151
_SIXTY = 60
_FIRST_HM, _FIRST_TM, _LAST_TM = 0xC4, 0xC9, 0xFA
_KEY_ITEMS = dict(
    (
        *((0x05, "town map"), (0x06, "bicycle"), (0x09, "pokedex"), (0x1F, "old amber")),
        *((0x29, "dome fossil"), (0x2A, "helix fossil"), (0x2B, "secret key")),
        *((0x2D, "bike voucher"), (0x30, "card key"), (0x3C, "fresh water"), (0x3D, "soda pop")),
        *((0x3E, "lemonade"), (0x3F, "ship's ticket"), (0x40, "gold teeth"), (0x45, "coin case")),
        *((0x46, "parcel"), (0x47, "item finder"), (0x48, "silph scope"), (0x49, "flute")),
        *((0x4A, "lift key"), (0x4B, "exp all"), (0x4C, "old rod"), (0x4D, "good rod")),
        (0x4E, "super rod"),
    )
)
_END_OF_NAME = 0x50
_LETTERS = {0x7F: " ", 0xE0: "'", 0xE3: "-", 0xE6: "?", 0xE7: "!", 0xE8: ".", 0xF3: "/", 0xF4: ","}
_RUNS = ((0x80, "A"), (0xA0, "a"))
_ZERO = 0xF6


def table(image: Image, real: bool) -> dict[str, str]:
    """Format all facts; `image` must be the whole work RAM, not only `BLOCKS`."""
    now = read_progress(image)
    return {
        "game": not_started_reason(image) or "started",
        "doubts": "; ".join(doubts(image, real)) or "none",
        **_where(image, now, real),
        **_who(image, now),
        **_what(image, now),
        **_story(now, real),
        **_fight(image, now),
    }


def _where(image: Image, now: Progress, real: bool) -> dict[str, str]:
    def named(number: int) -> str:
        return f"{number} {map_name(number, real)}"

    size = f"{2 * byte(image, ram.MAP_HEIGHT)} x {2 * byte(image, ram.MAP_WIDTH)} cells"
    return {
        "map": f"{named(now.map_id)}, {size}, {byte(image, ram.WARP_COUNT)} ways out",
        "place": f"row {now.y}, column {now.x}, facing {_FACING[now.facing]}"
        + ("" if now.placed else " (in a warp: not a place)"),
        "on screen": f"line {now.screen_y}, column {now.screen_x}",
        "last map": named(byte(image, ram.LAST_MAP)),
        "after a defeat": named(now.blackout_map),
        "towns": _listed(named(town) for town in range(16) if _towns(image) >> town & 1),
        "moving": _RIDING.get(now.riding, f"? {now.riding}")
        + (", strength on" if now.strength_on else "")
        + (", dark" if now.dark else ""),
    }


def play_time_s(image: Image) -> int:
    """Return the seconds on the game's clock."""
    hours, _, minutes, seconds, _ = span(image, ram.PLAY_TIME, ram.PLAY_TIME_BYTES)
    return hours * 3600 + minutes * 60 + seconds


def _who(image: Image, now: Progress) -> dict[str, str]:
    names = (
        letters(span(image, address, ram.NAME_BYTES))
        for address in (ram.PLAYER_NAME, ram.RIVAL_NAME)
    )
    badges = (name for bit, name in enumerate(_BADGES) if now.badges >> bit & 1)
    minutes, seconds = divmod(play_time_s(image), 60)
    return {
        "names": " and ".join(name or "nobody" for name in names),
        "player number": str(word(image, ram.PLAYER_ID)),
        "play time": f"{minutes // 60}:{minutes % 60:02}:{seconds:02}",
        "options": f"text delay {now.options & 7}, style {_style(now)}, animations {_shown(now)}",
        "money": f"{now.money}, coins {_coins(image)}",
        "badges": _listed(badges),
        "party": str(len(now.party)),
        **{f"  {slot}": _member(member) for slot, member in enumerate(now.party, 1)},
        "starters": f"{byte(image, ram.STARTER)}, rival's {byte(image, ram.RIVAL_STARTER)}",
        "pokedex": f"{now.seen} seen, {now.owned} owned",
    }


def _coins(image: Image) -> int:
    return packed_decimal(span(image, ram.COINS, ram.COIN_BYTES))


def _towns(image: Image) -> int:
    return bits(image, ram.TOWNS, ram.TOWN_BYTES)


def _style(now: Progress) -> str:
    return "set" if now.options & 1 << 6 else "shift"


def _shown(now: Progress) -> str:
    return "off" if now.options & 1 << 7 else "on"


def _member(member: Creature) -> str:
    moves = (_MOVE_NAMES.get(move, str(move)) for move in member.moves if move)
    points = int.from_bytes(member.experience_bytes, "big")
    stats = f"{member.attack}/{member.defense}/{member.speed}/{member.special}"
    return (
        f"species {member.species}, level {member.level}, HP {member.hp}/{member.max_hp}, "
        f"stats {stats}, moves {' '.join(moves) or 'none'}, {points} points"
        + (f", status {member.status:#04x}" if member.status else "")
    )


def _what(image: Image, now: Progress) -> dict[str, str]:
    stored = read_item_pairs(image, ram.PC_COUNT, ram.PC_ITEMS, ram.PC_SIZE)
    return {
        "bag": _listed(f"{item_name(item)} x {many}" for item, many in now.bag),
        "in the PC": _listed(f"{item_name(item)} x {many}" for item, many in stored),
        "box": f"{byte(image, ram.BOX_COUNT)} in number {(byte(image, ram.CURRENT_BOX) & 127) + 1}",
        "safari": f"{now.safari_steps} steps, {byte(image, ram.SAFARI_BALLS)} balls",
        "repel": f"{byte(image, ram.REPEL_STEPS)} steps",
    }


def _story(now: Progress, real: bool) -> dict[str, str]:
    held = story_milestones.reached_milestones(now, real)
    names = story_milestones.milestone_names(real)
    flags = f"{now.story_flags} of {len(story_order.STORY)} story flags"
    passing = (name for name, flag in story_order.TRANSIENT_FLAGS.items() if now.events >> flag & 1)
    return {
        "events": f"{now.events.bit_count()} set, {flags}",
        "milestones": f"{len(held)} of {len(names)}: {_listed(n for n in names if n in held)}",
        "next": next((name for name in names if name not in held), "nothing"),
        "for now": _listed(passing),
        "hidden things": str(now.toggles.bit_count()),
        "hall of fame": str(now.wins),
    }


def _fight(image: Image, now: Progress) -> dict[str, str]:
    enemy = f", species {now.opponent}, level {now.enemy_level}, HP {now.enemy_hp:.0%}"
    return {
        "battle": _BATTLE[now.battle] + (enemy if now.battle else ""),
        "text box": "yes" if now.text_box else "no",
        "buttons ignored": f"{byte(image, ram.JOY_IGNORE):#04x}",
        "menu": f"entry {byte(image, ram.MENU_ITEM)} of 0 to {byte(image, ram.MENU_LAST)}",
    }


def _listed(words: Iterable[str]) -> str:
    return ", ".join(words) or "none"


def doubts(image: Image, real: bool) -> tuple[str, ...]:
    """List the contradictions in the whole work RAM; a running game has none."""
    found = (_doubts_of_party(image), _doubts_of_things(image), _doubts_of_place(image, real))
    return tuple(chain.from_iterable(found))


def _doubts_of_party(image: Image) -> Iterator[str]:
    count = byte(image, ram.PARTY_COUNT)
    if count > ram.PARTY_SIZE:
        yield f"a party of {count}"
        return
    listed = bytes(span(image, ram.PARTY_SPECIES, count + 1))
    members = read_progress(image).party
    if count and listed != bytes([*(member.species for member in members), _END]):
        yield f"the list of species {listed.hex(' ')} is not that of the party"
    for slot, member in enumerate(members, 1):
        if not 0 <= member.hp <= member.max_hp <= _LARGEST_STAT or not member.max_hp:
            yield f"party member {slot} has {member.hp} of {member.max_hp} HP"
        if not member.level:
            yield f"party member {slot} has no level"


def _doubts_of_things(image: Image) -> Iterator[str]:
    count = byte(image, ram.BAG_COUNT)
    if count > ram.BAG_SIZE:
        yield f"{count} kinds of items in the bag"
    elif count and byte(image, ram.BAG + 2 * count) != _END:
        yield "the bag's list does not end where its count says"
    elif any(not 1 <= many <= _MOST_OF_ONE for _, many in read_progress(image).bag):
        yield "an item in the bag with no or too high a number"
    if any(digit not in "0123456789" for digit in span(image, ram.MONEY, ram.MONEY_BYTES).hex()):
        yield f"money {span(image, ram.MONEY, ram.MONEY_BYTES).hex()} is no decimal number"
    owned, seen = (
        bits(image, address, ram.POKEDEX_BYTES) for address in (ram.POKEDEX_OWNED, ram.POKEDEX_SEEN)
    )
    if owned & ~seen or (owned | seen) >> _SPECIES:
        yield "the pokedex owns what it has not seen, or more than there are"


def _doubts_of_place(image: Image, real: bool) -> Iterator[str]:
    now = read_progress(image)
    if map_name(now.map_id, real).startswith("map "):
        yield f"no game has a map {now.map_id}"
    if byte(image, ram.IN_BATTLE) not in (0, 1, 2, _END):
        yield f"battle state {byte(image, ram.IN_BATTLE)}"
    if byte(image, ram.FACING) not in (0, 4, 8, 12):
        yield f"facing {byte(image, ram.FACING)}"
    if now.badges & ~byte(image, ram.BEATEN_LEADERS):
        yield f"badges {now.badges:#04x} of leaders {byte(image, ram.BEATEN_LEADERS):#04x}"
    _, _, minutes, seconds, frames = span(image, ram.PLAY_TIME, ram.PLAY_TIME_BYTES)
    if max(minutes, seconds, frames) >= _SIXTY:
        yield f"play time with {minutes} minutes, {seconds} seconds, {frames} frames"


def item_name(item: int) -> str:
    """Return the usual name of a key item or a machine; "item 20" for others."""
    if _FIRST_HM <= item < _FIRST_TM:
        return f"HM{item - _FIRST_HM + 1:02}"
    if _FIRST_TM <= item <= _LAST_TM:
        return f"TM{item - _FIRST_TM + 1:02}"
    return _KEY_ITEMS.get(item, f"item {item}")


def letters(data: Image) -> str:
    """Decode a name in the game's letters up to its end mark; other codes become "·"."""
    name = bytes(data).split(bytes([_END_OF_NAME]))[0].rstrip(b"\0")
    return "".join(map(_letter, name))


def _letter(code: int) -> str:
    for first, letter in _RUNS:
        if first <= code < first + 26:
            return chr(ord(letter) + code - first)
    return str(code - _ZERO) if code >= _ZERO else _LETTERS.get(code, "·")
