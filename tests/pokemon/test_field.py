"""Field moves that did their work, told from what they leave in memory."""

from __future__ import annotations

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.party import CUT, FIELD_MOVES
from tests.pokemon.images import put
from tests.pokemon.moments import WEIGHTS, at, party, walk

SHRUB, GRASS = 0x3D, 0x52
ABOVE, LEFT_OF = ram.TILES + 7 * 20 + 8, ram.TILES + 9 * 20 + 6


def before_shrub(tile: int = SHRUB, move: int = CUT, where: int = ABOVE, **more: int) -> bytearray:
    """The player looks up at a tile and knows a move."""
    return party(put(at(facing=4, **more), where, tile), (7, 40, 15, move))


def used(*moments: bytearray) -> list[float]:
    return [step.get("field", 0) for step in walk(moments)]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        ({"riding": 0}, {"riding": 2}),
        ({}, {"status_flags_1": ram.STRENGTH_ON}),
        ({"darkness": 6}, {"darkness": 0}),
        ({}, {"status_flags_7": ram.FLYING}),
    ],
    ids=["surf", "strength", "flash", "fly"],
)
def test_a_move_that_leaves_a_trace_is_paid_once_per_map(
    was: dict[str, int], now: dict[str, int]
) -> None:
    assert used(at(**was), at(**now), at(**was), at(**now)) == [WEIGHTS.field, 0, 0]
    there_too = used(at(**was), at(**now), at(map_id=9, **was), at(map_id=9, **now))
    assert there_too[2] == WEIGHTS.field


def test_the_bicycle_a_lit_map_and_one_left_in_the_dark_are_no_field_moves() -> None:
    assert used(at(riding=0), at(riding=1)) == [0]
    assert used(at(darkness=6), at(map_id=2)) == [0]


def test_a_shrub_that_is_gone_after_the_menus_was_cut() -> None:
    menu = before_shrub(tile=0x7F, font_loaded=1)
    assert used(before_shrub(), menu, menu, before_shrub(tile=GRASS)) == [0, 0, WEIGHTS.field]


def test_another_set_of_tiles_has_another_shrub() -> None:
    seen, gone = before_shrub(tile=0x50, tileset=7), before_shrub(tile=0x20, tileset=7)
    assert used(seen, gone) == [WEIGHTS.field]
    assert used(before_shrub(tile=0x50), before_shrub(tile=0x20)) == [0]


@pytest.mark.parametrize(
    "later",
    [
        before_shrub(),
        before_shrub(tile=GRASS, font_loaded=1),
        before_shrub(tile=GRASS, in_battle=1),
        put(before_shrub(tile=GRASS), ram.FACING, 0),
        put(before_shrub(tile=GRASS), ram.PLAYER_X, 6),
        put(before_shrub(tile=GRASS), ram.MAP_ID, 6),
    ],
    ids=["still there", "a text", "a battle", "turned away", "walked on", "elsewhere"],
)
def test_a_shrub_that_is_out_of_sight_was_not_cut(later: bytearray) -> None:
    assert used(before_shrub(), later) == [0]


def test_who_turned_away_and_back_has_not_cut() -> None:
    away = put(before_shrub(), ram.FACING, 8)
    assert used(before_shrub(), away, before_shrub(tile=GRASS)) == [0, 0]


def test_who_does_not_know_the_move_cuts_nothing() -> None:
    assert used(before_shrub(move=1), before_shrub(tile=GRASS, move=1)) == [0]


def test_the_tile_in_front_is_where_the_player_faces() -> None:
    left = put(before_shrub(where=LEFT_OF), ram.FACING, 8)
    gone = put(before_shrub(tile=GRASS, where=LEFT_OF), ram.FACING, 8)
    assert used(left, gone) == [WEIGHTS.field]


def test_every_field_move_can_be_told() -> None:
    assert len(FIELD_MOVES) == 5
