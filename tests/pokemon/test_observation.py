from __future__ import annotations

import numpy as np

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.observation import observation_space, observe, scalars
from Daddy.pokemon.progress import read_progress
from Daddy.pokemon.visited import Visited
from tests.pokemon.images import creature, image, put

SCREEN = np.zeros((72, 80), np.uint8)
WINDOW = np.zeros((9, 10), np.bool_)


def test_an_observation_of_the_wildest_memory_is_in_the_space() -> None:
    wild = read_progress(bytes([0xFF]) * ram.RAM_SIZE)
    assert observation_space().contains(observe(SCREEN, wild, ~WINDOW))
    assert observation_space().contains(observe(SCREEN, read_progress(image()), WINDOW))


def test_the_visited_mask_covers_the_cell_the_player_stands_on() -> None:
    """The player stands in the fifth column and row of cells, 8x8 pixels each at half size."""
    visited = Visited()
    visited.add(1, 10, 20)
    mask = observe(SCREEN, read_progress(image()), visited.window(1, 10, 20))["visited"]
    assert mask[32:40, 32:40].min() == 255
    assert mask.sum() == 255 * 64


def test_cells_of_another_map_are_not_in_sight() -> None:
    visited = Visited()
    visited.add(2, 10, 20)
    assert not visited.window(1, 10, 20).any()


def test_a_cell_two_to_the_left_is_drawn_two_cells_to_the_left() -> None:
    visited = Visited()
    visited.add(1, 10, 18)
    window = visited.window(1, 10, 20)
    assert np.argwhere(window).tolist() == [[4, 2]]


def test_the_edges_of_the_largest_map_are_in_sight_without_an_error() -> None:
    visited = Visited()
    for y, x in ((0, 0), (255, 255)):
        visited.add(3, y, x)
        assert visited.window(3, y, x).shape == (9, 10)
        assert visited.window(3, y, x)[4, 4]


def test_visited_cells_count_once_and_survive_as_bytes() -> None:
    visited = Visited()
    for place in ((1, 2, 3), (1, 2, 3), (0, 0, 0), (1, 255, 9)):
        visited.add(*place)
    again = Visited.from_bytes(visited.to_bytes())
    assert (visited.cells, visited.maps) == (again.cells, again.maps) == (3, 2)
    assert again.to_bytes() == visited.to_bytes()


def test_events_keep_the_bytes_of_the_game() -> None:
    progress = read_progress(put(image(), 0xD74B, 0b100))
    events = observe(SCREEN, progress, WINDOW)["events"]
    assert events[4] == 0b100
    assert events.sum() == 0b100


def test_the_party_shows_level_and_hit_points_by_slot() -> None:
    data = creature(creature(image(), 0, 1, 10, 40, 50), 1, 2, 3, 3, 100)
    party = observe(SCREEN, read_progress(data), WINDOW)["party"]
    assert party[:5].tolist() == [0.5, 0.25, 1.0, 1.0, 0.0]


def test_scalars_tell_badges_facing_and_battle() -> None:
    values = scalars(read_progress(image(badges=0b10, facing=12, in_battle=2)))
    assert values[:8].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert values[8:11].tolist() == [1, 1, 1]
