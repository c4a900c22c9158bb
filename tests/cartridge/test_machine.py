"""Tests the machine in rest houses, which stores creatures where the real game has its box."""

from collections.abc import Iterator

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.game_progress import Progress, read_progress
from scripts.benches._state_report import doubts
from tests.cartridge.game import Game
from tests.cartridge.moments import game_at, walk_to

MACHINE = (89, 1, 6)
BOX_SPECIES, BOX_MONS, BOX_LEVEL = 0xDA81, 0xDA96, 3
STORE_FIRST, STORE_SECOND = ("a", "a", "a"), ("a", "a", "down", "a")
TAKE_BACK = ("a", "down", "a", "a")


@pytest.fixture
def game() -> Iterator[Game]:
    """Make a game before the port's machine, with two creatures besides the first."""
    game = walk_to(game_at("taught"), *MACHINE)
    yield game
    game.close()


def look(game: Game) -> Progress:
    memory = game.memory()
    assert doubts(memory, real=False) == ()
    return read_progress(memory)


def use(game: Game, *keys: str) -> Progress:
    game.press(*keys)
    for _ in range(4):
        game.press("b")
    assert not look(game).text_box
    return look(game)


def test_a_friend_is_stored_and_taken_back_as_it_was(game: Game) -> None:
    before = look(game).party
    now = use(game, *STORE_SECOND)
    assert now.party == before[:1]
    assert game.byte(ram.BOX_COUNT) == 1
    assert game.byte(BOX_SPECIES) == game.byte(BOX_MONS) == before[1].species
    assert game.byte(BOX_SPECIES + 1) == 0xFF
    assert game.byte(BOX_MONS + BOX_LEVEL) == before[1].level
    now = use(game, *TAKE_BACK)
    assert now.party == before
    assert game.byte(ram.BOX_COUNT) == 0


def test_those_behind_move_up_and_who_comes_back_comes_last(game: Game) -> None:
    before = look(game).party
    assert use(game, *STORE_FIRST).party == before[1:]
    assert use(game, *TAKE_BACK).party == before[::-1]


def test_experience_goes_along(game: Game) -> None:
    """A creature keeps its experience when it changes its slot."""
    needs = [game.byte(0xC046 + slot) for slot in range(2)]
    assert needs[0] != needs[1]
    use(game, *STORE_FIRST)
    use(game, *TAKE_BACK)
    assert [game.byte(0xC046 + slot) for slot in range(2)] == needs[::-1]


def test_the_last_one_stays(game: Game) -> None:
    use(game, *STORE_FIRST)
    before = look(game).party
    assert use(game, *STORE_FIRST).party == before
    assert game.byte(ram.BOX_COUNT) == 1


def test_an_empty_box_says_so_and_a_change_of_mind_changes_nothing(game: Game) -> None:
    before = look(game)
    game.press("a", "down", "a")
    assert game.facts().menu is None
    assert use(game).party == before.party
    assert use(game, "a", "a", "b", "b").party == before.party
    assert use(game, "a", "down", "down", "a").party == before.party


def test_who_stores_the_one_that_cuts_can_fetch_it_again(game: Game) -> None:
    """Thorns can never make the game unwinnable."""
    assert game.facts().cutters == (0,)
    use(game, *STORE_FIRST)
    assert game.facts().cutters == ()
    use(game, *TAKE_BACK)
    assert game.facts().cutters == (1,)
