"""A commit record stays within its bytes, whatever laptops and friends offer and write."""

import dataclasses
import json
import os

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.merge.compute_version import (
    OTHERS_AUTHORS,
    PEER_AUTHORS,
    fit_record,
    newest_authors,
)
from Daddy.weights.merge.contributions import REASON_LIMIT, plain_reason
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import Contribution, Input, Refusal, Version, parse
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster, rename_pair

LONGEST = "p" * 31
JOB = f"{LONGEST}.slot-63"


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, ManualClock())
    for _ in range(2):
        made.clock.pass_by(10.0)
        made.merge()
    return made


def lay_bad(cluster: Cluster, count: int, **changes: object) -> None:
    """Push contributions of ``count`` sessions, whose records are changed."""
    for _ in range(count):
        laptop, weights = cluster.laptop("ben", seed=1)
        laptop.publish(perturbed(weights, 1), 100, 10)
        for record in cluster.push("ben").glob("*.json"):
            offer = parse(Contribution, record.read_bytes(), record.name)
            rename_pair(record, dataclasses.replace(offer, **changes))


def fill_consumed(cluster: Cluster, kibibytes: int) -> Version:
    """Commit a version as the release before did: it remembers each session that was refused."""
    store = Store(SharedPaths(cluster.root))
    head = store.version(store.newest())
    consumed = dict(head.consumed)
    while len(head.to_json_bytes()) < kibibytes << 10:
        consumed |= {f"ben/{os.urandom(4).hex()}": (1, head.version) for _ in range(20)}
        head = dataclasses.replace(head, consumed=consumed)
    record = head.next_record(
        version=head.version + 1, parent=store.record_hash(head.version), base=head.version
    )
    assert store.commit(record)
    return record


def test_a_record_full_of_refused_sessions_stops_no_merge(cluster):
    full = fill_consumed(cluster, 63)
    for round_ in range(2):
        lay_bad(cluster, 16, optimizer_steps=0)
        cluster.clock.pass_by(10.0)
        version = cluster.merge()
        assert version.version == full.version + 1 + round_
        assert "slot-0" in {merged.peer for merged in version.inputs}
        assert len(version.refused) == 16
    assert sum(author.startswith("ben/") for author in version.consumed) == PEER_AUTHORS
    assert not list((cluster.root / "inbox" / "ben").iterdir())


def test_the_text_of_a_device_enters_no_record(cluster):
    lay_bad(cluster, 1, run_id="\x1b[2Jall is well")
    cluster.clock.pass_by(10.0)
    assert cluster.merge().refused == ()  # it is no record, and was set aside
    lay_bad(cluster, 1, run_id="f00d" * 3)
    cluster.clock.pass_by(10.0)
    version = cluster.merge()
    (refusal,) = version.refused
    assert refusal.reason == f"belongs to another run than this one, {version.run_id}"
    assert "f00d" not in (cluster.root / "merged" / f"v{version.version:08d}.json").read_text()


def test_a_reason_is_short_printable_ascii():
    text = plain_reason("its header lacks '\x1b[2J\u202e\U0001f600'\n" + "x" * 500)
    assert text.isascii()
    assert text.isprintable()
    assert len(text) <= REASON_LIMIT
    assert len(json.dumps(text)) <= REASON_LIMIT + 2


def worst_record(own: int, others: int) -> Version:
    """Return a record with the longest names that can occur, and everything at its bound."""
    hashes, longest = "ab" * 32, 1 / 3 * 1e-5
    inputs = [
        Input(JOB, f"{n:08x}", 999_999, hashes, 10**7, 8, longest, longest, longest, n, n, n,
              "int8", True)
        for n in range(16)
    ]  # fmt: skip
    refused = [Refusal(JOB, f"{n:08x}", 999_999, "reverted", "r" * REASON_LIMIT) for n in range(32)]
    consumed = {f"slot-{n % 64}/{n:08x}": (999_999, 10**7) for n in range(own)}
    consumed |= {f"{JOB}/{n:08x}": (999_999, 10**7 - n) for n in range(others)}
    return Version(
        "run-id", hashes, hashes, 10**9, "delta", "slot-63/0a0a0a0a", 1.7e9 + 0.123, 10**7, hashes,
        10**7, longest, tuple(inputs), tuple(refused), consumed,
        {f"slot-{n}": 10**12 for n in range(64)} | {f"{LONGEST}{n}": 10**12 for n in range(32)},
        tuple((longest, 12345.0) for _ in range(16)), 10**14,
        reverted=tuple((10**7 + n, 10**7 + n) for n in range(64)),
    )  # fmt: skip


def test_everything_at_its_bound_fits_with_all_refusals():
    record = worst_record(own=64, others=OTHERS_AUTHORS)
    assert len(record.to_json_bytes()) < LIMIT
    assert fit_record(record) == record


def test_refusals_are_dropped_before_a_merge_is():
    record = worst_record(own=500, others=OTHERS_AUTHORS)
    assert len(record.to_json_bytes()) > LIMIT
    own = Refusal("slot-0", "0a" * 4, 3, "late", "too old")
    fitted = fit_record(dataclasses.replace(record, refused=(*record.refused, own)))
    assert fitted.refused == (own,)
    assert fitted.inputs == record.inputs
    assert {author for author in record.consumed if author.startswith("slot-")} <= set(
        fitted.consumed
    )
    assert len(fitted.to_json_bytes()) < LIMIT


def test_of_others_the_authors_judged_last_are_remembered():
    consumed = {f"slot-0/{n:08x}": (1, n) for n in range(300)}
    consumed |= {f"ben/{n:08x}": (1, n) for n in range(300)} | {"anna/0a0a0a0a": (7, 2)}
    kept = newest_authors(consumed)
    assert sum(author.startswith("slot-0/") for author in kept) == 300
    assert kept["anna/0a0a0a0a"] == (7, 2)
    assert [author for author in kept if author.startswith("ben/")] == [
        f"ben/{n:08x}" for n in range(300 - PEER_AUTHORS, 300)
    ]
    many = {f"box-{n}/0a0a0a0a": (1, n) for n in range(500)}
    assert len(newest_authors(many)) == OTHERS_AUTHORS
