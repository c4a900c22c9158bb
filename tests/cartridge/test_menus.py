"""Tests menus in the real emulator: a move is taught from the bag, and used on thorns."""

from collections.abc import Callable, Iterator
from itertools import pairwise

import numpy as np
import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.party import CUT
from Daddy.pokemon.reward import field_move_uses, next_shrub
from scripts.benches._state_report import doubts
from tests.cartridge.game import Game
from tests.cartridge.moments import game_at

Start = Callable[[str], Game]
TEACH = ("start", "down", "a", *("down",) * 4, "a")
"""Keys to the book, the fifth item of the bag, and to the party."""
USE_CUT = ("start", "a", "a", "a")


@pytest.fixture
def start() -> Iterator[Start]:
    games: list[Game] = []

    def begin(stop: str) -> Game:
        games.append(game_at(stop))
        return games[-1]

    yield begin
    for game in games:
        game.close()


def look(game: Game) -> Progress:
    memory = game.memory()
    assert doubts(memory, real=False) == ()
    return read_progress(memory)


def test_start_opens_a_menu_once_there_is_a_book_to_use(start: Start) -> None:
    game = start("book")
    world = game.picture()
    game.press("start")
    assert game.facts().menu == 1
    assert (game.byte(ram.MENU_ITEM), game.byte(ram.MENU_LAST)) == (0, 3)
    assert look(game).text_box
    assert (game.picture() != world).mean() > 0.2
    game.press("b")
    assert game.facts().menu is None
    assert np.array_equal(game.picture(), world)


def test_the_hand_moves_between_the_first_and_the_last_entry(start: Start) -> None:
    game = start("book").press("start", "up")
    assert game.facts().entry == 0
    pictures = [game.picture()]
    for entry in (1, 2, 3, 3):
        game.press("down")
        assert game.facts().entry == entry
        pictures.append(game.picture())
    assert [(a != b).any() for a, b in pairwise(pictures)] == [True, True, True, False]


@pytest.mark.parametrize("keys", [("start",), ("a", "start"), ("down", "a", "start")])
def test_start_leaves_every_menu_and_the_player_walks_on(
    start: Start, keys: tuple[str, ...]
) -> None:
    game = start("book")
    before = game.place
    game.press("start", *keys)
    assert game.facts().menu is None
    assert not game.facts().text_box
    assert game.place == before
    game.press("down")
    assert game.place != before


def test_b_goes_back_one_menu_at_a_time(start: Start) -> None:
    game = start("book").press("start", "a", "a")
    seen = []
    while (menu := game.facts().menu) is not None:
        seen.append(menu)
        game.press("b")
    assert seen == [4, 3, 1]


def test_a_move_is_taught_out_of_the_bag(start: Start) -> None:
    game = start("book")
    assert CUT not in look(game).moves
    game.press(*TEACH, "a")
    now = look(game)
    assert now.party[0].moves[:2] == bytes((0x21, CUT))
    assert now.party[0].pp[1] == 30
    assert "cut_taught" in story_milestones.reached_milestones(now, real=False)
    assert dict(now.bag)[0xC4] == 1
    game.press("b", "b")
    assert not look(game).text_box
    game.press(*TEACH, "a", "b")
    assert look(game).party == now.party


def test_who_has_no_hands_learns_nothing(start: Start) -> None:
    game = start("book").press(*TEACH, "down", "a")
    assert look(game).text_box
    assert CUT not in look(game).moves


def test_other_things_help_nobody_and_a_tonic_is_used_up(start: Start) -> None:
    game = start("book")
    game.emulator.write(ram.PARTY_MONS + ram.MON_HP + 1, 3)
    before = look(game)
    game.press("start", "down", "a", "a", "b", "b")
    assert look(game).bag == before.bag
    game.press("start", "down", "a", "down", "a", "b", "b")
    now = look(game)
    assert set(before.bag) - set(now.bag) == {(0x14, 1)}
    assert now.hp_fraction == 1.0


def test_thorns_stand_in_the_way_until_they_are_cut(start: Start) -> None:
    game = start("thorns")
    before, place, facing = look(game), game.place, game.facts().facing
    shrub = next_shrub(None, before)
    assert shrub is not None
    game.press(facing)
    assert game.place == place
    game.press("a", "b")
    assert next_shrub(shrub, look(game)) == shrub, "to talk about them cuts nothing"
    game.press(*USE_CUT)
    while look(game).text_box or look(game).joypad_ignored:
        assert field_move_uses(shrub, before, look(game)) == 0, (
            "not before the player is free again"
        )
        game.press("b")
    assert field_move_uses(shrub, before, look(game)).bit_count() == 1
    assert next_shrub(shrub, look(game)) is None
    game.press(facing)
    assert game.place != place


def test_thorns_grow_again_once_one_comes_back(start: Start) -> None:
    game = start("thorns").press(*USE_CUT)
    while look(game).text_box or look(game).joypad_ignored:
        game.press("b")
    behind = (5, 10, 4)
    while game.place != behind:
        game.press("left")
    game.press("left", "up")
    assert game.place[0] == 92
    game.press("down")
    while game.place[2] < 5:
        game.press("right")
    game.press("right")
    assert game.place == (5, 10, 5)
    assert next_shrub(None, look(game)) is not None


def test_cut_before_nothing_does_nothing(start: Start) -> None:
    game = start("taught")
    place = game.place
    game.press(*USE_CUT)
    assert look(game).text_box
    game.press("b", "b")
    assert (game.place, look(game).text_box) == (place, False)


def test_who_cannot_cut_finds_no_move_to_use(start: Start) -> None:
    game = start("book").press("start", "a", "a")
    assert (game.byte(ram.MENU_ITEM), game.byte(ram.MENU_LAST)) == (0, 0)
    game.press("a")
    assert game.facts().menu == 3
