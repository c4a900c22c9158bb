from random import Random

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.game_progress import (
    Progress,
    not_started_reason,
    read_progress,
    rewardable_events,
)
from scripts.benches._state_report import play_time_s
from tests.pokemon.images import creature, image, put


def test_the_facts_of_a_moment_are_read_from_their_addresses() -> None:
    data = image(map_id=54, player_x=4, player_y=7, facing=12, badges=0b101, in_battle=2)
    put(data, ram.MAP_HEIGHT, 7, 5)
    put(data, ram.MONEY, 0x01, 0x23, 0x45)
    put(data, ram.PLAY_TIME, 2, 0, 3, 4, 59)
    put(data, ram.BAG_COUNT, 6)
    progress = read_progress(data)
    assert (progress.map_id, progress.x, progress.y, progress.facing) == (54, 4, 7, 3)
    assert progress.badge_count == 2
    assert progress.battle == 2
    assert progress.money == 12_345
    assert progress.items == 6
    assert play_time_s(data) == 2 * 3600 + 3 * 60 + 4


def test_hit_points_are_big_endian_and_the_party_ends_at_its_count() -> None:
    data = image()
    creature(data, 0, species=0xB0, hp=0x0102, max_hp=0x0203, level=14)
    creature(data, 1, species=0x24, hp=0, max_hp=20, level=5)
    stale = bytes(data)
    put(data, ram.PARTY_COUNT, 1)
    assert [c.hp for c in read_progress(stale).party] == [258, 0]
    progress = read_progress(data)
    assert [(c.species, c.hp, c.max_hp, c.level) for c in progress.party] == [(0xB0, 258, 515, 14)]
    assert progress.hp_fraction == pytest.approx(258 / 515)
    assert progress.level_sum == 14


def test_a_party_of_255_is_cut_to_six_and_hit_points_above_the_maximum_count_as_full() -> None:
    data = creature(image(), 0, species=1, hp=50, max_hp=40, level=255)
    put(data, ram.PARTY_COUNT, 255)
    progress = read_progress(data)
    assert len(progress.party) == 6
    assert progress.hp_fraction == 1.0
    assert progress.party[0].level == 100


def test_event_bits_count_from_the_least_significant_of_each_byte() -> None:
    data = put(image(), 0xD74B, 0b100)
    assert read_progress(data).events == 1 << 0x022
    assert read_progress(data).story_flags == 1


def test_the_last_event_byte_is_read_and_the_one_behind_it_is_not() -> None:
    data = put(image(), 0xD886, 0x80, 0xFF)
    assert read_progress(data).events == 1 << 2559


def test_a_whole_game_has_67_story_flags() -> None:
    data = put(image(), ram.EVENTS, *[255] * ram.EVENT_BYTES)
    assert read_progress(data).story_flags == 67


def test_the_museum_ticket_is_no_achievement_but_beating_a_leader_is() -> None:
    ticket = read_progress(put(image(), 0xD754, 1)).events
    leader = read_progress(put(image(), 0xD755, 0x80)).events
    assert ticket
    assert rewardable_events(ticket) == 0
    assert rewardable_events(leader) == leader


@pytest.mark.parametrize(
    ("address", "value"), [(ram.MOVEMENT_FLAGS, 2), (ram.DUNGEON_WARP, 8), (ram.STATUS_FLAGS_6, 8)]
)
def test_in_the_middle_of_a_warp_there_is_no_position(address: int, value: int) -> None:
    data = put(image(map_id=1, player_x=5, player_y=5), ram.MAP_HEIGHT, 18, 20)
    assert read_progress(data).placed
    assert not read_progress(put(data, address, value)).placed


def test_coordinates_outside_their_map_are_no_position() -> None:
    data = put(image(map_id=193, player_x=3, player_y=139), ram.MAP_HEIGHT, 4, 5)
    assert not read_progress(data).placed


def test_before_the_game_begins_there_is_no_position() -> None:
    assert not read_progress(image()).placed


def test_a_lost_battle_is_over_and_an_opponent_exists_only_in_battle() -> None:
    data = image(in_battle=0xFF, enemy_level=9)
    assert read_progress(data).battle == 0
    data = put(put(image(in_battle=1, enemy_level=9), ram.ENEMY_HP, 0, 5), ram.ENEMY_MAX_HP, 0, 20)
    progress = read_progress(data)
    assert (progress.enemy_level, progress.enemy_hp) == (9, 0.25)
    assert read_progress(put(data, ram.IN_BATTLE, 0)).enemy_hp == 0.0


@pytest.mark.parametrize("seed", range(8))
def test_all_that_is_read_lies_in_the_blocks_that_are_fetched(seed: int) -> None:
    """A byte outside BLOCKS would be zero during play, which the tests above cannot notice."""
    dice = Random(seed)
    whole = bytearray(dice.randbytes(ram.RAM_SIZE))
    fetched = bytearray(dice.randbytes(ram.RAM_SIZE))
    for first, end in ram.BLOCKS:
        put(fetched, first, *whole[first - ram.RAM_START : end - ram.RAM_START])
    assert facts(fetched) == facts(whole)


def test_equal_holdings_are_one_object_whatever_the_place() -> None:
    here, there = image(player_x=3), image(player_x=4)
    assert read_progress(here).holdings is read_progress(there).holdings
    richer = put(there, ram.MONEY, 0x12)
    assert read_progress(richer).holdings is not read_progress(here).holdings
    assert (read_progress(richer).money, read_progress(here).money) == (120000, 0)


def facts(data: bytearray) -> dict[str, object]:
    """Read every field and property of a Progress."""
    now = read_progress(data)
    asked = {name for name in dir(Progress) if not name.startswith("_")} - {"image"}
    assert {"bag", "toggles", "map_id", "hp_fraction", "signs"} <= asked
    known: dict[str, object] = {name: getattr(now, name) for name in asked}
    known["reached"] = [story_milestones.archive_key(now, real) for real in (True, False)]
    known["started"] = not_started_reason(data) is None
    return known


def test_facts_that_are_seldom_asked_for_have_their_places_too() -> None:
    data = image(riding=2, last_map=3, blackout_map=41, darkness=6, options=0b1100_0001)
    put(data, ram.STATUS_FLAGS_1, 0b100_0001)
    put(data, ram.STATUS_FLAGS_4, 1)
    put(data, ram.STATUS_FLAGS_7, 0x80)
    put(data, ram.JOY_IGNORE, 0xF0)
    put(data, ram.COINS, 0x09, 0x87)
    put(data, ram.SAFARI_STEPS, 0x01, 0xF6)
    put(data, ram.TOWNS, 0b1, 0b100)
    put(data, ram.TOGGLES + 8, 0x40)
    now = read_progress(data)
    assert (now.riding, now.blackout_map) == (2, 41)
    assert now.dark
    assert now.strength_on
    assert now.drink_given
    assert now.flying
    assert now.joypad_ignored
    assert (now.options & 7, now.safari_steps) == (1, 502)
    assert now.toggles == 1 << ram.GAME_CORNER_ROCKET


def test_what_is_fought_is_known_in_battle_only() -> None:
    data = image(in_battle=1, enemy_species=0x84, battle_kind=2)
    assert (read_progress(data).opponent, read_progress(data).battle_kind) == (0x84, 2)
    assert read_progress(put(data, ram.IN_BATTLE, 0)).opponent == 0


def test_the_moves_of_the_party_are_told_once_and_none_is_no_move() -> None:
    data = creature(image(), 0, species=1, hp=9, max_hp=9, level=5)
    creature(data, 1, species=2, hp=9, max_hp=9, level=5)
    put(data, ram.PARTY_MONS + ram.MON_MOVES, 0x21, 0x2D)
    put(data, ram.PARTY_MONS + ram.PARTY_STRIDE + ram.MON_MOVES, 0x21, 0x0F)
    assert read_progress(data).moves == {0x21, 0x2D, 0x0F}


def test_a_moment_keeps_its_facts_when_the_memory_moves_on() -> None:
    data = image(riding=1)
    now = read_progress(data)
    put(data, ram.RIDING, 2)
    assert now.riding == 1


def test_a_game_that_was_never_begun_says_why() -> None:
    assert "clock does not run" in (not_started_reason(image()) or "")
    assert "never begun" in (not_started_reason(image(status_flags_6=1)) or "")
    begun = image(status_flags_6=1, map_id=38)
    assert not_started_reason(begun) is None
    assert "stands still at 0:00:00" in (not_started_reason(begun, begun) or "")
    assert not_started_reason(put(bytearray(begun), ram.PLAY_TIME, 0, 0, 0, 1, 4), begun) is None
    full = put(bytearray(begun), ram.PLAY_TIME, 255, 255, 0, 0, 0)
    assert not_started_reason(full, full) is None
