"""The real game's routes, on paper: what is asked of the ROM is possible if the facts are right."""

from __future__ import annotations

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.starts.route import Choose, Go, Route, routes
from Daddy.pokemon.starts.route_player import RoutePlayer, StuckError
from tests.pokemon.paper import PaperRed

BEDROOM, POKEDEX = routes(real=True).values()


@pytest.fixture
def red() -> PaperRed:
    return PaperRed()


def test_a_new_game_gets_its_options_through_the_menu_and_both_names(red: PaperRed) -> None:
    RoutePlayer(red, real=True).play(BEDROOM)
    assert red.place == (38, 6, 3)
    assert red.named == 2
    assert red.ram(())[ram.OPTIONS - ram.RAM_START] == 0b11000001


def test_the_errand_is_run_from_the_bedroom_to_the_end(red: PaperRed) -> None:
    for route in (BEDROOM, POKEDEX):
        RoutePlayer(red, real=True).play(route)
    assert red.place == (40, 3, 5)
    assert all(red.has(event) for event in POKEDEX.holds)


def test_on_paper_as_in_life_a_wrong_cell_is_told_with_map_and_step(red: PaperRed) -> None:
    RoutePlayer(red, real=True).play(BEDROOM)
    wrong = Route("wrong", "", (Go(7, 1, to=37), Go(5, 8, to=0)), there=0)
    with pytest.raises(StuckError, match=r"step 2 of 2, Go.*Reds House 1F"):
        RoutePlayer(red, real=True).play(wrong)


def test_a_menu_that_never_comes_ends_the_wait(red: PaperRed, monkeypatch) -> None:
    monkeypatch.setattr("Daddy.pokemon.starts.route_player.PRESSES", 30)
    with pytest.raises(StuckError, match=r"Choose.*nothing came of 30 keys"):
        RoutePlayer(red, real=True).play(Route("menu", "", (Choose(0, last=1),), there=0))
