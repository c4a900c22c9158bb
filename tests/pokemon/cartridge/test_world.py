"""The maps in the ROM: what the fact tables say, and no place without a way on."""

from __future__ import annotations

import pytest

from Daddy.pokemon.cartridge.atlas import GRASS, LEDGE, WALK, read_atlas
from Daddy.pokemon.cartridge.build import build, cartridge_path
from Daddy.pokemon.cartridge.player import BEDS, GREAT_BELL, QUEST
from Daddy.pokemon.cartridge.roads import Place, all_roads, distances, stands
from Daddy.pokemon.cartridge.symbols import MAPS, MODE_ADDRESS, SEED_ADDRESS, STORY

ATLAS = read_atlas(cartridge_path().read_bytes())
START = Place(37, 2, 3)
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
REAL_SIZES = {  # columns, rows of the real game's maps of these numbers
    0: (20, 18), 1: (40, 36), 2: (40, 36), 3: (40, 36), 5: (40, 36), 12: (20, 36), 13: (20, 72),
    14: (70, 18), 16: (20, 36), 33: (40, 18), 37: (8, 8), 40: (10, 12), 41: (14, 8), 44: (8, 8),
    54: (10, 14), 58: (14, 8), 59: (40, 36), 64: (14, 8), 65: (10, 14), 88: (8, 8), 89: (14, 8),
    92: (10, 18), 118: (10, 8), 120: (8, 8),
}  # fmt: skip


def reachable(gone: frozenset[int]) -> set[Place]:
    roads = all_roads(ATLAS, gone)
    seen, todo = {START}, [START]
    while todo:
        for to in roads[todo.pop()].values():
            if to not in seen:
                seen.add(to)
                todo.append(to)
    return seen


def test_the_facts_about_maps_are_those_of_the_rom() -> None:
    told = {facts.number: (facts.rows, facts.columns) for facts in MAPS}
    assert told == {number: (plan.height, plan.width) for number, plan in ATLAS.maps.items()}
    assert len({facts.name for facts in MAPS}) == len(MAPS)


def test_the_facts_about_the_story_are_those_of_the_rom() -> None:
    assert tuple((flag.address, flag.bit) for flag in STORY) == ATLAS.flags
    symbols = build()[1]
    assert [symbols[flag.name] for flag in STORY] == list(range(len(STORY)))
    assert symbols["wSeed"] == SEED_ADDRESS
    assert symbols["wMode"] == MODE_ADDRESS


def test_flags_are_distinct_bits_of_the_real_event_block() -> None:
    assert len({(flag.address, flag.bit) for flag in STORY}) == len(STORY) >= 20
    assert all(0xD747 <= flag.address <= 0xD886 and 0 <= flag.bit < 8 for flag in STORY)


def test_no_map_is_larger_than_the_real_map_of_its_number() -> None:
    for facts in MAPS:
        columns, rows = REAL_SIZES[facts.number]
        assert facts.columns <= columns, facts
        assert facts.rows <= rows, facts


def test_neighbours_agree_on_where_they_meet() -> None:
    for plan in ATLAS.maps.values():
        for button, (number, shift) in plan.links.items():
            assert ATLAS.maps[number].links[OPPOSITE[button]] == (plan.number, -shift)


def test_every_road_ends_on_ground_that_can_be_walked() -> None:
    roads = all_roads(ATLAS, frozenset(range(len(STORY))))
    assert [to for leads in roads.values() for to in leads.values() if to not in roads] == []


def test_no_warp_leads_onto_a_warp() -> None:
    warps = {(n, warp.y, warp.x) for n, plan in ATLAS.maps.items() for warp in plan.warps}
    ends = {(warp.to, warp.to_y, warp.to_x) for plan in ATLAS.maps.values() for warp in plan.warps}
    assert warps & ends == set()


def test_the_world_has_what_was_promised() -> None:
    cells = {
        ATLAS.rules[cell] for plan in ATLAS.maps.values() for row in plan.cells for cell in row
    }
    assert {WALK, WALK | GRASS, LEDGE} <= cells
    assert len(ATLAS.maps) >= 6
    assert sum(thing.watches > 0 for plan in ATLAS.maps.values() for thing in plan.things) >= 6


def test_ledges_are_one_way() -> None:
    roads = all_roads(ATLAS, frozenset())
    hops = [
        (place, to)
        for place, leads in roads.items()
        for to in leads.values()
        if to.map == place.map and to.y - place.y == 2 and to.x == place.x
    ]
    assert len(hops) > 5
    assert all(place not in roads[to].values() for place, to in hops)


@pytest.mark.parametrize("told", range(0, len(STORY) + 1, 3))
def test_from_every_place_one_can_go_home_and_to_the_next_goal(told: int) -> None:
    gone = frozenset(range(told))
    roads, here = all_roads(ATLAS, gone), reachable(gone)
    home = distances(roads, set(stands(ATLAS, BEDS[0])))
    goal = QUEST[STORY[told].name] if told < len(STORY) else GREAT_BELL
    goals = distances(roads, set(stands(ATLAS, goal)))
    assert [place for place in here if place not in home] == []
    assert [place for place in here if place not in goals] == []


def test_gates_keep_the_story_in_order() -> None:
    def can_reach(thing: Place, gone: set[str]) -> bool:
        set_flags = frozenset(i for i, flag in enumerate(STORY) if flag.name in gone)
        return bool(reachable(set_flags) & set(stands(ATLAS, thing)))

    gone: set[str] = set()
    for opener, goal in (
        ("GOT_STARTER", "BEAT_LEADER1"),
        ("BEAT_LEADER1", "BEAT_LEADER2"),
        ("GOT_PASS", "SHRUB_CUT"),
        ("SHRUB_CUT", "GATE_OPEN"),
        ("GATE_OPEN", "BEAT_LEADER3"),
        ("BEAT_LEADER3", "PASSED_WATCH1"),
        ("PASSED_WATCH1", "PASSED_WATCH2"),
        ("PASSED_WATCH2", "BEAT_CHAMPION"),
    ):
        assert not can_reach(QUEST[goal], gone), goal
        gone.add(opener)
        assert can_reach(QUEST[goal], gone), goal
    assert not can_reach(GREAT_BELL, gone)
    assert can_reach(GREAT_BELL, gone | {"BEAT_CHAMPION"})


def test_every_goal_of_the_quest_is_a_thing_of_its_map() -> None:
    for place in (*QUEST.values(), *BEDS, GREAT_BELL):
        assert any((t.y, t.x) == (place.y, place.x) for t in ATLAS.maps[place.map].things), place
    assert set(QUEST) == {flag.name for flag in STORY}
