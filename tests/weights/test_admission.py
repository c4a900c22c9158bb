import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.weights.merge.admission import (
    ADMITTED,
    COUNT_FACTOR,
    SHARE_FACTOR,
    Fault,
    cap_claimed_steps,
    extend_norm_history,
    judge_file,
    judge_record,
    judge_values,
    typical_of_others,
)
from Daddy.weights.store.weight_records import Contribution, Input, Version

HASH = "ab" * 32
OTHER = "cd" * 32

OFFER = Contribution(
    run_id="run",
    schema=HASH,
    peer="slot-0",
    incarnation="01234567",
    sequence=3,
    blob=OTHER,
    size=1000,
    base_version=7,
    base_state=HASH,
    env_steps=500,
    new_steps=500,
    optimizer_steps=20,
)
BASE = Version(
    run_id="run", schema=HASH, state=HASH, size=1000, rule="delta", merger="", ts=0.0, version=7
)
HEAD = dataclasses.replace(
    BASE, state=OTHER, version=8, consumed={"slot-0/01234567": (2, 8)}, assists=("money",)
)


def judged(**changes):
    offer = dataclasses.replace(OFFER, **changes)
    return judge_record(offer, HEAD, BASE, HEAD.version - offer.base_version, 4)


def test_a_contribution_in_order_is_admitted():
    assert judged().admitted


@pytest.mark.parametrize(
    ("changes", "fault", "said"),
    [
        ({"run_id": "another"}, Fault.VALUES, "belongs to another run"),
        ({"schema": OTHER}, Fault.VALUES, "other names or shapes"),
        ({"assists": ("money", "flash")}, Fault.VALUES, "the assists flash, which this run does"),
        ({"sequence": 2}, Fault.LATE, "judged before"),
        ({"base_version": 9}, Fault.VALUES, "does not exist"),
        ({"base_version": 3}, Fault.LATE, "5 versions old"),
        ({"base_state": OTHER}, Fault.VALUES, "is not this run's v7"),
        ({"env_steps": 0, "new_steps": 0}, Fault.VALUES, "claims 0"),
        ({"env_steps": 1 << 40}, Fault.VALUES, "claims"),
        ({"new_steps": 501}, Fault.VALUES, "501 of them new"),
        ({"optimizer_steps": 0}, Fault.VALUES, "nothing was learnt"),
        ({"size": 10}, Fault.VALUES, "333 to 1500"),
        ({"size": 10_000}, Fault.VALUES, "333 to 1500"),
        ({"form": "int8", "size": 5097}, Fault.VALUES, "64 to 5096"),
        ({"form": "int8", "size": 63}, Fault.VALUES, "64 to 5096"),
        ({"form": "int4"}, Fault.LATE, "'int4', which this run does not read"),
    ],
)
def test_each_refusal_says_why_and_whose_fault_it_is(changes, fault, said):
    verdict = judged(**changes)
    assert not verdict.admitted
    assert verdict.fault is fault
    assert said in verdict.reason


def test_bytes_that_were_not_promised_are_refused():
    assert judge_file(OFFER, 1000, OTHER).admitted
    assert "truncated" in judge_file(OFFER, 999, OTHER).reason
    assert "damaged" in judge_file(OFFER, 1000, HASH).reason


HISTORY = ((1.0, 20.0), (1.1, 20.0), (0.9, 20.0), (1.0, 20.0))


def test_values_that_are_not_finite_or_all_zero_are_refused():
    assert "not finite" in judge_values(math.nan, 20, HISTORY, strict=False).reason
    assert "zero everywhere" in judge_values(0.0, 20, HISTORY, strict=False).reason


def test_an_unusual_norm_is_scaled_down_to_twice_the_usual():
    verdict = judge_values(4.0, 20, HISTORY, strict=True)
    assert verdict.admitted
    assert verdict.scale == pytest.approx(0.5)


def test_a_laptops_tenfold_norm_is_refused_and_a_jobs_is_scaled_down():
    assert "10.0 times" in judge_values(10.0, 20, HISTORY, strict=True).reason
    assert judge_values(10.0, 20, HISTORY, strict=False).scale == pytest.approx(0.2)
    assert not judge_values(30.0, 20, HISTORY, strict=False).admitted


def test_more_optimizer_steps_may_go_further_and_fewer_as_far_as_usual():
    assert judge_values(4.0, 80, HISTORY, strict=True).scale == 1.0
    assert judge_values(1.9, 4, HISTORY, strict=True).scale == 1.0


def test_no_job_is_called_unusual_before_four_have_been_seen():
    assert judge_values(1e6, 20, HISTORY[:3], strict=False) == ADMITTED


def test_a_laptop_waits_for_the_first_job_and_is_judged_by_it():
    verdict = judge_values(1.0, 20, (), strict=True)
    assert verdict.wait
    assert not verdict.admitted
    assert not judge_values(1e6, 20, HISTORY[:1], strict=True).admitted
    assert judge_values(1.0, 20, HISTORY[:1], strict=True).admitted


def test_a_laptop_does_not_buy_a_giant_step_with_claimed_optimizer_steps():
    assert not judge_values(1e6, 1 << 50, HISTORY, strict=True).admitted
    assert judge_values(8.0, 200, HISTORY, strict=True).scale == 1.0


def test_the_history_is_bounded():
    assert len(extend_norm_history(HISTORY * 10, [(2.0, 5)])) == 16
    assert extend_norm_history(HISTORY, [(2.0, 5)])[-1] == (2.0, 5.0)


def contributed(peer: str, *norms: float, steps: int = 1000) -> list[Input]:
    return [
        Input(peer, "01234567", 1, HASH, 7, 1, 0.25, 1.0, norm, steps, steps, 8) for norm in norms
    ]


COMPANY = [
    *contributed("slot-0", 1.0, 1.2),
    *contributed("slot-1", 0.8),
    *contributed("slot-2", 1.4),
]


def test_ones_own_word_is_no_yardstick_for_oneself():
    assert typical_of_others("slot-3", contributed("slot-3", 1.0)) is None
    usual = typical_of_others("slot-3", [*COMPANY, *contributed("slot-3", 900.0)])
    assert (usual.norm, usual.jobs) == (pytest.approx(1.1), 3)


def test_a_job_that_speaks_often_is_one_voice_of_three():
    usual = typical_of_others("slot-0", [*contributed("slot-1", 1.0), *contributed("slot-2", 1.0),
                                    *contributed("slot-3", *[500.0] * 40)])  # fmt: skip
    assert usual.norm == 1.0


def test_steps_within_what_is_usual_are_believed():
    usual = typical_of_others("slot-3", COMPANY)
    assert cap_claimed_steps(3_500, 3_500, usual, 1) == (3_500, 3_500)


def test_a_boast_counts_as_four_times_the_usual():
    believed = cap_claimed_steps(1_000_000, 1_000_000, typical_of_others("slot-3", COMPANY), 1)
    assert believed == (SHARE_FACTOR * 1000, COUNT_FACTOR * 1000)


def test_who_could_not_contribute_for_long_may_have_made_many_steps():
    usual = typical_of_others("slot-3", COMPANY)
    assert cap_claimed_steps(180_000, 180_000, usual, 200)[1] == 180_000


def test_where_nobody_else_is_every_claim_is_believed():
    assert cap_claimed_steps(10**9, 10**9, None, 1) == (10**9, 10**9)


@given(
    st.lists(st.floats(0.5, 2.0), min_size=3, max_size=7),
    st.lists(st.floats(0.0, 1e12), min_size=1, max_size=20),
)
def test_one_liar_moves_what_is_usual_no_further_than_the_honest_do(honest, lies):
    jobs = [
        entry for number, norm in enumerate(honest) for entry in contributed(f"slot-{number}", norm)
    ]
    usual = typical_of_others("slot-0", [*jobs, *contributed("slot-9", *lies)])
    assert min(honest[1:]) <= usual.norm <= max(honest[1:])
