"""Tests the finds of exploration, and the clearing of its memory."""

from itertools import pairwise

import pytest

from Daddy.core.settings import RewardSettings
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon import story_milestones
from Daddy.pokemon.exploration import Exploration, VisitedCells
from Daddy.pokemon.game_progress import Progress
from tests.pokemon.images import put
from tests.pokemon.progress_builder import WEIGHTS, at, earned, moment, party, walk

OPEN, DONE = 54, 37
"""Brock's gym has a milestone; the hero's house has none."""


def hurt(hp: int, level: int = 10, species: int = 7, map_id: int = 1, battle: int = 0) -> bytearray:
    return party(at(map_id=map_id, in_battle=battle), (species, hp, level, 1))


def test_a_new_cell_is_paid_once() -> None:
    there_and_back = [at(x=x, map_id=DONE) for x in (1, 2, 1, 2)]
    assert walk(there_and_back) == [{"cell": WEIGHTS.cell}, {}, {}]


def test_a_cell_weighs_more_where_a_milestone_is_still_open() -> None:
    (step,) = walk([at(x=1, map_id=OPEN), at(x=2, map_id=OPEN)])
    assert step["cell"] == pytest.approx(WEIGHTS.cell * WEIGHTS.open_goal)


def test_a_map_closes_once_its_milestones_are_won() -> None:
    beaten = [put(at(x=x, map_id=OPEN), 0xD755, 0x80) for x in (2, 3)]
    first, second = walk([at(x=1, map_id=OPEN), *beaten])
    assert first["cell"] == pytest.approx(WEIGHTS.cell * WEIGHTS.open_goal)
    assert second == {"cell": WEIGHTS.cell}


def test_every_milestone_of_the_cartridge_opens_a_map_of_it() -> None:
    ours = (*story_milestones.REQUIRED[False].steps, *story_milestones.REQUIRED[False].facts)
    assert story_milestones.goal_maps(frozenset(), real=False) == {event.place for event in ours}
    assert 37 in story_milestones.goal_maps(frozenset(), real=False)
    assert (
        story_milestones.goal_maps(
            frozenset(story_milestones.milestone_names(real=False)), real=False
        )
        == frozenset()
    )


def test_a_way_between_two_maps_is_paid_once_in_each_direction() -> None:
    steps = walk([at(map_id=n) for n in (DONE, 38, DONE, 38, DONE)])
    assert [step.get("way", 0) for step in steps] == [WEIGHTS.way, WEIGHTS.way, 0, 0]


def test_a_half_finished_warp_is_no_way_and_no_cell() -> None:
    between = at(y=90, map_id=38, map_height=4, map_width=4)
    steps = walk([at(map_id=DONE), between, at(map_id=38)])
    assert steps[0] == {}
    assert set(steps[1]) == {"cell", "way"}


def signed(**more: int) -> bytearray:
    """The sign is in the cell above the player."""
    return put(at(y=5, x=5, map_id=DONE, **more), ram.SIGN_COUNT, 2, 9, 9, 4, 5)


def test_a_sign_is_paid_when_its_text_opens_before_one_and_once() -> None:
    ahead, text = signed(facing=4), signed(facing=4, font_loaded=1)
    assert walk([ahead, text, text, ahead, text]) == [{"sign": WEIGHTS.sign}, {}, {}, {}]


def test_a_text_beside_a_sign_is_none() -> None:
    assert walk([signed(facing=8), signed(facing=8, font_loaded=1)]) == [{}]


def test_healing_outside_battle_is_paid_by_the_fraction_gained() -> None:
    assert walk([hurt(10), hurt(40)]) == [{"heal": pytest.approx(0.75 * WEIGHTS.heal)}]


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (hurt(10, species=7), hurt(40, species=8)),
        (hurt(10, level=1), hurt(40, level=1, battle=1)),
        (hurt(10, battle=1), hurt(40, battle=1)),
        (hurt(0), hurt(40)),
        (hurt(40), hurt(10)),
        (at(), hurt(40)),
        (hurt(10, level=10), hurt(40, level=11)),
    ],
    ids=["another creature", "into one", "in battle", "after a defeat", "hurt", "first", "level"],
)
def test_hit_points_that_rise_for_another_reason_are_no_healing(
    was: bytearray, now: bytearray
) -> None:
    assert "heal" not in walk([was, now])[0]


def test_a_better_healing_on_the_same_map_pays_the_difference_and_another_map_anew() -> None:
    steps = walk([hurt(30), hurt(40), hurt(20), hurt(40)])
    assert [step.get("heal", 0) for step in steps] == [
        pytest.approx(0.25 * WEIGHTS.heal),
        0,
        pytest.approx(0.25 * WEIGHTS.heal),
    ]
    elsewhere = walk([hurt(30), hurt(40), hurt(30), hurt(30, map_id=2), hurt(40, map_id=2)])
    assert elsewhere[-1]["heal"] == pytest.approx(0.25 * WEIGHTS.heal)


def test_to_forget_pays_nothing_but_the_ground_beyond_is_new_again() -> None:
    weights = RewardSettings(memory_steps=3)
    steps = walk([at(x=x, map_id=DONE) for x in (1, 2, 2, 2, 2, 1, 2)], weights, left=2)
    cells = [step.get("cell", 0) > 0 for step in steps]
    assert cells == [True, False, False, False, True, True]


def test_who_never_forgets_is_never_paid_again() -> None:
    weights = RewardSettings(memory_steps=0)
    assert earned(walk([at(x=x % 2, map_id=DONE) for x in range(50)], weights, left=0)) == (
        pytest.approx(WEIGHTS.cell)
    )


def explored(*moments: bytearray) -> Exploration:
    seen: list[Progress] = [moment(data) for data in moments]
    memory = Exploration(100, {"left": 50})
    memory.mark_present_cell(seen[0])
    for was, now in pairwise(seen):
        memory.find_new(was, now)
    return memory


def test_a_memory_survives_as_json_and_cells() -> None:
    before = explored(
        signed(facing=4), signed(facing=4, font_loaded=1), hurt(10), hurt(40), at(map_id=2)
    )
    facts = before.memory_facts()
    again = Exploration(100, facts, before.visited.encode_cells())
    assert again.memory_facts() == facts
    assert (facts["left"], len(facts["ways"]), len(facts["signs"])) == (46, 2, 1)
    assert facts["healed"] == [(1, 0.75)]


def test_an_adopted_memory_is_the_others_and_forgets_at_its_own_time() -> None:
    mine, theirs = explored(at(map_id=2)), explored(at(x=1), at(x=2))
    theirs_before = theirs.memory_facts()
    mine.adopt(theirs)
    assert mine.memory_facts() == {**theirs_before, "left": 50, "cells": 1}
    assert mine.visited.encode_cells() == theirs.visited.encode_cells()


def test_a_large_map_is_remembered_to_its_last_cell_and_in_the_same_bytes() -> None:
    visited = VisitedCells()
    cells = [(7, 0, 0), (7, 63, 64), (7, 255, 255), (9, 2, 140)]
    assert all(visited.visit_cell(*cell) for cell in cells)
    assert not any(visited.visit_cell(*cell) for cell in cells)
    assert visited.window(7, 251, 250).sum() == 1
    assert visited.window(7, 251, 250)[4, 5]
    assert visited.window(9, 250, 250).shape == (10, 11)
    told = visited.encode_cells()
    assert told == bytes([7, 0, 0, 7, 63, 64, 7, 255, 255, 9, 2, 140])
    assert VisitedCells(told).encode_cells() == told
