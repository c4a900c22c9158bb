"""Plays to the points of `scripts.cartridge.named_moments`, once per process, for tests."""

from collections.abc import Iterator
from functools import lru_cache

from scripts.cartridge.distances import Place, stands
from scripts.cartridge.game_state import Facts
from scripts.cartridge.named_moments import STOPS, free, holds
from scripts.cartridge.player import Player
from tests.cartridge.game import ROM, Game

MOST_STEPS = 3_000
PLAYER = Player(ROM)


@lru_cache(maxsize=1)
def _points() -> tuple[dict[str, bytes], Iterator[str]]:
    """Return the points that the scripted game has come to so far, and the play to the next."""
    states: dict[str, bytes] = {}

    def play() -> Iterator[str]:
        game = Game()
        for _ in range(MOST_STEPS):
            facts = game.facts()
            new = [stop for stop in STOPS if stop not in states and holds(stop, facts)]
            states.update(dict.fromkeys(new, game.emulator.dump_state() if new else b""))
            yield from new
            game.press(PLAYER.next_button(facts))
        game.close()

    return states, play()


def state_at(stop: str) -> bytes:
    """Return the save state of that point of the scripted game, which all points share."""
    states, play = _points()
    while stop not in states and next(play, None):
        pass
    assert stop in states, f"no {stop} within {MOST_STEPS} steps"
    return states[stop]


def game_at(stop: str) -> Game:
    """Make a game that continues from that point."""
    game = Game()
    game.emulator.restore_state(state_at(stop))
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
