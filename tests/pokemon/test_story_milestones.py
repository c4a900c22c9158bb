import numpy as np
import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones, story_order
from Daddy.pokemon.bag import CARD_KEY, LIFT_KEY, SILPH_SCOPE
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.map_names import map_name
from Daddy.pokemon.party import CUT, FLASH, STRENGTH, SURF
from scripts.cartridge import symbols
from tests.pokemon.fact_sheet import COME_AND_GO, STORY, TOGGLES, TRAINERS, places
from tests.pokemon.images import creature, image, put


def with_bits(*flags: tuple[int, int]) -> bytearray:
    data = image()
    for address, bit in flags:
        data[address - ram.RAM_START] |= 1 << bit
    return data


def reached(data: bytearray) -> set[str]:
    return set(story_milestones.reached_milestones(read_progress(data)))


def flags_of(steps: tuple[story_order.StoryEvent, ...]) -> list[tuple[int, int]]:
    return [(ram.EVENTS + step.flag // 8, step.flag % 8) for step in steps]


def test_the_ladder_is_that_of_the_disassembly_step_by_step() -> None:
    assert flags_of(story_order.STORY) == places(STORY)
    assert [step.required for step in story_order.STORY] == [w.endswith("*") for w in STORY.split()]
    assert sorted(flags_of(story_order.TRAINERS)) == sorted(places(TRAINERS))
    assert all(step.required for step in story_order.TRAINERS)


def test_flags_that_come_and_go_are_no_achievement() -> None:
    addresses = [(ram.EVENTS + n // 8, n % 8) for n in story_order.TRANSIENT_FLAGS.values()]
    assert sorted(addresses) == sorted(places(COME_AND_GO))
    assert story_order.UNPAID & story_order.event_mask(story_order.STORY) == 0


@pytest.mark.parametrize("step", story_milestones.REQUIRED[True].steps, ids=lambda step: step.name)
def test_each_required_event_alone_is_one_milestone(step: story_order.StoryEvent) -> None:
    assert reached(with_bits(*flags_of((step,)))) == {step.name}


def test_other_events_are_none() -> None:
    data = put(image(), ram.EVENTS, *[255] * ram.EVENT_BYTES)
    assert reached(data) == {step.name for step in story_milestones.REQUIRED[True].steps}
    for step in story_milestones.REQUIRED[True].steps:
        data[ram.EVENTS + step.flag // 8 - ram.RAM_START] &= ~(1 << step.flag % 8)
    assert reached(data) == set()


@pytest.mark.parametrize(("name", "flags"), TOGGLES.items())
def test_what_a_map_hides_is_a_milestone(name: str, flags: str) -> None:
    for place in places(flags):
        assert reached(with_bits(place)) == {name}


def test_the_old_man_is_awake_only_once_he_stands() -> None:
    lying, standing = ((ram.TOGGLES, 1), (ram.TOGGLES, 2))
    assert reached(with_bits(lying)) == {"old_man_awake"}
    assert reached(with_bits(standing)) == reached(with_bits(lying, standing)) == set()


@pytest.mark.parametrize(
    ("item", "name"),
    [(LIFT_KEY, "lift_key_held"), (SILPH_SCOPE, "scope_held"), (CARD_KEY, "card_key_held")],
)
def test_an_item_in_the_bag_is_a_milestone_and_its_number_as_a_quantity_is_none(
    item: int, name: str
) -> None:
    assert reached(put(image(bag_count=2), ram.BAG, 0x04, 5, item, 1)) == {name}
    assert reached(put(image(bag_count=2), ram.BAG, 0x04, item, 0x14, 1)) == set()
    assert reached(put(image(bag_count=1), ram.BAG, 0x04, 5, item, 1)) == set()


@pytest.mark.parametrize(
    ("move", "names"),
    [
        (CUT, {"cut_taught"}),
        (SURF, {"surf_taught"}),
        (STRENGTH, {"strength_taught"}),
        (FLASH, set()),
    ],
)
def test_a_move_that_somebody_knows_is_a_milestone(move: int, names: set[str]) -> None:
    data = creature(image(), 0, species=1, hp=9, max_hp=9, level=5)
    creature(data, 1, species=2, hp=9, max_hp=9, level=5)
    put(data, ram.PARTY_MONS + ram.PARTY_STRIDE + ram.MON_MOVES, 0x21, 0, 0, move)
    assert reached(data) == names
    assert reached(put(data, ram.PARTY_COUNT, 1)) == set()


def test_the_ship_the_drink_and_the_victory_are_milestones() -> None:
    assert reached(put(image(), 0xD665, 4)) == {"beat_rival_on_ship"}
    assert reached(put(image(), 0xD665, 3)) == reached(put(image(), 0xD665, 5)) == set()
    assert reached(put(image(), 0xD728, 1 << 6)) == {"drink_given"}
    assert reached(put(image(), 0xD5A2, 1)) == {"won"}


def test_names_are_told_once_and_every_map_of_a_milestone_has_a_name() -> None:
    for real in (True, False):
        assert len(set(story_milestones.milestone_names(real))) == len(
            story_milestones.milestone_names(real)
        )
    assert len(story_milestones.milestone_names()) == 48 + 6 + 14
    maps = {
        *story_milestones.CRITICAL_MAPS,
        *story_milestones.HEALERS,
        *story_milestones.goal_maps(frozenset()),
    }
    assert not [number for number in maps if map_name(number, real=True).startswith("map ")]
    assert len(set(story_milestones.CRITICAL_MAPS)) == len(story_milestones.CRITICAL_MAPS)


def test_parties_are_healed_in_every_centre_and_in_two_beds() -> None:
    centres = {number for number in range(256) if "Pokecenter" in map_name(number, real=True)}
    beds = {"Reds House 1F", "Silph Co 9F"}
    assert set(story_milestones.HEALERS) > centres
    assert {map_name(number, real=True) for number in {*story_milestones.HEALERS} - centres} == beds


def test_milestones_are_told_in_the_order_of_a_game() -> None:
    order = story_milestones.milestone_names()
    for earlier, later in (
        ("got_cut", "cut_taught"),
        ("cut_taught", "beat_surge"),
        ("beat_surge", "beat_lass_on_route_9"),
        ("beat_lass_in_rock_tunnel", "beat_erika"),
        ("beat_champion", "won"),
    ):
        assert order.index(earlier) < order.index(later)


def test_a_map_is_open_until_its_last_milestone_is_won() -> None:
    everything = set(story_milestones.milestone_names())
    assert story_milestones.goal_maps(frozenset(everything)) == frozenset()
    assert story_milestones.goal_maps(frozenset(everything - {"beat_brock"})) == {54}
    assert 202 in story_milestones.goal_maps(frozenset(everything - {"lift_key_held"}))


def test_a_place_on_the_way_is_a_key_of_the_archive_and_no_milestone() -> None:
    def keys(**facts: int) -> frozenset[str]:
        data = image(**{"map_id": 59, "player_x": 3, "player_y": 3, **facts})
        return story_milestones.archive_key(read_progress(put(data, ram.MAP_HEIGHT, 18, 20)))

    assert keys() == {"at_mt_moon_1f"}
    assert keys(map_id=68) == {"at_mt_moon_pokecenter"}, "a party is healed there"
    assert keys(map_id=67) == set(), "not on the way"
    assert keys(movement_flags=2) == set(), "in a warp"
    assert keys(in_battle=1) == set()
    assert keys(font_loaded=1) == set(), "in a text"


def test_a_place_is_a_square_of_a_map_where_that_is_wanted() -> None:
    data = put(image(map_id=59, player_x=17, player_y=3), ram.MAP_HEIGHT, 18, 20)
    assert story_milestones.archive_key(read_progress(data), square=8) == {"at_mt_moon_1f_0_2"}
    assert story_milestones.archive_key(read_progress(data), square=255) == {"at_mt_moon_1f_0_0"}


def test_on_the_cartridge_its_own_events_are_the_milestones() -> None:
    now: Progress = read_progress(with_bits((0xD755, 7), (0xD755, 2), (0xD7F2, 6), (0xD74A, 0)))
    assert story_milestones.reached_milestones(now, real=False) == {
        "beat_leader1",
        "beat_pupil1",
    }, "a map is a gift"
    flags = [flag.name.lower() for flag in symbols.STORY if flag.required]
    order = story_milestones.milestone_names(real=False)
    assert [name for name in order if name in flags] == flags
    assert set(order) - set(flags) == {"cut_taught"}
    assert order.index("cut_taught") == order.index("got_cut") + 1


def test_on_the_cartridge_a_move_that_is_taught_is_a_milestone_too() -> None:
    data = creature(image(), 0, species=0xB0, hp=9, max_hp=9, level=5)
    put(data, ram.PARTY_MONS + ram.MON_MOVES, 0x21, CUT)
    assert story_milestones.reached_milestones(read_progress(data), real=False) == {"cut_taught"}
    assert 5 in story_milestones.goal_maps(
        frozenset(story_milestones.milestone_names(real=False)) - {"cut_taught"}, real=False
    )
    assert (
        story_milestones.goal_maps(
            frozenset(story_milestones.milestone_names(real=False)), real=False
        )
        == frozenset()
    )


@pytest.mark.parametrize("real", [True, False], ids=["the real game", "the cartridge"])
def test_every_milestone_survives_the_telemetrys_float32(real):
    for held in [frozenset({name}) for name in story_milestones.milestone_names(real=real)] + [
        frozenset(story_milestones.milestone_names(real=real)),
        frozenset(),
    ]:
        row = np.array(list(story_milestones.milestones_to_columns(held, real)), np.float32)
        told = {
            **dict(zip(story_milestones.MILESTONE_COLUMNS, row.tolist(), strict=True)),
            "real_game": float(real),
        }
        assert frozenset(story_milestones.milestones_from_columns(told)) == held


def test_what_is_no_milestone_is_left_out():
    assert story_milestones.milestones_to_columns(
        frozenset({"at_pallet_town"}), True
    ) == story_milestones.milestones_to_columns(frozenset(), True)


def test_facts_of_another_workload_show_none():
    assert story_milestones.milestones_from_columns({"episode_return": 3.0}) == ()
