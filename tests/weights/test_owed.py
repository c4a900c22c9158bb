"""What quantising dropped is in the next contribution, whoever makes it."""

from __future__ import annotations

import dataclasses
import struct
import zlib

import pytest
import torch

from Daddy.core.files import sha256_hex
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.encoding.arithmetic import difference
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_codec import schema_of
from Daddy.weights.laptop.laptop_exchange import read_owed
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.store.rebuild import replay
from Daddy.weights.store.records import Contribution, Keyframe, parse
from Daddy.weights.store.store import Store
from tests.weights.helpers import ToldClock, close, nudged, shifted
from tests.weights.test_inbox import Cluster


@pytest.fixture
def cluster(tmp_path):
    return Cluster(tmp_path, ToldClock())


def sent(cluster) -> dict[str, torch.Tensor]:
    """The sum of all that waits in the outbox."""
    total = {}
    for path in sorted((cluster.local / "outbox" / "anna").glob("*.json")):
        offer = parse(Contribution, path.read_bytes(), str(path))
        delta = decode_delta(path.with_suffix(".st").read_bytes(), offer.form, offer.schema)
        total = {n: total[n] + delta[n] for n in total} if total else delta
    return total


def owed(cluster, run_id: str = "", schema: str = ""):
    card = Store(SharedPaths(cluster.root)).card()
    return read_owed(cluster.local, "anna", run_id or card.run_id, schema or card.schema)


def test_a_contribution_travels_as_int8_and_says_so(cluster):
    laptop, weights = cluster.laptop()
    laptop.publish(nudged(weights, 5), 1000, 50)
    (record,) = (cluster.local / "outbox" / "anna").glob("*.json")
    assert parse(Contribution, record.read_bytes(), "it").form == "int8"
    cluster.push()
    version = cluster.merge()
    mine = next(one for one in version.inputs if one.peer == "anna")
    assert mine.form == "int8"
    store = Store(SharedPaths(cluster.root))
    assert replay(store, version) == store.get_blob(version.state)


def test_a_run_that_does_not_read_int8_gets_bfloat16(cluster):
    head = cluster.root / "wan" / "HEAD.json"
    older = dataclasses.replace(parse(Keyframe, head.read_bytes(), "it"), accepts=())
    head.write_bytes(older.to_bytes())
    laptop, weights = cluster.laptop()
    laptop.publish(nudged(weights, 5), 1000, 50)
    cluster.push()
    mine = next(one for one in cluster.merge().inputs if one.peer == "anna")
    assert mine.form == ""


def test_what_was_dropped_survives_a_restart_and_nothing_drifts(cluster):
    laptop, start = cluster.laptop()
    learnt = {name: torch.zeros_like(one) for name, one in start.items()}
    own = start
    for number in range(6):
        after = nudged(own, number, 0.01)
        learnt = {n: learnt[n] + after[n] - own[n] for n in own}
        laptop.publish(after, 100, 5)
        laptop, own = cluster.laptop()  # a new process each time; nothing was merged meanwhile
        assert close(difference(own, start), owed(cluster), 1e-6)
        assert not close(own, start, 1e-7)
    missing = difference(learnt, sent(cluster))
    assert close(missing, owed(cluster), 1e-6)
    assert max(float(one.abs().max()) for one in missing.values()) < 0.001


def test_what_was_dropped_is_forgotten_when_its_contribution_was_bad(cluster):
    laptop, weights = cluster.laptop()
    laptop.publish(shifted(weights, 1e6), 1000, 50)
    assert owed(cluster) is not None
    cluster.push()
    cluster.merge()
    assert not laptop.receipts()[0].accepted
    assert owed(cluster) is None
    _, again = cluster.laptop()
    assert close(again, dict(cluster.job.weights), 0.05)


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: b"", lambda d: b"{}\n" + d])
def test_what_is_damaged_is_passed_over(cluster, damage):
    laptop, weights = cluster.laptop()
    laptop.publish(nudged(weights, 5), 1000, 50)
    (path,) = (cluster.local / "owed").iterdir()
    path.write_bytes(damage(path.read_bytes()))
    assert owed(cluster) is None
    assert close(cluster.laptop()[1], weights, 1e-9)


def test_what_is_owed_to_another_run_or_policy_is_not_paid_here(cluster):
    laptop, weights = cluster.laptop()
    laptop.publish(nudged(weights, 5), 1000, 50)
    assert owed(cluster, run_id="another") is None
    assert owed(cluster, schema=schema_of({"w": torch.zeros(3)})) is None
    assert owed(cluster) is not None
    assert close(cluster.laptop("bert")[1], weights, 1e-9)


def swap(box, change):
    """Put what ``change`` makes of the bytes into a box in place of the one contribution there."""
    (record,) = box.glob("*.json")
    offer = parse(Contribution, record.read_bytes(), "it")
    data = change(record.with_suffix(".st").read_bytes())
    changed = dataclasses.replace(offer, blob=sha256_hex(data), size=len(data))
    for path in box.iterdir():
        path.unlink()
    (box / f"{box_name(changed)}.st").write_bytes(data)
    (box / f"{box_name(changed)}.json").write_bytes(changed.to_bytes())


def armed(frame: bytes) -> bytes:
    """A frame whose first tensor unfolds into megabytes."""
    (first,) = struct.unpack_from("<I", frame, 64)
    bomb = zlib.compress(bytes(3_000_000), 9)
    return frame[: 68 + first] + struct.pack("<I", len(bomb)) + bomb


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (armed, "more than the"),
        (lambda frame: frame + bytes(100_000), "a delta of this run has 64 to"),
        (lambda frame: frame[:-1], "ends too early"),
        (lambda frame: b"cos\nsystem\n(S'true'\ntR." + bytes(100), "begin as one of ours"),
    ],
)
def test_a_hostile_int8_file_in_a_box_is_refused_with_a_receipt(cluster, change, said):
    laptop, weights = cluster.laptop()
    laptop.publish(nudged(weights, 5), 1000, 50)
    box = cluster.push()
    swap(box, change)
    version = cluster.merge()
    assert [one.peer for one in version.inputs] == ["slot-0"]
    assert said in laptop.receipts()[0].reason
    assert list(box.iterdir()) == []
