"""Pure. Finds the cell to which each button leads in the cartridge's world, and distances."""

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from scripts.cartridge.maps import COUNTER, LEDGE, REGROWS, WALK, Atlas, MapPlan
from scripts.cartridge.symbols import FERRIES, STORY

STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}


class Place(NamedTuple):
    """Names one cell of one map."""

    map: int
    y: int
    x: int


class World(NamedTuple):
    """Holds the facts on which roads depend: set flags, ability to cut shrubs, the true stairs."""

    flags: frozenset[int] = frozenset()
    cuts: bool = False
    secret: tuple[int, int] = (0, 0)


class Lead(NamedTuple):
    """Holds the place to which a direction leads, and the button to press when facing it.

    "": none, the player walks; "a": speak to a ferry's sailor; "start": cut a shrub by the menus.
    """

    to: Place
    press: str = ""


Roads = dict[Place, dict[str, Lead]]


def bare_roads(atlas: Atlas) -> Roads:
    """Map each place to its open directions, ignoring people, things and true stairs."""
    return {
        place: {button: Lead(to) for button in STEPS if (to := _lead(atlas, plan, place, button))}
        for plan in atlas.maps.values()
        for place in _ground(atlas, plan)
    }


def all_roads(atlas: Atlas, world: World, bare: Roads | None = None) -> Roads:
    """Map each place where the player can stand to its open directions.

    `bare` are the `bare_roads`, computed once for several calls.
    """
    shrubs = set(_things(atlas, world, shrubs=True))
    taken = set(_things(atlas, world, shrubs=False)) | (set() if world.cuts else shrubs)
    special = {shrub: Lead(shrub, "start") for shrub in shrubs} | _forks(atlas, world.secret)
    roads = {
        place: {
            button: special.get(lead.to, lead)
            for button, lead in leads.items()
            if lead.to not in taken
        }
        for place, leads in (bare or bare_roads(atlas)).items()
        if place not in taken
    }
    _add_ferries(atlas, roads, world.flags)
    return roads


def _forks(atlas: Atlas, secret: tuple[int, int]) -> dict[Place, Lead]:
    ends = {}
    for plan in atlas.maps.values():
        for fork in plan.forks:
            is_true = secret[fork.floor] == fork.side
            end = (fork.to, fork.to_y, fork.to_x) if is_true else atlas.fall
            ends[Place(plan.number, fork.y, fork.x)] = Lead(Place(*end))
    return ends


def _things(atlas: Atlas, world: World, shrubs: bool) -> Iterator[Place]:
    for plan in atlas.maps.values():
        for thing in plan.things:
            if thing.stands(world.flags) and (thing.kind == REGROWS) == shrubs:
                yield Place(plan.number, thing.y, thing.x)


def _ground(atlas: Atlas, plan: MapPlan) -> Iterator[Place]:
    for y, row in enumerate(plan.cells):
        for x, cell in enumerate(row):
            if atlas.rules[cell] & WALK:
                yield Place(plan.number, y, x)


def _add_ferries(atlas: Atlas, roads: Roads, flags: frozenset[int]) -> None:
    names = [flag.name for flag in STORY]
    for ferry in FERRIES:
        if names.index(ferry.after) in flags:
            for stand, button in stands(atlas, Place(*ferry.sailor)).items():
                if stand in roads:
                    roads[stand][button] = Lead(Place(*ferry.to), "a")


def _lead(atlas: Atlas, plan: MapPlan, place: Place, button: str) -> Place | None:
    down, right = STEPS[button]
    y, x = place.y + down, place.x + right
    if not (0 <= y < plan.height and 0 <= x < plan.width):
        return _over_the_edge(atlas, plan, place, button)
    rule = atlas.rules[plan.cells[y][x]]
    if rule & LEDGE and button == "down":
        y += 1
    elif not rule & WALK:
        return None
    for warp in plan.warps:
        if (warp.y, warp.x) == (y, x):
            return Place(warp.to, warp.to_y, warp.to_x)
    return Place(plan.number, y, x)


def _over_the_edge(atlas: Atlas, plan: MapPlan, place: Place, button: str) -> Place | None:
    if button not in plan.links:
        return None
    number, shift = plan.links[button]
    neighbour = atlas.maps[number]
    y, x = {
        "down": (0, place.x + shift),
        "up": (neighbour.height - 1, place.x + shift),
        "left": (place.y + shift, neighbour.width - 1),
        "right": (place.y + shift, 0),
    }[button]
    return Place(number, y, x)


def stands(atlas: Atlas, thing: Place) -> dict[Place, str]:
    """Map each place from which the player reaches a thing to the button that faces it."""
    plan = atlas.maps[thing.map]
    stands_and_buttons = {}
    for button, (down, right) in STEPS.items():
        y, x = thing.y - down, thing.x - right
        inside = 0 <= y < plan.height and 0 <= x < plan.width
        if inside and atlas.rules[plan.cells[y][x]] & COUNTER:
            y, x = y - down, x - right
        stands_and_buttons[Place(thing.map, y, x)] = button
    return stands_and_buttons


def distances(roads: Roads, goals: set[Place]) -> dict[Place, int]:
    """Map each place to the number of steps to the nearest of `goals`."""
    back: dict[Place, list[Place]] = {}
    for place, leads in roads.items():
        for lead in leads.values():
            back.setdefault(lead.to, []).append(place)
    steps = dict.fromkeys(goals & roads.keys(), 0)
    queue = deque(steps)
    while queue:
        place_reached = queue.popleft()
        for place in back.get(place_reached, ()):
            if place not in steps:
                steps[place] = steps[place_reached] + 1
                queue.append(place)
    return steps
