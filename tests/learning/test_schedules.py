import pytest

from Daddy.learning.schedules import Cost, affordable, learning_rate


def test_a_linear_rate_falls_to_a_tenth_and_stays_there():
    assert learning_rate(1.0, "linear", 0, 100) == 1.0
    assert learning_rate(1.0, "linear", 50, 100) == pytest.approx(0.55)
    assert learning_rate(1.0, "linear", 1000, 100) == pytest.approx(0.1)


def test_an_unlimited_run_has_a_constant_rate():
    assert learning_rate(0.5, "linear", 10**9, 0) == 0.5
    assert learning_rate(0.5, "constant", 90, 100) == 0.5


@pytest.mark.parametrize(("total", "last", "age", "since", "so"), [
    (0.0, 0.0, 0.0, float("inf"), True),  # nobody knows yet what it costs
    (1.0, 1.0, 199.0, 199.0, False), (1.0, 1.0, 200.0, 199.0, True),  # the first is paid for too
    (5.0, 1.0, 600.0, 10.0, True), (5.0, 1.1, 600.0, 11.0, False),
    (10.0, 0.5, 36e3, 4.0, False), (10.0, 0.5, 36e3, 5.0, True),  # savings are not spent at once
])  # fmt: skip
def test_what_is_dear_stays_within_its_share(total, last, age, since, so):
    assert affordable(Cost(total / 2, last / 2), age, since) is so
