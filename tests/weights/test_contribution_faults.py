"""Extreme contents of a box: files of any size and number, names that point elsewhere."""

import dataclasses
import os
import tempfile
from pathlib import Path

import pytest
import torch

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.encoding.tensor_layout import PLAIN
from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.merge.contributions import box_name
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster, box_with_one, rename_pair

SPARSE = 10 << 30
MEMORY = Path("/dev/shm")


@pytest.fixture
def clock():
    return ManualClock()


@pytest.mark.parametrize("ending", [".st", ".json"])
def test_a_sparse_file_of_ten_gigabytes_is_refused_without_reading_it(tmp_path, clock, ending):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, _ = box_with_one(cluster, clock)
    os.truncate(record.with_suffix(ending), SPARSE)
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["slot-0"]
    assert not record.exists()
    if ending == ".st":
        assert not laptop.receipts()[0].accepted


def test_a_record_that_claims_ten_gigabytes_is_refused(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, offer = box_with_one(cluster, clock)
    os.truncate(record.with_suffix(".st"), SPARSE)
    rename_pair(record, dataclasses.replace(offer, size=SPARSE))
    assert [merged.peer for merged in cluster.merge().inputs] == ["slot-0"]
    assert "bytes, a delta of this run has" in laptop.receipts()[0].reason


@pytest.mark.parametrize("name", ["../../x", "/etc/x", "core.weight\n", "-rf"])
def test_a_tensor_under_a_strange_name_is_no_tensor_of_this_run(tmp_path, clock, name):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, offer = box_with_one(cluster, clock)
    data = encode({name: torch.ones(16), "core.bias": torch.ones(3)})
    data += b" " * max(0, offer.size - len(data))
    changed = dataclasses.replace(offer, blob=sha256_hex(data), size=len(data), form=PLAIN)
    rename_pair(record, changed)
    (record.parent / f"{box_name(changed)}.st").write_bytes(data)
    before = set(tmp_path.parent.rglob("x"))
    assert [merged.peer for merged in cluster.merge().inputs] == ["slot-0"]
    assert "names or shapes" in laptop.receipts()[0].reason
    assert set(tmp_path.parent.rglob("x")) == before


def test_a_hundred_thousand_tiny_files_do_not_keep_a_version_from_coming(clock):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        cluster = Cluster(Path(folder), clock)
        box = cluster.root / "inbox" / "anna"
        box.mkdir(parents=True)
        for number in range(100_000):
            os.close(os.open(box / f"{number:06d}.json", os.O_CREAT | os.O_WRONLY))
        assert cluster.merge().version == 1
        assert cluster.merge().version == 2


def test_a_device_is_no_contribution(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, _ = box_with_one(cluster, clock)
    blob = record.with_suffix(".st")
    blob.unlink()
    try:
        os.mknod(blob, 0o020644, os.makedev(1, 5))
    except PermissionError:
        pytest.skip("only root makes devices")
    assert [merged.peer for merged in cluster.merge().inputs] == ["slot-0"]
    assert "plain file" in laptop.receipts()[0].reason


def test_two_laptops_under_one_name_both_count_and_both_are_told(tmp_path, clock):
    """A copied configuration."""
    cluster = Cluster(tmp_path, clock)
    for seed in (5, 6):
        laptop, weights = cluster.laptop()
        laptop.publish(perturbed(weights, seed), 1000, 50)
    cluster.push()
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["anna", "anna", "slot-0"]
    assert len({entry.incarnation for entry in version.inputs}) == 3
    assert [read_receipt.accepted for read_receipt in read_receipts(cluster.local, "anna")] == [
        True,
        True,
    ]


def test_an_older_one_that_arrives_after_a_newer_one_never_counts(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    for number in (1, 2):
        laptop.publish(perturbed(weights, number), 1000 * number, 50 * number)
    box = cluster.push()
    early = {path: path.read_bytes() for path in box.glob("*-000001-*")}
    for path in early:
        path.unlink()
    cluster.merge()
    for path, data in early.items():
        path.write_bytes(data)
    for _ in range(2):
        cluster.merge()
    versions = read_history(SharedPaths(cluster.root)).versions
    assert [merged.sequence for v in versions for merged in v.inputs if merged.peer == "anna"] == [
        2
    ]
    assert list(box.iterdir()) == []
