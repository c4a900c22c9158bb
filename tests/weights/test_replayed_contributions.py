"""The same bytes count once, under any incarnation, sequence and base."""

import dataclasses

import pytest

from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.merge.contributions import box_name
from tests.weights.helpers import ManualClock
from tests.weights.test_contributions import Cluster, box_with_one
from tests.weights.test_step_counts import enter, next_version


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, ManualClock())
    for _ in range(3):
        next_version(made)
    return made


def counted(version) -> list[str]:
    return [merged.peer for merged in version.inputs if merged.peer != "slot-0"]


def lay_again(cluster, offer, data: bytes, number: int, **changes: object) -> None:
    """Push the bytes of ``offer`` under the incarnation ``number``."""
    again = dataclasses.replace(offer, incarnation=f"{number:08x}", sequence=1, **changes)
    box = cluster.root / "inbox" / again.peer
    box.mkdir(exist_ok=True)
    (box / f"{box_name(again)}.st").write_bytes(data)
    (box / f"{box_name(again)}.json").write_bytes(again.to_json_bytes())


@pytest.mark.parametrize("rebased", [False, True])
def test_the_same_bytes_under_new_incarnations_count_once(cluster, rebased):
    _, _, record, offer = box_with_one(cluster, cluster.clock)
    data = record.with_suffix(".st").read_bytes()
    first = next_version(cluster)
    assert counted(first) == ["anna"]
    for _ in range(12):  # more versions than states are kept
        head = next_version(cluster)
    base = {"base_version": head.version, "base_state": head.state} if rebased else {}
    lay_again(cluster, offer, data, 1, **base)
    version = next_version(cluster)
    assert counted(version) == []
    (refusal,) = version.refused
    assert (refusal.fault, refusal.reason) == (
        "values",
        f"v{first.version} counted the same file already",
    )
    accepted = [receipt.accepted for receipt in read_receipts(cluster.local, "anna")]
    assert sorted(accepted) == [False, True]


def test_of_equal_bytes_in_the_same_merge_the_first_counts(cluster):
    _, _, record, offer = box_with_one(cluster, cluster.clock)
    data = record.with_suffix(".st").read_bytes()
    for number in range(5):
        lay_again(cluster, offer, data, number)
    assert counted(next_version(cluster)) == ["anna"]


def test_a_copy_by_another_laptop_gets_nobody_refused(cluster):
    _, _, record, offer = box_with_one(cluster, cluster.clock)
    data = record.with_suffix(".st").read_bytes()
    lay_again(cluster, dataclasses.replace(offer, peer="aaron"), data, 1)
    assert "anna" in counted(next_version(cluster))


def test_a_friends_bytes_count_once_in_whichever_job(cluster, tmp_path):
    jobs = [enter(cluster, tmp_path / "anna", f"slot-{number}") for number in range(2)]
    for job in jobs:
        job.shift(0.25)  # one addition: the same bytes on each processor
        job.publish()
    version = next_version(cluster)
    assert len(counted(version)) == 1
    assert [refusal.peer for refusal in version.refused] == ["anna.slot-1"]
