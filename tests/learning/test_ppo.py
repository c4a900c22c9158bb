from dataclasses import replace

import numpy as np
import torch

from Daddy.learning.session import new_session, reset_environments
from tests.learning.helpers import SETTINGS, cartpole_parts


def session_with(tmp_path, **settings):
    session = new_session(cartpole_parts(tmp_path, settings=replace(SETTINGS, **settings)))
    reset_environments(session)
    session.collector.collect(session.rollout, lambda: None)
    return session


def probabilities(session):
    rollout = session.rollout
    batch = rollout.last_sequence(torch.device("cpu"))
    logits, values, _ = session.parts.policy(batch.observations, batch.state, batch.starts)
    chosen = torch.softmax(logits, -1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
    return chosen.detach().numpy(), values.detach().numpy()


def test_actions_with_an_advantage_become_likelier_and_the_others_rarer(tmp_path):
    session = session_with(tmp_path, entropy=0.0)
    rollout = session.rollout
    rollout.advantages = np.where(rollout.actions == 1, 1.0, -1.0).astype(np.float32)
    rollout.targets = rollout.values.copy()
    before, _ = probabilities(session)
    for _ in range(3):
        session.learner.update(rollout, 3e-3)
    after, _ = probabilities(session)
    chosen = rollout.actions[-16:] == 1
    assert (after[chosen] > before[chosen]).mean() > 0.95
    assert (after[~chosen] < before[~chosen]).mean() > 0.95


def test_values_move_to_their_targets(tmp_path):
    session = session_with(tmp_path)
    rollout = session.rollout
    rollout.advantages = np.zeros_like(rollout.values)
    rollout.targets = np.full_like(rollout.values, 2.0)
    for _ in range(20):
        session.learner.update(rollout, 3e-3)
    _, values = probabilities(session)
    assert np.abs(values - 2.0).mean() < 0.3


def test_the_ratio_hardly_leaves_the_clip_however_long_one_rollout_is_used(tmp_path):
    """Gradients vanish beyond the clip, so probabilities stop there instead of going to 0 or 1."""
    ratios = {}
    for clip in (0.05, 1e9):
        session = session_with(tmp_path, clip=clip, entropy=0.0)
        rollout = session.rollout
        rollout.advantages = np.where(rollout.actions == 1, 1.0, -1.0).astype(np.float32)
        rollout.targets = rollout.values.copy()
        before, _ = probabilities(session)
        for _ in range(10):
            session.learner.update(rollout, 3e-3)
        after, _ = probabilities(session)
        ratios[clip] = np.abs(after / before - 1.0).mean()
    assert ratios[0.05] < 0.3
    assert ratios[1e9] > 0.5


def test_a_poisoned_rollout_changes_nothing_and_is_counted(tmp_path):
    session = session_with(tmp_path)
    session.rollout.advantages[:] = np.nan
    before = session.weights()
    found = session.learner.update(session.rollout, 1e-3)
    assert all(torch.equal(value, before[name]) for name, value in session.weights().items())
    assert found["skipped_minibatches"] == 16
    assert session.learner.optimizer.steps == 0


def test_the_first_minibatch_of_an_update_has_a_ratio_of_one(tmp_path):
    session = session_with(tmp_path, update_epochs=1, batch_size=8 * 32)
    found = session.learner.update(session.rollout, 1e-3)
    assert abs(found["approx_kl"]) < 1e-6
    assert found["clip_fraction"] == 0.0
