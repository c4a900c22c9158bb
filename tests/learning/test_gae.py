import numpy as np

from Daddy.learning.gae import advantages_and_returns, explained_variance


def column(*values):
    return np.array(values, np.float32)[:, None]


def test_with_lambda_one_the_target_is_the_discounted_return():
    rewards, values = column(1, 2, 3), column(0.5, 0.5, 0.5)
    nothing = np.zeros((3, 1), bool)
    got, returns = advantages_and_returns(
        rewards, values, nothing, np.array([4.0], np.float32), 0.9, 1.0
    )
    assert np.allclose(returns[:, 0], [1 + 0.9 * (2 + 0.9 * (3 + 0.9 * 4)), 2 + 0.9 * 6.6, 6.6])
    assert np.allclose(got, returns - values)


def test_with_lambda_zero_the_advantage_is_the_one_step_surprise():
    rewards, values = column(1, 1), column(2, 3)
    got, _ = advantages_and_returns(
        rewards, values, np.zeros((2, 1), bool), np.array([5.0], np.float32), 0.5, 0.0
    )
    assert np.allclose(got[:, 0], [1 + 0.5 * 3 - 2, 1 + 0.5 * 5 - 3])


def test_nothing_flows_back_over_the_end_of_an_episode():
    rewards, values = column(0, 0, 100), column(0, 0, 0)
    dones = column(0, 1, 0).astype(bool)
    got, _ = advantages_and_returns(rewards, values, dones, np.array([7.0], np.float32), 0.99, 0.95)
    assert got[0, 0] == 0.0
    assert got[1, 0] == 0.0
    assert got[2, 0] > 100.0


def test_environments_do_not_mix():
    rewards = np.array([[0, 1], [0, 1]], np.float32)
    zeros = np.zeros((2, 2), np.float32)
    got, _ = advantages_and_returns(rewards, zeros, zeros.astype(bool), zeros[0], 0.9, 0.9)
    assert np.all(got[:, 0] == 0.0)
    assert np.all(got[:, 1] > 0.0)


def test_a_perfect_critic_explains_everything_and_a_constant_one_nothing():
    returns = np.array([1.0, 2.0, 3.0])
    assert explained_variance(returns, returns) == 1.0
    assert explained_variance(np.zeros(3), returns) == 0.0
    assert explained_variance(np.ones(3), np.ones(3)) == 0.0


def test_advantages_are_the_definition_written_out_over_any_ends():
    """The definition: sum over l of (gamma lambda)^l delta(t+l), up to the episode's end."""
    rng, gamma, lam = np.random.default_rng(3), 0.97, 0.9
    rewards, values = rng.normal(size=(2, 40, 5)).astype(np.float32)
    dones = rng.random((40, 5)) < 0.15
    last = rng.normal(size=5).astype(np.float32)
    got, returns = advantages_and_returns(rewards, values, dones, last, gamma, lam)
    after = np.concatenate([values[1:], last[None]])
    surprise = rewards + gamma * after * ~dones - values
    for env in range(5):
        for t in range(40):
            wanted, weight = 0.0, 1.0
            for ahead in range(t, 40):
                wanted += weight * surprise[ahead, env]
                weight *= gamma * lam
                if dones[ahead, env]:
                    break
            assert np.isclose(got[t, env], wanted, atol=1e-4)
    assert np.allclose(returns, got + values)
