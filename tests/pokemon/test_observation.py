import numpy as np
import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_order
from Daddy.pokemon.exploration import VisitedCells
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.observation import (
    ObservationWriter,
    empty_observation,
    observation_space,
    observe,
    scalars,
)
from tests.pokemon.images import creature, image, put

SCREEN = np.zeros((72, 80), np.uint8)
NOTHING = VisitedCells()


def at(y: int, x: int, screen_y: int = 64, screen_x: int = 64, **more: int) -> Progress:
    """Make a Progress with the player on a cell drawn at these pixels."""
    data = image(map_id=1, player_y=y, player_x=x, **more)
    line, column = screen_y + 12, screen_x + 8
    return read_progress(put(data, ram.PLAYER_SPRITE, line, column, 0, 0, line, column + 8))


def mask_of(progress: Progress, *cells: tuple[int, int]) -> np.ndarray:
    visited = VisitedCells()
    for y, x in cells:
        visited.visit_cell(1, y, x)
    return observe(SCREEN, progress, visited)["visited"]


def test_arrays_that_are_written_again_hold_what_new_ones_would() -> None:
    """Each memory differs from the one before in one place, and some come back."""
    dice = np.random.default_rng(0)
    whole = bytearray(dice.bytes(ram.RAM_SIZE))
    writer = ObservationWriter(empty_observation())
    memories = [bytes(whole)]
    for _ in range(200):
        first, end = ram.BLOCKS[int(dice.integers(len(ram.BLOCKS)))]
        put(whole, int(dice.integers(first, end)), int(dice.integers(256)))
        memories.append(bytes(whole))
    for number in (*range(201), *dice.integers(201, size=200).tolist()):
        screen = dice.integers(256, size=SCREEN.shape, dtype=np.uint8)
        now = read_progress(memories[number])
        written, expected = writer.write(screen, now, NOTHING), observe(screen, now, NOTHING)
        assert written is writer.arrays
        assert all(np.array_equal(written[name], array) for name, array in expected.items())


def test_an_observation_of_the_wildest_memory_is_in_the_space() -> None:
    wild = read_progress(bytes([0xFF]) * ram.RAM_SIZE)
    assert observation_space().contains(observe(SCREEN, wild, NOTHING))
    assert observation_space().contains(observe(SCREEN, read_progress(image()), NOTHING))


def test_the_visited_mask_covers_the_cell_the_player_stands_on() -> None:
    """The real game draws the player in the fifth column and row of cells (8x8 halved pixels)."""
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
    visited = VisitedCells()
    visited.visit_cell(2, 10, 20)
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
    visited = VisitedCells()
    for place in ((1, 2, 3), (1, 2, 3), (0, 0, 0), (1, 255, 9)):
        visited.visit_cell(*place)
    again = VisitedCells(visited.encode_cells())
    assert visited.cells == again.cells == 3
    assert again.encode_cells() == visited.encode_cells()


def test_events_keep_the_bytes_of_the_game() -> None:
    progress = read_progress(put(image(), 0xD74B, 0b100))
    events = observe(SCREEN, progress, NOTHING)["events"]
    assert events[4] == 0b100
    assert events.sum() == 0b100


@pytest.mark.parametrize("name", story_order.NEVER_OBSERVED)
def test_a_flag_of_what_waits_elsewhere_is_not_observed(name: str) -> None:
    flag = story_order.TRANSIENT_FLAGS[name]
    data = put(image(), ram.EVENTS + flag // 8, 1 << flag % 8)
    assert not seen(data)["events"].any()


def seen(data: bytearray) -> dict[str, np.ndarray]:
    return observe(SCREEN, read_progress(data), NOTHING)


def test_the_map_and_the_way_back_after_a_defeat_are_numbers() -> None:
    assert seen(image(map_id=54, blackout_map=2))["map"].tolist() == [54, 2]


def test_the_bag_shows_items_in_its_order_and_how_many() -> None:
    data = put(image(bag_count=2), ram.BAG, 0x46, 1, 0x04, 99, 0xC4, 5)
    shown = seen(data)
    assert shown["bag"][:3].tolist() == [0x46, 0x04, 0]
    assert shown["counts"][:3].tolist() == [pytest.approx(1 / 99), 1.0, 0.0]


def test_the_party_shows_what_its_menus_show_and_stale_slots_nothing() -> None:
    data = creature(creature(image(), 0, 7, 10, 40, 50), 1, 8, 300, 999, 100)
    put(data, ram.PARTY_MONS + ram.MON_MOVES, 0x0F, 0x21)
    put(data, ram.PARTY_MONS + 4, 0b0100_0010)  # paralysed and asleep
    put(data, ram.PARTY_MONS + 29, 0b1100_0000 | 30)  # three PP upgrades, thirty uses left
    put(data, ram.PARTY_MONS + 36, 0, 200)
    put(data, ram.PARTY_COUNT, 1)
    shown = seen(data)
    assert shown["creatures"].tolist() == [7, 0, 0, 0, 0, 0, 0]
    assert shown["moves"][:5].tolist() == [0x0F, 0x21, 0, 0, 0]
    first = shown["party"].reshape(6, 16)[0]
    assert first[:4].tolist() == pytest.approx([0.5, 0.25, 40 / 703, 200 / 999])
    assert first[7:12].tolist() == [1, 0, 0, 0, 1]
    assert first[12:14].tolist() == pytest.approx([30 / 63, 0])
    assert not shown["party"][16:].any()


def test_arrays_of_equal_bytes_are_not_shared_with_whoever_gets_them() -> None:
    data = creature(put(image(bag_count=1), ram.BAG, 4, 5), 0, 7, 10, 40, 50)
    first, before = seen(data), seen(data)
    for key in first.keys() - {"screen"}:
        first[key].fill(1)
    again = seen(data)
    assert all(np.array_equal(again[key], before[key]) for key in before)


def test_an_opponent_shows_its_species_and_as_much_of_its_hp_as_its_bar() -> None:
    data = image(in_battle=1, enemy_species=0x99, enemy_level=20)
    put(data, ram.ENEMY_HP, 0, 99)
    put(data, ram.ENEMY_MAX_HP, 0, 100)
    shown = seen(data)
    assert shown["creatures"][6] == 0x99
    assert shown["scalars"][15:17].tolist() == pytest.approx([0.2, 47 / 48])
    data[ram.IN_BATTLE - ram.RAM_START] = 0
    assert seen(data)["creatures"][6] == 0


def test_scalars_tell_badges_facing_and_battle() -> None:
    values = scalars(read_progress(image(badges=0b10, facing=12, in_battle=2)))
    assert values[:8].tolist() == [0, 1, 0, 0, 0, 0, 0, 0]
    assert values[8:14].tolist() == [1, 1, 0, 0, 1, 0]


@pytest.mark.parametrize(
    ("place", "facts"),
    [
        (10, {"riding": 1}),
        (11, {"riding": 2}),
        (13, {"battle_kind": 2}),
        (14, {"font_loaded": 1}),
        (19, {"darkness": 6}),
        (20, {"status_flags_1": ram.STRENGTH_ON}),
        (21, {"status_flags_1": ram.GAVE_DRINK}),
        (22, {"status_flags_4": ram.GOT_LAPRAS}),
        (23, {"ship_script": ram.SHIP_RIVAL_BEATEN}),
    ],
)
def test_a_fact_has_a_place_of_its_own(place: int, facts: dict[str, int]) -> None:
    before, after = (scalars(read_progress(image(**changed))) for changed in ({}, facts))
    assert np.nonzero(before != after)[0].tolist() == [place]


def test_the_guard_of_the_hideout_has_one_too() -> None:
    assert scalars(read_progress(put(image(), 0xD5AE, 0x40)))[24] == 1


def test_what_a_player_cannot_know_is_not_observed() -> None:
    """Hidden things, counters, random bytes, the opponent's party and stats, scripts, the clock."""
    hidden = [0xD6F0, 0xD6FE, 0xD13B, 0xCC2F, 0xD8A4, 0xCFF6, ram.PLAY_TIME + 2, 0xD5F0, 0xD887]
    blank = seen(image())
    for address in hidden:
        shown = seen(put(image(), address, 0x77))
        assert all(np.array_equal(shown[key], blank[key]) for key in blank), hex(address)
