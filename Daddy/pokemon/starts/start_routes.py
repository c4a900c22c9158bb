"""Pure. Lists the steps to each start state, for a person to read and correct.

Cells are (column, row) as the public disassembly writes them. The routes of the real game were
written from public facts and have never met the ROM, which is not ours to have: with it, an error
tells at once which step fails and where. Tests prove the cartridge's route, by the same player.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

VERSION: Final = 1
"""Grows with every change of a route or its player: states made before are made anew."""
BEGINNING: Final = "beginning"
"""Start state of every game: the first moment at which the player can walk."""
CREATURE: Final = "a creature"
"""Awaited like an event: the party is no longer empty."""


@dataclass(frozen=True, slots=True)
class Go:
    """Walk to a cell; `to`: on to the map that it leads to. One beyond the edge leaves the map."""

    x: int
    y: int
    to: int | None = None


@dataclass(frozen=True, slots=True)
class Talk:
    """Face a neighbouring cell and press A until `until` has happened."""

    toward: str
    until: str


@dataclass(frozen=True, slots=True)
class Read:
    """Let a scene play, pressing `button` in text and fights, until `until` has happened."""

    until: str
    button: str = "a"


@dataclass(frozen=True, slots=True)
class Title:
    """Get past pictures and title to the menu behind them."""


@dataclass(frozen=True, slots=True)
class Choose:
    """Wait for a menu of `last` + 1 entries in the upper left corner and take one of them."""

    entry: int
    last: int


@dataclass(frozen=True, slots=True)
class SetOptions:
    """In the options' menu: text fast, battle animations off, battle style set; then leave it."""


@dataclass(frozen=True, slots=True)
class Begin:
    """Read on until the player can walk for the first time."""


Step = Go | Talk | Read | Title | Choose | SetOptions | Begin


@dataclass(frozen=True, slots=True)
class Route:
    """Steps to a start state, from power-on or from another one; `there` is the map at its end."""

    name: str
    base: str
    steps: tuple[Step, ...]
    there: int
    holds: tuple[str, ...] = ()
    """Events that must have happened at the end."""


_NEW_GAME, _OPTIONS, _FIRST_NAME_OFFERED = 0, 1, 1

REAL: Final = (
    Route(
        "bedroom",
        "",
        (
            Title(),
            Choose(_OPTIONS, last=1),
            SetOptions(),
            Choose(_NEW_GAME, last=1),
            Choose(_FIRST_NAME_OFFERED, last=3),
            Choose(_FIRST_NAME_OFFERED, last=3),
            Begin(),
        ),
        there=38,
    ),
    Route(
        "pokedex",
        "bedroom",
        (
            Go(7, 1, to=37),
            Go(3, 8, to=0),
            Go(10, 1, to=40),
            Read("asked_to_choose"),
            Go(8, 4),
            Talk("up", CREATURE),
            Read("got_starter", "b"),
            Go(5, 6),
            Read("fought_rival_in_lab"),
            Go(5, 12, to=0),
            Go(10, -1, to=12),
            Go(10, -1, to=1),
            Go(29, 19, to=42),
            Read("got_parcel"),
            Go(3, 8, to=1),
            Go(20, 36, to=12),
            Go(10, 36, to=0),
            Go(12, 11, to=40),
            Go(5, 3),
            Talk("up", "got_pokedex"),
        ),
        there=40,
        holds=("got_starter", "got_parcel", "parcel_delivered", "got_pokedex"),
    ),
)
"""Red and Blue: the room upstairs; and Bulbasaur (the ball on the right), the parcel delivered."""

CARTRIDGE: Final = (
    Route("bedroom", "", (Begin(),), there=37),
    Route(
        "pokedex",
        "bedroom",
        (
            Go(4, 3),
            Talk("right", "greeted_dad"),
            Go(2, 5, to=0),
            Go(9, 7, to=40),
            Go(1, 4),
            Talk("up", "met_elder"),
            Go(3, 4),
            Talk("up", "got_starter"),
            Go(4, 4),
            Talk("down", "beat_rival"),
            Go(1, 4),
            Talk("up", "got_almanac"),
        ),
        there=40,
        holds=("got_starter", "got_almanac"),
    ),
)
"""The free cartridge: home, and as far as its like of the same errand."""


def routes(real: bool) -> dict[str, Route]:
    """The routes of a game by name."""
    return {route.name: route for route in (REAL if real else CARTRIDGE)}
