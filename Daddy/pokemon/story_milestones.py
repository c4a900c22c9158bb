"""Pure. Finds the milestones of the story that hold in a Progress.

The required milestones of the real game are events of `story_order`, and facts without an event
flag: an item in the bag, a known move, a hidden person. The cartridge's are its own events, and the
move Cut. Some facts stop holding later (an item is handed over, the league's flags are cleared); a
caller that counts them must keep the union.
"""

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final, NamedTuple

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order
from Daddy.pokemon.bag import CARD_KEY, LIFT_KEY, SILPH_SCOPE
from Daddy.pokemon.cartridge import free_cartridge_tables
from Daddy.pokemon.game_progress import Progress
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.memory_decoding import span
from Daddy.pokemon.party import CUT, STRENGTH, SURF
from Daddy.pokemon.story_order import StoryEvent


class Evidence(NamedTuple):
    """Holds the memory bytes from which milestones without an event flag are derived."""

    bag: bytes
    moves: bytes
    toggles: bytes
    ship_script: int
    drink_given: bool
    won: bool


class StoryFact(NamedTuple):
    """Holds a milestone without event flag: its map, the event it follows, and its test."""

    name: str
    place: int
    after: str
    holds: Callable[[Evidence], bool]


def _held(item: int) -> Callable[[Evidence], bool]:
    return lambda evidence: item in evidence.bag[::2]


def _known(move: int) -> Callable[[Evidence], bool]:
    return lambda evidence: move in evidence.moves


def _hidden(evidence: Evidence, toggle: int) -> bool:
    return bool(evidence.toggles[toggle // 8] >> toggle % 8 & 1)


def _gone(*toggles: int) -> Callable[[Evidence], bool]:
    """Return a test that is true if any of these people or things is hidden (gone, taken)."""
    return lambda evidence: any(_hidden(evidence, toggle) for toggle in toggles)


def _old_man_awake(evidence: Evidence) -> bool:
    lying, standing = (_hidden(evidence, toggle) for toggle in ram.OLD_MEN)
    return lying and not standing


def _ship_rival_beaten(evidence: Evidence) -> bool:
    return evidence.ship_script == ram.SHIP_RIVAL_BEATEN


FACTS: Final = (
    StoryFact("old_man_awake", 1, "got_pokedex", _old_man_awake),
    StoryFact("beat_rival_on_ship", 96, "beat_thief_in_cerulean", _ship_rival_beaten),
    StoryFact("cut_taught", 5, "got_cut", _known(CUT)),
    StoryFact("hideout_guard_gone", 135, "beat_erika", _gone(ram.GAME_CORNER_ROCKET)),
    StoryFact("lift_key_held", 202, "lift_key_dropped", _held(LIFT_KEY)),
    StoryFact("scope_held", 202, "beat_giovanni_in_hideout", _held(SILPH_SCOPE)),
    StoryFact("drink_given", 10, "beat_giovanni_in_hideout", lambda evidence: evidence.drink_given),
    StoryFact("snorlax_gone", 23, "got_flute", _gone(*ram.SNORLAXES)),
    StoryFact("card_key_held", 210, "beat_koga", _held(CARD_KEY)),
    StoryFact("gold_teeth_taken", 219, "got_surf", _gone(ram.GOLD_TEETH_BALL)),
    StoryFact("surf_taught", 7, "got_surf", _known(SURF)),
    StoryFact("strength_taught", 7, "got_strength", _known(STRENGTH)),
    StoryFact("secret_key_taken", 216, "beat_sabrina", _gone(ram.SECRET_KEY_BALL)),
    StoryFact("won", 118, "beat_champion", lambda evidence: evidence.won),
)
"""Required in the real game, without an event flag."""
CARTRIDGE: Final = tuple(StoryEvent(*fields) for fields in free_cartridge_tables.STORY)
"""The cartridge's events."""
CARTRIDGE_FACTS: Final = (StoryFact("cut_taught", 5, "got_cut", _known(CUT)),)
"""Required on the cartridge, without an event flag."""

CRITICAL_MAPS: Final = (
    *(0, 40, 12, 1, 42, 13, 51, 2, 54, 14, 59, 60, 61, 15, 3, 35, 36, 88, 65, 62, 16, 119, 17, 5),
    *(94, 95, 96, 101, 92, 20, 21, 82, 232, 4, 19, 121, 18, 6, 134, 135, 199, 200, 201, 203, 202),
    *(142, 143, 144, 145, 146, 147, 148, 149, 126, 10, 181, 209, 210, 212, 235, 178, 23, 24, 25),
    *(26, 27, 28, 29, 7, 157, 156, 220, 217, 218, 219, 222, 155, 30, 31, 192, 32, 8, 165, 214, 215),
    *(216, 166, 45, 33, 193, 34, 108, 194, 198, 9, 174, 245, 246, 247, 113, 120, 118),
)
"""Maps on the way to the game's end, roughly in order (two ways lead to Fuchsia)."""
HEALERS: Final = (37, 41, 58, 64, 68, 81, 89, 133, 141, 154, 171, 182, 233)
"""Maps where a party is healed before the next fight."""
_ON_THE_WAY: Final = {
    True: frozenset(CRITICAL_MAPS + HEALERS),
    False: frozenset(free_cartridge_tables.MAPS),
}
_TRAINERS_AFTER: Final = "beat_surge"


class _Required(NamedTuple):
    """Holds a game's required milestones: events with their flags as bits, and other facts."""

    steps: tuple[StoryEvent, ...]
    facts: tuple[StoryFact, ...]
    bits: int


def _required(steps: tuple[StoryEvent, ...], facts: tuple[StoryFact, ...]) -> _Required:
    required = tuple(step for step in steps if step.required)
    return _Required(required, facts, story_order.event_mask(required))


REQUIRED: Final = {
    True: _required(story_order.STORY + story_order.TRAINERS, FACTS),
    False: _required(CARTRIDGE, CARTRIDGE_FACTS),
}
"""Required milestones by game; True: Red or Blue, False: the cartridge."""


def story_events(real: bool) -> tuple[StoryEvent, ...]:
    """Return the events of a game's story in the usual order; `real`: Red or Blue."""
    return story_order.STORY if real else CARTRIDGE


def reached_milestones(progress: Progress, real: bool = True) -> frozenset[str]:
    """Return the names of the required milestones that are true in `progress`."""
    image = progress.image
    evidence = Evidence(
        bytes(span(image, ram.BAG, 2 * progress.items)),
        b"".join([creature.moves for creature in progress.party]),
        bytes(span(image, ram.TOGGLES, ram.TOGGLE_BYTES)),
        progress.ship_script,
        progress.drink_given,
        progress.wins > 0,
    )
    return _reached(progress.events & REQUIRED[real].bits, evidence, real)


@lru_cache(maxsize=1024)
def _reached(events: int, evidence: Evidence, real: bool) -> frozenset[str]:
    required = REQUIRED[real]
    flags = frozenset(step.name for step in required.steps if events >> step.flag & 1)
    return flags | {fact.name for fact in required.facts if fact.holds(evidence)}


def archive_key(progress: Progress, real: bool = True, square: int = 0) -> frozenset[str]:
    """Return a state's key: its milestones, and its place if the map is one of the story's.

    A place is a map, or a square of `square` cells a side; no place in warps, battles and texts.
    """
    held = reached_milestones(progress, real)
    if not progress.placed or progress.battle or progress.text_box:
        return held
    part = (progress.y // square, progress.x // square) if square else ()
    return _placed(held, progress.map_id, real, part)


@lru_cache(maxsize=2048)
def _placed(held: frozenset[str], here: int, real: bool, part: tuple[int, ...]) -> frozenset[str]:
    return held | {place_key(here, real, *part)} if here in _ON_THE_WAY[real] else held


def place_key(map_id: int, real: bool = True, *part: int) -> str:
    """Return the name of a place in a key, such as ``at_mt_moon_1f`` or ``at_mt_moon_1f_0_2``."""
    name = map_name(map_id, real).lower().replace(" ", "_").replace("'", "")
    return "_".join(["at", name, *map(str, part)])


@lru_cache(maxsize=256)
def goal_maps(held: frozenset[str], real: bool = True) -> frozenset[int]:
    """Return the maps with a required milestone that is not in `held`."""
    required = REQUIRED[real]
    maps = {step.place for step in required.steps if step.name not in held}
    return frozenset(maps | {fact.place for fact in required.facts if fact.name not in held})


@lru_cache(maxsize=2)
def milestone_names(real: bool = True) -> tuple[str, ...]:
    """Return the names of all required milestones, in the order of a usual game."""
    required = REQUIRED[real]
    ranks = {step.name: float(rank) for rank, step in enumerate(story_events(real))}
    if real:
        ranks |= {step.name: ranks[_TRAINERS_AFTER] + 0.5 for step in story_order.TRAINERS}
    ranks |= {fact.name: ranks[fact.after] + 0.5 for fact in required.facts}
    wanted = {step.name for step in required.steps} | {fact.name for fact in required.facts}
    return tuple(name for name in sorted(ranks, key=ranks.__getitem__) if name in wanted)


# -- milestones in an environment's telemetry: one bit each, 24 in a float32 column

_BITS: Final = 24
"""Bits of the largest whole number that float32 holds exactly."""
_WIDTH: Final = -(-max(len(milestone_names(real=real)) for real in (True, False)) // _BITS)
MILESTONE_COLUMNS: Final = tuple(f"reached_{number}" for number in range(_WIDTH))
"""Names of the columns in the telemetry; the bits are in the order of `milestone_names`."""


@lru_cache(maxsize=1024)
def milestones_to_columns(held: frozenset[str], real: bool) -> tuple[float, ...]:
    """Pack the milestones ``held`` as bits, 24 in each of MILESTONE_COLUMNS."""
    bits = sum(1 << place for place, name in enumerate(milestone_names(real=real)) if name in held)
    return tuple(float(bits >> _BITS * place & (1 << _BITS) - 1) for place in range(_WIDTH))


def milestones_from_columns(facts: Mapping[str, float]) -> tuple[str, ...]:
    """Return the milestones whose bits are set in telemetry ``facts`` (MILESTONE_COLUMNS)."""
    if MILESTONE_COLUMNS[0] not in facts:
        return ()
    words = tuple(int(facts[name]) for name in MILESTONE_COLUMNS)
    return _from_words(words, bool(facts["real_game"]))


@lru_cache(maxsize=1024)
def _from_words(words: tuple[int, ...], real: bool) -> tuple[str, ...]:
    bits = sum(bits << _BITS * place for place, bits in enumerate(words))
    return tuple(name for place, name in enumerate(milestone_names(real=real)) if bits >> place & 1)
