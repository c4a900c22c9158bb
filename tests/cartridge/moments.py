"""Plays to the moments of `scripts.cartridge.named_moments`, once per process, for tests."""

import atexit
from collections.abc import Iterator
from functools import lru_cache

from scripts.cartridge.distances import Place, stands
from scripts.cartridge.game_state import Facts
from scripts.cartridge.named_moments import MOMENTS, free, holds
from scripts.cartridge.player import Player
from tests.cartridge.game import ROM, Game

MOST_STEPS = 3_000
PLAYER = Player(ROM)


@lru_cache(maxsize=1)
def _played() -> tuple[dict[str, bytes], Iterator[str]]:
    """Return the moments that the scripted game has come to so far, and the play to the next."""
    states: dict[str, bytes] = {}

    def play() -> Iterator[str]:
        game = Game()
        atexit.register(game.close)  # else pyboy complains after the last line of pytest
        for _ in range(MOST_STEPS):
            facts = game.facts()
            new = [moment for moment in MOMENTS if moment not in states and holds(moment, facts)]
            states.update(dict.fromkeys(new, game.emulator.dump_state() if new else b""))
            yield from new
            game.press(PLAYER.next_button(facts))

    return states, play()


def state_at(moment: str) -> bytes:
    """Return the save state of that moment of the scripted game, which all moments share."""
    states, play = _played()
    while moment not in states and next(play, None):
        pass
    assert moment in states, f"no {moment} within {MOST_STEPS} steps"
    return states[moment]


def game_at(moment: str) -> Game:
    """Make a game that continues from that moment."""
    game = Game()
    game.emulator.restore_state(state_at(moment))
    return game


class Guided(Player):
    """A scripted player that goes to one thing, regardless of the story."""

    def __init__(self, thing: Place) -> None:
        super().__init__(ROM)
        self.thing = thing

    def goal(self, facts: Facts) -> Place:
        return self.thing


def walk_to(game: Game, *thing: int) -> Game:
    """Walk, through fights and texts, until the player faces the thing at (map, row, column)."""
    guide = Guided(Place(*thing))
    reach = stands(guide.atlas, guide.thing)
    for _ in range(MOST_STEPS):
        facts = game.facts()
        if free(facts) and reach.get(facts.place) == facts.facing:
            return game
        game.press(guide.next_button(facts))
    raise AssertionError(f"{thing} was not reached")
