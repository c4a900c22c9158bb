"""Pure. Lists the steps to each start state, for a person to read and correct.

Cells are (column, row) as the public disassembly writes them. The routes of the real game were
written from public facts and have never met the ROM, which is not ours to have: with it, an error
tells at once which step fails and where. Tests prove the cartridge's route, by the same player.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

ROUTES_VERSION: Final = 1
"""Grows with every change of a route or its player: states made before are made anew."""
BEGINNING: Final = "beginning"
"""Start state of every game: the first moment at which the player can walk."""
CREATURE: Final = "a creature"
"""Awaited like an event: the party is no longer empty."""


@dataclass(frozen=True, slots=True)
class WalkTo:
    """Walk to a cell; `to`: on to the map that it leads to. One beyond the edge leaves the map."""

    x: int
    y: int
    to: int | None = None


@dataclass(frozen=True, slots=True)
class TalkUntil:
    """Face a neighbouring cell and press A until `until` has happened."""

    toward: str
    until: str


@dataclass(frozen=True, slots=True)
class ReadUntil:
    """Let a scene play, pressing `button` in text and fights, until `until` has happened."""

    until: str
    button: str = "a"


@dataclass(frozen=True, slots=True)
class OpenTitleMenu:
    """Get past pictures and title to the menu behind them."""


@dataclass(frozen=True, slots=True)
class ChooseEntry:
    """Wait for a menu of `last` + 1 entries in the upper left corner and take one of them."""

    entry: int
    last: int


@dataclass(frozen=True, slots=True)
class SetOptions:
    """In the options' menu: text fast, battle animations off, battle style set; then leave it."""


@dataclass(frozen=True, slots=True)
class ReadIntroduction:
    """Read on until the player can walk for the first time."""


RouteStep = (
    WalkTo | TalkUntil | ReadUntil | OpenTitleMenu | ChooseEntry | SetOptions | ReadIntroduction
)


@dataclass(frozen=True, slots=True)
class StartRoute:
    """Steps to a start state, from power-on or from another one; `there` is the map at its end."""

    name: str
    base: str
    steps: tuple[RouteStep, ...]
    end_map: int
    end_events: tuple[str, ...] = ()
    """Events that must have happened at the end."""


_NEW_GAME, _OPTIONS, _FIRST_NAME_OFFERED = 0, 1, 1

REAL: Final = (
    StartRoute(
        "bedroom",
        "",
        (
            OpenTitleMenu(),
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
"""Red and Blue: the room upstairs; and Bulbasaur (the ball on the right), the parcel delivered."""

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
"""The free cartridge: home, and as far as its like of the same errand."""


def routes_by_name(real: bool) -> dict[str, StartRoute]:
    """The routes of a game by name."""
    return {route.name: route for route in (REAL if real else CARTRIDGE)}
