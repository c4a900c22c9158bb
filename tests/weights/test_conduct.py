"""Who is put off, who is shut out, and for how long."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.weights.gate.admission import Fault
from Daddy.weights.gate.conduct import (
    ENOUGH,
    FORGOTTEN,
    LONGEST_TERM,
    STRIKES,
    TERM,
    Company,
    Sight,
    add_up,
    after,
    judge_conduct,
    judge_sight,
    returning,
    shut_out,
    telling,
    uncounted,
)
from Daddy.weights.store.records import Conduct

FOUR = ("slot-0", "slot-1", "slot-2", "slot-3")


def company(
    *cosines: float, to_merger: tuple[float, ...] = (), past: tuple[float, ...] = ()
) -> Company:
    told = (cosines, to_merger, past)
    return Company(*({f"slot-{n}": one for n, one in enumerate(each)} for each in told))


AGREED = company(0.6, 0.5, 0.4, 0.7)
ONE_AGAINST = company(0.5, 0.4, 0.3, -0.8)
SPLIT = company(-0.1, -0.2, -0.3, -0.1, to_merger=(1.0, 0.4, -0.3, -0.5), past=(0, 0, 0.2, 0))


def test_who_goes_with_the_others_or_at_an_angle_to_them_is_left_alone():
    assert judge_sight(Sight("slot-3", 0.6, 0.95), AGREED) is None
    assert judge_sight(Sight("slot-3", -0.04, 0.5), AGREED) is None


def test_one_that_works_against_three_others_is_put_off_and_keeps_its_progress():
    verdict = judge_sight(Sight("slot-3", -0.8), ONE_AGAINST)
    assert not verdict.admitted
    assert verdict.fault is Fault.LATE
    assert "works against the other jobs (cosine -0.80)" in verdict.reason


def test_the_same_step_again_and_again_that_nobody_else_makes_is_put_off():
    verdict = judge_sight(Sight("slot-3", 0.0, 0.99), AGREED)
    assert "the last step again" in verdict.reason
    assert judge_sight(Sight("slot-3", 0.3, 0.99), AGREED) is None  # others go there too


def test_what_speaks_against_a_job_a_little_is_added_up_and_agreement_takes_it_off():
    assert judge_sight(Sight("slot-3", -0.19), AGREED) is None  # the least of honest jobs' cosines
    assert add_up([-0.25, -0.25]) == pytest.approx(0.4)
    doubtful = company(0.6, 0.5, 0.4, 0.7, past=(0.0, 0.0, 0.0, add_up([-0.25, -0.25])))
    assert judge_sight(Sight("slot-3", -0.04), doubtful) is None
    assert judge_sight(Sight("slot-2", -0.06), doubtful) is None
    assert "works against" in judge_sight(Sight("slot-3", -0.06), doubtful).reason
    distrusted = company(0.6, 0.5, 0.4, 0.7, past=(0.0, 0.0, 0.0, 9.0))
    assert judge_sight(Sight("slot-3", 0.1), distrusted) is None  # nothing is held against this one
    assert add_up([-0.25, -0.25, 0.3]) == pytest.approx(0.05)
    assert add_up([-0.25, 0.9, -0.15]) == pytest.approx(0.1)  # never less than nothing
    assert add_up([-0.06, -0.04] * 500) < ENOUGH


def test_where_the_others_have_no_common_way_nobody_has_to_go_it():
    astray = company(0.1, 0.15, 0.19)
    assert judge_sight(Sight("slot-3", 0.0, 0.99), astray) is None
    assert judge_sight(Sight("slot-3", 0.0, returns=True), astray) is None


@pytest.mark.parametrize("there", [company(), company(0.5), company(-0.9, -0.9, -0.9)])
def test_nobody_is_an_outlier_beside_fewer_than_three_others(there):
    assert judge_sight(Sight("slot-0", -0.9, 0.99), there) is None


def test_a_contradiction_waits_for_whoever_lives_and_has_not_spoken_and_not_for_ever():
    three = company(-0.9, 0.1, 0.2)  # the two that agree may be those that lie
    for number in range(3):
        early = judge_sight(Sight(f"slot-{number}", three.to_others[f"slot-{number}"]), three, 1)
        assert early.wait
        assert not early.admitted
    assert judge_sight(Sight("slot-0", -0.9), three) is None
    assert judge_sight(Sight("slot-0", -0.9), company(-0.9, -0.9), 2).wait


def test_nobody_is_waited_for_where_nobody_contradicts_or_too_few_are_there():
    assert judge_sight(Sight("slot-0", -0.2), company(-0.2, 0.1, 0.1), 1) is None
    assert judge_sight(Sight("slot-0", -0.9), company(-0.9, -0.9), 1) is None


def test_two_others_are_enough_to_judge_who_was_refused_the_last_time():
    two = company(0.1, 0.2, -0.9)
    assert not judge_sight(Sight("slot-2", -0.9, struck=True), two).admitted
    assert judge_sight(Sight("slot-2", 0.0, struck=True), two) is None


def test_where_half_are_against_half_whoever_merges_goes_by_what_it_learnt_itself():
    assert judge_sight(Sight("slot-0", -0.1), SPLIT) is None
    assert judge_sight(Sight("slot-1", -0.2), SPLIT) is None
    assert (
        "what the merging job learnt (cosine -0.50)"
        in judge_sight(Sight("slot-3", -0.1), SPLIT).reason
    )
    little = company(*SPLIT.to_others.values(), to_merger=(1.0, 0.4, -0.3, -0.2))
    assert judge_sight(Sight("slot-3", -0.1), little) is None
    nobodys = company(*SPLIT.to_others.values())
    assert judge_sight(Sight("slot-3", -0.1), nobodys) is None
    assert SPLIT.contrary == {"slot-2", "slot-3"}
    assert ONE_AGAINST.contrary == set()


def test_in_a_split_only_the_cosine_to_the_merging_job_tells_anything():
    assert telling(Sight("slot-1", -0.9), SPLIT) == 0.4
    assert telling(Sight("slot-1", -0.9), ONE_AGAINST) == -0.9
    assert telling(Sight("slot-1", -0.9), company(*SPLIT.to_others.values())) == 0.0


def test_who_comes_from_a_term_has_to_go_with_the_others_if_there_are_two():
    apart, along = (Sight("slot-3", cosine, returns=True) for cosine in (0.1, 0.2))
    assert "comes from a term" in judge_sight(apart, company(0.6, 0.5, 0.4)).reason
    assert judge_sight(along, company(0.6, 0.5, 0.4)) is None
    assert (
        "against the other jobs"
        in judge_sight(Sight("slot-3", -0.5, returns=True), company(-0.1, 0.6)).reason
    )
    assert judge_sight(apart, company(0.6)) is None


def told(*outcomes: bool, peer: str = "slot-3", first: int = 1) -> tuple[Conduct, ...]:
    """The conduct after such outcomes of one job, a version each; FOUR are there."""
    conduct: tuple[Conduct, ...] = ()
    for version, fine in enumerate(outcomes, first):
        conduct = after(conduct, version, {peer: fine}, FOUR)
    return conduct


def test_one_refusal_shuts_nobody_out_and_the_next_in_order_clears_it():
    assert shut_out(told(False), 2) == set()
    assert uncounted(told(False), 2) == {"slot-3"}
    assert told(False, True) == ()


def test_two_in_a_row_shut_out_for_a_term_that_ends():
    conduct = told(False, False)
    assert shut_out(conduct, 3) == {"slot-3"}
    assert shut_out(conduct, 2 + TERM) == {"slot-3"}
    assert shut_out(conduct, 3 + TERM) == set()
    verdict = judge_conduct("slot-3", conduct, 3)
    assert verdict.fault is Fault.VALUES
    assert f"until v{2 + TERM}" in verdict.reason
    assert judge_conduct("slot-2", conduct, 3) is None


def test_who_comes_from_a_term_has_one_strike_left_and_the_next_is_twice_as_long():
    back = 3 + TERM
    again = after(told(False, False), back, {"slot-3": False}, FOUR)
    assert shut_out(again, back + 2 * TERM) == {"slot-3"}
    assert shut_out(again, back + 2 * TERM + 1) == set()


def test_who_is_in_order_after_a_term_counts_again_and_its_past_is_forgotten_in_time():
    conduct = told(False, False)
    fine = after(conduct, 3 + TERM, {"slot-3": True}, FOUR)
    assert uncounted(fine, 4 + TERM) == set()
    assert fine[0].terms == 1
    assert after(fine, 3 + TERM + FORGOTTEN, {"slot-3": True}, FOUR) == ()


def test_beside_fewer_than_three_others_nobody_is_shut_out():
    conduct: tuple[Conduct, ...] = ()
    for version in range(1, 9):
        conduct = after(conduct, version, {"slot-2": False}, FOUR[:3])
    assert shut_out(conduct, 9) == set()


def test_half_of_the_jobs_are_shut_out_and_no_more():
    conduct: tuple[Conduct, ...] = ()
    for version in (1, 2):
        conduct = after(conduct, version, dict.fromkeys(FOUR[1:], False), FOUR)
    assert shut_out(conduct, 3) == {"slot-1", "slot-2"}
    conduct = after(conduct, 3, {"slot-3": False}, FOUR)
    assert shut_out(conduct, 4) == {"slot-1", "slot-2"}


def test_where_the_jobs_are_split_those_of_one_mind_are_shut_out_together():
    once = after((), 1, {"slot-3": False}, FOUR, {"slot-2", "slot-3"})
    assert shut_out(once, 2) == set()
    twice = after(once, 2, {"slot-3": False}, FOUR, {"slot-2", "slot-3"})
    assert shut_out(twice, 3) == {"slot-2", "slot-3"}
    both = after(twice, 3 + TERM, {"slot-2": True}, FOUR)
    assert returning(both, 4 + TERM) == {"slot-3"}


@given(
    st.lists(
        st.dictionaries(st.sampled_from([f"slot-{n}" for n in range(8)]), st.booleans()),
        max_size=60,
    ),
    st.integers(1, 8),
)
def test_never_more_than_half_are_shut_out_and_no_term_is_endless(rounds, jobs):
    there = [f"slot-{number}" for number in range(jobs)]
    conduct: tuple[Conduct, ...] = ()
    for version, outcomes in enumerate(rounds, 1):
        absent = shut_out(conduct, version)
        here = {k: one for k, one in outcomes.items() if k in there and k not in absent}
        conduct = after(conduct, version, here, there)
        assert 2 * len(shut_out(conduct, version + 1)) <= jobs
        assert all(one.until <= version + LONGEST_TERM for one in conduct)
        assert all(one.strikes < STRIKES for one in conduct)
        assert [one.peer for one in conduct] == sorted({one.peer for one in conduct})
