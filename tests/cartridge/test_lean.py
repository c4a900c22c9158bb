"""Tests that the lean game equals the full game and needs less CPU time."""

import time

from scripts.cartridge.build import LEAN, build
from scripts.cartridge.player import Player
from tests.cartridge.game import ROM, Game

STACK = 0xDF00 - 0xC000
"""End of the compared memory; above it is the stack, which interrupts change."""


def test_after_equal_buttons_the_memory_is_equal_at_every_milestone_to_the_end() -> None:
    games, player = (Game(seed=9), Game(build(LEAN)[0], seed=9)), Player(ROM)
    milestones = -1
    while not (facts := games[0].facts()).finished:
        if len(facts.set_flags) > milestones:
            milestones = len(facts.set_flags)
            assert games[0].memory()[:STACK] == games[1].memory()[:STACK], milestones
        button = player.next_button(facts)
        for game in games:
            game.press(button)
    assert milestones >= 45
    assert games[0].memory()[:STACK] == games[1].memory()[:STACK]
    assert (games[0].picture() == games[1].picture()).all()
    for game in games:
        game.close()


def test_a_frame_of_it_costs_the_emulator_well_below_three_quarters() -> None:
    games = Game(), Game(build(LEAN)[0])
    best = [1.0, 1.0]
    for _ in range(20):
        for place, game in enumerate(games):
            began = time.process_time()
            game.press("b", "b", "b", "b", "b")
            best[place] = min(best[place], time.process_time() - began)
    assert best[1] < 0.75 * best[0]
    for game in games:
        game.close()
