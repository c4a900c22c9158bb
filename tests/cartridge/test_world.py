"""Tests that the ROM's maps match the fact tables, and that no place is a dead end."""

from collections.abc import Set as AbstractSet

import pytest

from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.story_order import UNPAID
from scripts.cartridge.build import build
from scripts.cartridge.distances import (
    STEPS,
    Place,
    World,
    all_roads,
    bare_roads,
    distances,
    stands,
)
from scripts.cartridge.maps import GRASS, LEDGE, REGROWS, WALK, read_atlas
from scripts.cartridge.player import BEDS, GREAT_BELL, LEVER, QUEST
from scripts.cartridge.symbols import (
    FERRIES,
    MAPS,
    MENU_ADDRESS,
    MODE_ADDRESS,
    SECRET_ADDRESS,
    SEED_ADDRESS,
    STORY,
    SWITCHES,
)

ATLAS = read_atlas(cartridge_path().read_bytes())
BARE = bare_roads(ATLAS)
START = Place(37, 2, 3)
SECRET = (2, 3)
SLUICE = len(STORY)
OPPOSITE = {"up": "down", "down": "up", "left": "right", "right": "left"}
REAL_SIZES = {  # columns, rows of the real game's maps of these numbers
    0: (20, 18), 1: (40, 36), 2: (40, 36), 3: (40, 36), 5: (40, 36), 12: (20, 36), 13: (20, 72),
    14: (70, 18), 16: (20, 36), 33: (40, 18), 37: (8, 8), 40: (10, 12), 41: (14, 8), 44: (8, 8),
    54: (10, 14), 58: (14, 8), 59: (40, 36), 64: (14, 8), 65: (10, 14), 88: (8, 8), 89: (14, 8),
    92: (10, 18), 118: (10, 8), 120: (8, 8), 8: (20, 18), 93: (8, 8), 94: (28, 12), 108: (20, 18),
    142: (20, 18), 143: (20, 18), 144: (20, 18), 165: (30, 28), 167: (18, 8), 171: (14, 8),
    194: (30, 18), 198: (30, 18),
}  # fmt: skip


def reachable(
    world: World, start: Place = START, closed: AbstractSet[Place] = frozenset()
) -> set[Place]:
    """Return the places that can be reached without stepping on `closed` places."""
    roads = all_roads(ATLAS, world, BARE)
    seen, todo = {start}, [start]
    while todo:
        for lead in roads[todo.pop()].values():
            if lead.to not in seen and lead.to not in closed:
                seen.add(lead.to)
                todo.append(lead.to)
    return seen


def world(*flags: str, cuts: bool = True, secret: tuple[int, int] = SECRET) -> World:
    names = [flag.name for flag in STORY + SWITCHES]
    return World(frozenset(names.index(flag) for flag in flags), cuts, secret)


def told(count: int, sluice: bool = False) -> World:
    """Make the world after `count` events, with Cut, the keeper's hint and the sluice."""
    names = [flag.name for flag in STORY[:count]]
    switched = ["SLUICE_OPEN"] if sluice else []
    secret = SECRET if "HEARD_WAY" in names else (0, 0)
    return world(*names, *switched, cuts="GOT_CUT" in names, secret=secret)


def test_the_facts_about_maps_are_those_of_the_rom() -> None:
    sizes = {facts.number: (facts.rows, facts.columns) for facts in MAPS}
    assert sizes == {number: (plan.height, plan.width) for number, plan in ATLAS.maps.items()}
    assert len({facts.name for facts in MAPS}) == len(MAPS)


def test_the_facts_about_the_story_are_those_of_the_rom() -> None:
    assert tuple((flag.address, flag.bit) for flag in STORY + SWITCHES) == ATLAS.flags
    symbols = build()[1]
    names = [flag.name for flag in STORY + SWITCHES]
    assert [symbols[name] for name in names] == list(range(len(names)))
    addresses = (SEED_ADDRESS, MODE_ADDRESS, MENU_ADDRESS, SECRET_ADDRESS)
    assert tuple(symbols[name] for name in ("wSeed", "wMode", "wMenu", "wSecret")) == addresses


def test_switches_are_flags_that_earn_nothing() -> None:
    """Switches use flags that the real game clears again."""
    for flag in SWITCHES:
        assert UNPAID >> 8 * (flag.address - 0xD747) + flag.bit & 1


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
    roads = all_roads(ATLAS, told(len(STORY)), BARE)
    assert [to for leads in roads.values() for to, _ in leads.values() if to not in roads] == []


def test_no_warp_leads_onto_a_warp() -> None:
    warps = {(n, warp.y, warp.x) for n, plan in ATLAS.maps.items() for warp in plan.warps}
    ends = {(warp.to, warp.to_y, warp.to_x) for plan in ATLAS.maps.values() for warp in plan.warps}
    forks = {(n, fork.y, fork.x) for n, plan in ATLAS.maps.items() for fork in plan.forks}
    ends |= {(f.to, f.to_y, f.to_x) for plan in ATLAS.maps.values() for f in plan.forks}
    ends |= {ATLAS.fall, *(ferry.to for ferry in FERRIES)}
    assert (warps | forks) & ends == set()


def test_the_world_has_what_was_promised() -> None:
    cells = {
        ATLAS.rules[cell] for plan in ATLAS.maps.values() for row in plan.cells for cell in row
    }
    assert {WALK, WALK | GRASS, LEDGE} <= cells
    assert len(ATLAS.maps) >= 6
    assert sum(thing.watches > 0 for plan in ATLAS.maps.values() for thing in plan.things) >= 6


def test_ledges_are_one_way() -> None:
    hops = [
        (place, to)
        for place, leads in BARE.items()
        for to, _ in leads.values()
        if to.map == place.map and to.y - place.y == 2 and to.x == place.x
    ]
    assert len(hops) > 5
    assert all(place not in {to for to, _ in BARE[end].values()} for place, end in hops)


@pytest.mark.parametrize("sluice", [False, True], ids=["shut", "open"])
@pytest.mark.parametrize("count", range(len(STORY) + 1))
def test_from_every_place_one_can_go_home_and_to_the_next_goal(count: int, sluice: bool) -> None:
    """Every goal, or the lever that opens the way to it, can be reached."""
    now = told(count, sluice)
    roads, here = all_roads(ATLAS, now, BARE), reachable(now)
    home = distances(roads, set(stands(ATLAS, BEDS[0])))
    goal = QUEST[STORY[count].name] if count < len(STORY) else GREAT_BELL
    goals = distances(roads, set(stands(ATLAS, goal)))
    lever = distances(roads, set(stands(ATLAS, LEVER)))
    assert [place for place in here if place not in home] == []
    assert [place for place in here if place not in goals and place not in lever] == []
    other = all_roads(ATLAS, told(count, not sluice), BARE)  # gates are open then
    opened = distances(other, set(stands(ATLAS, goal)))
    stuck = [place for place in here if place not in goals and place not in opened]
    assert [place for place in stuck if place in other] == []


GATES = (
    ("GOT_CHARM", "GOT_FRIEND"),
    ("GOT_FRIEND", "SLEPT_STONE"),
    ("SLEPT_STONE", "BEAT_LEADER1"),
    ("LETTER_BROUGHT", "BEAT_DIGGER"),
    ("BEAT_DIGGER", "BEAT_RIVAL2"),
    ("SLEPT_LAKE", "BEAT_LEADER2"),
    ("GOT_PASS", "BEAT_UTE"),
    ("BEAT_UTE", "ASKED_STONE"),
    ("", "GATE_OPEN"),
    ("GATE_OPEN", "BEAT_LEADER3"),
    ("BEAT_LEADER3", "GOT_PUDDLO"),
    ("GOT_PUDDLO", "BEAT_ROE"),
    ("SLUICE_OPEN BEAT_ROE", "BEAT_MINER"),
    ("BEAT_MINER", "GOT_KEY"),
    ("SLEPT_MILL", "BEAT_HALE"),
    ("BEAT_HALE", "PASSED_WATCH1"),
    ("PASSED_WATCH1", "PASSED_WATCH2"),
    ("PASSED_WATCH2", "PASSED_WATCH3"),
    ("PASSED_WATCH3", "BEAT_NILS"),
    ("BEAT_NILS", "BEAT_GRETA"),
    ("BEAT_GRETA", "BEAT_OLA"),
    ("BEAT_OLA", "BEAT_JON"),
    ("BEAT_JON", "BEAT_WARDEN"),
    ("BEAT_WARDEN", "BEAT_TILDA"),
    ("BEAT_TILDA", "BEAT_CHAMPION"),
)
"""Events, and the places that can be reached only after the last of them; "" is learning Cut."""


def test_gates_keep_the_story_in_order() -> None:
    gone: list[str] = []
    cuts = False
    for openers, goal in GATES:
        *before, opener = openers.split(" ")
        gone += before
        target = set(stands(ATLAS, QUEST[goal]))
        assert not reachable(world(*gone, cuts=cuts)) & target, goal
        gone, cuts = ([*gone, opener], cuts) if opener else (gone, True)
        assert reachable(world(*gone, cuts=cuts)) & target, goal
    bell = set(stands(ATLAS, GREAT_BELL))
    assert not reachable(world(*gone)) & bell
    assert reachable(world(*gone, "BEAT_CHAMPION")) & bell
    assert not reachable(world(*gone, "BEAT_CHAMPION", cuts=False)) & bell, "thorns"


ASKED_FOR = ("BEAT_RIVAL", "BEAT_LEADER1", "BEAT_LEADER2", "BEAT_LEADER3")
"""Fights that the scripts of the next events require."""


def watchers() -> dict[str, set[Place]]:
    """Return the cells that a trainer watches, by the flag of the fight."""
    names = [flag.name for flag in STORY]
    return {
        names[thing.flag]: {
            Place(plan.number, thing.y + far * down, thing.x + far * right)
            for far in range(thing.watches + 1)
            for down, right in [STEPS[thing.direction]]
        }
        for plan in ATLAS.maps.values()
        for thing in plan.things
        if thing.watches and thing.flag is not None
    }


@pytest.mark.parametrize("flag", [name for name in watchers() if name not in ASKED_FOR])
def test_nobody_who_is_a_milestone_can_be_passed_by(flag: str) -> None:
    """Otherwise a state without a passed event could count as the fleet's best."""
    names = [flag.name for flag in STORY if flag.required]
    at = names.index(flag)
    now = world(*names[:at], "SLUICE_OPEN", cuts="GOT_CUT" in names[:at])
    following = names[at + 1] if at + 1 < len(names) else ""
    goal = QUEST[following] if following else GREAT_BELL
    assert not reachable(now, closed=watchers()[flag]) & set(stands(ATLAS, goal))


@pytest.mark.parametrize("secret", [(1, 1), (1, 3), (2, 1), (3, 2)])
def test_only_who_was_told_the_stairs_gets_to_the_lamp(secret: tuple[int, int]) -> None:
    names = [flag.name for flag in STORY[: SLUICE - 1]]
    lamp = set(stands(ATLAS, QUEST["GOT_LAMP"]))
    assert reachable(world(*names, secret=secret)) & lamp
    for wrong in ((0, 0), (secret[0] % 3 + 1, secret[1])):
        roads = all_roads(ATLAS, world(*names, secret=wrong), BARE)
        for fork in ATLAS.maps[142].forks:
            step = roads[Place(142, fork.y + 1, fork.x)]["up"].to
            assert (step == ATLAS.fall) == (fork.side != wrong[0])
    assert not reachable(world(*names, secret=(0, 0))) & lamp


def test_every_goal_of_the_quest_is_a_thing_of_its_map() -> None:
    for place in (*QUEST.values(), *BEDS, GREAT_BELL, LEVER):
        assert any((t.y, t.x) == (place.y, place.x) for t in ATLAS.maps[place.map].things), place
    assert set(QUEST) == {flag.name for flag in STORY}


def test_every_shrub_of_a_map_has_a_number_of_its_own() -> None:
    """Only the map tells shrubs apart while they are cut down; all are outdoors."""
    shrubs = [plan.number for plan in ATLAS.maps.values() for t in plan.things if t.kind == REGROWS]
    assert len(shrubs) >= 2
    assert set(shrubs) <= {0, 1, 2, 3, 5, 8, *range(12, 37)}
