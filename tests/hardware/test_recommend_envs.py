"""The recommended number of environments of a machine."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.hardware.recommend_envs import (
    BYTES_FOR_THE_PERSON,
    GIB,
    MOST_SWEPT,
    MachineFacts,
    Measurement,
    choose_groups,
    counts_to_try,
    recommend,
    recommend_measured,
)

# The guide's table "Typical recommendations": machine, highest.
TABLE = [
    ("MacBook Air M1 (8GB)", MachineFacts(8, 8 * GIB), 3),
    ("MacBook Pro M1 (16GB)", MachineFacts(8, 16 * GIB), 6),
    ("MacBook Pro M1, ten cores", MachineFacts(10, 16 * GIB), 6),
    ("MacBook Pro M2 (32GB)", MachineFacts(8, 32 * GIB), 8),
    ("MacBook Pro M2, twelve cores", MachineFacts(12, 32 * GIB), 8),
    ("Desktop with GPU", MachineFacts(16, 64 * GIB, has_gpu=True), 16),
]


@pytest.mark.parametrize(("name", "facts", "highest"), TABLE, ids=[r[0] for r in TABLE])
def test_unmeasured_machines_get_what_the_guide_says(
    name: str, facts: MachineFacts, highest: int
) -> None:
    assert recommend(facts).envs == highest, name


def test_a_small_desktop_with_a_gpu_stays_within_the_guides_range() -> None:
    advice = recommend(MachineFacts(8, 32 * GIB, has_gpu=True))
    assert 8 <= advice.envs <= 16


def test_one_core_stays_with_the_person() -> None:
    assert recommend(MachineFacts(4, 16 * GIB)).envs == 3
    assert any(
        "one of them left to you" in reason for reason in recommend(MachineFacts(4, GIB)).reasons
    )


def test_four_gigabytes_stay_with_the_person() -> None:
    advice = recommend(MachineFacts(8, 6 * GIB))
    assert advice.envs == 1
    assert any("less 4 GiB for you" in reason for reason in advice.reasons)
    assert "memory decides: 1" in advice.reasons


@given(cores=st.integers(1, 256), gib=st.integers(0, 2048), gpu=st.booleans())
def test_every_machine_gets_at_least_one_environment_and_reasons(
    cores: int, gib: int, gpu: bool
) -> None:
    advice = recommend(MachineFacts(cores, gib * GIB, gpu))
    assert 1 <= advice.envs <= 16
    assert advice.reasons


@given(cores=st.integers(1, 64), gib=st.integers(1, 128))
def test_more_memory_never_means_fewer_environments(cores: int, gib: int) -> None:
    smaller = recommend(MachineFacts(cores, gib * GIB)).envs
    assert recommend(MachineFacts(cores, (gib + 1) * GIB)).envs >= smaller


def test_the_smallest_count_near_the_fastest_is_recommended() -> None:
    rows = [
        Measurement(1, 500.0, GIB // 10),
        Measurement(2, 960.0, GIB // 10),
        Measurement(4, 980.0, GIB // 5),
        Measurement(8, 1000.0, GIB // 4),
    ]
    advice = recommend_measured(MachineFacts(3, 16 * GIB), rows)
    assert advice.envs == 2
    assert any("96% of the fastest (8 environments" in reason for reason in advice.reasons)


def test_a_count_that_needs_the_persons_memory_is_not_recommended() -> None:
    beside = 8 * GIB - BYTES_FOR_THE_PERSON
    rows = [Measurement(2, 100.0, beside), Measurement(4, 200.0, beside + 1)]
    advice = recommend_measured(MachineFacts(8, 8 * GIB), rows)
    assert advice.envs == 2
    assert any("1 larger counts need more memory" in reason for reason in advice.reasons)


def test_where_nothing_fits_one_environment_and_the_reason_remain() -> None:
    advice = recommend_measured(MachineFacts(8, 4 * GIB), [Measurement(1, 100.0, GIB)])
    assert advice.envs == 1
    assert any("close other programs" in reason for reason in advice.reasons)


def test_an_empty_sweep_is_refused() -> None:
    with pytest.raises(ValueError, match="nothing was measured"):
        recommend_measured(MachineFacts(8, 8 * GIB), [])


@given(cores=st.integers(1, 256))
def test_the_counts_to_try_rise_from_one_and_stay_bounded(cores: int) -> None:
    counts = counts_to_try(MachineFacts(cores, 16 * GIB))
    assert counts[0] == 1
    assert list(counts) == sorted(set(counts))
    assert counts[-1] <= MOST_SWEPT


def test_another_number_of_groups_has_to_gain_by_it() -> None:
    usual, facts = Measurement(8, 1000.0, GIB), MachineFacts(8, 8 * GIB)
    near = Measurement(8, 1040.0, GIB, 2)
    fast = Measurement(8, 1200.0, GIB, 4)
    large = Measurement(8, 2000.0, 5 * GIB, 4)
    assert choose_groups(facts, usual, [near])[0] == usual
    assert choose_groups(facts, usual, [])[0] == usual
    assert choose_groups(facts, usual, [large])[0] == usual
    found, why = choose_groups(facts, usual, [near, fast, large])
    assert found == fast
    assert why == "4 groups are 20% faster than the default number"
