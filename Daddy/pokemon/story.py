"""Pure: which milestones of the story hold at a moment, for the archive and for everyone's tables.

Owns the required milestones of the real game (events of the `ladder`, and facts that are no event:
an item in the bag, a move known, somebody gone) and of the cartridge. Some facts come and go (an
item is handed over, the league forgets its defeats): who wants them for good keeps the union.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple

from Daddy.pokemon import ladder
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.bag import CARD_KEY, LIFT_KEY, SILPH_SCOPE
from Daddy.pokemon.cartridge import symbols
from Daddy.pokemon.ladder import Step
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.memory import span
from Daddy.pokemon.party import CUT, STRENGTH, SURF
from Daddy.pokemon.progress import Progress


class Fact(NamedTuple):
    """A milestone that is no event flag, the map where it is won, and the step it comes after."""

    name: str
    place: int
    after: str
    holds: Callable[[Evidence], bool]


class Evidence(NamedTuple):
    """What facts are seen in, as raw bytes: equal ones need to be judged only once."""

    bag: bytes
    moves: bytes
    toggles: bytes
    ship_script: int
    drink_given: bool
    won: bool


def _held(item: int) -> Callable[[Evidence], bool]:
    return lambda seen: item in seen.bag[::2]


def _known(move: int) -> Callable[[Evidence], bool]:
    return lambda seen: move in seen.moves


def _hidden(seen: Evidence, toggle: int) -> bool:
    return bool(seen.toggles[toggle // 8] >> toggle % 8 & 1)


def _gone(*toggles: int) -> Callable[[Evidence], bool]:
    """One of these people or things is hidden: beaten, taken, sent away."""
    return lambda seen: any(_hidden(seen, toggle) for toggle in toggles)


def _old_man_awake(seen: Evidence) -> bool:
    lying, standing = (_hidden(seen, toggle) for toggle in ram.OLD_MEN)
    return lying and not standing


def _ship_rival_beaten(seen: Evidence) -> bool:
    return seen.ship_script == ram.SHIP_RIVAL_BEATEN


FACTS: Final = (
    Fact("old_man_awake", 1, "got_pokedex", _old_man_awake),
    Fact("beat_rival_on_ship", 96, "beat_thief_in_cerulean", _ship_rival_beaten),
    Fact("cut_taught", 5, "got_cut", _known(CUT)),
    Fact("hideout_guard_gone", 135, "beat_erika", _gone(ram.GAME_CORNER_ROCKET)),
    Fact("lift_key_held", 202, "lift_key_dropped", _held(LIFT_KEY)),
    Fact("scope_held", 202, "beat_giovanni_in_hideout", _held(SILPH_SCOPE)),
    Fact("drink_given", 10, "beat_giovanni_in_hideout", lambda seen: seen.drink_given),
    Fact("snorlax_gone", 23, "got_flute", _gone(*ram.SNORLAXES)),
    Fact("card_key_held", 210, "beat_koga", _held(CARD_KEY)),
    Fact("gold_teeth_taken", 219, "got_surf", _gone(ram.GOLD_TEETH_BALL)),
    Fact("surf_taught", 7, "got_surf", _known(SURF)),
    Fact("strength_taught", 7, "got_strength", _known(STRENGTH)),
    Fact("secret_key_taken", 216, "beat_sabrina", _gone(ram.SECRET_KEY_BALL)),
    Fact("won", 118, "beat_champion", lambda seen: seen.won),
)
"""What nobody can finish the real game without and no event flag tells."""

_TRAINERS_AFTER = "beat_surge"
REQUIRED: Final = tuple(step for step in ladder.STORY + ladder.TRAINERS if step.required)
CARTRIDGE: Final = tuple(Step(*fields) for fields in symbols.STORY)
"""The cartridge's events."""
CARTRIDGE_REQUIRED: Final = tuple(step for step in CARTRIDGE if step.required)
CARTRIDGE_FACTS: Final = (Fact("cut_taught", 5, "got_cut", _known(CUT)),)
"""What nobody can finish the cartridge without and no event of it tells."""

CRITICAL_MAPS: Final = (
    *(0, 40, 12, 1, 42, 13, 51, 2, 54, 14, 59, 60, 61, 15, 3, 35, 36, 88, 65, 62, 16, 119, 17, 5),
    *(94, 95, 96, 101, 92, 20, 21, 82, 232, 4, 19, 121, 18, 6, 134, 135, 199, 200, 201, 203, 202),
    *(142, 143, 144, 145, 146, 147, 148, 149, 126, 10, 181, 209, 210, 212, 235, 178, 23, 24, 25),
    *(26, 27, 28, 29, 7, 157, 156, 220, 217, 218, 219, 222, 155, 30, 31, 192, 32, 8, 165, 214, 215),
    *(216, 166, 45, 33, 193, 34, 108, 194, 198, 9, 174, 245, 246, 247, 113, 120, 118),
)
"""Maps that a game which is won passes, roughly in order (two ways lead to Fuchsia)."""
HEALERS: Final = (37, 41, 58, 64, 68, 81, 89, 133, 141, 154, 171, 182, 233)
"""Maps where a party is healed: on the way of whoever is too weak for the next fight."""
_ON_THE_WAY: Final = {
    True: frozenset(CRITICAL_MAPS + HEALERS),
    False: frozenset(symbols.MAPS),
}


def reached(progress: Progress, real: bool = True) -> frozenset[str]:
    """Names of the required milestones that hold now; `real`: Red or Blue, else the cartridge."""
    if real:
        return _reached(progress.events & _REQUIRED_BITS, _evidence(progress))
    return _rung(progress.events & _CARTRIDGE_BITS, _evidence(progress))


def keys(progress: Progress, real: bool = True, square: int = 0) -> frozenset[str]:
    """Under what an archive files this moment: the milestones, and the place if it is on the way.

    A place is a map, or with `square` a square of so many cells a side on it. In a warp, a battle
    or a text there is none.
    """
    held = reached(progress, real)
    if not progress.placed or progress.battle or progress.text_box:
        return held
    part = (progress.y // square, progress.x // square) if square else ()
    return _placed(held, progress.map_id, real, part)


@lru_cache(maxsize=2048)
def _placed(held: frozenset[str], here: int, real: bool, part: tuple[int, ...]) -> frozenset[str]:
    return held | {place_key(here, real, *part)} if here in _ON_THE_WAY[real] else held


def place_key(map_id: int, real: bool = True, *part: int) -> str:
    """What tells a moment here from others: ``at_mt_moon_1f``, or ``at_mt_moon_1f_0_2``."""
    name = map_name(map_id, real).lower().replace(" ", "_").replace("'", "")
    return "_".join(["at", name, *map(str, part)])


@lru_cache(maxsize=256)
def open_places(held: frozenset[str], real: bool = True) -> frozenset[int]:
    """Maps on which a required milestone is still to be won."""
    required, facts = (REQUIRED, FACTS) if real else (CARTRIDGE_REQUIRED, CARTRIDGE_FACTS)
    steps = {step.place for step in required if step.name not in held}
    return frozenset(steps | {fact.place for fact in facts if fact.name not in held})


def names(real: bool = True) -> tuple[str, ...]:
    """Every required milestone, in the order in which a normal game reaches them."""
    steps, facts = (ladder.STORY, FACTS) if real else (CARTRIDGE, CARTRIDGE_FACTS)
    ranks = {step.name: float(rank) for rank, step in enumerate(steps)}
    required = {step.name for step in steps if step.required} | {fact.name for fact in facts}
    if real:
        ranks |= {step.name: ranks[_TRAINERS_AFTER] + 0.5 for step in ladder.TRAINERS}
        required |= {step.name for step in ladder.TRAINERS if step.required}
    ranks |= {fact.name: ranks[fact.after] + 0.5 for fact in facts}
    return tuple(name for name in sorted(ranks, key=ranks.__getitem__) if name in required)


_REQUIRED_BITS: Final = ladder.mask(REQUIRED)
_CARTRIDGE_BITS: Final = ladder.mask(CARTRIDGE_REQUIRED)


def _evidence(progress: Progress) -> Evidence:
    image = progress.image
    return Evidence(
        bytes(span(image, ram.BAG, 2 * progress.items)),
        b"".join([creature.moves for creature in progress.party]),
        bytes(span(image, ram.TOGGLES, ram.TOGGLE_BYTES)),
        progress.ship_script,
        progress.drink_given,
        progress.wins > 0,
    )


@lru_cache(maxsize=256)
def _reached(events: int, evidence: Evidence) -> frozenset[str]:
    flags = frozenset(step.name for step in REQUIRED if events >> step.flag & 1)
    return flags | {fact.name for fact in FACTS if fact.holds(evidence)}


@lru_cache(maxsize=1024)
def _rung(events: int, evidence: Evidence) -> frozenset[str]:
    flags = frozenset(step.name for step in CARTRIDGE_REQUIRED if events >> step.flag & 1)
    return flags | {fact.name for fact in CARTRIDGE_FACTS if fact.holds(evidence)}
