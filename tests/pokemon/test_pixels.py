"""Tests the picture and the mask of visited cells, pixel by pixel, on the cartridge."""

from collections.abc import Iterator
from functools import lru_cache

import numpy as np
import pytest
from numpy.typing import NDArray

from Daddy.pokemon.exploration import VisitedCells
from Daddy.pokemon.game_progress import CENTRE_X, CENTRE_Y, Progress, read_progress
from Daddy.pokemon.observation import observe
from scripts.cartridge.maps import read_atlas
from tests.cartridge.game import ROM, Game, starting_at

Picture = NDArray[np.uint8]

CELL, HIGHER = 16, 4
"""Side of a cell in pixels, and the lines by which a sprite is drawn higher."""
TOWN, ROAD = 0, 12
STANDS = ((TOWN, 8, 6), (TOWN, 4, 9), (ROAD, 7, 5))


@lru_cache(maxsize=8)
def scene(number: int, y: int, x: int) -> tuple[Progress, Picture, Picture]:
    """Begin a game at a cell; return its facts, the picture and the halved picture."""
    game = Game(starting_at(number, y, x))
    game.press("start", "start", "b", "b")
    while not read_progress(game.memory()).placed:
        game.press("b")
    game.emulator.wait(60)
    now = read_progress(game.memory())
    pictures = game.emulator.full_screen(), game.emulator.half_screen()
    game.close()
    assert (now.map_id, now.y, now.x) == (number, y, x)
    return now, *pictures


def in_sight(now: Progress, kind: int | None = None) -> Iterator[tuple[int, int, int, int, int]]:
    """List the cells that are wholly in the picture: row, column, kind, first pixel."""
    plan = read_atlas(ROM).maps[now.map_id]
    for row in range(max(now.y - 4, 0), min(now.y + 5, plan.height)):
        for column in range(max(now.x - 4, 0), min(now.x + 6, plan.width)):
            here = plan.cells[row][column]
            if kind is None or here == kind:
                line, pixel = CELL * (row - now.y) + CENTRE_Y, CELL * (column - now.x) + CENTRE_X
                yield row, column, here, line, pixel


def bare(now: Progress) -> list[tuple[int, int, int, int, int]]:
    """Leave out cells covered by a sprite or by the map's name."""
    things = read_atlas(ROM).maps[now.map_id].things
    covered = {(thing.y, thing.x) for thing in things} | {(now.y, now.x)}
    covered |= {(row - 1, column) for row, column in covered}
    return [cell for cell in in_sight(now) if cell[:2] not in covered and cell[3] < 128]


def alike(now: Progress, picture: Picture, down: int = 0, right: int = 0) -> bool:
    """Return True if cells of one kind look alike when cut out at this offset."""
    looks: dict[int, Picture] = {}
    for *_, kind, line, pixel in bare(now):
        if line + down + CELL > 144 or pixel + right + CELL > 160:
            continue
        cut = picture[line + down :, pixel + right :][:CELL, :CELL]
        if not np.array_equal(looks.setdefault(kind, cut), cut):
            return False
    return len(looks) > 1


@pytest.mark.parametrize("stand", STANDS)
def test_the_players_cell_begins_at_pixel_64_64(stand: tuple[int, int, int]) -> None:
    """Cells of one kind look alike at the right offset, and not one pixel beside it."""
    now, picture, _ = scene(*stand)
    assert (CENTRE_Y, CENTRE_X) == (now.screen_y, now.screen_x) == (64, 64)
    assert alike(now, picture)
    assert not any(alike(now, picture, *off) for off in ((1, 0), (0, 1), (1, 1)))


@pytest.mark.parametrize("stand", STANDS)
def test_the_players_sprite_is_four_pixels_higher_than_its_cell(
    stand: tuple[int, int, int],
) -> None:
    now, picture, _ = scene(*stand)
    ground = {kind: picture[y : y + CELL, x : x + CELL] for *_, kind, y, x in bare(now)}
    kinds = [next(in_sight_at(now, row)) for row in (now.y - 1, now.y)]
    expected = np.vstack([ground[kind] for kind in kinds])
    top = CENTRE_Y - CELL
    seen = picture[top : CENTRE_Y + CELL, CENTRE_X : CENTRE_X + CELL]
    rows = np.nonzero((seen != expected).any(axis=1))[0] + top
    assert rows.min() == CENTRE_Y - HIGHER
    assert rows.max() < CENTRE_Y - HIGHER + CELL


def in_sight_at(now: Progress, row: int) -> Iterator[int]:
    """Return the kind of the cell in the player's column."""
    return (kind for y, x, kind, *_ in in_sight(now) if (y, x) == (row, now.x))


@pytest.mark.parametrize("stand", STANDS)
def test_the_mask_covers_exactly_the_pixels_of_the_visited_cells(
    stand: tuple[int, int, int],
) -> None:
    now, picture, half = scene(*stand)
    assert np.array_equal(half, picture[::2, ::2])
    for kind in {cell[2] for cell in in_sight(now)}:
        visited, expected = VisitedCells(), np.zeros((144, 160), np.uint8)
        for row, column, _, line, pixel in in_sight(now, kind):
            visited.visit_cell(now.map_id, row, column)
            expected[line : line + CELL, pixel : pixel + CELL] = 255
        assert np.array_equal(observe(half, now, visited)["visited"], expected[::2, ::2])
