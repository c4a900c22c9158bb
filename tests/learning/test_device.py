import pytest
import torch

from Daddy.core.errors import ConfigError
from Daddy.core.settings import TrainingSettings
from Daddy.learning.device import mixed_precision, resolve_device
from Daddy.learning.hyperparameters import PpoSettings, resolve_settings


def test_cuda_without_a_gpu_is_an_error_and_never_a_silent_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    with pytest.raises(ConfigError, match="no GPU") as caught:
        resolve_device("cuda")
    assert caught.value.exit_code == 3
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch.version, "hip", None)
    with pytest.raises(ConfigError, match="CPU build") as caught:
        resolve_device("cuda")
    assert "DADDY_TORCH=cuda ./scripts/install" in caught.value.fix


def test_mps_where_there_is_none_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="mps"):
        resolve_device("mps")


def test_auto_takes_a_cpu_where_there_is_nothing_else(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert resolve_device("auto") == torch.device("cpu")


def test_a_cpu_learns_in_full_precision():
    with mixed_precision(torch.device("cpu")):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_the_profile_follows_the_device_unless_it_is_named():
    assert resolve_settings(TrainingSettings(), "cpu").horizon == 64
    assert resolve_settings(TrainingSettings(), "cuda").horizon == 512
    assert resolve_settings(TrainingSettings(profile="cpu"), "cuda").horizon == 64
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
        ({"horizon": 1, "num_envs": 1, "batch_size": 1}, "batch_size 1 gives minibatches"),
        ({"batch_size": 513}, "batch_size 513 is more than a rollout of 512 steps"),
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
