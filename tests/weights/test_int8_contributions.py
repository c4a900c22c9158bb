"""A laptop's contribution travels as int8 where the run reads that; hostile ones are refused."""

import dataclasses
import struct
import zlib

import pytest

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import Contribution, LaptopHead, parse
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path, ManualClock())


def test_a_contribution_travels_as_int8_and_says_so(cluster):
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    (record,) = (cluster.local / "outbox" / "anna").glob("*.json")
    assert parse(Contribution, record.read_bytes(), "it").form == "int8"
    cluster.push()
    version = cluster.merge()
    mine = next(merged for merged in version.inputs if merged.peer == "anna")
    assert mine.form == "int8"
    store = Store(SharedPaths(cluster.root))
    assert rebuild_state(store, version) == store.read_blob(version.state)


def test_a_run_that_does_not_read_int8_gets_bfloat16(cluster):
    head = cluster.root / "wan" / "HEAD.json"
    older = dataclasses.replace(parse(LaptopHead, head.read_bytes(), "it"), accepts=())
    head.write_bytes(older.to_json_bytes())
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    cluster.push()
    mine = next(merged for merged in cluster.merge().inputs if merged.peer == "anna")
    assert mine.form == ""


def swap(box, change):
    """Replace the bytes of the one contribution in a box by ``change`` of them."""
    (record,) = box.glob("*.json")
    offer = parse(Contribution, record.read_bytes(), "it")
    data = change(record.with_suffix(".st").read_bytes())
    changed = dataclasses.replace(offer, blob=sha256_hex(data), size=len(data))
    for path in box.iterdir():
        path.unlink()
    (box / f"{box_name(changed)}.st").write_bytes(data)
    (box / f"{box_name(changed)}.json").write_bytes(changed.to_json_bytes())


def armed(frame: bytes) -> bytes:
    """Return a frame whose first tensor decompresses to megabytes."""
    (first,) = struct.unpack_from("<I", frame, 64)
    bomb = zlib.compress(bytes(3_000_000), 9)
    return frame[: 68 + first] + struct.pack("<I", len(bomb)) + bomb


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (armed, "more than the"),
        (lambda frame: frame + bytes(100_000), "a delta of this run has 64 to"),
        (lambda frame: frame[:-1], "ends too early"),
        (lambda frame: b"cos\nsystem\n(S'true'\ntR." + bytes(100), "no frame of weights"),
    ],
)
def test_a_hostile_int8_file_in_a_box_is_refused_with_a_receipt(cluster, change, said):
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    box = cluster.push()
    swap(box, change)
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["slot-0"]
    assert said in laptop.receipts()[0].reason
    assert list(box.iterdir()) == []
