"""Mergers race for the same version, with and without the merge lease."""

import os
import tempfile
from pathlib import Path

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.merge import merger as merging
from Daddy.weights.merge.merger import Merger
from Daddy.weights.store.rebuild_version import rebuild_state
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, settings

ROUNDS = 50
MEMORY = Path("/dev/shm")


@pytest.fixture
def folder():
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as path:
        yield Path(path)


class NoLease:
    """A lease that fails: every process gets it."""

    term = 0

    def release(self, reason: str) -> None:
        pass


class Rival:
    """The second merger, which acts before or after the first at a chosen kill point."""

    def __init__(self, root: Path, point: str) -> None:
        self.root, self.point, self.won = root, point, None
        self.running = False

    def __call__(self, point: str) -> None:
        if point != self.point or self.running:
            return
        self.running = True
        store = Store(SharedPaths(self.root))
        rival = Merger(store, settings(), ManualClock(), "slot-9/99999999")
        self.won = rival.try_merge(5.0)
        self.running = False


@pytest.mark.parametrize("point", ["C8", "C9", "C4:record"])
def test_fifty_races_give_one_commit_per_version_and_equal_bytes(folder, monkeypatch, point):
    monkeypatch.setattr(merging.Merger, "_claim", lambda self: NoLease())
    clock = ManualClock()
    rival = Rival(folder, point)
    peers = [begin(folder, "slot-0", clock, hook=rival), begin(folder, "slot-1", clock)]
    for round_ in range(ROUNDS):
        for number, peer in enumerate(peers):
            peer.learn(2 * round_ + number)
        rival.won = None
        peers[0].publish()
        assert isinstance(rival.won, Version)  # the rival was faster ...
        assert peers[0].recorder.with_state("merged") == []  # ... and we threw our work away
        assert peers[0].adopt() == round_ + 1
        peers[1].adopt()
    history = read_history(SharedPaths(folder))
    assert (len(history.versions), history.chained) == (ROUNDS + 1, True)
    assert {entry.merger for entry in history.versions[1:]} == {"slot-9/99999999"}
    store = Store(SharedPaths(folder))
    for version in history.versions[-4:]:
        assert rebuild_state(store, version) == store.read_blob(version.state)


def race_once(root: Path, ready: int) -> None:
    """A process that merges when it is signalled."""
    store = Store(SharedPaths(root))
    rival = Merger(store, settings(), ManualClock(), f"slot-{os.getpid() % 1000}/{os.getpid():08x}")
    os.read(ready, 1)
    rival.try_merge(5.0)


def test_processes_that_merge_at_the_same_instant_commit_once(folder, monkeypatch):
    monkeypatch.setattr(merging.Merger, "_claim", lambda self: NoLease())
    clock = ManualClock()
    author = begin(folder, "slot-0", clock)
    monkeypatch.setattr(author.exchange, "_merge", author.exchange._store.newest)
    for round_ in range(10):
        author.learn(round_)
        author.publish()
        ready, go = os.pipe()
        children = []
        for _ in range(2):
            child = os.fork()
            if child == 0:
                try:
                    race_once(folder, ready)
                finally:
                    os._exit(0)
            children.append(child)
        os.write(go, b"xx")
        for child in children:
            os.waitpid(child, 0)
        os.close(ready)
        os.close(go)
        assert author.adopt() == round_ + 1
    history = read_history(SharedPaths(folder))
    assert (len(history.versions), history.chained) == (11, True)
    assert [len(version.inputs) for version in history.versions[1:]] == [1] * 10


def test_a_merger_that_froze_with_the_lease_is_overtaken_and_harmless(folder):
    clock = ManualClock()
    frozen = begin(folder, "slot-0", clock)
    other = begin(folder, "slot-1", clock)
    store = Store(SharedPaths(folder))
    from Daddy.core.lease import Lease

    stuck = Lease.acquire(store.paths.lease, {"merger": "slot-7/77777777"})
    assert stuck is not None
    frozen.learn(1)
    frozen.publish()
    assert other.adopt() is None
    clock.pass_by(merging.LEASE_SILENCE_S + 1)
    assert other.adopt() == 1
    assert not stuck.held()
