"""The copy in the home directory: complete or absent, bounded, never older than before."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from Daddy.core.atomic_files import sha256_hex, write_json
from Daddy.core.errors import WeightsError
from Daddy.core.run_paths import MirrorPaths, RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.backup import (
    choose_states,
    export_copy,
    find_missing,
    hash_in_name,
    read_mirror_card,
)
from Daddy.weights.mirror import RunMirror
from Daddy.weights.store.weight_store import Store
from tests.patience import PATIENCE_S
from tests.weights.helpers import ManualClock, begin

ROOM = 1_000_000


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def run(tmp_path):
    return RunPaths(tmp_path / "scratch" / "run")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home" / "mirrors"


def learn(run, clock, rounds: int = 3):
    peer = begin(run.shared_weights, "slot-0", clock)
    for round_ in range(rounds):
        clock.pass_by(10)
        peer.learn(peer.version * 10 + round_)
        peer.publish()
        peer.adopt()
    return peer


def copy(run, home, clock, room: int = ROOM, **more):
    """Return the copy's card and the message."""
    shared = SharedPaths(run.shared_weights)
    return export_copy(run, shared, b"{}\n", home, clock, room=room, **more)


def keeper_of(run, home, clock, **more) -> RunMirror:
    return RunMirror(run, SharedPaths(run.shared_weights), b"{}\n", home, clock, **more)


def only(home) -> MirrorPaths:
    (found,) = home.iterdir()
    return MirrorPaths(found)


def keep_moment(run, rank: int, seed: int, hp: int = 31, size: int = 400) -> str:
    data = bytes([seed]) * size
    name = f"r{rank:03d}-{seed:016x}-p1a2b3c-h{hp:04d}-{seed:012d}-{sha256_hex(data)}.state"
    path = run.archive / "0123456789ab-pyboy-2.7.0" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return name


def files(target: MirrorPaths) -> dict[str, tuple[int, int]]:
    found = [path for path in target.root.rglob("*") if path.is_file()]
    return {
        str(item.relative_to(target.root)): (item.stat().st_ino, item.stat().st_size)
        for item in found
    }


def test_a_copy_reads_like_a_run(run, home, clock):
    learn(run, clock)
    name = keep_moment(run, 7, 1)
    copy(run, home, clock)
    target = only(home)
    store, theirs = Store(target.shared), Store(SharedPaths(run.shared_weights))
    assert store.newest() == 3
    record = store.version(3)
    assert store.read_blob(record.state) == theirs.read_blob(record.state)
    assert record.contributors == theirs.version(3).contributors != {}
    assert store.card() == theirs.card()
    assert [path.name for path in target.copied_run.archive.glob("*/*")] == [name]
    card = read_mirror_card(target)
    assert (card.version, card.states, card.left_out) == (3, 1, 0)
    assert card.source == str(run.root)


def test_nothing_is_written_where_nothing_changed(run, home, clock):
    learn(run, clock)
    keep_moment(run, 7, 1)
    copy(run, home, clock)
    before = files(only(home))
    clock.pass_by(600)
    copy(run, home, clock)
    assert files(only(home)) == before


def test_only_the_newest_state_stays_and_the_size_is_bounded(run, home, clock):
    peer = learn(run, clock)
    for round_ in range(20):
        clock.pass_by(10)
        peer.learn(100 + round_)
        peer.publish()
        peer.adopt()
        copy(run, home, clock)
        blobs = list(only(home).shared.blobs.glob("*/*.st"))
        assert [blob.stem for blob in blobs] == [
            Store(SharedPaths(run.shared_weights)).version(peer.version).state
        ]
    assert len(list(only(home).shared.merged.iterdir())) == 1
    assert not list(only(home).shared.tmp.iterdir())


def test_the_archive_gets_the_room_that_weights_leave(run, home, clock):
    learn(run, clock)
    size = Store(SharedPaths(run.shared_weights)).version(3).size
    for seed in range(1, 11):
        keep_moment(run, rank=seed // 2, seed=seed)
    card, _ = copy(run, home, clock, room=2 * size + 3 * 400)
    assert (card.states, card.left_out) == (3, 7)
    kept = sorted(path.name[:4] for path in only(home).copied_run.archive.glob("*/*"))
    assert kept == ["r003", "r004", "r005"]


def test_a_state_that_is_too_large_for_the_room_is_refused_by_name(run, home, clock):
    learn(run, clock)
    with pytest.raises(WeightsError, match="may have 100") as error:
        copy(run, home, clock, room=100)
    assert "mirror.minutes" in error.value.fix
    assert not home.exists()


def test_a_copy_never_goes_back(run, home, clock):
    """A purge took the newest state: the copy holds more than the run."""
    learn(run, clock)
    copy(run, home, clock)
    shared = Store(SharedPaths(run.shared_weights))
    shared.paths.blob(shared.version(3).state).unlink()
    before = files(only(home))
    card, said = copy(run, home, clock)
    assert files(only(home)) == before
    assert (card.version, said) == (3, "the copy holds v3, the run v2: it stays")
    assert Store(only(home).shared).read_blob(shared.version(3).state)


def test_a_damaged_state_is_not_copied(run, home, clock):
    learn(run, clock)
    shared = Store(SharedPaths(run.shared_weights))
    blob = shared.paths.blob(shared.version(3).state)
    blob.chmod(0o644)
    good = blob.read_bytes()
    blob.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert copy(run, home, clock)[0].version == 2


def test_a_damaged_moment_is_not_copied(run, home, clock):
    learn(run, clock)
    name = keep_moment(run, 7, 1)
    (run.archive / "0123456789ab-pyboy-2.7.0" / name).write_bytes(b"something else")
    copy(run, home, clock)
    assert not list(only(home).copied_run.archive.glob("*/*.state"))


def test_another_run_of_the_same_name_has_another_copy(tmp_path, home, clock):
    for folder in "ab":
        other = RunPaths(tmp_path / folder)
        learn(other, clock)
        copy(other, home, clock)
    assert len(list(home.iterdir())) == 2


class Points:
    """Records every kill point; kills its own process at one of them."""

    def __init__(self, at: int = -1) -> None:
        self.at, self.seen = at, []

    def __call__(self, point: str) -> None:
        if len(self.seen) == self.at:
            os.kill(os.getpid(), signal.SIGKILL)
        self.seen.append(point)


def test_killed_at_every_instant_the_copy_is_whole_and_the_next_pass_mends_it(run, home, clock):
    peer = learn(run, clock)
    keep_moment(run, 3, 1)
    copy(run, home, clock)
    peer.learn(7)
    peer.publish()
    clock.pass_by(10)
    peer.adopt()
    keep_moment(run, 4, 2)
    probe = Points()
    reference = home.parent / "probe"
    subprocess.run(["cp", "-a", str(home), str(reference)], check=True)
    copy(run, reference, clock, hook=probe)
    assert {"M1", "M2", "M3", "C2:state", "C5:commit record", "C4:archive state"} <= set(probe.seen)
    for instant in range(len(probe.seen)):
        case = home.parent / f"case-{instant}"
        subprocess.run(["cp", "-a", str(home), str(case)], check=True)
        child = os.fork()
        if child == 0:
            copy(run, case, clock, hook=Points(instant))
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        card = read_mirror_card(only(case))
        store = Store(only(case).shared)
        assert card.version in (3, 4), probe.seen[instant]
        assert store.read_blob(store.version(card.version).state)
        copy(run, case, clock)
        assert sorted(files(only(case))) == sorted(files(only(reference)))


def full_at(count: int):
    """Return a hook that raises "disk full" at the n-th kill point."""
    left = [count]

    def hook(point: str) -> None:
        left[0] -= 1
        if left[0] < 0 and point.startswith("C2"):
            raise OSError(28, "No space left on device")

    return hook


def test_a_home_that_is_full_is_said_once_and_the_last_copy_stays_whole(run, home, clock, capsys):
    peer = learn(run, clock)
    run.controller.mkdir()
    assert keeper_of(run, home, clock).copy_once()
    before = files(only(home))
    peer.learn(9)
    peer.publish()
    clock.pass_by(10)
    peer.adopt()
    keeper = keeper_of(run, home, clock, hook=full_at(0))
    capsys.readouterr()
    for _ in range(3):
        assert not keeper.copy_once()
        assert files(only(home)) == before
    assert capsys.readouterr().out.count("No space left") == 1
    told = json.loads(run.mirrored.read_bytes())
    assert "No space left" in told["trouble"]
    assert keeper_of(run, home, clock).copy_once()
    assert read_mirror_card(only(home)).version == 4
    assert json.loads(run.mirrored.read_bytes())["trouble"] == ""


def test_a_home_that_cannot_be_written_is_said(run, tmp_path, clock, capsys):
    learn(run, clock)
    (tmp_path / "home").write_text("a file where the folder should be")
    assert not keeper_of(run, tmp_path / "home" / "mirrors", clock).copy_once()
    assert "the mirror was not updated" in capsys.readouterr().out


def test_a_run_that_is_gone_is_not_made_again(run, home, clock):
    learn(run, clock)
    keeper = keeper_of(run, home, clock)
    keeper.copy_once()
    subprocess.run(["rm", "-rf", str(run.root)], check=True)
    keeper.copy_once()
    assert not run.root.exists()
    assert read_mirror_card(only(home)).version == 3


def test_the_program_copies_until_it_is_told_to_end(run, home, clock, tmp_path):
    learn(run, clock)
    settings = {"run_name": "test", "run_dir": str(run.root), "mirror": {"folder": str(home)}}
    (tmp_path / "config.json").write_text(json.dumps(settings))
    argv = [sys.executable, "-m", "Daddy.weights.mirror", "--config", str(tmp_path / "config.json")]
    child = subprocess.Popen([*argv, "--every", "0.2"], stderr=subprocess.PIPE, text=True)
    try:
        deadline = time.monotonic() + PATIENCE_S
        while not (home.is_dir() and any(read_mirror_card(MirrorPaths(p)) for p in home.iterdir())):
            assert time.monotonic() < deadline, "no copy came"
            assert child.poll() is None
            time.sleep(0.05)
        child.send_signal(signal.SIGTERM)
        _, log = child.communicate(timeout=PATIENCE_S)
    finally:
        child.kill()
        child.wait()
    assert (child.returncode, log.count("\n")) == (0, 1)
    assert json.loads(only(home).copied_run.config.read_bytes())["run_name"] == "test"


# -- what a purge took out


def test_missing_files_are_counted(run, clock):
    learn(run, clock, rounds=10)
    shared = SharedPaths(run.shared_weights)
    assert find_missing(shared, 8) == ""
    store = Store(shared)
    for number in (5, 6, 9):
        shared.blob(store.version(number).state).unlink()
    assert find_missing(shared, 8) == "3 of 8 states are missing"
    shared.version(7).unlink()
    said = find_missing(shared, 8)
    assert said == "1 commit record is missing, 3 of 8 states are missing"
    shared.run.unlink()
    assert find_missing(shared, 8).startswith(f"RUN.json is missing, {said}; python -m")


def test_the_remedy_is_named_where_the_newest_state_is_gone(run, clock):
    learn(run, clock)
    store = Store(SharedPaths(run.shared_weights))
    store.paths.blob(store.version(store.newest()).state).unlink()
    assert "1 of 4 states are missing; python -m" in find_missing(store.paths, 8)


def note_of(run, home, clock) -> str:
    keeper_of(run, home, clock).copy_once()
    return json.loads(run.mirrored.read_bytes())["holes"]


def test_only_shared_weights_that_were_there_can_be_gone(run, home, clock):
    run.controller.mkdir(parents=True)
    assert note_of(run, home, clock) == ""
    learn(run, clock, rounds=0)
    assert note_of(run, home, clock) == ""
    subprocess.run(["rm", "-rf", str(run.shared_weights)], check=True)
    for _ in range(2):  # also of a keeper that came after the one before it had told
        assert note_of(run, home, clock).startswith("the shared weights are gone; python -m")


def test_a_note_of_the_release_before_tells_that_weights_were_there(run, home, clock):
    run.controller.mkdir(parents=True)
    write_json(run.mirrored, {"ts": 1.0, "folder": str(home), "version": 3, "copied_ts": 1.0})
    assert note_of(run, home, clock).startswith("the shared weights are gone; python -m")


# -- which moments


def test_the_archives_own_names_are_understood():
    from Daddy.pokemon.archive.file_names import StateEntry

    entry = StateEntry(7, "0123456789abcdef", "1a2b3c", 31, 42, "ab" * 32)
    assert hash_in_name(entry.file_name) == "ab" * 32
    assert hash_in_name("ab" * 32 + ".dry-01") is None


def test_the_best_of_each_milestone_comes_first():
    def name(rank, key, hp, seed):
        return Path(
            f"r{rank:03d}-{key * 16}-p1a2b3c-h{hp:04d}-{seed:012d}-{f'{seed:x}' * 64}.state"
        )

    low = [name(1, "a", 10, 1), name(1, "a", 20, 2), name(1, "b", 5, 3)]
    high = [name(2, "c", 1, 4)]
    listed = dict.fromkeys([*low, *high], 10)
    assert choose_states(listed, 1000, 99) == [high[0], low[1], low[2], low[0]]
    assert choose_states(listed, 25, 99) == [high[0], low[1]]
    assert choose_states(listed, 1000, 1) == [high[0]]
    assert choose_states({Path("notes.txt"): 1, Path(".tmp-1"): 1}, 1000, 99) == []
