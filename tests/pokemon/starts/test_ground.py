from __future__ import annotations

from Daddy.pokemon.starts.player_view import Cell
from Daddy.pokemon.starts.route_player import Ground


def walk(ground: Ground, here: Cell, goal: Cell, walls: set[Cell]) -> list[Cell]:
    """Go as the driver does: bump into what is not known, until there or lost."""
    way = [here]
    for _ in range(500):
        button = ground.way(way[-1], goal)
        if button is None:
            return way
        to = way[-1].beside(button)
        if to in walls:
            ground.close(way[-1], button)
        else:
            way.append(to)
    return way


def test_an_open_field_is_crossed_the_shortest_way() -> None:
    way = walk(Ground(10, 10), Cell(1, 1), Cell(7, 4), set())
    assert way[-1] == Cell(7, 4)
    assert len(way) == 1 + 6 + 3


def test_a_wall_with_one_gap_is_found_out_and_gone_around() -> None:
    walls = {Cell(5, x) for x in range(10) if x != 9}
    assert walk(Ground(10, 10), Cell(8, 0), Cell(2, 0), walls)[-1] == Cell(2, 0)


def test_a_closed_room_is_known_to_have_no_way_out() -> None:
    walls = {Cell(3, 2), Cell(1, 2), Cell(2, 1), Cell(2, 3)}
    ground = Ground(10, 10)
    assert walk(ground, Cell(2, 2), Cell(8, 8), walls) == [Cell(2, 2)]
    ground.reopen()
    assert ground.way(Cell(2, 2), Cell(8, 8)) is not None


def test_doors_are_walked_around_unless_they_are_the_goal() -> None:
    door = Cell(5, 5)
    ground = Ground(10, 10, frozenset({door}))
    assert door not in walk(ground, Cell(8, 5), Cell(2, 5), set())
    assert walk(ground, Cell(8, 5), door, set())[-1] == door


def test_beyond_the_edge_lies_a_goal_even_behind_a_mat_that_is_a_door() -> None:
    mat = Cell(7, 3)
    ground = Ground(8, 8, frozenset({mat, Cell(7, 2)}))
    way = walk(ground, Cell(2, 2), Cell(8, 3), set())
    assert way[-2:] == [mat, Cell(8, 3)]
    assert Cell(7, 2) not in way


def test_nobody_leaves_the_map_on_the_way() -> None:
    walls = {Cell(0, x) for x in range(1, 5)}
    way = walk(Ground(2, 6), Cell(1, 0), Cell(0, 5), walls)
    assert all(0 <= cell.y < 2 and 0 <= cell.x < 6 for cell in way)
