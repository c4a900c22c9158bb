"""The bench of the network forms, on a small policy: its figures are of real files and rsync."""

import torch

from scripts.benches import _wire
from tests.components import program
from tests.weights.helpers import perturbed

STATE = {"w": torch.randn(200, 300, generator=torch.Generator().manual_seed(1)) * 0.05}
RAW = 4 * 200 * 300


def test_each_form_is_smaller_than_the_one_before_and_exact():
    after = perturbed(STATE, 2, 1e-6)
    whole = _wire._keyframe(STATE, RAW, 1)
    step = _wire._delta(STATE, after, RAW, 1000.0, 1)
    assert whole["exact"]
    assert step["exact"]
    assert step["bytes"] < whole["bytes"] < whole["bfloat16_bytes"]
    assert step["of_rsync"] == step["bytes"] / 1000.0
    contribution = _wire._int8(STATE, after, RAW, 1000.0, 1)
    assert contribution["bytes"] < RAW / 4
    assert 0 < contribution["error_of_delta"] < 0.012


def test_rsync_is_asked_for_its_delta_algorithm_and_finds_what_matches(tmp_path):
    program("rsync", "rsync")
    for write in (_wire._write_safetensors, _wire._write_pt):
        same = _wire._rsync(tmp_path, write.__name__, write, STATE, STATE)
        other = _wire._rsync(tmp_path, write.__name__, write, STATE, perturbed(STATE, 2, 1e-6))
        assert same["matched"] >= RAW
        assert same["bytes"] < RAW / 10
        assert other["bytes"] > RAW / 2
