"""Steps that laptops and friends claim: bounded, and never a reason for a run to end or to wait."""

import dataclasses

import pytest

from Daddy.core.errors import UsageError
from Daddy.core.friend_accounts import Friend, write_friends
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths
from Daddy.weights import rollback
from Daddy.weights.exchange_settings import PERIOD_S
from Daddy.weights.friend_job_exchange import join_run
from Daddy.weights.merge.step_counts import fastest_rate, most_steps, recount, total_of
from Daddy.weights.rollback import recount_steps
from Daddy.weights.store.weight_records import Contribution, Input, Version, parse
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import (
    EventRecorder,
    ManualClock,
    Peer,
    begin,
    make_state,
    perturbed,
    settings,
)
from tests.weights.test_contributions import Cluster, rename_pair

LIE = 1 << 30
EVERY_S = 10.0


@pytest.fixture
def cluster(tmp_path):
    """A job that makes 1,000 steps in ten seconds, three versions old."""
    made = Cluster(tmp_path, ManualClock())
    for _ in range(3):
        next_version(made)
    return made


def next_version(cluster: Cluster) -> Version:
    cluster.clock.pass_by(EVERY_S)
    return cluster.merge()


def lay_lie(cluster: Cluster, laptop, weights, seed: int) -> None:
    """Push a contribution with a tiny delta that claims 2^30 steps."""
    laptop.publish(perturbed(weights, seed, 1e-3), 1000 * seed, 10 * seed)
    for record in cluster.push().glob("*.json"):
        offer = parse(Contribution, record.read_bytes(), record.name)
        rename_pair(record, dataclasses.replace(offer, env_steps=LIE, new_steps=LIE))


def test_a_laptop_adds_no_more_than_the_fastest_job_makes_in_that_time(cluster):
    laptop, weights = cluster.laptop()
    lay_lie(cluster, laptop, weights, 1)
    first = next_version(cluster)
    assert [merged.peer for merged in first.inputs] == ["anna", "slot-0"]
    assert first.contributors["anna"] <= 100 * 60  # a laptop's first: its usual period
    lay_lie(cluster, laptop, weights, 2)
    second = next_version(cluster)
    assert second.contributors["anna"] - first.contributors["anna"] <= 100 * EVERY_S
    (lied,) = (merged for merged in second.inputs if merged.peer == "anna")
    assert lied.env_steps <= 100 * EVERY_S
    assert second.fleet_steps <= 2 * second.contributors["slot-0"]


def test_an_honest_laptop_counts_each_of_its_steps(cluster):
    laptop, weights = cluster.laptop()
    for round_ in range(1, 6):
        laptop.publish(perturbed(weights, round_, 1e-3), 400 * round_, 10 * round_)
        cluster.push()
        version = next_version(cluster)
    assert version.contributors["anna"] == 5 * 400
    assert version.fleet_steps == sum(version.contributors.values())


def test_only_a_version_with_an_own_job_adds_to_the_total(cluster):
    """So no laptop's contribution is the one that ends the run."""
    laptop, weights = cluster.laptop()
    head = next_version(cluster)
    lay_lie(cluster, laptop, weights, 1)
    cluster.clock.pass_by(2 * PERIOD_S)
    cluster.job.adopt()
    cluster.clock.pass_by(2 * PERIOD_S)
    assert cluster.job.adopt() == head.version + 1
    alone = Store(SharedPaths(cluster.root)).version(head.version + 1)
    assert [merged.peer for merged in alone.inputs] == ["anna"]
    assert alone.contributors["anna"] > 0
    assert alone.fleet_steps == head.fleet_steps
    assert next_version(cluster).fleet_steps > head.fleet_steps + 1000


# -- friends


def enter(cluster: Cluster, folder, slot: str, trust: str = "job") -> Peer:
    folder.mkdir(exist_ok=True)
    write_friends(
        SharedPaths(cluster.root), [Friend("anna", str(folder), folder.stat().st_uid, trust)]
    )
    recorder = EventRecorder()
    exchange = join_run(
        joined_paths(folder, cluster.root), slot, "0a" * 4, settings(), cluster.clock, recorder
    )
    weights = dict(exchange.join_fleet(make_state, None).weights)
    return Peer(exchange, recorder, weights, "0a" * 4)


def test_a_friends_job_is_bounded_as_laptops_are(cluster, tmp_path):
    friend = enter(cluster, tmp_path / "anna", "slot-0")
    friend.learn(7, steps=LIE // 2)
    friend.publish()
    next_version(cluster)
    version = next_version(cluster)
    assert 0 < version.contributors["anna.slot-0"] <= 100 * 60
    assert version.fleet_steps <= 2 * version.contributors["slot-0"]


def test_a_friends_tiny_progress_is_no_measure_for_an_own_job(cluster, tmp_path):
    friends = [enter(cluster, tmp_path / "anna", f"slot-{n}") for n in range(4)]
    for round_ in range(20):
        for place, friend in enumerate(friends):
            friend.learn(1000 + 10 * round_ + place, steps=1, scale=1e-6)
            friend.publish()
            friend.adopt()
        version = next_version(cluster)
        assert "slot-0" in {merged.peer for merged in version.inputs}
    assert version.contributors["slot-0"] == 23 * 1000


# -- the rules


def record_of(number: int, ts: float, **steps: int) -> Version:
    inputs = [
        Input(peer.replace("_", "-"), "0a" * 4, number, "ab" * 32, 0, 0, 0.1, 1.0, 1.0, n, n, 1)
        for peer, n in steps.items()
    ]
    return Version("run", "ab" * 32, "ab" * 32, 1, "delta", "", ts, number, inputs=tuple(inputs))


def test_the_fastest_jobs_rate_survives_a_pause():
    records = [record_of(0, 0.0)]
    records += [record_of(n, 10.0 * n, slot_0=100, slot_1=900, anna=LIE) for n in range(1, 4)]
    records += [record_of(n, 90_000 + 10.0 * n, slot_0=100, slot_1=900) for n in range(4, 7)]
    assert fastest_rate(records) == pytest.approx(90.0)


def test_without_a_measured_rate_a_laptop_counts_as_much_as_the_best_job_beside_it():
    beside = record_of(1, 1.0, slot_0=100, slot_1=300, anna=LIE).inputs
    assert most_steps(0.0, 5.0, 1.0, beside) == 300
    assert most_steps(0.0, 5.0, 1.0, ()) == 0
    assert most_steps(2.0, 5.0, 9.0, ()) == 0  # a clock that went back


def test_all_others_together_count_as_much_as_the_own_jobs_at_most():
    assert total_of({"slot-0": 10, "slot-1": 5, "anna": 4, "bob.slot-0": 3}) == 22
    assert total_of({"slot-0": 10, "anna": LIE, "bob.slot-0": LIE}) == 20
    assert total_of({"untold": 10, "anna": 3}) == 13
    assert total_of({}) == 0


def test_a_recount_lowers_lies_and_leaves_the_rest():
    records = [record_of(0, 0.0), record_of(1, 10.0, slot_0=1000, anna=400)]
    records += [record_of(2, 20.0, slot_0=1000, anna=400, ben=LIE)]
    records += [record_of(n, 10.0 * n, slot_0=1000, anna=400, ben=LIE) for n in range(3, 6)]
    claimed = {"slot-0": 5000, "anna": 2000, "ben": 4 * LIE, "gone": 77}
    counted = recount(claimed, records)
    assert counted == {"slot-0": 5000, "anna": 2000, "ben": counted["ben"], "gone": 0}
    assert counted["ben"] <= 6000 + 3 * 1000


# -- the repair


def poison(cluster: Cluster) -> Version:
    """Commit a version as the release before did: with a laptop's number, believed."""
    store = Store(SharedPaths(cluster.root))
    head = store.version(store.newest())
    (lie,) = record_of(head.version + 1, 0.0, ben=LIE).inputs
    totals = {**head.contributors, "ben": LIE}
    record = dataclasses.replace(
        head.next_record(version=head.version + 1, ts=head.ts + 1.0, contributors=totals),
        parent=store.record_hash(head.version),
        inputs=(dataclasses.replace(lie, share=0.0),),
        fleet_steps=sum(totals.values()),
    )
    assert store.commit(record)
    store.write_head(record.version)
    return record


def test_a_poisoned_run_is_repaired_and_goes_on(cluster, capsys):
    before = next_version(cluster)
    bad = poison(cluster)
    assert rollback.main(["--recount", str(cluster.root)]) == 0
    store = Store(SharedPaths(cluster.root))
    made = store.version(store.newest())
    assert (made.version, made.state) == (bad.version + 1, before.state)
    assert made.contributors == {**before.contributors, "ben": made.contributors["ben"]}
    assert made.fleet_steps <= 2 * before.fleet_steps
    assert store.head().fleet_steps == made.fleet_steps
    assert store.keyframe().fleet_steps == made.fleet_steps
    text = capsys.readouterr().out
    assert f"ben: {LIE:,} steps were believed" in text
    assert "run_controller start" in text
    after = next_version(cluster)
    assert after.contributors["slot-0"] == made.contributors["slot-0"] + 1000
    assert made.fleet_steps < after.fleet_steps == total_of(after.contributors)
    assert read_history(SharedPaths(cluster.root)).chained


def test_the_next_merge_counts_a_believed_lie_no_further(cluster):
    poison(cluster)
    made = next_version(cluster)
    assert made.fleet_steps <= 2 * made.contributors["slot-0"]


def test_a_recount_of_a_sound_run_changes_nothing(cluster):
    laptop, weights = cluster.laptop()
    for round_ in range(1, 4):
        laptop.publish(perturbed(weights, round_, 1e-3), 400 * round_, 10 * round_)
        cluster.push()
        last = next_version(cluster)
    made = recount_steps(Store(SharedPaths(cluster.root)), cluster.clock)
    assert (made.contributors, made.fleet_steps) == (last.contributors, last.fleet_steps)


@pytest.mark.parametrize("args", [["v1", "{root}", "--recount"], ["{root}"], []])
def test_a_version_and_a_recount_exclude_each_other(cluster, args):
    with pytest.raises(UsageError, match="name vN, or --recount alone"):
        rollback.main([arg.format(root=cluster.root) for arg in args])


def test_a_laptop_named_as_the_runs_own_is_set_aside(cluster):
    laptop, weights = cluster.laptop("untold")
    laptop.publish(perturbed(weights, 3, 1e-3), 400, 10)
    cluster.push("untold")
    assert {merged.peer for merged in next_version(cluster).inputs} == {"slot-0"}


def test_an_own_job_counts_without_bound_beside_no_other(tmp_path):
    clock = ManualClock()
    job = begin(tmp_path / "shared", "slot-0", clock)
    clock.pass_by(EVERY_S)
    job.learn(1, steps=5_000_000)
    job.publish()
    store = Store(SharedPaths(tmp_path / "shared"))
    assert store.version(store.newest()).fleet_steps == 5_000_000
