import math
import random

import pytest

from Daddy.core.confidence_intervals import mean_interval, share_interval, t_quantile


def test_a_mean_of_five_has_the_textbooks_interval():
    middle, low, high = mean_interval([1.0, 2.0, 3.0, 4.0, 5.0])
    assert middle == 3.0
    assert (low, high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=1e-3)


def test_one_value_says_nothing_of_its_error():
    assert mean_interval([7.0]) == (7.0, -math.inf, math.inf)


def test_equal_values_leave_no_doubt():
    assert mean_interval([2.0] * 4) == (2.0, 2.0, 2.0)


@pytest.mark.parametrize(
    ("hits", "low", "high"), [(0, 0.0, 0.2775), (10, 0.7225, 1.0), (5, 0.2366, 0.7634)]
)
def test_shares_of_ten_are_wilsons(hits, low, high):
    assert share_interval(hits, 10) == pytest.approx((hits / 10, low, high), abs=1e-3)


def test_the_t_point_goes_over_into_the_normals():
    points = [t_quantile(freedom) for freedom in range(1, 200)]
    assert points == sorted(points, reverse=True)
    assert points[-1] == pytest.approx(1.972, abs=1e-3)


def test_nineteen_of_twenty_intervals_hold_the_truth():
    dice = random.Random(5)
    inside = 0
    for _ in range(1000):
        _, low, high = mean_interval([dice.gauss(1.0, 2.0) for _ in range(6)])
        inside += low <= 1.0 <= high
    assert 930 <= inside <= 970
