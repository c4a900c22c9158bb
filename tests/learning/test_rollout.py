from dataclasses import replace

import numpy as np
import torch

from Daddy.learning.rollout import sample
from Daddy.learning.session import new_session, reset_environments
from tests.learning.helpers import SETTINGS, cartpole_parts

CPU = torch.device("cpu")


def played(tmp_path, memory=8, **settings):
    parts = cartpole_parts(
        tmp_path, memory=memory, settings=replace(SETTINGS, num_envs=3, **settings)
    )
    session = new_session(parts)
    reset_environments(session)
    assert session.collector.collect(session.rollout, lambda: None)
    return session


def test_every_step_is_in_exactly_one_minibatch(tmp_path):
    session = played(tmp_path, horizon=32, batch_size=32)
    rollout = session.rollout
    rollout.targets = np.arange(rollout.targets.size, dtype=np.float32).reshape(32, 3)
    batches = list(rollout.minibatches(torch.Generator().manual_seed(0), CPU))
    seen = torch.cat([batch.targets.flatten() for batch in batches])
    assert sorted(seen.tolist()) == list(range(96))
    assert len(batches) == 3


def test_a_minibatch_repeats_what_was_played(tmp_path):
    """With unchanged weights, the stored log-probabilities and values come out again."""
    session = played(tmp_path, horizon=64)
    policy, rollout = session.parts.policy, session.rollout
    assert rollout.starts[1:].any(), "an episode should have ended for this test to mean anything"
    for batch in rollout.minibatches(torch.Generator().manual_seed(0), CPU):
        logits, values, _ = policy(batch.observations, batch.state, batch.starts)
        chosen = torch.log_softmax(logits, -1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
        assert torch.allclose(chosen, batch.log_probs, atol=1e-5)
    whole = rollout.last_sequence(CPU)
    _, values, state = policy(whole.observations, whole.state, whole.starts)
    assert np.allclose(values.detach().numpy(), rollout.values[-16:], atol=1e-5)
    assert torch.allclose(state, session.collector.state, atol=1e-5)


def test_starts_follow_ends(tmp_path):
    rollout = played(tmp_path, horizon=64).rollout
    assert rollout.starts[0].all()
    assert np.array_equal(rollout.starts[1:], rollout.dones[:-1])
    assert len(rollout.episodes) == rollout.dones.sum()


def test_a_rollout_that_is_interrupted_says_so(tmp_path):
    session = played(tmp_path)
    looks = iter([None, "asked to"])
    session = played(tmp_path, horizon=64)
    assert session.collector.collect(session.rollout, lambda: next(looks, "asked to")) is False


def test_a_cut_off_episode_keeps_the_critics_word_and_a_lost_one_does_not(tmp_path):
    parts = cartpole_parts(tmp_path, settings=replace(SETTINGS, num_envs=2))
    session = new_session(parts)
    reset_environments(session)
    session.rollout.values[0] = [3.0, 3.0]
    transition = parts.vector.step(np.array([0, 1]))
    ends = replace(
        transition,
        rewards=np.zeros(2, np.float32),
        terminated=np.array([True, False]),
        truncated=np.array([False, True]),
    )
    session.collector._record(session.rollout, 0, ends)
    assert np.allclose(session.rollout.rewards[0], [0.0, 0.99 * 3.0])
    assert session.rollout.dones[0].all()


def test_actions_are_drawn_with_the_policys_probabilities():
    logits = torch.log(torch.tensor([[0.1, 0.2, 0.7]])).expand(20_000, 3)
    actions, log_probs = sample(logits, torch.Generator().manual_seed(1))
    shares = np.bincount(actions, minlength=3) / 20_000
    assert np.allclose(shares, [0.1, 0.2, 0.7], atol=0.015)
    assert np.allclose(np.exp(log_probs), np.array([0.1, 0.2, 0.7])[actions], atol=1e-5)
