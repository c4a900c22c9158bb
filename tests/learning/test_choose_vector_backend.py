"""Tests of the choice of a backend by a measurement, made once for each kind of machine."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.clock import SystemClock
from Daddy.learning import choose_vector_backend
from Daddy.learning.cartpole import CartPole
from Daddy.learning.choose_vector_backend import choose_backend, pick_backend, random_rate
from Daddy.learning.make_vector import Backend, make_vector
from tests.learning.toys import Slow


def test_the_usual_one_stays_unless_another_is_clearly_faster() -> None:
    assert pick_backend({"pufferlib": 1000.0, "threads": 1240.0}) == "pufferlib"
    assert pick_backend({"pufferlib": 1000.0, "threads": 1260.0}) == "threads"
    with pytest.raises(ValueError, match="nothing was measured"):
        pick_backend({})


def test_only_what_uses_all_cores_is_tried_and_said(tmp_path: Path) -> None:
    chosen = choose_backend(CartPole, 8, tmp_path / "found.json", SystemClock())
    assert chosen.backend in chosen.rates
    assert chosen.rates.keys() <= {"pufferlib", "threads"}
    assert f"{chosen.backend} (measured" in chosen.reason


def test_what_was_measured_for_this_shape_of_machine_is_not_measured_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    record = tmp_path / "found.json"
    first = choose_backend(CartPole, 8, record, SystemClock())
    kept = read_json(record)
    assert choose_backend(CartPole, 8, record, SystemClock()) == first
    assert read_json(record) == kept
    write_json(record, {**kept, "rates": dict.fromkeys(kept["rates"], 1.0) | {"threads": 9.0}})
    assert choose_backend(CartPole, 8, record, SystemClock()).backend == "threads"
    monkeypatch.setattr(choose_vector_backend, "usable_cores", lambda: 1000)
    assert choose_backend(CartPole, 8, record, SystemClock()).rates.keys() == first.rates.keys()
    assert read_json(record)["cores"] == 1000


@pytest.mark.parametrize("damage", ["", "{", '{"rates": null}', '{"rates": {"threads": "x"}}'])
def test_a_damaged_record_is_measured_anew(tmp_path: Path, damage: str) -> None:
    record = tmp_path / "found.json"
    choose_backend(CartPole, 8, record, SystemClock())
    kept = read_json(record)
    record.write_text(
        damage if not damage.startswith('{"') else json.dumps(kept | json.loads(damage))
    )
    assert choose_backend(CartPole, 8, record, SystemClock()).rates.keys() == kept["rates"].keys()
    assert read_json(record).keys() == kept.keys()


def test_a_record_that_cannot_be_written_is_not_missed(tmp_path: Path) -> None:
    nowhere = tmp_path / "a file" / "found.json"
    nowhere.parent.write_text("")
    assert choose_backend(CartPole, 8, nowhere, SystemClock()).rates


@pytest.mark.parametrize("backend", ["pufferlib", "threads", "serial"])
def test_every_backend_plays_in_the_same_groups(backend: Backend) -> None:
    with closing(make_vector(CartPole, 12, backend, groups=3)) as vector:
        assert vector.groups == (slice(0, 4), slice(4, 8), slice(8, 12))


def test_the_rate_counts_every_environment_of_every_group() -> None:
    vector = make_vector(Slow, 6, "threads", cores=2, groups=3)
    vector.reset(range(6))
    rate = random_rate(vector, 0.2, SystemClock())
    steps = float(vector.telemetry()[:, 0].sum())
    vector.close()
    assert steps >= 6
    assert 0.2 < steps / rate < 2.0
