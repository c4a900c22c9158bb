import json

import numpy as np
import pytest

from Daddy.learning.reward_normalisation import RewardNormaliser

NONE = np.zeros(4, bool)


def test_the_scale_is_the_deviation_of_the_discounted_returns():
    generator = np.random.default_rng(1)
    normaliser = RewardNormaliser(4, gamma=0.5)
    returns, seen = np.zeros(4), []
    for _ in range(200):
        rewards = generator.normal(3.0, 2.0, 4)
        returns = returns * 0.5 + rewards
        seen.append(returns.copy())
        normaliser(rewards, NONE)
    assert np.isclose(normaliser.deviation, np.std(seen), rtol=1e-6)


def test_rewards_a_thousand_times_larger_come_out_alike():
    generator = np.random.default_rng(2)
    small, large = RewardNormaliser(4, 0.9), RewardNormaliser(4, 0.9)
    for _ in range(50):
        rewards = generator.normal(0.0, 1.0, 4)
        a, b = small(rewards, NONE), large(1000 * rewards, NONE)
    assert np.allclose(a, b, rtol=1e-3)


def test_an_extreme_reward_is_clipped():
    normaliser = RewardNormaliser(1, 0.9)
    for _ in range(200):
        normaliser(np.array([1.0]), np.array([True]))
    assert normaliser(np.array([1e9]), np.array([False]))[0] <= 10.0


def test_the_return_starts_anew_after_an_episode():
    normaliser = RewardNormaliser(1, 1.0)
    normaliser(np.array([5.0]), np.array([True]))
    assert normaliser.state_dict()["returns"] == [0.0]


def test_a_normaliser_that_went_through_json_goes_on_bit_for_bit():
    generator = np.random.default_rng(3)
    first, second = RewardNormaliser(4, 0.9), RewardNormaliser(4, 0.9)
    for _ in range(20):
        first(generator.normal(size=4), NONE)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    rewards = generator.normal(size=4)
    assert np.array_equal(first(rewards, NONE), second(rewards, NONE))
    assert first.state_dict() == second.state_dict()


def test_another_number_of_environments_keeps_the_scale():
    old, new = RewardNormaliser(4, 0.9), RewardNormaliser(2, 0.9)
    for value in (1.0, 2.0, 5.0):
        old(np.full(4, value), NONE)
    new.load_state_dict(old.state_dict())
    assert new.deviation == old.deviation
    assert new.state_dict()["returns"] == [0.0, 0.0]


def test_where_it_is_not_wanted_rewards_pass_as_they_are():
    normaliser = RewardNormaliser(2, 0.9, enabled=False)
    for value in (1.0, 50.0, -3.0):
        got = normaliser(np.array([value, 0.25]), np.zeros(2, bool))
        assert got.dtype == np.float32
        assert got.tolist() == [value, 0.25]


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_a_reward_that_is_not_finite_is_refused_and_leaves_no_trace(value):
    normaliser = RewardNormaliser(4, 0.9)
    normaliser(np.array([1.0, 2.0, 3.0, 4.0]), NONE)
    before = normaliser.state_dict()
    with pytest.raises(ValueError, match=rf"\{{2: {value}\}}"):
        normaliser(np.array([1.0, 2.0, value, 4.0]), NONE)
    assert normaliser.state_dict() == before
