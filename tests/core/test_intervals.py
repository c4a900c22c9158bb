import math
import random
from itertools import combinations_with_replacement

import pytest

from Daddy.core.intervals import of_centre, of_mean, of_share, t_point


def test_a_mean_of_five_has_the_textbooks_interval():
    middle, low, high = of_mean([1.0, 2.0, 3.0, 4.0, 5.0])
    assert middle == 3.0
    assert (low, high) == pytest.approx((3 - 1.9632, 3 + 1.9632), abs=1e-3)


def test_one_value_says_nothing_of_its_error():
    assert of_mean([7.0]) == (7.0, -math.inf, math.inf)


def test_equal_values_leave_no_doubt():
    assert of_mean([2.0] * 4) == (2.0, 2.0, 2.0)


def test_a_centre_has_the_interval_of_wilcoxons_table_or_one_pair_more():
    differences = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]  # Darwin's maize
    pairs = combinations_with_replacement(differences, 2)
    means = sorted((one + other) / 2 for one, other in pairs)
    middle, low, high = of_centre(differences)
    assert middle == (means[59] + means[60]) / 2
    assert low in means[24:26]  # the table leaves out 25 on either side for n = 15 at 5 %
    assert high in means[-26:-24]


def test_a_wild_value_moves_a_mean_and_no_centre():
    calm = [0.99 + 0.001 * n for n in range(-10, 11)]
    wild = [*calm[:-1], 1.9]
    assert of_centre(calm).middle == pytest.approx(0.99)
    assert of_centre(wild).middle == pytest.approx(0.99, abs=5e-4)
    assert of_mean(wild).middle > 1.03
    assert of_centre(wild).high - of_centre(wild).low < 0.007


def test_five_values_say_nothing_of_their_centres_error():
    assert of_centre([1.0, 2.0, 3.0, 4.0, 5.0]) == (3.0, -math.inf, math.inf)


@pytest.mark.parametrize(
    ("hits", "low", "high"), [(0, 0.0, 0.2775), (10, 0.7225, 1.0), (5, 0.2366, 0.7634)]
)
def test_shares_of_ten_are_wilsons(hits, low, high):
    assert of_share(hits, 10) == pytest.approx((hits / 10, low, high), abs=1e-3)


def test_the_t_point_goes_over_into_the_normals():
    points = [t_point(freedom) for freedom in range(1, 200)]
    assert points == sorted(points, reverse=True)
    assert points[-1] == pytest.approx(1.972, abs=1e-3)


def test_nineteen_of_twenty_intervals_hold_the_truth():
    dice = random.Random(5)
    inside = 0
    for _ in range(1000):
        _, low, high = of_mean([dice.gauss(1.0, 2.0) for _ in range(6)])
        inside += low <= 1.0 <= high
    assert 930 <= inside <= 970


def test_nineteen_of_twenty_intervals_hold_the_centre_of_what_has_wild_tails():
    dice = random.Random(6)
    inside = 0
    for _ in range(1000):
        values = [dice.gauss(1.0, 0.01) + dice.choice((0, 0, 0, -1, 1)) for _ in range(20)]
        _, low, high = of_centre(values)
        inside += low <= 1.0 <= high
    assert 930 <= inside <= 985
