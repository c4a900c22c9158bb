"""Tests the lighthouse, whose true stairs are random, told once, and needed later."""

from functools import lru_cache

import pytest

from Daddy.pokemon import cutscene
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.exploration import VisitedCells
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.observation import observe
from scripts.cartridge.maps import read_atlas
from scripts.cartridge.named_moments import has_happened
from scripts.cartridge.symbols import SECRET_ADDRESS
from tests.cartridge.game import ROM, Game
from tests.cartridge.moments import game_at, walk_to

KEEPER = (167, 2, 3)
FALL = read_atlas(ROM).fall
STAIRS = {1: ("left", "left"), 2: (), 3: ("right", "right")}


@lru_cache(maxsize=1)
def before_the_keeper() -> bytes:
    game = walk_to(game_at("keeper"), *KEEPER)
    assert secret(game) == (0, 0)
    return game.emulator.dump_state()


def guest(dice: int) -> Game:
    """Make a game before the keeper's hint, with these random bytes."""
    game = Game()
    game.emulator.restore_state(before_the_keeper())
    game.emulator.write(ram.RANDOM[0], dice)
    return game


def secret(game: Game) -> tuple[int, int]:
    return game.byte(SECRET_ADDRESS), game.byte(SECRET_ADDRESS + 1)


def listen(game: Game) -> str:
    """Return the tiles of the keeper's two text boxes."""
    said = b""
    game.press("a")
    while game.facts().text_box:
        said += bytes(game.emulator.ram(((0xC3A0, 0xC508),))[0x3A0 + 280 : 0x3A0 + 340])
        game.press("a")
    return said.hex()


def climb(game: Game, side: int) -> Game:
    """Walk from below a floor's middle stairs to the stairs of a side, and up."""
    game.press("up", "up", "up", *STAIRS[side], "up", "up")
    for _ in range(8):
        game.press("b")
    return game


def test_it_is_drawn_by_the_games_dice_when_it_is_told_first() -> None:
    drawn = set()
    for dice in range(0, 256, 5):
        game = guest(dice)
        listen(game)
        drawn.add(secret(game))
        game.close()
    assert drawn == {(first, second) for first in (1, 2, 3) for second in (1, 2, 3)}


def test_what_is_said_tells_it_and_is_said_again_to_who_asks_again() -> None:
    said: dict[tuple[int, int], str] = {}
    for dice in range(0, 256, 16):
        game = guest(dice)
        words, drawn = listen(game), secret(game)
        assert has_happened(game.facts(), "HEARD_WAY")
        assert said.setdefault(drawn, words) == words == listen(game)
        assert secret(game) == drawn
        game.close()
    assert len(set(said.values())) == len(said) > 4


@pytest.mark.parametrize("true", [(1, 3), (2, 2), (3, 1)])
def test_true_stairs_lead_up_and_others_down_again(true: tuple[int, int]) -> None:
    for floor, number in enumerate((142, 143)):
        for side in (1, 2, 3):
            game = game_at("tower")
            game.emulator.write(SECRET_ADDRESS, true[0])
            game.emulator.write(SECRET_ADDRESS + 1, true[1])
            if floor:
                climb(game, true[0])
            assert game.place == (number, 5, 4)
            climb(game, side)
            assert game.place == ((number + 1, 5, 4) if side == true[floor] else FALL)
            assert secret(game) == true, "a fall costs the way, and the keeper's words still hold"
            game.close()


def test_who_was_told_nothing_falls_whatever_stairs_he_takes() -> None:
    for side in (1, 2, 3):
        game = game_at("tower")
        game.emulator.write(SECRET_ADDRESS, 0)
        assert climb(game, side).place == FALL
        game.close()


def test_a_fall_takes_a_while_without_control_and_no_hit_points() -> None:
    game = game_at("tower")
    game.emulator.write(SECRET_ADDRESS, 3)
    before = read_progress(game.memory()).party
    game.press("up", "up", "up", "left", "left", "up")
    game.emulator._boy.button("up", 8)
    led = 0
    for _ in range(200):
        game.emulator.wait(1)
        led += cutscene.has_control(game.emulator.ram())
    assert 90 < led < 150
    assert game.place == FALL
    assert read_progress(game.memory()).party == before
    game.close()


def test_nothing_that_an_agent_sees_of_the_tower_tells_its_stairs() -> None:
    seen = []
    for true in ((1, 3), (3, 1)):
        game = game_at("tower")
        game.emulator.write(SECRET_ADDRESS, true[0])
        game.emulator.write(SECRET_ADDRESS + 1, true[1])
        game.press("up", "up")
        now = read_progress(game.memory())
        shown = observe(game.emulator.half_screen(), now, VisitedCells())
        seen.append({name: value.tolist() for name, value in shown.items()})
        game.close()
    assert seen[0] == seen[1]
