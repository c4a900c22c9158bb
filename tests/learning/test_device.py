import pytest
import torch

from Daddy.core.errors import ConfigError
from Daddy.core.settings import Training
from Daddy.learning.device import mixed_precision, resolve
from Daddy.learning.settings import resolve as resolve_settings


def test_cuda_without_a_gpu_is_an_error_and_never_a_silent_cpu(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="no GPU") as caught:
        resolve("cuda")
    assert caught.value.exit_code == 3


def test_mps_where_there_is_none_is_an_error(monkeypatch):
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(ConfigError, match="mps"):
        resolve("mps")


def test_auto_takes_a_cpu_where_there_is_nothing_else(monkeypatch):
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    assert resolve("auto") == torch.device("cpu")


def test_a_cpu_learns_in_full_precision_even_if_mixed_is_wanted():
    with mixed_precision(torch.device("cpu"), wanted=True):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == torch.float32


def test_the_profile_follows_the_device_unless_it_is_named():
    assert resolve_settings(Training(), "cpu").horizon == 64
    assert resolve_settings(Training(), "cuda").horizon == 512
    assert resolve_settings(Training(profile="cpu"), "cuda").horizon == 64
    assert resolve_settings(Training(num_envs=512), "cuda").steps_per_iteration == 65_536


def test_what_is_configured_wins_over_the_profile():
    settings = resolve_settings(Training(horizon=10, learning_rate=0.5, batch_size=3), "cuda")
    assert (settings.horizon, settings.learning_rate, settings.batch_size) == (10, 0.5, 3)
