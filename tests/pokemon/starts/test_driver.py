"""The driver on the real cartridge: walking, doors, edges, ledges, talk, scripts and fights."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.rom import cartridge_path
from Daddy.pokemon.starts import route_player as driving
from Daddy.pokemon.starts.player_view import STEERING, PlayerView, read_view
from Daddy.pokemon.starts.route import CARTRIDGE, REAL, Go, Read, Route, Talk, routes
from Daddy.pokemon.starts.route_player import RoutePlayer, StuckError

ROM = cartridge_path().read_bytes()
HOME, ERRAND = CARTRIDGE


@pytest.fixture
def switched_on() -> Iterator[Emulator]:
    """Our own cartridge, whose game has not begun."""
    emulator = Emulator(ROM)
    yield emulator
    emulator.close()


def look(emulator: Emulator) -> PlayerView:
    return read_view(emulator.ram(STEERING))


def drive(emulator: Emulator, *steps: object, there: int) -> None:
    RoutePlayer(emulator, real=False).play(Route("test", "", steps, there))


def test_the_first_room_is_reached_from_power_on(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play(HOME)
    now = look(switched_on)
    assert now.free
    assert now.progress.map_id == 37
    assert now.clock_runs


def test_the_errand_ends_with_a_creature_a_won_fight_and_the_player_in_control(
    switched_on: Emulator,
) -> None:
    for route in (HOME, ERRAND):
        RoutePlayer(switched_on, real=False).play(route)
    now = look(switched_on)
    assert now.free
    assert now.progress.map_id == 40
    assert len(now.progress.party) == 1
    assert all(now.has(event, real=False) for event in ("beat_rival", "got_almanac"))


def test_over_the_edge_through_grass_around_ledges_and_past_who_wants_to_fight(
    switched_on: Emulator,
) -> None:
    for route in (HOME, ERRAND):
        RoutePlayer(switched_on, real=False).play(route)
    drive(switched_on, Go(3, 6, to=0), Go(7, -1, to=12), Go(5, -1, to=1), Go(8, 9), there=1)
    assert look(switched_on).cell == (9, 8)


def test_a_way_back_over_a_ledge_is_taken_as_it_leads(switched_on: Emulator) -> None:
    test_over_the_edge_through_grass_around_ledges_and_past_who_wants_to_fight(switched_on)
    drive(switched_on, Go(8, 12, to=12), Go(7, 7), Go(5, 11, to=0), there=0)


def test_equal_starts_take_equal_ways() -> None:
    states = []
    for _ in range(2):
        emulator = Emulator(ROM)
        for route in (HOME, ERRAND):
            RoutePlayer(emulator, real=False).play(route)
        states.append(emulator.save_state())
        emulator.close()
    assert states[0] == states[1]


def test_a_step_that_gets_nowhere_says_which_where_and_why(
    switched_on: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    RoutePlayer(switched_on, real=False).play(HOME)
    monkeypatch.setattr(driving, "PRESSES", 40)
    with pytest.raises(StuckError, match=r"step 2 of 2, Talk.*at Home \(3, 2\).*of 40 keys"):
        drive(switched_on, Go(3, 2), Talk("down", "got_starter"), there=37)


def test_a_cell_in_a_wall_is_given_up_with_its_place(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play(HOME)
    with pytest.raises(StuckError, match=r"found no way to \(0, 0\)"):
        drive(switched_on, Go(0, 0), there=37)


def test_an_awaited_event_that_never_comes_is_no_endless_wait(
    switched_on: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    RoutePlayer(switched_on, real=False).play(HOME)
    monkeypatch.setattr(driving, "PRESSES", 40)
    with pytest.raises(StuckError, match="nothing came of 40 keys"):
        drive(switched_on, Read("got_starter"), there=37)


def test_another_map_than_was_meant_is_noticed(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play(HOME)
    with pytest.raises(StuckError, match="carried off to map 0"):
        drive(switched_on, Go(2, 5, to=40), there=40)
    with pytest.raises(StuckError, match=r"the route ended at Hearth"):
        drive(switched_on, Go(5, 9), there=37)


@pytest.mark.parametrize("table", [REAL, CARTRIDGE])
def test_every_route_leads_on_from_one_and_awaits_events_that_exist(
    table: tuple[Route, ...], switched_on: Emulator
) -> None:
    real = table is REAL
    now = look(switched_on)
    for route in table:
        assert not route.base or route.base in routes(real)
        awaited = [step.until for step in route.steps if isinstance(step, Talk | Read)]
        for event in (*awaited, *route.holds):
            assert now.has(event, real) is False
