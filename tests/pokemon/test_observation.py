from __future__ import annotations

import numpy as np
import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.observation import observation_space, observe, scalars
from Daddy.pokemon.progress import Progress, read_progress
from Daddy.pokemon.visited import Visited
from tests.pokemon.images import creature, image, put

SCREEN = np.zeros((72, 80), np.uint8)
NOTHING = Visited()


def at(y: int, x: int, screen_y: int = 64, screen_x: int = 64, **more: int) -> Progress:
    """A player on a cell that the screen shows at these pixels."""
    data = image(map_id=1, player_y=y, player_x=x, **more)
    line, column = screen_y + 12, screen_x + 8
    return read_progress(put(data, ram.PLAYER_SPRITE, line, column, 0, 0, line, column + 8))


def mask_of(progress: Progress, *cells: tuple[int, int]) -> np.ndarray:
    visited = Visited()
    for y, x in cells:
        visited.add(1, y, x)
    return observe(SCREEN, progress, visited)["visited"]


def test_an_observation_of_the_wildest_memory_is_in_the_space() -> None:
    wild = read_progress(bytes([0xFF]) * ram.RAM_SIZE)
    assert observation_space().contains(observe(SCREEN, wild, NOTHING))
    assert observation_space().contains(observe(SCREEN, read_progress(image()), NOTHING))


def test_the_visited_mask_covers_the_cell_the_player_stands_on() -> None:
    """The real game keeps the player in the fifth column and row of cells, 8x8 half pixels each."""
    mask = mask_of(at(10, 20), (10, 20))
    assert mask[32:40, 32:40].min() == 255
    assert mask.sum() == 255 * 64


def test_the_mask_follows_a_camera_that_moves_by_pixels() -> None:
    mask = mask_of(at(10, 20, screen_y=56, screen_x=72), (10, 20))
    assert mask[28:36, 36:44].min() == 255
    assert mask.sum() == 255 * 64


def test_a_player_facing_right_is_found_although_its_sprites_are_turned_round() -> None:
    data = image(map_id=1, player_y=10, player_x=20)
    put(data, ram.PLAYER_SPRITE, 76, 80, 0, 0, 76, 72)
    assert mask_of(read_progress(data), (10, 20))[32:40, 32:40].min() == 255


def test_a_hidden_player_is_taken_to_stand_in_the_middle() -> None:
    data = put(image(map_id=1, player_y=10, player_x=20), ram.PLAYER_SPRITE, 160, 0, 0, 0, 160, 0)
    assert mask_of(read_progress(data), (10, 20))[32:40, 32:40].min() == 255


def test_cells_of_another_map_are_not_in_sight() -> None:
    visited = Visited()
    visited.add(2, 10, 20)
    assert not observe(SCREEN, at(10, 20), visited)["visited"].any()


def test_a_battle_hides_the_map() -> None:
    assert not mask_of(at(10, 20, in_battle=1), (10, 20)).any()


def test_a_cell_two_to_the_left_is_drawn_two_cells_to_the_left() -> None:
    assert mask_of(at(10, 20), (10, 18))[32:40, 16:24].min() == 255


@pytest.mark.parametrize(("y", "x"), [(0, 0), (255, 255), (0, 255)])
@pytest.mark.parametrize(("screen_y", "screen_x"), [(0, 0), (128, 144), (57, 71)])
def test_the_edges_of_the_largest_map_are_in_sight_without_an_error(
    y: int, x: int, screen_y: int, screen_x: int
) -> None:
    mask = mask_of(at(y, x, screen_y, screen_x), (y, x))
    assert mask[screen_y // 2 + 1, screen_x // 2 + 1] == 255
    assert mask.sum() == 255 * 64


def test_visited_cells_count_once_and_survive_as_bytes() -> None:
    visited = Visited()
    for place in ((1, 2, 3), (1, 2, 3), (0, 0, 0), (1, 255, 9)):
        visited.add(*place)
    again = Visited.from_bytes(visited.to_bytes())
    assert (visited.cells, visited.maps) == (again.cells, again.maps) == (3, 2)
    assert again.to_bytes() == visited.to_bytes()


def test_events_keep_the_bytes_of_the_game() -> None:
    progress = read_progress(put(image(), 0xD74B, 0b100))
    events = observe(SCREEN, progress, NOTHING)["events"]
    assert events[4] == 0b100
    assert events.sum() == 0b100


def test_the_party_shows_level_and_hit_points_by_slot() -> None:
    data = creature(creature(image(), 0, 1, 10, 40, 50), 1, 2, 3, 3, 100)
    party = observe(SCREEN, read_progress(data), NOTHING)["party"]
    assert party[:5].tolist() == [0.5, 0.25, 1.0, 1.0, 0.0]


def test_scalars_tell_badges_facing_and_battle() -> None:
    values = scalars(read_progress(image(badges=0b10, facing=12, in_battle=2)))
    assert values[:8].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert values[8:11].tolist() == [1, 1, 1]
