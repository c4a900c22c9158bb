"""Pure. Lists the steps to each start state, for a person to read and correct.

Cells are (column, row), as in the public disassembly. The routes of the real game were written from
public facts and never tried with its ROM, which we do not have; an error names the step that fails.
Tests play the cartridge's routes with the same player.
"""

from dataclasses import dataclass
from typing import Final

ROUTES_VERSION: Final = 1
"""Increased with every change of a route or its player, so that states are made anew."""
BEGINNING: Final = "beginning"
"""Name of every game's first start state, in which the player can walk for the first time."""
CREATURE: Final = "a creature"
"""Pseudo-event: the party is no longer empty."""


@dataclass(frozen=True, slots=True)
class WalkTo:
    """Describes the step: walk to a cell and, by a door or over the edge, to map `to` if given."""

    x: int
    y: int
    to: int | None = None


@dataclass(frozen=True, slots=True)
class TalkUntil:
    """Describes the step: face direction `toward` and press A until event `until` has happened."""

    toward: str
    until: str


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """Describes the step: wait for event `until`, pressing `button` in texts and fights."""

    until: str
    button: str = "a"


@dataclass(frozen=True, slots=True)
class OpenMenu:
    """Describes the step: press START until the menu after the title is open."""


@dataclass(frozen=True, slots=True)
class ChooseEntry:
    """Describes the step: wait for the upper left menu of `last` + 1 entries and choose `entry`."""

    entry: int
    last: int


@dataclass(frozen=True, slots=True)
class SetOptions:
    """Describes the step: set the options text fast, battle animations off, battle style set."""


@dataclass(frozen=True, slots=True)
class ReadIntroduction:
    """Describes the step: press A until the player can walk for the first time."""


RouteStep = WalkTo | TalkUntil | ReadUntil | OpenMenu | ChooseEntry | SetOptions | ReadIntroduction


@dataclass(frozen=True, slots=True)
class StartRoute:
    """Holds the steps to a start state, from power-on or from the end of the route `base`."""

    name: str
    base: str
    steps: tuple[RouteStep, ...]
    end_map: int
    end_events: tuple[str, ...] = ()
    """Events that must have happened at the end, as `end_map` must be the map there."""


_NEW_GAME, _OPTIONS, _FIRST_NAME_OFFERED = 0, 1, 1

REAL: Final = (
    StartRoute(
        "bedroom",
        "",
        (
            OpenMenu(),
            ChooseEntry(_OPTIONS, last=1),
            SetOptions(),
            ChooseEntry(_NEW_GAME, last=1),
            ChooseEntry(_FIRST_NAME_OFFERED, last=3),
            ChooseEntry(_FIRST_NAME_OFFERED, last=3),
            ReadIntroduction(),
        ),
        end_map=38,
    ),
    StartRoute(
        "pokedex",
        "bedroom",
        (
            WalkTo(7, 1, to=37),
            WalkTo(3, 8, to=0),
            WalkTo(10, 1, to=40),
            ReadUntil("asked_to_choose"),
            WalkTo(8, 4),
            TalkUntil("up", CREATURE),
            ReadUntil("got_starter", "b"),
            WalkTo(5, 6),
            ReadUntil("fought_rival_in_lab"),
            WalkTo(5, 12, to=0),
            WalkTo(10, -1, to=12),
            WalkTo(10, -1, to=1),
            WalkTo(29, 19, to=42),
            ReadUntil("got_parcel"),
            WalkTo(3, 8, to=1),
            WalkTo(20, 36, to=12),
            WalkTo(10, 36, to=0),
            WalkTo(12, 11, to=40),
            WalkTo(5, 3),
            TalkUntil("up", "got_pokedex"),
        ),
        end_map=40,
        end_events=("got_starter", "got_parcel", "parcel_delivered", "got_pokedex"),
    ),
)
"""Routes of Red and Blue: to the bedroom; on to Bulbasaur, the parcel and the Pokédex."""

CARTRIDGE: Final = (
    StartRoute("bedroom", "", (ReadIntroduction(),), end_map=37),
    StartRoute(
        "pokedex",
        "bedroom",
        (
            WalkTo(4, 3),
            TalkUntil("right", "greeted_dad"),
            WalkTo(2, 5, to=0),
            WalkTo(9, 7, to=40),
            WalkTo(1, 4),
            TalkUntil("up", "met_elder"),
            WalkTo(3, 4),
            TalkUntil("up", "got_starter"),
            WalkTo(4, 4),
            TalkUntil("down", "beat_rival"),
            WalkTo(1, 4),
            TalkUntil("up", "got_almanac"),
        ),
        end_map=40,
        end_events=("got_starter", "got_almanac"),
    ),
)
"""Routes of the free cartridge: to the bedroom; and on to the corresponding part of its story."""


def routes_by_name(real: bool) -> dict[str, StartRoute]:
    """Return the routes of a game by name."""
    return {route.name: route for route in (REAL if real else CARTRIDGE)}
