"""The mean of the last versions: a pure function of the records, for who plays."""

from __future__ import annotations

import pytest
import torch

from Daddy.core.errors import ExitCode, WeightsError, run_entry
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import model
from Daddy.weights.average import average_of, mean
from Daddy.weights.porting import read_model
from Daddy.weights.store import Store
from Daddy.weights.wire.codec import decode, encode
from tests.weights.helpers import ToldClock, begin, close, make_state


@pytest.fixture
def store(tmp_path):
    clock = ToldClock()
    peer = begin(tmp_path / "run" / "shared_weights", "slot-0", clock)
    for seed in range(10):
        clock.pass_by(10)
        peer.learn(seed)
        peer.publish()
        peer.adopt()
    return Store(SharedPaths(tmp_path / "run" / "shared_weights"))


def state(store, number):
    record = store.version(number)
    return decode(store.get_blob(record.state), record.schema)


def test_it_is_the_mean_of_the_versions_in_double_precision(store):
    found, count = average_of(store, 10, 4)
    wanted = torch.stack([state(store, n)["core.weight"].double() for n in (7, 8, 9, 10)]).mean(0)
    assert count == 4
    assert torch.allclose(found["core.weight"].double(), wanted, rtol=0, atol=1e-7)
    assert not close(found, state(store, 10), 1e-4)


def test_equal_records_give_equal_bytes_in_every_process(store):
    again = Store(store.paths)
    assert encode(average_of(store, 10, 8)[0]) == encode(average_of(again, 10, 8)[0])


def test_a_single_one_is_the_version_itself(store):
    assert encode(average_of(store, 10, 1)[0]) == store.get_blob(store.version(10).state)


def test_what_is_gone_is_left_out_and_told(store):
    store.paths.blob(store.version(8).state).unlink()
    store.paths.version(7).unlink()
    found, count = average_of(Store(store.paths), 10, 4)
    assert count == 2
    assert close(found, mean([state(store, 10), state(store, 9)]), 0)


def test_without_the_version_itself_there_is_none(store):
    store.paths.blob(store.version(10).state).unlink()
    with pytest.raises(WeightsError, match="is missing"):
        average_of(store, 10, 4)


def test_counters_take_the_largest():
    found = mean([make_state(3), make_state(7), make_state(5)])
    assert int(found["steps"]) == 7


def test_the_export_says_of_how_many_versions_it_is(store, tmp_path):
    file = tmp_path / "mean.safetensors"
    where = str(tmp_path / "run")
    assert run_entry(model.main, ["export", str(file), where, "--average", "4"]) == ExitCode.DONE
    found = read_model(file)
    assert found.card.averaged == 4
    assert "mean of 4 versions to v10" in found.card.name
    assert close(found.state, average_of(store, 10, 4)[0], 0)
    assert "the mean of 4 versions" in file.with_suffix(".md").read_text()


def test_to_average_nothing_is_refused(tmp_path, store):
    said = ["export", str(tmp_path / "x.safetensors"), str(tmp_path / "run"), "--average", "0"]
    assert run_entry(model.main, said) == ExitCode.USAGE
