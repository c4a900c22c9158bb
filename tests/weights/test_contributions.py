"""Any file may lie in a laptop's box; only well-formed contributions count."""

import dataclasses
import os

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import schema_of
from Daddy.weights.laptop.laptop_exchange import LaptopExchange
from Daddy.weights.laptop.pulled_folder import read_receipts
from Daddy.weights.merge.contributions import box_name
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.store.weight_records import Contribution, parse
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, close, make_state, perturbed, shifted


@pytest.fixture
def clock():
    return ManualClock()


class Cluster:
    """One job, and a laptop whose pull and push are links and renames."""

    def __init__(self, root, clock, **changes):
        self.root, self.clock = root / "shared", clock
        self.job = begin(self.root, "slot-0", clock, **changes)
        self.local = root / "laptop"
        self.local.mkdir()
        (self.local / "wan").symlink_to(self.root / "wan")
        (self.local / "receipts").symlink_to(self.root / "receipts")
        self.round = 0

    def laptop(self, name="anna", seed=5, assists=()) -> tuple[LaptopExchange, dict]:
        own = os.urandom(4).hex()
        laptop = LaptopExchange(self.local, name, own, self.clock, min_seconds=0, assists=assists)
        return laptop, dict(laptop.join_fleet(make_state, None).weights)

    def push(self, name="anna"):
        box = self.root / "inbox" / name
        box.mkdir(parents=True, exist_ok=True)
        for ending in ("*.st", "*.json"):
            for path in sorted((self.local / "outbox" / name).glob(ending)):
                path.rename(box / path.name)
        return box

    def merge(self):
        self.round += 1
        self.job.learn(100 + self.round, steps=1000)
        self.job.publish()
        self.job.adopt()
        store = Store(SharedPaths(self.root))
        return store.version(store.newest())


def test_a_laptops_delta_counts_a_little_and_it_is_told(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    cluster.push()
    version = cluster.merge()
    mine = next(merged for merged in version.inputs if merged.peer == "anna")
    assert 0 < mine.share <= 0.10
    assert mine.share + 0.80 <= 1.0
    (receipt,) = laptop.receipts()
    assert receipt.accepted
    assert receipt.share == mine.share
    assert version.contributors["anna"] == 1000


def test_many_laptops_together_have_a_fifth_at_most(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    for number in range(5):
        laptop, weights = cluster.laptop(f"friend-{number}")
        laptop.publish(perturbed(weights, number), 50_000, 50)
        cluster.push(f"friend-{number}")
    version = cluster.merge()
    assert len(version.inputs) == 6
    assert sum(merged.share for merged in version.inputs if merged.peer != "slot-0") <= 0.20 + 1e-9


def test_accepted_work_is_not_carried_twice_after_adoption(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    laptop.publish(shifted(weights, 1.0), 1000, 50)
    cluster.push()
    cluster.merge()
    own = shifted(weights, 1.0 + 0.5)  # half a step more since
    adoption = laptop.adopt(own)
    assert adoption is not None
    assert close(adoption.weights, shifted(cluster.job.weights, 0.5), 0.05)


def test_a_laptop_restarts_from_the_newest_version_that_was_pulled(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    laptop.publish(shifted(weights, 1.0), 1000, 50)
    cluster.merge()
    adoption = laptop.restart_from_newest(5000)
    assert (adoption.version, adoption.refused) == (1, True)
    assert close(adoption.weights, cluster.job.weights, 0.01)
    assert "no step" in laptop.publish(shifted(adoption.weights, 1.0), 5000, 0)
    assert "contribution 2 on v1, 500 steps" in laptop.publish(
        shifted(adoption.weights, 1.0), 5500, 10
    )


def box_with_one(cluster, clock):
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    box = cluster.push()
    (record,) = box.glob("*.json")
    return laptop, box, record, parse(Contribution, record.read_bytes(), "it")


def rename_pair(record, offer):
    """Rename the pair to the name that fits a changed record."""
    blob = record.with_suffix(".st")
    blob.rename(blob.with_name(box_name(offer) + ".st"))
    record.unlink()
    record.with_name(box_name(offer) + ".json").write_bytes(offer.to_json_bytes())


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"run_id": "other"}, "belongs to another run"),
        ({"base_version": 99}, "does not exist"),
        ({"optimizer_steps": 0}, "nothing was learnt"),
        ({"schema": "ab" * 32}, "names or shapes"),
        ({"env_steps": 1 << 50}, "claims"),
    ],
)
def test_a_wrong_claim_is_refused_with_a_receipt(tmp_path, clock, change, said):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, offer = box_with_one(cluster, clock)
    rename_pair(record, dataclasses.replace(offer, **change))
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["slot-0"]
    (receipt,) = laptop.receipts()
    assert not receipt.accepted
    assert said in receipt.reason


def test_a_damaged_file_is_refused_with_a_receipt_and_kept_as_evidence(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, _ = box_with_one(cluster, clock)
    blob = record.with_suffix(".st")
    blob.write_bytes(blob.read_bytes()[:-7])
    cluster.merge()
    assert "truncated" in laptop.receipts()[0].reason
    assert not record.exists()
    assert len(list((cluster.root / "quarantine" / "refused").iterdir())) == 2


def test_a_hostile_pickle_is_never_opened_as_one(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, offer = box_with_one(cluster, clock)
    mine = tmp_path / "owned"
    evil = b"cos\nsystem\n(S'touch %s'\ntR." % str(mine).encode()
    evil += b"\0" * (offer.size - len(evil)) if len(evil) < offer.size else b""
    from Daddy.core.atomic_files import sha256_hex

    changed = dataclasses.replace(offer, blob=sha256_hex(evil), size=len(evil))
    rename_pair(record, changed)
    (record.parent / (box_name(changed) + ".st")).write_bytes(evil)
    cluster.merge()
    assert not laptop.receipts()[0].accepted
    assert not mine.exists()


@pytest.mark.parametrize("kind", ["symlink", "hardlink", "fifo", "folder"])
def test_a_blob_that_is_no_plain_file_is_not_followed(tmp_path, clock, kind):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, _ = box_with_one(cluster, clock)
    blob, aside = record.with_suffix(".st"), tmp_path / "aside"
    if kind == "hardlink":
        os.link(blob, aside)
    else:
        blob.rename(aside)
        {"symlink": lambda: blob.symlink_to(aside), "fifo": lambda: os.mkfifo(blob),
         "folder": blob.mkdir}[kind]()  # fmt: skip
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["slot-0"]
    assert "plain file" in laptop.receipts()[0].reason


@pytest.mark.parametrize(
    "name",
    ["x.json", "../01234567-000001-0123456789ab.json", "01234567-1-0123456789ab.json", "-rf.json",
     "01234567-000001-0123456789ab\n.json"],
)  # fmt: skip
def test_a_record_under_a_strange_name_is_set_aside(tmp_path, clock, name):
    cluster = Cluster(tmp_path, clock)
    box = cluster.root / "inbox" / "anna"
    box.mkdir(parents=True)
    path = box / name
    path.write_text("{}")
    version = cluster.merge()
    assert [merged.peer for merged in version.inputs] == ["slot-0"]
    assert not (box / name).exists() or ".." in name


def test_nobody_can_speak_for_a_job_or_another_laptop(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    _, _, record, offer = box_with_one(cluster, clock)
    for peer in ("slot-0", "bert"):
        box = cluster.root / "inbox" / peer
        box.mkdir()
        forged = dataclasses.replace(offer, peer="slot-0" if peer == "slot-0" else "anna")
        (box / f"{box_name(forged)}.json").write_bytes(forged.to_json_bytes())
        (box / f"{box_name(forged)}.st").write_bytes(record.with_suffix(".st").read_bytes())
    version = cluster.merge()
    assert sorted(merged.peer for merged in version.inputs) == ["anna", "slot-0"]
    assert version.refused == ()
    assert len(list((cluster.root / "quarantine" / "inbox").iterdir())) == 2


def test_only_laptops_on_the_list_may_contribute_when_there_is_one(tmp_path, clock):
    cluster = Cluster(tmp_path, clock, allowed=frozenset({"bert"}))
    laptop, *_ = box_with_one(cluster, clock)
    cluster.merge()
    assert "allowed_user_ids" in laptop.receipts()[0].reason


def test_a_contribution_that_arrives_twice_counts_once(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    _, box, *_ = box_with_one(cluster, clock)
    copies = {path.name: path.read_bytes() for path in box.iterdir()}
    cluster.merge()
    for name, data in copies.items():
        (box / name).write_bytes(data)
    cluster.merge()
    cluster.merge()
    versions = read_history(SharedPaths(cluster.root)).versions
    assert sum(merged.peer == "anna" for v in versions for merged in v.inputs) == 1
    assert list(box.iterdir()) == []


def test_a_flood_of_records_delays_but_does_not_stop_a_merge(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    box = cluster.root / "inbox" / "anna"
    box.mkdir(parents=True)
    for number in range(500):
        (box / f"{number:05d}.json").write_text("{}")
    assert cluster.merge().version == 1


def test_refusals_of_laptops_alone_make_no_version(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, _, record, offer = box_with_one(cluster, clock)
    rename_pair(record, dataclasses.replace(offer, run_id="other"))
    for _ in range(3):
        clock.pass_by(100)
        assert cluster.job.adopt() is None
    assert read_receipts(cluster.local, "anna") == []
    cluster.merge()
    assert len(laptop.receipts()) == 1


def test_rounding_left_over_is_in_the_next_contribution(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    from Daddy.weights.encoding.quantise import decode_delta

    total, own = None, weights
    for number in range(6):
        own = perturbed(own, number, 0.01)
        laptop.publish(own, 100 * (number + 1), number + 1)
    for path in sorted((cluster.local / "outbox" / "anna").glob("*.st")):
        delta = decode_delta(path.read_bytes(), "int8", schema_of(weights))
        total = delta if total is None else {n: total[n] + delta[n] for n in total}
    moved = {n: own[n] - weights[n] for n in own}
    assert close(total, moved, 2e-4)


def test_one_contribution_a_minute_and_the_rest_is_kept(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    laptop._min_seconds = 60.0
    assert "in the outbox" in laptop.publish(perturbed(weights, 1), 100, 5)
    assert "due in 60 s" in laptop.publish(perturbed(weights, 2), 200, 9)
    clock.pass_by(61)
    assert "contribution 2 on v0, 200 steps" in laptop.publish(perturbed(weights, 3), 300, 14)


def test_a_box_full_of_contributions_does_not_crowd_out_the_jobs(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    _, box, record, offer = box_with_one(cluster, clock)
    data = record.with_suffix(".st").read_bytes()
    for number in range(1, 60):  # in order by name and form, from another run
        wrong = dataclasses.replace(offer, run_id="other", sequence=number)
        (box / f"{box_name(wrong)}.json").write_bytes(wrong.to_json_bytes())
        (box / f"{box_name(wrong)}.st").write_bytes(data)
    for number in (1, 2, 3):
        version = cluster.merge()
        assert version.version == number
        assert [merged.peer for merged in version.inputs if merged.peer != "anna"] == ["slot-0"]


def test_a_laptop_alone_waits_until_a_job_has_shown_what_is_usual(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    laptop.publish(shifted(weights, 1e20), 1000, 50)
    box = cluster.push()
    clock.pass_by(100)
    assert cluster.job.adopt() is None
    assert list(box.iterdir()) != []
    cluster.merge()
    assert not laptop.receipts()[0].accepted
    assert close(cluster.job.weights, weights, 10.0)


def test_what_is_usual_is_told_by_the_jobs_and_not_by_laptops(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    for number in range(1, 9):
        laptop.publish(shifted(weights, 1e-6 * number), 1000 * number, 1000 * number)
    cluster.push()
    version = cluster.merge()
    assert sum(merged.peer == "anna" for merged in version.inputs) > 1
    assert len(version.norms) == 1
    assert cluster.merge().inputs[-1].clip == 1.0


def test_a_box_that_is_a_link_elsewhere_is_left_alone(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    cluster.merge()
    (cluster.root / "inbox").mkdir(exist_ok=True)
    (cluster.root / "inbox" / "evil").symlink_to(cluster.root / "merged")
    records = sorted(path.name for path in (cluster.root / "merged").iterdir())
    cluster.merge()
    left = {path.name for path in (cluster.root / "merged").iterdir()}
    assert left >= set(records)


def test_under_the_polyak_rule_too_a_laptop_has_a_tenth_at_most(tmp_path, clock):
    cluster = Cluster(tmp_path, clock, rule="polyak")
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 5), 1000, 50)
    cluster.push()
    version = cluster.merge()
    assert next(merged for merged in version.inputs if merged.peer == "anna").share <= 0.10


def test_a_receipt_that_its_merger_did_not_live_to_write_comes_with_the_next_version(
    tmp_path, clock
):
    cluster = Cluster(tmp_path, clock)
    laptop, *_ = box_with_one(cluster, clock)
    cluster.merge()
    for path in (cluster.root / "receipts" / "anna").iterdir():
        path.unlink()  # as if it had been killed between commit and receipts
    cluster.merge()
    assert [receipt.accepted for receipt in laptop.receipts()] == [True]


def test_what_no_record_names_leaves_a_box_after_an_hour(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    _, box, record, _ = box_with_one(cluster, clock)
    record.unlink()
    for _ in range(4):
        cluster.merge()
        assert list(box.iterdir()) != []
        clock.pass_by(1100)
    for _ in range(4):
        clock.pass_by(600)
        cluster.merge()
    assert list(box.iterdir()) == []


def offered(cluster: Cluster) -> None:
    """Let the laptop learn from the newest version and send; no merger has read it yet."""
    laptop, weights = cluster.laptop()
    laptop.publish(perturbed(weights, 7, 0.02), 200, 10)
    cluster.push()


@pytest.mark.parametrize(
    ("seconds_each", "counts"),
    [(2.0, True), (20.0, True), (30.0, False), (600.0, False)],
)
def test_where_versions_come_fast_a_laptops_rhythm_counts(tmp_path, clock, seconds_each, counts):
    cluster = Cluster(tmp_path, clock)
    cluster.merge()
    offered(cluster)
    box = cluster.root / "inbox" / "anna"
    away = box.rename(tmp_path / "on its way")
    for _ in range(20):
        clock.pass_by(seconds_each)
        cluster.merge()
    away.rename(box)
    clock.pass_by(seconds_each)
    versions = [cluster.merge(), cluster.merge()]
    taken = [merged for record in versions for merged in record.inputs if merged.laptop]
    refused = [refusal.reason for record in versions for refusal in record.refused]
    assert bool(taken) == counts
    assert bool(refused) != counts
    if taken:
        assert taken[0].staleness >= 20
    else:
        assert "versions old, the limit is 8" in refused[0]


def test_in_a_fast_run_the_same_contribution_never_counts_twice(tmp_path, clock):
    cluster = Cluster(tmp_path, clock)
    cluster.merge()
    offered(cluster)
    box = cluster.root / "inbox" / "anna"
    copies = {path.name: path.read_bytes() for path in box.iterdir()}
    taken = 0
    for _ in range(40):
        clock.pass_by(5.0)
        taken += sum(merged.laptop for merged in cluster.merge().inputs)
        for name, data in copies.items():
            (box / name).unlink(missing_ok=True)
            (box / name).write_bytes(data)
    assert taken == 1


def test_a_contribution_in_the_same_second_as_a_look_is_seen_soon(tmp_path, clock):
    """A folder's time that counts whole seconds does not change for the second file."""
    cluster = Cluster(tmp_path, clock)
    laptop, weights = cluster.laptop()
    box = cluster.push()
    reader = PeerReader(Store(SharedPaths(cluster.root)), clock)
    head = reader._store.version(reader._store.newest())
    os.utime(box, (1_700_000_000, 1_700_000_000))
    assert [reader.read_peers(head).pending for _ in range(3)] == [()] * 3
    laptop.publish(perturbed(weights, 3), 100, 10)
    cluster.push()
    os.utime(box, (1_700_000_000, 1_700_000_000))
    clock.pass_by(2.0)
    assert len(reader.read_peers(head).pending) == 1
