from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.progress import Progress, read_progress
from Daddy.pokemon.reward import (
    Records,
    RewardWeights,
    advance,
    first_records,
    level_value,
    reward_parts,
)
from tests.pokemon.images import creature, image, put

WEIGHTS = RewardWeights()


def play(*moments: Progress, cells: int = 1) -> list[dict[str, float]]:
    """Reward parts of the steps between these moments, on one spot."""
    records = first_records(moments[0], cells, 1)
    steps = []
    for was, now in pairwise(moments):
        after = advance(records, now, cells, 1)
        steps.append(reward_parts(records, after, was, now, WEIGHTS))
        records = after
    return steps


def party(hp: int, level: int = 10, species: int = 7, battle: int = 0) -> Progress:
    data = creature(image(in_battle=battle), 0, species, hp, max_hp=40, level=level)
    return read_progress(data)


START = read_progress(image())


def test_standing_still_earns_nothing() -> None:
    (step,) = play(START, START)
    assert sum(step.values()) == 0


def test_what_the_start_already_holds_earns_nothing() -> None:
    rich = read_progress(put(image(badges=3), ram.EVENTS, 0xFF))
    assert sum(sum(step.values()) for step in play(rich, rich)) == 0


def test_a_new_cell_and_a_new_map_are_paid_by_their_weights() -> None:
    before, after = Records(cells=5, maps=1), Records(cells=6, maps=2)
    parts = reward_parts(before, after, START, START, WEIGHTS)
    assert parts["cell"] == pytest.approx(WEIGHTS.cell)
    assert parts["map"] == pytest.approx(WEIGHTS.map)


def test_a_story_event_is_paid_as_event_and_as_story() -> None:
    (step,) = play(START, read_progress(put(image(), 0xD74B, 0b100)))
    assert step["event"] == WEIGHTS.event
    assert step["story"] == WEIGHTS.story


def test_an_event_that_is_cleared_and_set_again_is_paid_once() -> None:
    set_ = read_progress(put(image(), 0xD747, 0x80))
    steps = play(START, set_, START, set_)
    assert [step["event"] for step in steps] == [WEIGHTS.event, 0, 0]


def test_a_badge_is_paid_once_even_if_its_bit_flickers() -> None:
    won = read_progress(image(badges=1))
    assert [step["badge"] for step in play(START, won, START, won)] == [WEIGHTS.badge, 0, 0]


def test_levels_pay_for_a_record_only_so_that_boxing_a_creature_costs_and_earns_nothing() -> None:
    strong, weak = party(40, level=12), party(40, level=10)
    assert [step["level"] for step in play(weak, strong, weak, strong)] == [
        pytest.approx(2 * WEIGHTS.level),
        0,
        0,
    ]


def test_levels_beyond_the_steep_ones_are_worth_a_quarter() -> None:
    assert level_value(26) == 23


def test_healing_outside_battle_is_paid_by_the_fraction_gained() -> None:
    (step,) = play(party(10), party(40))
    assert step["heal"] == pytest.approx(0.75 * WEIGHTS.heal)


@pytest.mark.parametrize(
    ("was", "now"),
    [
        (party(10, level=10), party(40, level=11)),
        (party(10, species=7), party(40, species=8)),
        (party(10, battle=1), party(40, battle=1)),
        (party(0), party(40)),
        (party(40), party(10)),
        (START, party(40)),
    ],
    ids=["level up", "another creature", "in battle", "after a defeat", "hurt", "first creature"],
)
def test_hit_points_that_rise_for_another_reason_are_no_healing(
    was: Progress, now: Progress
) -> None:
    assert play(was, now)[0]["heal"] == 0


def test_losing_the_last_hit_point_costs_once() -> None:
    steps = play(party(3), party(0), party(0))
    assert [step["blackout"] for step in steps] == [WEIGHTS.blackout, 0]


def test_every_weight_has_a_part_of_its_name() -> None:
    parts = reward_parts(Records(), Records(), START, START, WEIGHTS)
    assert set(parts) == set(RewardWeights.__slots__)


def test_weights_scale_their_part() -> None:
    before, after = Records(), Records(seen=2, owned=1)
    double = replace(WEIGHTS, seen=2 * WEIGHTS.seen)
    parts = reward_parts(before, after, START, START, double)
    assert parts["seen"] == pytest.approx(4 * WEIGHTS.seen)
    assert parts["caught"] == pytest.approx(WEIGHTS.caught)
