import pytest
import torch

from Daddy.core.errors import ConfigError
from Daddy.learning.device import mixed_precision, resolve_device


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
