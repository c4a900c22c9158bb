"""Tests the rewards of steps, byte by byte, and that nothing is paid twice."""

import pytest

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones, story_order
from Daddy.pokemon.bag import REQUIRED_ITEMS
from Daddy.pokemon.party import CUT, FIELD_MOVES
from Daddy.pokemon.reward import Records, achieved_units, level_value, records_from, reward_parts
from tests.pokemon.images import put
from tests.pokemon.progress_builder import WEIGHTS, at, bag, earned, party, walk

MUSEUM_TICKET, COIN_FLAGS, HIDDEN_ITEM_FLAGS = 0xD754, 0xD6FE, 0xD6F0
GROWLING = 45


def event(address: int, bits: int) -> bytearray:
    return put(at(), address, bits)


def test_standing_still_earns_nothing() -> None:
    assert walk([at(), at()]) == [{}]


def test_what_the_start_already_holds_earns_nothing() -> None:
    rich = party(bag(put(at(badges=3), ram.EVENTS, *[0xFF] * ram.EVENT_BYTES), 0x46), (7, 9, 50, 1))
    assert walk([rich, rich]) == [{}]


def test_an_event_that_the_story_needs_is_paid_as_event_and_as_milestone() -> None:
    (step,) = walk([at(), event(0xD74B, 0b100)])
    assert step == {"event": WEIGHTS.event, "required": WEIGHTS.required}


def test_an_event_that_is_cleared_and_set_again_is_paid_once() -> None:
    steps = walk([at(), event(0xD747, 0x80), at(), event(0xD747, 0x80)])
    assert steps == [{"event": WEIGHTS.event}, {}, {}]


def test_the_leagues_defeats_are_paid_once_though_the_game_forgets_them() -> None:
    beaten = event(0xD863, 0b10)
    assert earned(walk([at(), beaten, at(), beaten])) == WEIGHTS.event + WEIGHTS.required


@pytest.mark.parametrize(
    "flag", story_order.TRANSIENT_FLAGS.values(), ids=story_order.TRANSIENT_FLAGS
)
def test_flags_that_say_how_things_stand_earn_nothing(flag: int) -> None:
    assert walk([at(), event(ram.EVENTS + flag // 8, 1 << flag % 8)]) == [{}]


@pytest.mark.parametrize("address", [COIN_FLAGS, HIDDEN_ITEM_FLAGS, ram.COINS, ram.MONEY])
def test_coins_money_and_hidden_things_earn_nothing(address: int) -> None:
    assert walk([at(), put(at(), address, 0x99, 0x99)]) == [{}]


def test_no_part_pays_for_a_key_a_coin_or_a_hidden_thing() -> None:
    parts = set(RewardSettings.model_fields) - {"open_goal", "memory_steps"}
    assert parts == {
        *("cell", "way", "sign", "event", "required", "item", "hm", "badge", "level", "move"),
        *("seen", "caught", "field", "heal", "blackout"),
    }


@pytest.mark.parametrize("item", sorted(REQUIRED_ITEMS))
def test_an_item_of_the_story_is_paid_once_and_not_charged_when_it_is_handed_over(
    item: int,
) -> None:
    held = bag(at(), item)
    first, *later = walk([at(), held, at(), held])
    assert first["item"] == WEIGHTS.item
    assert later == [{}, {}]


def test_an_item_that_the_story_does_not_need_earns_nothing() -> None:
    assert walk([at(), bag(at(), 0x04)]) == [{}]


def test_a_machine_of_a_field_move_is_paid_beside_the_item() -> None:
    (cut,) = walk([at(), bag(at(), 0xC4)])
    (flash,) = walk([at(), bag(at(), 0xC8)])
    assert cut == {"item": WEIGHTS.item, "hm": WEIGHTS.hm}
    assert flash == {"hm": WEIGHTS.hm}


def test_a_badge_is_paid_once_even_if_its_bit_flickers() -> None:
    won = at(badges=1)
    assert walk([at(), won, at(), won]) == [{"badge": WEIGHTS.badge}, {}, {}]


def test_levels_pay_for_a_record_only_so_that_storing_a_creature_earns_nothing() -> None:
    strong, weak = party(at(), (7, 40, 12, 1)), party(at(), (7, 40, 10, 1))
    steps = walk([weak, strong, weak, strong])
    assert steps == [{"level": pytest.approx(2 * WEIGHTS.level)}, {}, {}]


def test_levels_beyond_the_steep_ones_are_worth_a_quarter() -> None:
    assert [level_value(n) for n in (0, 15, 16, 19)] == [0, 15, 15.25, 16]


def test_a_new_move_is_paid_once_and_one_that_opens_a_way_is_a_milestone() -> None:
    before = party(at(), (7, 40, 15, GROWLING))
    taught = party(at(), (7, 40, 15, CUT))
    first, *later = walk([before, taught, before, taught])
    assert first == {"move": WEIGHTS.move, "required": WEIGHTS.required}
    assert later == [{}, {}]


def test_seen_and_caught_are_paid_by_their_numbers() -> None:
    known = put(put(at(), ram.POKEDEX_SEEN, 0b111), ram.POKEDEX_OWNED, 0b1)
    (step,) = walk([at(), known])
    assert step == {"seen": pytest.approx(3 * WEIGHTS.seen), "caught": WEIGHTS.caught}


def test_losing_the_last_hit_point_costs_once() -> None:
    steps = walk([party(at(), (7, hp, 9, 1)) for hp in (3, 0, 0)])
    assert steps == [{"blackout": WEIGHTS.blackout}, {}]


def test_weights_scale_their_part_and_their_sum_is_the_reward() -> None:
    parts = reward_parts({"seen": 2, "badge": 1}, RewardSettings(seen=10.0))
    assert parts == {"seen": 20.0, "badge": WEIGHTS.badge}


def test_records_survive_as_json_and_a_name_of_another_release_is_left_out() -> None:
    records = Records(events=1 << 2000, held=frozenset({"won"}), items=5)
    assert records_from(records.to_facts()) == records
    assert records_from({"cells": 7, "story_flags": 3, "badges": 1}) == Records(badges=1)


def test_everything_that_grows_in_the_records_is_paid() -> None:
    """All records but `maps`, which only the telemetry uses."""
    for name in set(Records._fields) - {"maps", "held", "items", "moves"}:
        assert achieved_units(Records(), Records()._replace(**{name: 1})), name
    assert achieved_units(Records(), Records(held=frozenset({"won"}))) == {"required": 1}
    assert achieved_units(Records(), Records(moves=2)) == {"move": 1}


def test_the_story_is_worth_more_than_all_else_that_can_be_had_beside_it() -> None:
    """A milestone earns more than all cells of a map without one."""
    largest = 144 * 20 // 2
    assert (
        len(story_milestones.milestone_names()) * (WEIGHTS.required + WEIGHTS.event)
        > 10 * WEIGHTS.cell * largest
    )


SHRUB, GRASS = 0x3D, 0x52
ABOVE, LEFT_OF = ram.TILES + 7 * 20 + 8, ram.TILES + 9 * 20 + 6


def before_shrub(tile: int = SHRUB, move: int = CUT, where: int = ABOVE, **more: int) -> bytearray:
    """Make a state with a player who faces a tile above and knows a move."""
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
