"""Hyperparameters follow the profile and the device; those that cannot learn are refused."""

import pytest

from Daddy.core.errors import ConfigError
from Daddy.core.hyperparameters import (
    PpoSettings,
    SequencePlan,
    plan_sequences,
    resolve_settings,
)
from Daddy.core.settings import TrainingSettings


def test_the_profile_follows_the_device_unless_it_is_named():
    assert resolve_settings(TrainingSettings(), "cpu").horizon == 256
    assert resolve_settings(TrainingSettings(num_envs=64), "cpu").horizon == 64
    assert resolve_settings(TrainingSettings(), "cuda").horizon == 512
    assert resolve_settings(TrainingSettings(profile="cpu"), "cuda").horizon == 256
    assert resolve_settings(TrainingSettings(num_envs=512), "cuda").steps_per_iteration == 65_536


def test_the_gpu_profile_is_the_tuned_recipe_and_four_of_it_collect_the_peers_batch():
    """Only settings that a person gave besides the profile differ from it."""
    settings = resolve_settings(TrainingSettings(profile="gpu", entropy=0.02), "cuda")
    assert settings == PpoSettings(
        num_envs=96,
        horizon=176,
        batch_size=2048,
        update_epochs=3,
        learning_rate=2e-4,
        clip=0.1,
        entropy=0.02,
        value_coefficient=0.53,
        gamma=0.998,
        gae_lambda=0.95,
        max_grad_norm=0.5,
        learning_rate_schedule="constant",
        bptt=16,
        value_clip=0.1,
        normalise_rewards=False,
    )
    assert 4 * settings.steps_per_iteration == pytest.approx(65_536, rel=0.05)
    assert settings.sequences.length == 16


def test_a_rollout_is_spread_over_however_many_environments_there_are():
    for num_envs, horizon in ((64, 256), (128, 128), (2000, 16)):
        training = TrainingSettings(profile="gpu", num_envs=num_envs)
        assert resolve_settings(training, "cuda").horizon == horizon


def test_a_gpus_horizon_is_a_multiple_of_the_sequences_for_any_number_of_environments():
    for num_envs in (100, 200, 300, 777, 4000):
        settings = resolve_settings(TrainingSettings(num_envs=num_envs), "cuda")
        assert settings.sequences.length == 16
        assert 64 <= settings.horizon <= 512


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"batch_size": 1}, "training.batch_size 1 gives minibatches of a single step"),
        ({"horizon": 3, "num_envs": 1, "batch_size": 2}, "batch_size 2 gives minibatches"),
        ({"horizon": 1, "num_envs": 1}, "batch_size 64 gives minibatches of a single step"),
        ({"batch_size": 2049}, "batch_size 2049 is more than a rollout of 2048 steps"),
        ({"learning_rate": 10.0}, "training.learning_rate 10 is above 1"),
    ],
)
def test_settings_with_which_no_policy_can_learn_are_refused(given, says):
    with pytest.raises(ConfigError, match=says) as refused:
        resolve_settings(TrainingSettings(**given), "cpu")
    assert "set training." in refused.value.fix


@pytest.mark.parametrize(
    "given",
    [
        {"batch_size": 2},
        {"batch_size": 100},  # minibatches are equal within one sequence
        {"batch_size": 512},
        {"horizon": 1, "num_envs": 2, "batch_size": 2},
        {"learning_rate": 1.0},
    ],
)
def test_odd_settings_that_can_learn_are_not_refused(given):
    assert resolve_settings(TrainingSettings(**given), "cpu")


def test_what_is_configured_wins_over_the_profile():
    settings = resolve_settings(
        TrainingSettings(horizon=10, learning_rate=0.5, batch_size=3), "cuda"
    )
    assert (settings.horizon, settings.learning_rate, settings.batch_size) == (10, 0.5, 3)


def test_the_demo_has_four_minibatches_of_four_sequences():
    assert plan_sequences(horizon=64, num_envs=4, batch_size=64, bptt=16) == SequencePlan(16, 4)


@pytest.mark.parametrize("horizon", [1, 7, 20, 64, 96, 512])
@pytest.mark.parametrize("num_envs", [1, 3, 8])
@pytest.mark.parametrize("batch_size", [1, 5, 64, 2048])
def test_every_step_is_in_exactly_one_sequence_and_no_batch_is_too_large(
    horizon, num_envs, batch_size
):
    found = plan_sequences(horizon, num_envs, batch_size, bptt=16)
    assert horizon % found.length == 0
    assert found.length <= 16
    assert found.length * found.per_minibatch <= batch_size
    assert found.per_minibatch >= 1
    sequences = num_envs * (horizon // found.length)
    assert (found.minibatches(sequences) - 1) * found.per_minibatch < sequences
    assert found.minibatches(sequences) * found.per_minibatch >= sequences
