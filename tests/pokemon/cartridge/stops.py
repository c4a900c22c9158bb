"""Stops of a scripted game: moments to begin tests from, each played to once per process."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from Daddy.pokemon.cartridge.facts import Facts
from Daddy.pokemon.cartridge.player import Player
from Daddy.pokemon.cartridge.roads import Place, stands
from Daddy.pokemon.cartridge.symbols import STORY, SWITCHES
from tests.pokemon.cartridge.game import ROM, Game

NAMES = [flag.name for flag in STORY + SWITCHES]
MOST_STEPS = 3_000
PLAYER = Player(ROM)


def told(facts: Facts, flag: str) -> bool:
    """Whether this event has happened."""
    return NAMES.index(flag) in facts.set_flags


def free(facts: Facts) -> bool:
    """Whether no text, menu or fight is on."""
    return not facts.text_box and not facts.fighting


STOPS: dict[str, Callable[[Facts], bool]] = {
    "book": lambda facts: told(facts, "GOT_CUT") and free(facts),
    "taught": lambda facts: bool(facts.cutters) and free(facts),
    "thorns": lambda facts: bool(facts.cutters) and facts.shrub_tile and free(facts),
    "hall": lambda facts: facts.place.map == 92 and free(facts),
    "pier": lambda facts: told(facts, "BEAT_LEADER3") and free(facts) and facts.place.map == 5,
    "isle": lambda facts: facts.place.map == 8 and free(facts),
    "lever": lambda facts: told(facts, "SLUICE_OPEN") and free(facts),
    "keeper": lambda facts: told(facts, "GOT_KEY") and facts.place.map == 167 and free(facts),
    "tower": lambda facts: facts.place.map == 142 and free(facts),
}
"""In the order of the story."""


@lru_cache(maxsize=len(STOPS))
def state_at(stop: str) -> bytes:
    """Save state of the first moment of that kind in the scripted game."""
    game = Game()
    for _ in range(MOST_STEPS):
        facts = game.facts()
        if STOPS[stop](facts):
            return game.emulator.save_state()
        game.press(PLAYER.next_button(facts))
    raise AssertionError(f"no {stop} within {MOST_STEPS} steps")


def game_at(stop: str) -> Game:
    """A game that goes on from there."""
    game = Game()
    game.emulator.load_state(state_at(stop))
    return game


class Guided(Player):
    """Goes to one thing, whatever the story says."""

    def __init__(self, thing: Place) -> None:
        super().__init__(ROM)
        self.thing = thing

    def goal(self, facts: Facts) -> Place:
        return self.thing


def walk_to(game: Game, *thing: int) -> Game:
    """Walk until the player faces the thing at (map, row, column), fights and texts included."""
    guide = Guided(Place(*thing))
    reach = stands(guide.atlas, guide.thing)
    for _ in range(MOST_STEPS):
        facts = game.facts()
        if free(facts) and reach.get(facts.place) == facts.facing:
            return game
        game.press(guide.next_button(facts))
    raise AssertionError(f"{thing} was not reached")
