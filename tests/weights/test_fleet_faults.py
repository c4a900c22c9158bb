"""Faults of a fleet: frozen mergers, signals, restarts together, very different speeds."""

import dataclasses
import os
import signal
import tempfile
from pathlib import Path

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.core.stop_conditions import StopSignal
from Daddy.weights.merge import merger as merging
from Daddy.weights.merge.merger import Merger
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import RunCard
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, settings

MEMORY = Path("/dev/shm")
RULES = ("delta", "polyak")


@pytest.fixture
def clock():
    return ManualClock()


def test_a_merger_stopped_before_its_commit_commits_nothing_when_it_wakes_up(tmp_path, clock):
    """1. SIGSTOP with the lease held and the state written. 2. Another merges. 3. SIGCONT."""
    author, other = begin(tmp_path, "slot-0", clock), begin(tmp_path, "slot-1", clock)
    author.exchange._merge = lambda period_s=None: None
    author.learn(1)
    author.publish()
    child = os.fork()
    if child == 0:
        code = 2
        try:
            store = Store(SharedPaths(tmp_path), stop_at_c9)
            record = Merger(store, settings(), ManualClock(), "slot-7/77777777").try_merge(0.0)
            code = 0 if record is None else 1
        finally:
            os._exit(code)
    assert os.WIFSTOPPED(os.waitpid(child, os.WUNTRACED)[1])
    assert other.adopt() is None  # the lease is held
    clock.pass_by(merging.LEASE_SILENCE_S + 1)
    assert other.adopt() == 1
    os.kill(child, signal.SIGCONT)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    history = read_history(SharedPaths(tmp_path))
    assert (len(history.versions), history.chained) == (2, True)
    assert history.versions[1].merger.startswith("slot-1/")


def stop_at_c9(point: str) -> None:
    if point == "C9":
        os.kill(os.getpid(), signal.SIGSTOP)


@pytest.fixture
def stopper():
    numbers = (signal.SIGTERM, signal.SIGUSR1, signal.SIGINT)
    before = {number: signal.getsignal(number) for number in numbers}
    yield StopSignal().install()
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("point", ["C2:blob", "C6", "C4:contribution", "C9", "C11"])
def test_a_signal_during_publishing_is_honoured_when_all_is_whole(tmp_path, clock, stopper, point):
    def hook(here: str) -> None:
        if here == point:
            os.kill(os.getpid(), signal.SIGTERM)

    peer = begin(tmp_path, "slot-0", clock, hook=hook)
    peer.learn(1)
    assert "contribution 1" in peer.publish()
    assert stopper.stop_reason() == "signal SIGTERM"
    peer.exchange.leave_fleet("signal SIGTERM")
    store = Store(SharedPaths(tmp_path))
    assert store.version(store.newest()).contributors == {"slot-0": 100}
    assert store.head().version == store.keyframe().version == 1


def test_ten_times_faster_and_ten_times_slower_peers_all_count(tmp_path, clock):
    names = {"slot-0": 10, "slot-1": 1, "slot-2": 10}  # steps of the clock per contribution
    peers = {name: begin(tmp_path, name, clock, max_staleness=40) for name in names}
    fast = begin(tmp_path, "slot-3", clock, max_staleness=40)
    for tick in range(1, 41):
        clock.pass_by(10)
        fast.learn(1000 + tick, steps=1000)
        fast.publish()
        fast.adopt()
        for name, peer in peers.items():
            if tick % names[name] == 0:
                peer.learn(10 * tick + names[name], steps=100)
                peer.publish()
                peer.adopt()
    for _ in range(3):
        clock.pass_by(100)
        fast.adopt()
    newest = read_history(SharedPaths(tmp_path)).versions[-1]
    counted = {"slot-0": 400, "slot-1": 4000, "slot-2": 400, "slot-3": 40_000}
    assert newest.contributors == counted


def test_one_who_joins_at_version_a_thousand_begins_there(clock):
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        begin(Path(folder), "slot-0", clock)
        store = Store(SharedPaths(Path(folder)))
        extend(store, 1000)
        late = begin(Path(folder), "slot-1", clock)
        assert late.version == 1000
        late.learn(1)
        late.publish()
        clock.pass_by(200)
        assert late.adopt() == 1001
        assert read_history(store.paths).chained


def extend(store: Store, upto: int) -> None:
    record = store.version(0)
    for number in range(1, upto + 1):
        parent = store.record_hash(number - 1)
        store.commit(dataclasses.replace(record, version=number, parent=parent))


def test_four_jobs_that_all_restart_at_once_lose_nothing_and_go_on(tmp_path, clock):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(4)]
    for round_ in range(3):
        for number, peer in enumerate(peers):
            peer.learn(10 * round_ + number)
            peer.publish()
            clock.pass_by(3)
            peer.adopt()
    before = Store(SharedPaths(tmp_path)).newest()
    again = []
    for peer in peers:  # the wall: checkpoint, then gone, all within one second
        note = peer.exchange.resume_state()
        peer.exchange.leave_fleet("wall time")
        name, own = peer.exchange._peer, dict(peer.weights)
        fresh = begin(tmp_path, name, clock, resumed=note, own=own)
        fresh.env_steps, fresh.updates = peer.env_steps, peer.updates
        again.append(fresh)
    assert all(peer.version >= before for peer in again)
    for number, peer in enumerate(again):
        peer.learn(100 + number)
        peer.publish()
        clock.pass_by(3)
    for _ in range(3):
        clock.pass_by(100)
        for peer in again:
            peer.adopt()
    history = read_history(SharedPaths(tmp_path))
    assert history.chained
    assert history.versions[-1].contributors == {f"slot-{k}": 400 for k in range(4)}
    assert len({round(float(peer.weights["core.bias"][0]), 4) for peer in again}) == 1


def test_jobs_with_different_rules_make_versions_that_say_theirs_and_replay(tmp_path, clock):
    peers = [
        begin(tmp_path, f"slot-{k}", clock, rule=rule, keep_versions=16)
        for k, rule in enumerate(RULES)
    ]
    for round_ in range(4):
        for number, peer in enumerate(peers):
            peer.learn(10 * round_ + number)
            peer.publish()
            clock.pass_by(10)
            peer.adopt()
    store = Store(SharedPaths(tmp_path))
    versions = read_history(store.paths).versions
    assert {entry.rule for entry in versions} == set(RULES)
    for version in versions[1:]:
        assert rebuild_state(store, version) == store.read_blob(version.state)


def test_another_run_card_put_in_place_while_jobs_run_is_not_theirs(tmp_path, clock):
    old = begin(tmp_path, "slot-0", clock)
    paths = SharedPaths(tmp_path)
    paths.run.unlink()
    schema = Store(paths).version(0).schema
    Store(paths).open(RunCard("other", "other", "cartpole", schema))
    old.learn(1)
    old.publish()
    assert old.adopt() == 1  # it goes on with what it began with
    new = begin(tmp_path, "slot-1", clock)
    new.learn(2)
    new.publish()
    for _ in range(3):
        clock.pass_by(100)
        new.adopt()
    refused = [refusal for v in read_history(paths).versions for refusal in v.refused]
    assert [entry.peer for entry in refused] == ["slot-1"]
    assert "belongs to another run" in refused[0].reason
