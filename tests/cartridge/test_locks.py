"""Tests that the scripted player can win after any buttons at any point of the story."""

import random

import pytest

from Daddy.pokemon import ram_map as ram
from scripts.cartridge.player import BUTTONS
from tests.cartridge.moments import PLAYER, game_at, walk_to

CHAOS, MOST_STEPS = 300, 3_000
MACHINE, BORROWER, LEVER = (171, 1, 6), (8, 5, 6), (165, 2, 3)


STAGES = ("letter", "stonewick", "book", "thorns", "isle", "lever", "tower", "lamp", "blessed")


@pytest.mark.parametrize("stop", STAGES)
def test_after_random_buttons_the_game_can_still_be_won(stop: str) -> None:
    game, dice = game_at(stop), random.Random(stop)
    for _ in range(CHAOS):
        game.press(dice.choice(BUTTONS))
    assert game.play(PLAYER, MOST_STEPS) < MOST_STEPS
    assert game.facts().finished
    game.close()


@pytest.mark.parametrize("thing", [MACHINE, BORROWER, LEVER])
def test_nor_do_random_buttons_before_what_can_be_farmed(thing: tuple[int, int, int]) -> None:
    game, dice = walk_to(game_at("keeper"), *thing), random.Random(thing[0])
    stored = 0
    for _ in range(CHAOS // 2):
        if dice.random() < 0.2:
            walk_to(game, *thing)
        game.press(dice.choice(("a", "a", "b", "down", "up")))
        stored = max(stored, game.byte(ram.BOX_COUNT))
    assert stored == (2 if thing == MACHINE else 0)
    if not game.facts().cutters:  # stored creatures can be taken out of the machine again
        walk_to(game, *MACHINE)
        for _ in range(3):
            game.press("a", "down", "a", "a", "b", "b", "b")
    assert game.play(PLAYER, MOST_STEPS) < MOST_STEPS
    game.close()
