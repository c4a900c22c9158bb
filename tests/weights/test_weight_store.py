import dataclasses
import os
import socket
from pathlib import Path

import pytest

from Daddy.core.errors import WeightsError
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.store.crash_safe_files import CrashSafeWriter
from Daddy.weights.store.laptop_downloads import offer_version
from Daddy.weights.store.weight_records import RunCard, Version
from Daddy.weights.store.weight_store import Store
from tests.weights.helpers import ManualClock, begin, make_state

SCHEMA = "ab" * 32


@pytest.fixture
def store(tmp_path):
    return Store(SharedPaths(tmp_path))


def first(store, data: bytes = b"weights") -> Version:
    store.open(RunCard("run", "run", "cartpole", SCHEMA))
    return Version(
        run_id="run", schema=SCHEMA, state=store.put_blob(data, "state"), size=len(data),
        rule="delta", merger="slot-0/01234567", ts=1.0,
    )  # fmt: skip


def grow(store, upto: int) -> None:
    record = first(store)
    store.commit(record)
    for number in range(1, upto + 1):
        parent = store.record_hash(number - 1)
        store.commit(dataclasses.replace(record, version=number, parent=parent))


def test_a_blob_is_named_by_its_hash_and_read_only(store):
    sha = store.put_blob(b"x" * 1000, "state")
    assert store.read_blob(sha) == b"x" * 1000
    assert store.paths.blob(sha).stat().st_mode & 0o222 == 0
    assert store.put_blob(b"x" * 1000, "state") == sha


@pytest.mark.parametrize("damage", [lambda d: d[:-1], lambda d: d + b"!", lambda d: b"y" + d[1:]])
def test_a_damaged_blob_is_never_returned(store, damage):
    sha = store.put_blob(b"x" * 1000, "state")
    path = store.paths.blob(sha)
    path.chmod(0o644)
    path.write_bytes(damage(b"x" * 1000))
    with pytest.raises(WeightsError, match="damaged"):
        store.read_blob(sha)


def test_a_missing_blob_and_a_link_in_its_place_are_refused(store, tmp_path):
    sha = store.put_blob(b"x", "state")
    path = store.paths.blob(sha)
    path.rename(tmp_path / "elsewhere")
    with pytest.raises(WeightsError, match="missing"):
        store.read_blob(sha)
    path.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(WeightsError):
        store.read_blob(sha)


def test_of_two_commits_of_one_number_the_first_wins(store, tmp_path):
    record = first(store)
    assert store.commit(record)
    other = dataclasses.replace(record, merger="slot-1/89abcdef")
    assert not Store(SharedPaths(tmp_path)).commit(other)
    assert Store(SharedPaths(tmp_path)).version(0).merger == "slot-0/01234567"


def test_the_newest_version_is_found_with_a_stale_missing_or_lying_head(store, tmp_path):
    grow(store, 5)
    paths = SharedPaths(tmp_path)
    assert Store(paths).newest() == 5
    store.write_head(3)
    assert Store(paths).newest() == 5
    store.write_head(5)
    head = paths.head.read_text()
    for wrong in (head.replace('"version": 5', '"version": 99'), "{", "", head * 2):
        paths.head.write_text(wrong)
        assert Store(paths).newest() == 5


def test_a_reader_never_sees_an_older_version_than_before(store, tmp_path):
    grow(store, 3)
    reader = Store(SharedPaths(tmp_path))
    assert reader.newest() == 3
    store.paths.version(3).unlink()  # a folder listing that lags behind, as on NFS
    store.paths.head.unlink(missing_ok=True)
    assert reader.newest() == 3


def make_socket(path):
    here = Path.cwd()
    os.chdir(path.parent)  # a socket's path may have about 100 characters
    try:
        with socket.socket(socket.AF_UNIX) as listener:
            listener.bind(path.name)
    finally:
        os.chdir(here)


NO_RECORDS = {
    "a socket": make_socket,
    "a folder": lambda path: path.mkdir(),
    "a fifo": os.mkfifo,
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a record": lambda path: path.symlink_to("v00000000.json"),
    "an empty file": lambda path: path.touch(),
    "half a record": lambda path: path.write_text('{"format": 1, "versi'),
}


@pytest.mark.parametrize("kind", NO_RECORDS)
def test_a_name_that_holds_no_record_never_ends_the_chain_of_versions(tmp_path, kind):
    clock = ManualClock()
    job = begin(tmp_path, "slot-0", clock)
    paths = SharedPaths(tmp_path)
    for number in (1, 2):
        NO_RECORDS[kind](paths.version(number))
    job.learn(1)
    job.publish()
    assert job.adopt() == 3
    assert Store(paths).newest() == 3
    assert Store(paths).version(3).parent == Store(paths).record_hash(0)
    NO_RECORDS[kind](paths.version(4))
    paths.head.unlink()
    assert begin(tmp_path, "slot-1", clock).version == 3, "a new job, without a head"
    job.learn(2)
    job.publish()
    clock.pass_by(60.0)
    assert job.adopt() == 5
    assert Store(paths).version(5).fleet_steps == 200


def test_a_record_of_a_newer_release_or_behind_a_bad_disk_is_not_passed_over(store, monkeypatch):
    grow(store, 1)
    newer, again = store.paths.version(2), Store(store.paths)
    newer.write_text('{"format": 2}')
    assert again.newest() == 2
    with pytest.raises(WeightsError, match="format 2"):
        again.version(2)
    monkeypatch.setattr(os, "read", lambda *_: (_ for _ in ()).throw(OSError(5, "I/O error")))
    assert Store(store.paths).newest() == 2


def test_a_head_never_moves_back(store):
    grow(store, 3)
    store.write_head(3)
    store.write_head(1)
    assert store.head().version == 3


def test_a_link_whose_answer_was_lost_counts_as_made(tmp_path, monkeypatch):
    real = os.link

    def lossy(source, target):
        real(source, target)
        raise OSError(5, "Input/output error")

    monkeypatch.setattr(os, "link", lossy)
    assert CrashSafeWriter(tmp_path / "tmp").create(tmp_path / "a", b"data", "record")
    assert (tmp_path / "a").read_bytes() == b"data"
    assert (tmp_path / "a").stat().st_nlink == 1


def test_a_link_that_failed_is_an_error_and_leaves_nothing(tmp_path, monkeypatch):
    def broken(source, target):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "link", broken)
    with pytest.raises(OSError, match="No space"):
        CrashSafeWriter(tmp_path / "tmp").create(tmp_path / "a", b"data", "record")
    assert not (tmp_path / "a").exists()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_laptops_are_offered_the_file_before_its_head(store):
    grow(store, 12)
    states = [encode(make_state(number), half=True) for number in range(13)]
    for number, state in enumerate(states):
        offer_version(store, number, state)
    frame = store.keyframe()
    assert frame.version == 12
    assert (store.paths.wan / frame.name).read_bytes() == states[12]
    assert len(list(store.paths.wan.glob("kf-*.st"))) == 8


def test_an_empty_folder_says_what_to_do(store):
    assert store.newest() is None
    with pytest.raises(WeightsError) as error:
        store.card()
    assert "start a learner" in error.value.fix
