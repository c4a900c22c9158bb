"""Tests the route player on the cartridge: walking, doors, edges, ledges, talk, scripts, fights."""

from collections.abc import Iterator

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.starts import route_player as driving
from Daddy.pokemon.starts.route_player import RoutePlayer, StuckError, WalkMap
from Daddy.pokemon.starts.route_view import STEERING, Cell, PlayerView, read_view
from Daddy.pokemon.starts.start_routes import (
    CARTRIDGE,
    REAL,
    ChooseEntry,
    ReadUntil,
    StartRoute,
    TalkUntil,
    WalkTo,
    routes_by_name,
)
from tests.pokemon.simulated_red import PaperRed

ROM = cartridge_path().read_bytes()
HOME, ERRAND = CARTRIDGE


@pytest.fixture
def switched_on() -> Iterator[Emulator]:
    """Our own cartridge at power-on."""
    emulator = Emulator(ROM)
    yield emulator
    emulator.close()


def look(emulator: Emulator) -> PlayerView:
    return read_view(emulator.ram(STEERING))


def drive(emulator: Emulator, *steps: object, there: int) -> None:
    RoutePlayer(emulator, real=False).play_route(StartRoute("test", "", steps, there))


def test_the_first_room_is_reached_from_power_on(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play_route(HOME)
    now = look(switched_on)
    assert now.free
    assert now.progress.map_id == 37
    assert now.clock_runs


def test_the_errand_ends_with_a_creature_a_won_fight_and_the_player_in_control(
    switched_on: Emulator,
) -> None:
    for route in (HOME, ERRAND):
        RoutePlayer(switched_on, real=False).play_route(route)
    now = look(switched_on)
    assert now.free
    assert now.progress.map_id == 40
    assert len(now.progress.party) == 1
    assert all(now.has_event(event, real=False) for event in ("beat_rival", "got_almanac"))


def test_over_the_edge_through_grass_around_ledges_and_past_who_wants_to_fight(
    switched_on: Emulator,
) -> None:
    for route in (HOME, ERRAND):
        RoutePlayer(switched_on, real=False).play_route(route)
    drive(
        switched_on,
        WalkTo(3, 6, to=0),
        WalkTo(7, -1, to=12),
        WalkTo(5, -1, to=1),
        WalkTo(8, 9),
        there=1,
    )
    assert look(switched_on).cell == (9, 8)


def test_a_way_back_over_a_ledge_is_taken_as_it_leads(switched_on: Emulator) -> None:
    test_over_the_edge_through_grass_around_ledges_and_past_who_wants_to_fight(switched_on)
    drive(switched_on, WalkTo(8, 12, to=12), WalkTo(7, 7), WalkTo(5, 11, to=0), there=0)


def test_equal_starts_take_equal_ways() -> None:
    states = []
    for _ in range(2):
        emulator = Emulator(ROM)
        for route in (HOME, ERRAND):
            RoutePlayer(emulator, real=False).play_route(route)
        states.append(emulator.dump_state())
        emulator.close()
    assert states[0] == states[1]


def test_a_step_that_gets_nowhere_says_which_where_and_why(
    switched_on: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    RoutePlayer(switched_on, real=False).play_route(HOME)
    monkeypatch.setattr(driving, "MAX_PRESSES", 40)
    with pytest.raises(StuckError, match=r"step 2 of 2, Talk.*at Home \(3, 2\).*after 40 keys"):
        drive(switched_on, WalkTo(3, 2), TalkUntil("down", "got_starter"), there=37)


def test_a_cell_in_a_wall_is_given_up_with_its_place(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play_route(HOME)
    with pytest.raises(StuckError, match=r"found no path to \(0, 0\)"):
        drive(switched_on, WalkTo(0, 0), there=37)


def test_an_awaited_event_that_never_comes_is_no_endless_wait(
    switched_on: Emulator, monkeypatch: pytest.MonkeyPatch
) -> None:
    RoutePlayer(switched_on, real=False).play_route(HOME)
    monkeypatch.setattr(driving, "MAX_PRESSES", 40)
    with pytest.raises(StuckError, match="the step did not end after 40 keys"):
        drive(switched_on, ReadUntil("got_starter"), there=37)


def test_another_map_than_was_meant_is_noticed(switched_on: Emulator) -> None:
    RoutePlayer(switched_on, real=False).play_route(HOME)
    with pytest.raises(StuckError, match="left for map 0"):
        drive(switched_on, WalkTo(2, 5, to=40), there=40)
    with pytest.raises(StuckError, match=r"the route ended at Hearth"):
        drive(switched_on, WalkTo(5, 9), there=37)


@pytest.mark.parametrize("table", [REAL, CARTRIDGE])
def test_every_route_leads_on_from_one_and_awaits_events_that_exist(
    table: tuple[StartRoute, ...], switched_on: Emulator
) -> None:
    real = table is REAL
    now = look(switched_on)
    for route in table:
        assert not route.base or route.base in routes_by_name(real)
        awaited = [step.until for step in route.steps if isinstance(step, TalkUntil | ReadUntil)]
        for event in (*awaited, *route.end_events):
            assert now.has_event(event, real) is False


def walk(ground: WalkMap, here: Cell, goal: Cell, walls: set[Cell]) -> list[Cell]:
    """Walk as the route player does: find blocked directions until the goal is reached or lost."""
    way = [here]
    for _ in range(500):
        button = ground.first_button(way[-1], goal)
        if button is None:
            return way
        to = way[-1].neighbour(button)
        if to in walls:
            ground.blocked.add((way[-1], button))
        else:
            way.append(to)
    return way


def test_an_open_field_is_crossed_the_shortest_way() -> None:
    way = walk(WalkMap(10, 10), Cell(1, 1), Cell(7, 4), set())
    assert way[-1] == Cell(7, 4)
    assert len(way) == 1 + 6 + 3


def test_a_wall_with_one_gap_is_found_out_and_gone_around() -> None:
    walls = {Cell(5, x) for x in range(10) if x != 9}
    assert walk(WalkMap(10, 10), Cell(8, 0), Cell(2, 0), walls)[-1] == Cell(2, 0)


def test_a_closed_room_is_known_to_have_no_way_out() -> None:
    walls = {Cell(3, 2), Cell(1, 2), Cell(2, 1), Cell(2, 3)}
    ground = WalkMap(10, 10)
    assert walk(ground, Cell(2, 2), Cell(8, 8), walls) == [Cell(2, 2)]
    ground.blocked.clear()
    assert ground.first_button(Cell(2, 2), Cell(8, 8)) is not None


def test_doors_are_walked_around_unless_they_are_the_goal() -> None:
    door = Cell(5, 5)
    ground = WalkMap(10, 10, frozenset({door}))
    assert door not in walk(ground, Cell(8, 5), Cell(2, 5), set())
    assert walk(ground, Cell(8, 5), door, set())[-1] == door


def test_beyond_the_edge_lies_a_goal_even_behind_a_mat_that_is_a_door() -> None:
    mat = Cell(7, 3)
    ground = WalkMap(8, 8, frozenset({mat, Cell(7, 2)}))
    way = walk(ground, Cell(2, 2), Cell(8, 3), set())
    assert way[-2:] == [mat, Cell(8, 3)]
    assert Cell(7, 2) not in way


def test_nobody_leaves_the_map_on_the_way() -> None:
    walls = {Cell(0, x) for x in range(1, 5)}
    way = walk(WalkMap(2, 6), Cell(1, 0), Cell(0, 5), walls)
    assert all(0 <= cell.y < 2 and 0 <= cell.x < 6 for cell in way)


BEDROOM, POKEDEX = routes_by_name(real=True).values()


@pytest.fixture
def red() -> PaperRed:
    return PaperRed()


def test_a_new_game_gets_its_options_through_the_menu_and_both_names(red: PaperRed) -> None:
    RoutePlayer(red, real=True).play_route(BEDROOM)
    assert red.place == (38, 6, 3)
    assert red.named == 2
    assert red.ram(())[ram.OPTIONS - ram.RAM_START] == 0b11000001


def test_the_errand_is_run_from_the_bedroom_to_the_end(red: PaperRed) -> None:
    for route in (BEDROOM, POKEDEX):
        RoutePlayer(red, real=True).play_route(route)
    assert red.place == (40, 3, 5)
    assert all(red.has(event) for event in POKEDEX.end_events)


def test_on_paper_as_in_life_a_wrong_cell_is_told_with_map_and_step(red: PaperRed) -> None:
    RoutePlayer(red, real=True).play_route(BEDROOM)
    wrong = StartRoute("wrong", "", (WalkTo(7, 1, to=37), WalkTo(5, 8, to=0)), end_map=0)
    with pytest.raises(StuckError, match=r"step 2 of 2, WalkTo.*Reds House 1F"):
        RoutePlayer(red, real=True).play_route(wrong)


def test_a_menu_that_never_comes_ends_the_wait(red: PaperRed, monkeypatch) -> None:
    monkeypatch.setattr("Daddy.pokemon.starts.route_player.MAX_PRESSES", 30)
    with pytest.raises(StuckError, match=r"Choose.*the step did not end after 30 keys"):
        RoutePlayer(red, real=True).play_route(
            StartRoute("menu", "", (ChooseEntry(0, last=1),), end_map=0)
        )
