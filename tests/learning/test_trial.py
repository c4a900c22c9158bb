"""A backend is chosen by what was measured here, once for each shape of machine."""

from __future__ import annotations

from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.files import read_json, write_json
from Daddy.learning import trial
from Daddy.learning.cartpole import CartPole
from Daddy.learning.trial import choose, chosen_backend, random_rate
from Daddy.learning.vector import make_vector
from tests.learning.toys import Slow


def test_the_usual_one_stays_unless_another_is_clearly_faster() -> None:
    assert choose({"pufferlib": 1000.0, "threads": 1090.0, "serial": 400.0}) == "pufferlib"
    assert choose({"pufferlib": 1000.0, "threads": 1110.0}) == "threads"
    with pytest.raises(ValueError, match="nothing was measured"):
        choose({})


def test_an_environment_that_costs_nothing_is_best_played_in_turn(tmp_path: Path) -> None:
    """A CartPole takes microseconds; every word between processes takes more."""
    chosen = chosen_backend(CartPole, 8, 2, tmp_path / "found.json", SystemClock())
    assert chosen.backend == "serial"
    assert chosen.rates["serial"] == max(chosen.rates.values())
    assert "serial (measured" in chosen.reason


def test_what_was_measured_for_this_shape_of_machine_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "found.json"
    first = chosen_backend(CartPole, 8, 2, record, SystemClock())
    kept = read_json(record)
    assert chosen_backend(CartPole, 8, 2, record, SystemClock()) == first
    assert read_json(record) == kept
    write_json(record, {**kept, "rates": dict.fromkeys(kept["rates"], 1.0) | {"threads": 9.0}})
    assert chosen_backend(CartPole, 8, 2, record, SystemClock()).backend == "threads"
    monkeypatch.setattr(trial, "usable_cores", lambda: 1000)
    assert chosen_backend(CartPole, 8, 2, record, SystemClock()).rates.keys() == first.rates.keys()
    assert read_json(record)["cores"] == 1000


def test_the_rate_counts_every_environment_of_every_group() -> None:
    vector = make_vector(Slow, 6, "threads", cores=2, groups=3)
    vector.reset(range(6))
    rate = random_rate(vector, 0.2, SystemClock())
    steps = float(vector.telemetry()[:, 0].sum())
    vector.close()
    assert steps >= 6
    assert 0.2 < steps / rate < 2.0
