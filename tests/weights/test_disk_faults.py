"""Faults of a disk, a clock or another process on files that are in use."""

import errno
import os

import pytest

from Daddy.core import atomic_files
from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.store.weight_store import Store
from scripts.version_history import read_history
from tests.weights.helpers import ManualClock, begin, close

DAMAGE = {
    "first half": lambda data: data[: len(data) // 2],
    "one byte short": lambda data: data[:-1],
    "one byte more": lambda data: data + b"\0",
    "one bit": lambda data: data[:-1] + bytes([data[-1] ^ 1]),
    "empty": lambda data: b"",
    "eight bytes": lambda data: data[:8],
}


@pytest.fixture
def clock():
    return ManualClock()


def round_of(peers, clock, seed: int) -> None:
    for number, peer in enumerate(peers):
        peer.learn(10 * seed + number)
        peer.publish()
        clock.pass_by(10)
        peer.adopt()


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_state_under_its_final_name_is_mended_and_never_used(tmp_path, clock, kind):
    peer = begin(tmp_path, "slot-0", clock)
    round_of([peer], clock, 1)
    store = Store(SharedPaths(tmp_path))
    blob = store.paths.blob(store.version(1).state)
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(DAMAGE[kind](good))
    joined = begin(tmp_path, "slot-1", clock, seed=7)
    assert (joined.version, close(joined.weights, peer.weights)) == (1, True)
    assert blob.read_bytes() == good


WRITTEN = ("blob", "contribution", "state", "record", "head", "keyframe", "wan-head", "beat")
FAILURES = {
    "C1": errno.EROFS,
    "C2": errno.ENOSPC,
    "C3": errno.EIO,
    "C4": errno.EDQUOT,
    "C5": errno.EIO,
}


@pytest.mark.parametrize("step", FAILURES)
@pytest.mark.parametrize("what", WRITTEN)
def test_a_write_that_fails_costs_nothing_and_training_goes_on(tmp_path, clock, what, step):
    """Read-only before the write, full during it, broken after the bytes, over quota at the end,
    broken after the name: the file is there although its writer got an error.
    """
    broken = [False]

    def disk(point: str) -> None:
        if broken[0] and point == f"{step}:{what}":
            hit.append(point)
            raise OSError(FAILURES[step], os.strerror(FAILURES[step]), str(tmp_path))

    hit: list[str] = []
    peers = [begin(tmp_path, f"slot-{k}", clock, hook=disk, max_staleness=9) for k in range(2)]
    for round_ in range(4):
        broken[0] = round_ in (1, 2)
        round_of(peers, clock, round_)
    assert hit
    for peer in 2 * peers:
        clock.pass_by(100)
        peer.adopt()
    history = read_history(SharedPaths(tmp_path))
    judged = [(merged.peer, merged.sequence) for v in history.versions for merged in v.inputs]
    assert history.chained
    assert len(set(judged)) == len(judged)
    assert history.versions[-1].contributors == {"slot-0": 400, "slot-1": 400}
    assert Store(SharedPaths(tmp_path)).head().version == len(history.versions) - 1


class WrongClock(ManualClock):
    """A wall clock hours off that jumps back at every call."""

    jumps = 0.0

    def now(self) -> float:
        self.jumps += 6 * 3600.0
        return super().now() - self.jumps


def test_clocks_hours_off_and_running_backwards_change_nothing(tmp_path):
    def weights_of(root, clocks):
        peers = [begin(root, f"slot-{k}", clock) for k, clock in enumerate(clocks)]
        for round_ in range(4):
            for number, peer in enumerate(peers):
                peer.shift(0.1 * (1 + round_ + 4 * number))
                peer.publish()
                for clock in clocks:
                    clock.pass_by(10)
                peer.adopt()
        return peers[0].weights, read_history(SharedPaths(root))

    right, expected = weights_of(tmp_path / "a", [ManualClock(), ManualClock()])
    wrong, history = weights_of(tmp_path / "b", [WrongClock(), WrongClock(time=30_000.0)])
    assert close(right, wrong, 0.0)
    assert [v.state for v in history.versions] == [v.state for v in expected.versions]
    assert history.versions[1].ts > history.versions[-1].ts  # it did jump


@pytest.mark.parametrize("when", [0, 4_070_908_800], ids=["1970", "2099"])
def test_times_of_files_mean_nothing(tmp_path, clock, when):
    peers = [begin(tmp_path, f"slot-{k}", clock) for k in range(2)]
    for round_ in range(12):
        round_of(peers, clock, round_)
        for path in tmp_path.rglob("*"):
            os.utime(path, (when, when))
    history = read_history(SharedPaths(tmp_path))
    assert history.versions[-1].contributors == {"slot-0": 1200, "slot-1": 1200}
    store = Store(SharedPaths(tmp_path))
    assert all(store.read_blob(v.state) for v in history.versions[-8:])


@pytest.mark.parametrize("how", ["replaced", "overwritten"])
def test_a_reader_keeps_its_own_bytes_or_gets_none(tmp_path, monkeypatch, how):
    """The file changes between opening and reading it."""
    store = Store(SharedPaths(tmp_path))
    good = os.urandom(5000)
    path = store.paths.blob(store.put_blob(good, "state"))
    path.chmod(0o644)
    real = os.fstat

    def meanwhile(descriptor):
        other = tmp_path / "other"
        other.write_bytes(b"x" * 5000)
        if how == "replaced":
            other.replace(path)
        else:
            path.write_bytes(b"x" * 5000)
        return real(descriptor)

    with monkeypatch.context() as patch:
        patch.setattr(atomic_files.os, "fstat", meanwhile)
        if how == "replaced":
            assert store.read_blob(path.stem) == good
        else:
            with pytest.raises(WeightsError, match="damaged"):
                store.read_blob(path.stem)
    with pytest.raises(WeightsError, match="damaged"):
        store.read_blob(path.stem)
