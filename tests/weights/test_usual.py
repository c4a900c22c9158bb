"""What is usual beside a job, and which claims are believed by it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.weights.gate.usual import COUNT_FACTOR, SHARE_FACTOR, Told, believe, usual_beside


def told(peer: str, *norms: float, steps: int = 1000) -> list[Told]:
    return [Told(peer, norm, 8, steps) for norm in norms]


HONEST = [*told("slot-0", 1.0, 1.2), *told("slot-1", 0.8), *told("slot-2", 1.4)]


def test_ones_own_word_is_no_yardstick_for_oneself():
    assert usual_beside("slot-3", told("slot-3", 1.0)) is None
    usual = usual_beside("slot-3", [*HONEST, *told("slot-3", 900.0)])
    assert (usual.norm, usual.jobs) == (pytest.approx(1.1), 3)


def test_a_job_that_speaks_often_is_one_voice_of_three():
    usual = usual_beside("slot-0", [*told("slot-1", 1.0), *told("slot-2", 1.0),
                                    *told("slot-3", *[500.0] * 40)])  # fmt: skip
    assert usual.norm == 1.0


def test_steps_within_what_is_usual_are_believed():
    usual = usual_beside("slot-3", HONEST)
    assert believe(3_500, 3_500, usual, 1).env_steps == 3_500


def test_a_boast_counts_as_four_times_the_usual():
    believed = believe(1_000_000, 1_000_000, usual_beside("slot-3", HONEST), 1)
    assert believed.env_steps == SHARE_FACTOR * 1000
    assert believed.new_steps == COUNT_FACTOR * 1000


def test_who_could_not_contribute_for_long_may_have_made_many_steps():
    usual = usual_beside("slot-3", HONEST)
    assert believe(180_000, 180_000, usual, 200).new_steps == 180_000


def test_where_nobody_else_is_every_claim_is_believed():
    assert believe(10**9, 10**9, None, 1).new_steps == 10**9


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=7),
    st.lists(st.floats(0.0, 1e12), min_size=1, max_size=20),
)
def test_one_liar_moves_what_is_usual_no_further_than_the_honest_do(honest, lies):
    jobs = [one for number, norm in enumerate(honest) for one in told(f"slot-{number}", norm)]
    usual = usual_beside("slot-0", [*jobs, *told("slot-9", *lies)])
    assert min(honest[1:]) <= usual.norm <= max(honest[1:])
