"""Tests the game in the real emulator: its rules, its screen, and that nothing locks it."""

import random
from collections.abc import Iterator

import numpy as np
import pytest

from scripts.cartridge.player import BUTTONS, Player
from scripts.cartridge.symbols import SEED_ADDRESS, STORY
from tests.cartridge.game import ROM, Game, starting_at

WALKS = ("down", "left", "right", "up")
SHADES = {0, 85, 153, 255}


@pytest.fixture
def game() -> Iterator[Game]:
    game = Game()
    yield game
    game.close()


@pytest.fixture
def walker() -> Iterator[Game]:
    """Make a game with a creature and the player before the elder's house."""
    game = Game()
    game.play(Player(ROM), 200, until="has_creature")
    game.press("b", "b")
    yield game
    game.close()


def close_boxes(game: Game) -> None:
    for _ in range(40):
        if not (game.facts().text_box or game.is_fighting):
            return
        game.press("a")


def can_walk(game: Game) -> bool:
    """After texts and fights some direction moves the player."""
    for _ in range(4):
        for button in WALKS:
            close_boxes(game)
            before = game.place
            game.press(button)
            if game.place != before:
                return True
    return False


def test_the_title_goes_away_by_itself_and_the_clock_starts(game: Game) -> None:
    assert game.place == (37, 2, 3)
    assert game.byte(0xD732) & 1
    assert not game.byte(0xCD6B)
    before = game.clock
    game.emulator.wait(60)
    assert game.clock == before + 60


def test_a_step_of_24_frames_walks_one_cell_and_draws_a_new_picture(game: Game) -> None:
    before = game.picture()
    game.press("down")
    assert game.place == (37, 3, 3)
    assert game.byte(0xCFC5) == 0
    assert (game.picture() != before).any()


def test_walls_and_people_stop_the_player_but_turn_them(game: Game) -> None:
    game.press("down")
    game.press("right")
    assert game.place == (37, 3, 4)
    game.press("right")
    assert game.place == (37, 3, 4)
    assert game.facts().facing == "right"


@pytest.mark.parametrize("button", ["a", "b"])
def test_a_text_box_blocks_walking_until_a_or_b(game: Game, button: str) -> None:
    game.press("down", "right", "right", "a")
    assert game.facts().text_box
    assert game.byte(0xCFC4) & 1
    game.press("left", "start")
    assert game.place == (37, 3, 4)
    game.press(button, button)
    assert not game.facts().text_box
    game.press("left")
    assert game.place == (37, 3, 3)


def test_the_status_page_closes_with_any_button(game: Game) -> None:
    game.press("start")
    assert game.facts().text_box
    game.press("left")
    assert not game.facts().text_box


def test_the_way_north_is_closed_without_a_creature(game: Game) -> None:
    outside = Game(starting_at(0, 7, 7))
    outside.press("up", "up", "up")
    assert outside.place == (0, 6, 7)
    outside.close()


def test_the_first_creature_stands_in_memory_like_the_real_ones(walker: Game) -> None:
    assert walker.byte(0xD163) == 1
    assert (walker.byte(0xD164), walker.byte(0xD165)) == (0xB0, 0xFF)
    assert walker.byte(0xD16B) == 0xB0
    assert walker.byte(0xD18C) == 5
    assert walker.byte(0xD16D) == walker.byte(0xD18E) == 20
    assert walker.byte(0xD2F7) & 8
    assert walker.byte(0xD30A) & 8


def test_a_ledge_is_hopped_down_and_never_climbed() -> None:
    game = Game(starting_at(12, 2, 3))
    game.press("down")
    assert game.place == (12, 4, 3)
    game.press("up", "up")
    assert game.place == (12, 4, 3)
    game.close()


def test_walking_over_an_edge_leads_into_the_neighbour_without_a_blink() -> None:
    game = Game(starting_at(12, 9, 5))
    game.press("down")
    before = game.picture()
    game.press("down")
    assert game.place == (0, 0, 7)
    scrolled = game.picture()
    assert (scrolled[:112] == before[16:128]).mean() > 0.95
    game.press("up")
    assert game.place == (12, 10, 5)
    game.close()


def test_a_door_leads_in_and_out(game: Game) -> None:
    game.press("down", "down", "down")
    assert game.place == (0, 8, 5)
    assert len(np.unique(game.picture())) == len(SHADES)
    game.press("up")
    assert game.place == (37, 4, 2)
    assert game.byte(0xD365) == 0


def test_grass_holds_creatures_and_b_gets_away(walker: Game) -> None:
    rng = random.Random(4)
    player = Player(ROM)
    while walker.place[0] != 12:
        walker.press(player.next_button(walker.facts()))
    for _ in range(400):
        if walker.byte(0xD057) == 1:
            break
        walker.press(rng.choice(WALKS) if not walker.facts().text_box else "b")
        close = walker.byte(0xD057) == 2
        while close and walker.is_fighting:
            walker.press("a")
    assert walker.byte(0xD057) == 1
    assert walker.byte(0xCFE7) == walker.byte(0xCFF5) > 0
    for _ in range(30):
        walker.press("b")
        if not walker.is_fighting:
            break
    assert not walker.is_fighting
    assert walker.byte(0xD078) == 1
    assert walker.place[0] == 12


def test_losing_wakes_the_player_up_at_home_with_everybody_healed(walker: Game) -> None:
    walker.emulator.write(0xD16D, 1)
    rival = Player(ROM)
    walker.play(rival, 60, until="is_fighting")
    walker.emulator.write(0xD16D, 1)
    for _ in range(40):
        walker.press("a")
        if walker.byte(0xCF0B) == 1 and not walker.byte(0xD057):
            break
    assert walker.byte(0xCF0B) == 1
    assert walker.place[0] == 37
    assert walker.byte(0xD16D) == walker.byte(0xD18E)
    assert can_walk(walker)


def test_the_nurse_heals_over_the_counter_and_is_remembered(walker: Game) -> None:
    player = Player(ROM)
    while walker.place[0] != 1:
        walker.press(player.next_button(walker.facts()))
    walker.emulator.write(0xD16D, 5)
    for _ in range(60):
        walker.press(player.next_button(walker.facts()))
        if walker.byte(0xD719) == 41:
            break
    assert walker.byte(0xD719) == 41
    assert walker.byte(0xD16D) == walker.byte(0xD18E)


def test_equal_buttons_give_equal_memory_and_a_seed_another_game() -> None:
    def run(seed: int) -> bytes:
        game = Game(seed=seed)
        game.play(Player(ROM), 90)
        memory = bytearray(game.memory())
        memory[SEED_ADDRESS - 0xC000] = 0
        game.close()
        return bytes(memory)

    assert run(0) == run(0)
    assert run(0) != run(1)


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_random_buttons_never_lock_the_game(seed: int) -> None:
    rng = random.Random(seed)
    game = Game(seed=seed)
    flags: frozenset[int] = frozenset()
    for _ in range(12):
        for _ in range(120):
            before = game.clock
            game.press(rng.choice(BUTTONS))
            assert 20 <= game.clock - before <= 24  # a new map is drawn with the screen off
        assert game.facts().set_flags >= flags
        flags = game.facts().set_flags
        assert can_walk(game)
    game.close()


@pytest.mark.parametrize("told", [90, 300, 600])
def test_random_buttons_never_lock_a_game_that_is_under_way(told: int) -> None:
    rng = random.Random(told)
    game = Game(seed=told & 255)
    game.play(Player(ROM), told)
    for _ in range(5):
        for _ in range(120):
            before = game.clock
            game.press(rng.choice(BUTTONS))
            assert game.clock > before
        assert can_walk(game)
    game.close()


def test_random_play_finds_something_but_not_much() -> None:
    found = []
    for seed in range(6):
        rng, game = random.Random(seed), Game(seed=seed)
        for _ in range(256):
            game.press(rng.choice(BUTTONS))
        found.append(len(game.facts().set_flags))
        assert game.badges == 0
        game.close()
    assert 0 < sum(found) < len(STORY)


def test_pictures_use_the_four_shades_and_are_not_blank(walker: Game) -> None:
    shades = set(np.unique(walker.picture()).tolist())
    assert shades <= SHADES
    assert len(shades) >= 3


def test_money_grows_by_prizes_as_packed_decimal(walker: Game) -> None:
    assert money(walker) == "003000"
    walker.play(Player(ROM), 60, until="is_fighting")
    while walker.is_fighting:
        walker.press("a")
    assert money(walker) in {"003100", "003000"}
    assert (money(walker) == "003100") == (walker.byte(0xCF0B) == 0)


def money(game: Game) -> str:
    return "".join(f"{game.byte(0xD347 + at):02x}" for at in range(3))
