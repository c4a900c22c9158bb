"""Pure: where each button leads in the cartridge's world, and how far places are from a goal."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from Daddy.pokemon.cartridge.atlas import COUNTER, LEDGE, WALK, Atlas, MapPlan

STEPS = {"down": (1, 0), "up": (-1, 0), "left": (0, -1), "right": (0, 1)}


class Place(NamedTuple):
    """One cell of one map."""

    map: int
    y: int
    x: int


Roads = dict[Place, dict[str, Place]]


def all_roads(atlas: Atlas, gone: frozenset[int]) -> Roads:
    """For every walkable place the buttons that lead elsewhere; things of flags in `gone` left."""
    taken = {
        Place(plan.number, thing.y, thing.x)
        for plan in atlas.maps.values()
        for thing in plan.things
        if not (thing.goes and thing.flag in gone)
    }
    roads: Roads = {}
    for plan in atlas.maps.values():
        for y, row in enumerate(plan.cells):
            for x, cell in enumerate(row):
                place = Place(plan.number, y, x)
                if atlas.rules[cell] & WALK and place not in taken:
                    leads = {button: _lead(atlas, plan, place, button) for button in STEPS}
                    roads[place] = {b: to for b, to in leads.items() if to and to not in taken}
    return roads


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
        for to in leads.values():
            back.setdefault(to, []).append(place)
    far = dict.fromkeys(goals & roads.keys(), 0)
    queue = deque(far)
    while queue:
        at = queue.popleft()
        for place in back.get(at, ()):
            if place not in far:
                far[place] = far[at] + 1
                queue.append(place)
    return far
