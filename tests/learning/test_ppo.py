from dataclasses import replace

import numpy as np
import pytest
import torch

from Daddy.learning import collector as collector_module
from Daddy.learning import ppo
from Daddy.learning.learner_state import new_learner, reset_environments
from Daddy.learning.loop import estimate_advantages
from tests.learning.helpers import SETTINGS, cartpole_parts

CPU = torch.device("cpu")


def session_with(tmp_path, memory=0, **settings):
    learner = new_learner(
        cartpole_parts(tmp_path, memory=memory, settings=replace(SETTINGS, **settings))
    )
    reset_environments(learner)
    learner.collector.collect(learner.rollout, lambda: None)
    return learner


def probabilities(learner):
    rollout = learner.rollout
    batch = rollout.last_sequence(torch.device("cpu"))
    logits, values, _ = learner.parts.policy(batch.observations, batch.lstm_state, batch.starts)
    chosen = torch.softmax(logits, -1).gather(-1, batch.actions.unsqueeze(-1)).squeeze(-1)
    return chosen.detach().numpy(), values.detach().numpy()


def test_actions_with_an_advantage_become_likelier_and_the_others_rarer(tmp_path):
    learner = session_with(tmp_path, entropy=0.0)
    rollout = learner.rollout
    rollout.advantages = np.where(rollout.actions == 1, 1.0, -1.0).astype(np.float32)
    rollout.returns = rollout.values.copy()
    before, _ = probabilities(learner)
    for _ in range(3):
        learner.updater.update(rollout, 3e-3)
    after, _ = probabilities(learner)
    chosen = rollout.actions[-16:] == 1
    assert (after[chosen] > before[chosen]).mean() > 0.95
    assert (after[~chosen] < before[~chosen]).mean() > 0.95


def test_values_move_to_their_targets(tmp_path):
    learner = session_with(tmp_path)
    rollout = learner.rollout
    rollout.advantages = np.zeros_like(rollout.values)
    rollout.returns = np.full_like(rollout.values, 2.0)
    for _ in range(20):
        learner.updater.update(rollout, 3e-3)
    _, values = probabilities(learner)
    assert np.abs(values - 2.0).mean() < 0.3


def test_the_ratio_hardly_leaves_the_clip_however_long_one_rollout_is_used(tmp_path):
    """Gradients vanish beyond the clip, so probabilities stop there instead of going to 0 or 1."""
    ratios = {}
    for clip in (0.05, 1e9):
        learner = session_with(tmp_path, clip=clip, entropy=0.0)
        rollout = learner.rollout
        rollout.advantages = np.where(rollout.actions == 1, 1.0, -1.0).astype(np.float32)
        rollout.returns = rollout.values.copy()
        before, _ = probabilities(learner)
        for _ in range(10):
            learner.updater.update(rollout, 3e-3)
        after, _ = probabilities(learner)
        ratios[clip] = np.abs(after / before - 1.0).mean()
    assert ratios[0.05] < 0.3
    assert ratios[1e9] > 0.5


def test_a_poisoned_rollout_changes_nothing_and_is_counted(tmp_path):
    learner = session_with(tmp_path)
    learner.rollout.advantages[:] = np.nan
    before = learner.weights()
    found = learner.updater.update(learner.rollout, 1e-3)
    assert all(torch.equal(value, before[name]) for name, value in learner.weights().items())
    assert found["skipped_minibatches"] == 16
    assert learner.updater.optimizer.steps == 0


def test_the_first_minibatch_of_an_update_has_a_ratio_of_one(tmp_path):
    learner = session_with(tmp_path, update_epochs=1, batch_size=8 * 32)
    found = learner.updater.update(learner.rollout, 1e-3)
    assert abs(found["approx_kl"]) < 1e-6
    assert found["clip_fraction"] == 0.0


def moved_batch(tmp_path, **settings):
    """Return a minibatch with LSTM states and resets, and a policy updated since."""
    learner = session_with(tmp_path, memory=8, horizon=64, batch_size=512, **settings)
    estimate_advantages(learner)
    with torch.no_grad():
        for parameter in learner.parts.policy.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    batch = next(learner.rollout.minibatches(torch.Generator().manual_seed(0), CPU))
    assert batch.starts[1:].any(), "an episode should begin inside some sequence"
    return learner, batch


@pytest.mark.parametrize("value_clip", [0.0, 0.1])
def test_the_loss_is_the_textbooks_sample_by_sample(tmp_path, value_clip):
    """Return the loss and its parts, computed step by step in numpy."""
    learner, batch = moved_batch(
        tmp_path, clip=0.1, value_clip=value_clip, value_coefficient=0.53, entropy=0.01
    )
    loss, told = learner.updater._loss(batch)
    logits, values = one_by_one(learner.parts.policy, batch)
    log_probs = logits - np.log(np.exp(logits).sum(-1, keepdims=True))
    chosen = np.take_along_axis(log_probs, batch.actions.numpy()[..., None], -1)[..., 0]
    ratio = np.exp(chosen - batch.log_probs.numpy())
    raw = batch.advantages.numpy()
    advantage = (raw - raw.mean()) / raw.std()
    policy_loss = -np.minimum(ratio * advantage, np.clip(ratio, 0.9, 1.1) * advantage).mean()
    old, target = batch.values.numpy(), batch.returns.numpy()
    near = old + np.clip(values - old, -value_clip, value_clip) if value_clip else values
    value_loss = 0.5 * np.maximum((values - target) ** 2, (near - target) ** 2).mean()
    entropy = -(np.exp(log_probs) * log_probs).sum(-1).mean()
    divergence = (ratio - 1 - np.log(ratio)).mean()
    clipped = (np.abs(ratio - 1) > 0.1).mean()
    assert clipped > 0.05, "ratios should have moved for this test to mean anything"
    wanted = [policy_loss, value_loss, entropy, divergence, clipped]
    assert np.allclose(told.numpy(), wanted, atol=1e-4)
    total = policy_loss + 0.53 * value_loss - 0.01 * entropy
    assert float(loss.detach()) == pytest.approx(total, abs=1e-4)


def one_by_one(policy, batch):
    """Return logits and values, with each sequence stepped alone from its stored state."""
    steps, width = batch.starts.shape
    logits, values = np.zeros((steps, width, 2)), np.zeros((steps, width))
    for b in range(width):
        state = batch.lstm_state[:, b : b + 1]
        for t in range(steps):
            if batch.starts[t, b]:
                state = torch.zeros_like(state)
            seen = {key: value[t, b : b + 1] for key, value in batch.observations.items()}
            with torch.no_grad():
                step_logits, value, state = policy.step(seen, state, torch.tensor([False]))
            logits[t, b], values[t, b] = step_logits[0].numpy(), float(value)
    return logits, values


def test_a_value_that_has_moved_beyond_the_clip_is_pushed_no_further(tmp_path):
    learner, batch = moved_batch(tmp_path, value_clip=0.1)
    values = batch.values + torch.tensor(0.5)  # far up already, and the target is further up
    values.requires_grad_()
    far = replace(batch, returns=batch.values + 2.0)
    learner.updater._value_loss(values, far).backward()
    assert not values.grad.any()
    back = replace(batch, returns=batch.values - 2.0)  # but it may always come back
    learner.updater._value_loss(values, back).backward()
    assert values.grad.all()


def test_the_size_of_advantages_does_not_matter_only_their_order(tmp_path):
    learner, batch = moved_batch(tmp_path)
    loss, _ = learner.updater._loss(batch)
    other, _ = learner.updater._loss(replace(batch, advantages=1000.0 * batch.advantages + 7.0))
    assert torch.allclose(loss, other, atol=1e-4)


def test_the_entropy_bonus_keeps_choices_open(tmp_path):
    found = {}
    for entropy in (0.0, 1.0):
        learner = session_with(tmp_path, entropy=entropy, value_coefficient=0.0)
        rollout = learner.rollout
        rollout.advantages = np.where(rollout.actions == 1, 1.0, -1.0).astype(np.float32)
        for _ in range(8):
            told = learner.updater.update(rollout, 3e-3)
        found[entropy] = told["entropy"]
    assert found[1.0] > found[0.0] + 0.05


def test_a_learner_in_bfloat16_keeps_float32_weights_and_judges_in_float32(tmp_path, monkeypatch):
    """Imitate CUDA's mixed precision by the CPU's autocast to bfloat16."""

    def mixed(device):
        return torch.autocast("cpu", torch.bfloat16)

    monkeypatch.setattr(ppo, "mixed_precision", mixed)
    monkeypatch.setattr(collector_module, "mixed_precision", mixed)
    learner = session_with(tmp_path, memory=8)
    before = learner.weights()
    estimate_advantages(learner)
    told = learner.updater.update(learner.rollout, 1e-3)
    assert told["skipped_minibatches"] == 0
    assert abs(told["approx_kl"]) < 0.05
    after = learner.weights()
    assert {value.dtype for value in after.values()} == {torch.float32}
    assert all(not torch.equal(value, before[name]) for name, value in after.items())
    coarse = torch.from_numpy(learner.rollout.values).bfloat16().float().numpy()
    assert not np.array_equal(learner.rollout.values, coarse)
