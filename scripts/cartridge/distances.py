"""Pure: where each button leads in the cartridge's world, and how far places are from a goal."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from scripts.cartridge.maps import COUNTER, LEDGE, REGROWS, WALK, Atlas, MapPlan
from scripts.cartridge.symbols import FERRIES, STORY

STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}


class Place(NamedTuple):
    """One cell of one map."""

    map: int
    y: int
    x: int


class World(NamedTuple):
    """What the roads depend on: flags that are set, whether thorns can be cut, the true stairs."""

    flags: frozenset[int] = frozenset()
    cuts: bool = False
    secret: tuple[int, int] = (0, 0)


class Lead(NamedTuple):
    """Where a direction leads, and what is pressed once one faces there.

    "": nothing, one walks; "a": one speaks (a ferry); "start": one cuts, through the menus.
    """

    to: Place
    press: str = ""


Roads = dict[Place, dict[str, Lead]]


def bare_roads(atlas: Atlas) -> Roads:
    """The directions that lead elsewhere, as if nobody stood anywhere; stairs are ground."""
    return {
        place: {button: Lead(to) for button in STEPS if (to := _lead(atlas, plan, place, button))}
        for plan in atlas.maps.values()
        for place in _ground(atlas, plan)
    }


def all_roads(atlas: Atlas, world: World, bare: Roads | None = None) -> Roads:
    """For every place where one can stand the directions that lead elsewhere.

    `bare` are `bare_roads`, for those who ask again and again.
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
    there = atlas.maps[number]
    y, x = {
        "down": (0, place.x + shift),
        "up": (there.height - 1, place.x + shift),
        "left": (place.y + shift, there.width - 1),
        "right": (place.y + shift, 0),
    }[button]
    return Place(number, y, x)


def stands(atlas: Atlas, thing: Place) -> dict[Place, str]:
    """Places from which the thing is in reach, each with the button that faces it."""
    plan = atlas.maps[thing.map]
    found = {}
    for button, (down, right) in STEPS.items():
        y, x = thing.y - down, thing.x - right
        inside = 0 <= y < plan.height and 0 <= x < plan.width
        if inside and atlas.rules[plan.cells[y][x]] & COUNTER:
            y, x = y - down, x - right
        found[Place(thing.map, y, x)] = button
    return found


def distances(roads: Roads, goals: set[Place]) -> dict[Place, int]:
    """Steps from every place to the nearest of `goals`, which count 0."""
    back: dict[Place, list[Place]] = {}
    for place, leads in roads.items():
        for lead in leads.values():
            back.setdefault(lead.to, []).append(place)
    far = dict.fromkeys(goals & roads.keys(), 0)
    queue = deque(far)
    while queue:
        at = queue.popleft()
        for place in back.get(at, ()):
            if place not in far:
                far[place] = far[at] + 1
                queue.append(place)
    return far
