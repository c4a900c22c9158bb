import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.merge.cleanup import ORPHAN_S, SWEEP_S, Sweeper, blobs_of
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin


@pytest.fixture
def clock():
    return ManualClock()


def blobs(root) -> set[str]:
    return {path.stem for path in SharedPaths(root).blobs.glob("*/*.st")}


def run(peer, clock, rounds: int, start: int = 0) -> None:
    for round_ in range(rounds):
        clock.pass_by(10)
        peer.learn(start + round_)
        peer.publish()
        peer.adopt()


def test_the_newest_versions_and_what_they_were_made_of_stay(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock, keep_versions=3)
    run(peer, clock, 10)
    store = Store(SharedPaths(tmp_path))
    expected = set().union(*(blobs_of(store.version(number)) for number in (8, 9, 10)))
    assert expected <= blobs(tmp_path)
    assert len(blobs(tmp_path)) <= len(expected) + 3  # a base, and its state
    assert len(list(store.paths.merged.iterdir())) == 11  # commit records are kept for ever


def test_the_base_of_a_live_peer_is_never_removed(tmp_path, clock):
    fast = begin(tmp_path, "slot-0", clock, keep_versions=2, silence_s=1.0)
    run(fast, clock, 2)
    slow = begin(tmp_path, "slot-1", clock, keep_versions=2)
    store = Store(SharedPaths(tmp_path))
    run(fast, clock, 10, start=30)
    assert store.newest() == 12
    assert store.version(2).state in blobs(tmp_path)
    assert store.version(5).state not in blobs(tmp_path)
    assert slow.adopt() == 12
    for round_ in range(8):  # now nobody needs it: it is a stray, and goes like one
        clock.pass_by(SWEEP_S)
        run(fast, clock, 1, start=50 + round_)
    assert store.version(2).state not in blobs(tmp_path)


def test_judged_records_go_and_pending_ones_stay(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    for peer in peers:
        peer.learn(1)
        peer.publish()
    left = list(SharedPaths(tmp_path).peers.glob("*/*/0*.json"))
    assert [path.parts[-3] for path in left] == ["slot-3"]


def test_strays_go_after_an_hour_of_watching_and_not_before(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    run(peer, clock, 2)
    store, watch = Store(SharedPaths(tmp_path)), StallTimer(clock)
    stray = store.put_blob(b"nobody refers to this", "state")
    temp = store.paths.tmp / "host-1-abandoned"
    temp.write_bytes(b"half")
    reader = PeerReader(store, clock)
    sweeper = Sweeper(store, 8, watch, reader)
    needed = sweeper.needed_blobs(store.version(2), reader.read_peers(store.version(2)))
    for _ in range(int(ORPHAN_S / SWEEP_S)):
        assert sweeper.sweep_orphans(needed) == []
        clock.pass_by(SWEEP_S)
    assert {path.name for path in sweeper.sweep_orphans(needed)} == {f"{stray}.st", temp.name}
    assert needed <= blobs(tmp_path)


def test_evaluations_that_laptops_of_the_release_before_send_are_set_aside(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    box = tmp_path / "inbox" / "anna"
    box.mkdir()
    (box / "eval-0a0a0a0a-000001.json").write_bytes(b"{}")
    run(peer, clock, 1)
    assert list(box.iterdir()) == []


def test_an_hour_in_which_nobody_could_look_makes_no_stray(tmp_path, clock):
    """While the file system hangs, a merger may still be about to commit a file written before."""
    peer = begin(tmp_path, "slot-0", clock)
    run(peer, clock, 1)
    store = Store(SharedPaths(tmp_path))
    stray = store.put_blob(b"a state, its commit record about to come", "state")
    reader = PeerReader(store, clock)
    sweeper = Sweeper(store, 8, StallTimer(clock), reader)
    peers = reader.read_peers(store.version(1))
    needed = sweeper.needed_blobs(store.version(1), peers)
    assert sweeper.sweep_orphans(needed) == []
    clock.pass_by(5 * ORPHAN_S)
    assert sweeper.sweep_orphans(needed) == []
    sweeper.sweep_incarnations(peers)
    clock.pass_by(5 * ORPHAN_S)
    sweeper.sweep_incarnations(peers)
    assert stray in blobs(tmp_path)
    assert list(SharedPaths(tmp_path).peers.glob("slot-0/*/hb.json"))


def test_a_long_lived_merger_sweeps_by_itself(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    stray = Store(SharedPaths(tmp_path)).put_blob(b"nobody refers to this", "state")
    for round_ in range(12):
        clock.pass_by(SWEEP_S)
        run(peer, clock, 1, start=round_)
    assert stray not in blobs(tmp_path)


def test_old_merge_terms_do_not_pile_up(tmp_path, clock):
    peer = begin(tmp_path, "slot-0", clock)
    run(peer, clock, 14)
    assert len(list(SharedPaths(tmp_path).lease.glob("term-*.json"))) <= 18


def test_folders_of_processes_that_are_gone_disappear(tmp_path, clock):
    gone = begin(tmp_path, "slot-1", clock)
    (folder,) = SharedPaths(tmp_path).peers.glob("slot-1/*")
    (folder / "eval-000001.json").write_bytes(b"a job of the release before compared versions")
    gone.exchange.leave_fleet("wall time")
    peer = begin(tmp_path, "slot-0", clock)
    for round_ in range(8):
        run(peer, clock, 1, start=round_)
        clock.pass_by(SWEEP_S)
    assert [path.name for path in SharedPaths(tmp_path).peers.glob("slot-1/*")] == []


@pytest.mark.parametrize("rule", ["delta", "polyak"])
def test_every_version_that_is_kept_can_be_made_again(tmp_path, clock, rule):
    slow = begin(tmp_path, "slot-1", clock, keep_versions=3, rule=rule)
    fast = begin(tmp_path, "slot-0", clock, keep_versions=3, rule=rule, silence_s=1.0)
    for round_ in range(9):
        run(fast, clock, 1, start=round_)
        if round_ % 3 == 1:
            slow.learn(100 + round_)
            slow.publish()
        if round_ % 3 == 2:
            slow.adopt()
    store = Store(SharedPaths(tmp_path))
    newest = store.newest()
    assert newest >= 9
    for number in range(newest - 2, newest + 1):
        record = store.version(number)
        assert rebuild_state(store, record) == store.read_blob(record.state)


def test_under_polyak_a_contribution_whose_base_is_gone_stops_nobody(tmp_path, clock):
    fast = begin(tmp_path, "slot-0", clock, keep_versions=2, rule="polyak", silence_s=1.0)
    run(fast, clock, 2)
    slow = begin(tmp_path, "slot-1", clock, keep_versions=2, rule="polyak")
    slow.exchange.leave_fleet("so that nobody keeps its base")
    run(fast, clock, 4, start=30)
    store = Store(SharedPaths(tmp_path))
    assert store.version(2).state not in blobs(tmp_path)
    slow.learn(50)
    slow.publish()
    run(fast, clock, 12, start=60)
    assert store.newest() >= 18
    refused = [refusal for n in range(19) for refusal in store.version(n).refused]
    assert [(entry.peer, entry.fault) for entry in refused] == [("slot-1", "late")]
