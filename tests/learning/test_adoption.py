"""Tests of an adoption: the KL divergence is measured, the critic fitted where that helps."""

from dataclasses import replace

import pytest
import torch

from Daddy.core.shared_types import Adoption
from Daddy.learning import ppo
from Daddy.learning.cartpole import CartPole
from Daddy.learning.interfaces import NoExchange
from Daddy.learning.loop import (
    adopt_newer,
    collect_rollout,
    estimate_advantages,
    start_learner,
    update_policy,
)
from Daddy.learning.policy import make_policy
from tests.learning.helpers import Notebook, cartpole_parts


class Jumps(NoExchange):
    """Offers a version at every check, whose actor differs by `by`."""

    def __init__(self, by):
        self.by, self.version, self.offered, self.refused = by, 0, None, False

    def adopt(self, weights, *_):
        self.version += 1
        moved = {name: value.clone() for name, value in weights.items()}
        moved["actor.weight"][0] += self.by
        self.offered = moved
        return Adoption(self.version, moved, "newer", self.refused)


def whole_rollout(learner):
    return learner.rollout.spread_sample(1 << 20, learner.parts.device)


def played(path, by, **options):
    """Return a learner after one update, whose next check for a version is due."""
    learner = start_learner(cartpole_parts(path, exchange=Jumps(by), **options))
    assert collect_rollout(learner)
    estimate_advantages(learner)
    update_policy(learner)
    learner.last_ran["adopt"] = float("-inf")
    return learner


@torch.no_grad()
def judged(policy, batch):
    return policy(batch.observations, batch.lstm_state, batch.starts)[1]


def test_the_divergence_is_that_of_the_two_distributions():
    p, q = torch.tensor([[0.5, 0.5]]), torch.tensor([[0.9, 0.1]])
    by_hand = 0.5 * (torch.log(torch.tensor(0.5 / 0.9)) + torch.log(torch.tensor(0.5 / 0.1)))
    assert ppo.kl_divergence(p.log(), q.log()) == pytest.approx(float(by_hand))


@pytest.mark.parametrize("memory", [0, 16])
def test_a_newer_version_is_taken_whole_and_the_jump_is_told(tmp_path, memory):
    learner = played(tmp_path, 3.0, memory=memory)
    own = learner.weights()
    batch = learner.rollout.last_sequence(learner.parts.device)
    before = ppo.policy_log_probs(learner.parts.policy, own, batch)
    adopt_newer(learner)
    offered, taken = learner.parts.exchange.offered, learner.weights()
    assert all(value.equal(offered[name]) for name, value in taken.items() if "critic" not in name)
    with torch.inference_mode():
        logits, *_ = learner.parts.policy(batch.observations, batch.lstm_state, batch.starts)
    measured = ppo.kl_divergence(before, torch.log_softmax(logits, -1))
    assert measured == pytest.approx(learner.metrics["adoption_kl"], rel=1e-3)


def test_after_a_refusal_the_version_is_taken_as_it_is(tmp_path):
    """Otherwise the next contribution would be a fit to data of the refused weights."""
    learner = played(tmp_path, 3.0)
    learner.parts.exchange.refused = True
    adopt_newer(learner)
    offered = learner.parts.exchange.offered
    assert all(torch.equal(value, offered[name]) for name, value in learner.weights().items())


def test_an_actor_takes_a_version_as_it_is(tmp_path):
    learner = played(tmp_path, 3.0)
    adopt_newer(learner, learns=False)
    offered = learner.parts.exchange.offered
    assert all(torch.equal(value, offered[name]) for name, value in learner.weights().items())
    assert "adoption_kl" not in learner.metrics


def test_a_critic_is_fitted_to_what_was_returned_where_that_helps(tmp_path):
    learner = played(tmp_path, 0.0, memory=16)
    policy, batch = learner.parts.policy, whole_rollout(learner)
    noise = torch.randn(batch.returns.shape, generator=torch.Generator().manual_seed(1))
    batch.returns.copy_(judged(policy, batch) + 0.1 * noise)
    before = {name: value.clone() for name, value in policy.critic.state_dict().items()}
    assert not ppo.fit_critic_if_better(policy, batch), "only noise is left to be learnt"
    now = policy.critic.state_dict()
    assert all(torch.equal(now[name], value) for name, value in before.items())
    with torch.no_grad():
        policy.critic.weight += 0.5
    bad = (judged(policy, batch) - batch.returns).square().mean()
    assert ppo.fit_critic_if_better(policy, batch)
    good = (judged(policy, batch) - batch.returns).square().mean()
    assert good < 0.5 * bad


def test_a_critic_that_errs_a_little_is_left_to_what_it_learns_itself(tmp_path):
    learner = played(tmp_path, 0.0, memory=16)
    policy, batch = learner.parts.policy, whole_rollout(learner)
    noise = torch.randn(batch.returns.shape, generator=torch.Generator().manual_seed(1))
    batch.returns.copy_(judged(policy, batch) + 0.1 * noise)
    least = float((judged(policy, batch) - batch.returns).square().mean())
    with torch.no_grad():
        policy.critic.bias += 0.04
    small = float((judged(policy, batch) - batch.returns).square().mean())
    assert 1.1 * least < small < least / ppo.MAX_ERROR_LEFT
    assert not ppo.fit_critic_if_better(policy, batch)


def test_one_sequence_says_nothing_about_another(tmp_path):
    learner = played(tmp_path, 0.0)
    whole = learner.rollout.spread_sample(0, learner.parts.device)
    assert whole.returns.shape[1] == 2
    single = replace(whole, returns=whole.returns[:, :1] + 9.0, starts=whole.starts[:, :1],
                  lstm_state=whole.lstm_state[:, :1],
                  observations={k: v[:, :1] for k, v in whole.observations.items()})  # fmt: skip
    assert not ppo.fit_critic_if_better(learner.parts.policy, single)


def test_the_fit_goes_half_of_the_way_to_the_layer_that_made_the_returns():
    env = CartPole()
    policy = make_policy(env.observation_space, 2, 8, 0)
    features = torch.randn(512, 8, generator=torch.Generator().manual_seed(1))
    truth = torch.linspace(-1, 1, 8)
    before = policy.critic.weight[0].clone()
    ppo.fit_critic(policy, features, features @ truth + 0.5)
    assert torch.allclose(policy.critic.weight[0], (before + truth) / 2, atol=0.06)
    for _ in range(12):
        ppo.fit_critic(policy, features, features @ truth + 0.5)
    assert torch.allclose(policy.critic.weight[0], truth, atol=0.01)
    assert policy.critic.bias.item() == pytest.approx(0.5, abs=0.01)


def test_the_jump_is_written_down(tmp_path):
    notebook = Notebook()
    learner = played(tmp_path, 3.0, events=notebook)
    adopt_newer(learner)
    _, told = notebook.states("adopted")[-1]
    assert told["kl"] == pytest.approx(learner.metrics["adoption_kl"], abs=1e-6)


def test_a_divergence_that_is_no_number_is_not_written_and_ends_nothing(tmp_path):
    notebook = Notebook()
    learner = played(tmp_path, float("nan"), events=notebook)
    adopt_newer(learner)
    _, told = notebook.states("adopted")[-1]
    assert "kl" not in told


def test_a_fit_that_is_no_number_leaves_the_critic_as_it_was(tmp_path):
    learner = played(tmp_path, 0.0)
    policy = learner.parts.policy
    before = policy.critic.weight.detach().clone()
    ppo.fit_critic(policy, torch.full((8, 64), float("nan")), torch.zeros(8))
    assert torch.equal(policy.critic.weight, before)
