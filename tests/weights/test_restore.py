"""After a purge a run continues above every known number, and no good file is overwritten."""

import json
import os
import random
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest

from Daddy.core.clock import SystemClock
from Daddy.core.errors import WeightsError
from Daddy.core.host_and_processes import current_process, host_name
from Daddy.core.lease import Lease
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import restore
from Daddy.weights.backup import export_copy, find_missing
from Daddy.weights.commit_history import read_records
from Daddy.weights.encoding.state_arithmetic import is_finite
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.restore import (
    LEAP,
    UNTOLD,
    RestoreCandidate,
    RestoreSource,
    active_writers,
    choose_version,
    open_source,
    plan_restore,
    restore_run,
)
from Daddy.weights.store.weight_store import Store, version_numbers
from Daddy.weights.weights_status_record import report_run
from tests.weights.helpers import ManualClock, begin, close
from tests.weights.test_mirror import Points, keep_moment, only

KEEP = 8


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def run(tmp_path):
    return RunPaths(tmp_path / "scratch" / "run")


@pytest.fixture
def home(tmp_path):
    return tmp_path / "home" / "mirrors"


def rounds(peers, clock, count: int) -> None:
    """Make versions of a hundred steps each: the peers publish in turn and all adopt."""
    for round_ in range(count):
        clock.pass_by(10)
        author = peers[round_ % len(peers)]
        author.learn(random.randrange(1 << 30))
        author.publish()
        for peer in peers:
            peer.adopt()


def learnt(run, clock, count: int = 6):
    """Make two jobs that have shared some versions."""
    peers = [begin(run.shared_weights, f"slot-{k}", clock) for k in range(2)]
    rounds(peers, clock, count)
    return peers


def copy(run, home, clock) -> None:
    shared = SharedPaths(run.shared_weights)
    export_copy(run, shared, b"{}\n", home, clock)


def pull(run, laptop: Path) -> None:
    """Copy what a laptop has after a pull."""
    (laptop / "wan").mkdir(parents=True, exist_ok=True)
    for path in run.shared_weights.glob("wan/*"):
        shutil.copy(path, laptop / "wan")


def target(run) -> RestoreSource:
    return RestoreSource(run, SharedPaths(run.shared_weights))


def mend(run, *sources: Path, clock, **more) -> int:
    found = plan_restore(target(run), [open_source(source) for source in sources])
    return restore_run(found, clock, **more)


def newest(run):
    store = Store(SharedPaths(run.shared_weights))
    return store.version(store.newest())


def state(run):
    store = Store(SharedPaths(run.shared_weights))
    record = store.version(store.newest())
    return decode(store.read_blob(record.state), record.schema)


def content(root: Path) -> dict[str, bytes]:
    return {str(p.relative_to(root)): p.read_bytes() for p in root.rglob("*") if p.is_file()}


# -- everything is gone


def test_a_run_that_vanished_as_a_whole_goes_on_from_its_copy(run, home, clock):
    learnt(run, clock)
    moment = keep_moment(run, 7, 1)
    copy(run, home, clock)
    before, weights = newest(run), state(run)
    shutil.rmtree(run.root)
    number = mend(run, only(home).root, clock=clock)
    assert number == 2 * LEAP
    after = newest(run)
    assert after.version == number
    assert close(state(run), weights, 0)
    assert (after.contributors, after.fleet_steps) == (before.contributors, before.fleet_steps)
    assert after.consumed == before.consumed
    assert [path.name for path in run.archive.glob("*/*")] == [moment]
    assert run.config.read_bytes() == b"{}\n"
    flaws = report_run(SharedPaths(run.shared_weights), clock.now())["flaws"]
    assert not [flaw for flaw in flaws if ".json" in flaw]  # numbers that were leapt are no hole
    fresh = begin(run.shared_weights, "slot-0", clock)
    assert fresh.version == number
    rounds([fresh], clock, 12)
    assert fresh.version == number + 12, fresh.recorder.events[:2]
    assert newest(run).fleet_steps == before.fleet_steps + 1200
    assert not [told for kind, _, told in fresh.recorder.events if kind == "error"]


def test_a_laptops_rounded_copy_is_enough(run, tmp_path, clock):
    learnt(run, clock)
    weights, steps = state(run), newest(run).fleet_steps
    pull(run, tmp_path / "laptop")
    shutil.rmtree(run.root)
    number = mend(run, tmp_path / "laptop", clock=clock)
    after = newest(run)
    assert after.version == number
    assert (after.fleet_steps, after.contributors) == (steps, {UNTOLD: steps})
    assert close(state(run), weights, 2e-2)
    assert not close(state(run), weights, 0)
    fresh = begin(run.shared_weights, "slot-1", clock)
    rounds([fresh], clock, 3)
    assert newest(run).fleet_steps == steps + 300


def test_a_newer_laptop_is_worth_more_than_an_exact_older_copy(run, home, tmp_path, clock):
    peers = learnt(run, clock, 3)
    copy(run, home, clock)
    older = newest(run)
    rounds(peers, clock, 2)
    weights, steps = state(run), newest(run).fleet_steps
    pull(run, tmp_path / "laptop")
    shutil.rmtree(run.root)
    mend(run, only(home).root, tmp_path / "laptop", clock=clock)
    after = newest(run)
    assert close(state(run), weights, 2e-2)
    assert after.contributors == {**older.contributors, UNTOLD: steps - older.fleet_steps}
    assert after.consumed == older.consumed


# -- holes


def shared_files(run) -> list[Path]:
    return sorted(path for path in run.shared_weights.rglob("*") if path.is_file())


@pytest.mark.parametrize("seed", range(10))
def test_random_files_are_purged_and_the_run_goes_on(run, home, tmp_path, clock, seed):
    """Remaining files are unchanged, copied ones are back, and every number is new."""
    dice = random.Random(seed)
    peers = learnt(run, clock, 5)
    copy(run, home, clock)
    rounds(peers, clock, dice.randrange(3))
    pull(run, tmp_path / "laptop")
    steps, top = newest(run).fleet_steps, newest(run).version
    for path in dice.sample(shared_files(run), k=round(dice.random() * len(shared_files(run)))):
        path.unlink()
    left = content(run.shared_weights)
    sources = [only(home).root, tmp_path / "laptop"]
    found = plan_restore(target(run), [open_source(source) for source in sources])
    number = restore_run(found, clock)
    assert number == top if found.number is None else number >= top + LEAP
    now = content(run.shared_weights)
    assert {name: now.get(name) for name in left if name != "HEAD.json"} == {
        name: data for name, data in left.items() if name != "HEAD.json"
    }
    assert newest(run).fleet_steps <= steps
    base = newest(run).fleet_steps
    fresh = [begin(run.shared_weights, f"slot-{k}", clock) for k in range(2)]
    assert {peer.version for peer in fresh} == {number}
    rounds(fresh, clock, 10)
    assert newest(run).version == number + 10
    assert newest(run).fleet_steps == base + 1000
    assert is_finite(state(run))
    assert find_missing(SharedPaths(run.shared_weights), KEEP) == ""


def test_a_hole_in_the_middle_stays_and_nothing_leaps(run, home, clock):
    learnt(run, clock, 6)
    copy(run, home, clock)
    shared = SharedPaths(run.shared_weights)
    for number in (2, 3):
        shared.version(number).unlink()
    assert find_missing(shared, KEEP) == "1 commit record is missing"
    assert mend(run, only(home).root, clock=clock) == 6
    assert find_missing(shared, KEEP) == "1 commit record is missing"
    assert plan_restore(target(run), [open_source(only(home).root)]).is_idle


def test_a_damaged_state_is_mended_and_kept_as_evidence(run, home, clock):
    learnt(run, clock)
    copy(run, home, clock)
    shared = Store(SharedPaths(run.shared_weights))
    blob = shared.paths.blob(newest(run).state)
    good = blob.read_bytes()
    blob.chmod(0o644)
    blob.write_bytes(good[:-1] + bytes([good[-1] ^ 1]))
    assert mend(run, only(home).root, clock=clock) == 6
    assert blob.read_bytes() == good
    assert len(list(shared.paths.quarantine.glob("*/*"))) == 1


def test_without_any_source_an_older_state_of_its_own_is_used(run, clock):
    learnt(run, clock)
    shared = SharedPaths(run.shared_weights)
    store = Store(shared)
    for number in (5, 6):
        shared.blob(store.version(number).state).unlink()
    shutil.rmtree(shared.wan)
    number = mend(run, clock=clock)
    after = newest(run)
    assert (number, after.base) == (2 * LEAP, 4)
    assert after.state == store.version(4).state
    assert after.fleet_steps == store.version(6).fleet_steps  # steps that were made stay counted


def test_where_nothing_verifies_nothing_is_done(run, clock):
    learnt(run, clock)
    shutil.rmtree(run.shared_weights / "blobs")
    shutil.rmtree(run.shared_weights / "wan")
    with pytest.raises(WeightsError, match="has the right hash"):
        plan_restore(target(run), [])


def test_a_second_restore_keeps_the_line_of_descent(run, home, clock):
    """Records lost before the first restore are another line and never come back."""
    peers = learnt(run, clock, 3)
    copy(run, home, clock)
    old = run.root.parent / "old"
    rounds(peers, clock, 2)
    shutil.copytree(run.root, old)
    shutil.rmtree(run.root)
    first = mend(run, only(home).root, clock=clock)
    fresh = begin(run.shared_weights, "slot-0", clock)
    rounds([fresh], clock, 2)
    found = plan_restore(target(run), [open_source(old)])
    assert not [path for path in found.files if path.parent.name == "merged"]
    assert found.number is None
    Store(SharedPaths(run.shared_weights)).paths.head.unlink()
    second = mend(run, old, clock=clock)
    assert second >= first + LEAP
    shared = SharedPaths(run.shared_weights)
    there = version_numbers(shared)
    assert there == [3, first, first + 1, first + 2, second]
    assert list(read_records(shared)[1]) == [0]  # v0 to v2, which no copy held


# -- who comes back


def test_a_frozen_merger_that_wakes_up_meets_nobody(run, home, clock):
    """It commits the old next number, which no process follows, and then adopts the newest."""
    peers = learnt(run, clock, 3)
    copy(run, home, clock)
    rounds(peers, clock, 1)  # v4, which the copy does not hold
    frozen = peers[0]
    frozen.learn(1)
    before = frozen.env_steps
    head = Store(SharedPaths(run.shared_weights)).version(4)
    shutil.rmtree(run.root)
    number = mend(run, only(home).root, clock=clock)
    steps = newest(run).fleet_steps
    thawed = Store(SharedPaths(run.shared_weights))
    thawed.commit(head)  # the record of a merge that was begun before the purge
    assert Store(SharedPaths(run.shared_weights)).newest() == number
    frozen.publish()
    clock.pass_by(100)
    frozen.adopt()
    assert frozen.version >= number
    fresh = begin(run.shared_weights, "slot-1", clock)
    rounds([fresh, frozen], clock, 3)
    assert Store(SharedPaths(run.shared_weights)).newest() == newest(run).version > number
    assert newest(run).contributors["slot-0"] <= before + 300
    assert newest(run).fleet_steps <= steps + 300 + 300 + 100


def test_a_successor_behind_the_copy_adopts_plainly_and_counts_nothing_twice(run, home, clock):
    peers = learnt(run, clock, 3)
    copy(run, home, clock)
    rounds(peers, clock, 2)
    peer = peers[0]
    peer.learn(5)
    note, own, steps = peer.exchange.resume_state(), peer.weights, peer.env_steps
    shutil.rmtree(run.shared_weights)
    mend(run, only(home).root, clock=clock)
    counted = newest(run).contributors["slot-0"]
    heir = begin(run.shared_weights, "slot-0", clock, resumed=note, own=own)
    assert close(heir.weights, state(run), 0)
    heir.env_steps, heir.updates = steps, peer.updates
    rounds([heir], clock, 2)
    made = heir.env_steps - steps
    assert newest(run).contributors["slot-0"] <= counted + made + 100


def test_a_successor_whose_base_is_still_there_is_not_carried_over_the_leap(run, clock):
    peers = learnt(run, clock, 3)
    peer = peers[0]
    peer.learn(5)
    note, own = peer.exchange.resume_state(), peer.weights
    Store(SharedPaths(run.shared_weights)).paths.head.unlink()
    number = mend(run, clock=clock)
    heir = begin(run.shared_weights, "slot-0", clock, resumed=note, own=own)
    assert heir.version == number
    assert close(heir.weights, state(run), 0)


# -- killed, or with a full disk


def lost(folder: Path, clock) -> tuple[RunPaths, Path]:
    run, home = RunPaths(folder / "run"), folder / "home"
    peers = learnt(run, clock, 4)
    keep_moment(run, 3, 1)
    copy(run, home, clock)
    rounds(peers, clock, 1)
    store = Store(SharedPaths(run.shared_weights))
    for number in (3, 4, 5):
        store.paths.blob(store.version(number).state).unlink()
    for number in (2, 5):
        store.paths.version(number).unlink()
    shutil.rmtree(run.archive)
    store.paths.run.unlink()
    return run, home


def test_killed_at_every_instant_it_can_be_said_again(tmp_path, clock):
    lost(tmp_path / "master", clock)
    probe = Points()
    shutil.copytree(tmp_path / "master", tmp_path / "probe")
    mend(RunPaths(tmp_path / "probe" / "run"), only(tmp_path / "probe" / "home").root,
         clock=clock, hook=probe)  # fmt: skip
    assert {"R1", "R2", "R3", "C2:RUN.json", "C5:record", "C4:archive state"} <= set(probe.seen)
    for instant in range(len(probe.seen)):
        case = tmp_path / f"case-{instant}"
        subprocess.run(["cp", "-a", str(tmp_path / "master"), str(case)], check=True)
        run, copied = RunPaths(case / "run"), only(case / "home").root
        child = os.fork()
        if child == 0:
            mend(run, copied, clock=clock, hook=Points(instant))
            os._exit(1)
        assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
        number = mend(run, copied, clock=clock)
        assert number % LEAP == 0
        assert number >= 2 * LEAP
        peer = begin(run.shared_weights, "slot-0", clock)
        assert peer.version == number, probe.seen[instant]
        rounds([peer], clock, 1)
        assert newest(run).version == number + 1
        assert len(list(run.archive.glob("*/*.state"))) == 1


def test_a_full_disk_leaves_what_was_there_and_it_can_be_said_again(tmp_path, clock):
    run, home = lost(tmp_path, clock)
    before = content(run.shared_weights)

    def full(point: str) -> None:
        if point == "C2:state":
            raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        mend(run, only(home).root, clock=clock, hook=full)
    now = content(run.shared_weights)
    assert before.items() <= now.items()
    assert not [name for name in now if name.startswith("tmp/")]
    assert mend(run, only(home).root, clock=clock) == 2 * LEAP


# -- refusals, and the command


def say(run, *more: str) -> int:
    return restore.main([str(run.root), *more])


def still(run, seconds: float = 1000.0) -> None:
    """Let so much time pass that heartbeats count as stopped."""
    for path in run.root.rglob("*.json"):
        facts = path.stat()
        os.utime(path, (facts.st_atime, facts.st_mtime - seconds))


def test_a_dry_run_says_everything_and_writes_nothing(tmp_path, clock, capsys):
    run, home = lost(tmp_path, clock)
    still(run)
    before = content(run.root)
    assert say(run, "--from", str(only(home).root), "--dry-run") == 0
    assert content(run.root) == before
    told = capsys.readouterr().out
    assert "would put back" in told
    for part in ("1 RUN.json", "1 archive state", "v20000 goes on from v5 of"):
        assert part in told, part


def test_the_command_takes_the_homes_copy_by_itself(tmp_path, clock, capsys, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    run = RunPaths(tmp_path / "run")
    learnt(run, clock)
    copy(run, tmp_path / "data" / "daddy" / "mirrors", clock)
    shutil.rmtree(run.root)
    assert say(run) == 0
    assert "the run goes on from v20000" in capsys.readouterr().out
    still(run)
    assert say(run) == 0
    assert "lacks nothing" in capsys.readouterr().out


def test_without_a_copy_the_command_says_where_it_looked(tmp_path, clock):
    with pytest.raises(WeightsError, match="no mirror of it") as error:
        say(RunPaths(tmp_path / "run"))
    assert "--from" in error.value.fix


def test_who_may_still_write_is_named_and_nothing_is_done(tmp_path, clock):
    run, home = lost(tmp_path, clock)
    before = content(run.root)
    with pytest.raises(WeightsError, match=r"slot-0 beat \d+ s ago"):
        say(run, "--from", str(only(home).root))
    assert content(run.root) == before


def test_a_host_whose_clock_is_ahead_sees_who_still_writes(tmp_path, clock, monkeypatch):
    run, home = lost(tmp_path, clock)
    before = content(run.root)
    monkeypatch.setattr(SystemClock, "now", lambda _: time.time() + 300)
    with pytest.raises(WeightsError, match=r"slot-0 beat \d+ s ago"):
        say(run, "--from", str(only(home).root))
    assert content(run.root) == before


def test_a_lease_counts_by_its_process_here_and_by_its_beat_elsewhere(run, clock):
    shared, now = SharedPaths(run.shared_weights), 1e9
    me = current_process()
    lease = Lease.acquire(
        run.slot(2).lease, {"host": host_name(), "pid": me.pid, "created": me.created}
    )
    assert active_writers(run, shared, now) == [f"slot 2: process {me.pid} on {host_name()}"]
    lease.release("done")
    assert active_writers(run, shared, now) == []
    other = Lease.acquire(run.controller_lease, {"host": "elsewhere", "pid": 1})
    assert active_writers(run, shared, now) == []
    other.beat()
    beat = run.controller_lease / "beat.json"
    os.utime(beat, (now - 20, now - 20))
    assert active_writers(run, shared, now) == ["the controller: process 1 on elsewhere"]
    os.utime(beat, (now - 500, now - 500))
    assert active_writers(run, shared, now) == []


def test_another_runs_copy_is_refused(tmp_path, home, clock):
    ours, theirs = RunPaths(tmp_path / "a"), RunPaths(tmp_path / "b")
    learnt(ours, clock)
    learnt(theirs, clock)
    copy(theirs, home, clock)
    with pytest.raises(WeightsError, match="is of run"):
        plan_restore(target(ours), [open_source(only(home).root)])


def test_a_folder_without_weights_is_no_source(tmp_path):
    with pytest.raises(WeightsError, match="holds nothing to restore from"):
        open_source(tmp_path)


def test_a_hostile_laptops_head_cannot_pick_its_paths(run, tmp_path, clock):
    learnt(run, clock)
    laptop = tmp_path / "laptop"
    pull(run, laptop)
    head = json.loads((laptop / "wan" / "HEAD.json").read_bytes())
    (laptop / "wan" / "HEAD.json").write_text(json.dumps({**head, "name": "../../etc/passwd"}))
    shutil.rmtree(run.root)
    with pytest.raises(WeightsError, match="no file names the run"):
        plan_restore(target(run), [open_source(laptop)])


# -- the decision


def candidate(version: int, *, exact: bool = True) -> RestoreCandidate:
    return RestoreCandidate(version, exact)


@pytest.mark.parametrize(
    ("newest_record", "highest", "head", "states", "number"),
    [
        (880, 880, True, [candidate(880)], None),
        (880, 880, False, [candidate(880)], 2 * LEAP),
        (880, 900, True, [candidate(880)], 2 * LEAP),
        (880, 880, True, [candidate(879)], 2 * LEAP),
        (880, 880, True, [candidate(880, exact=False)], 2 * LEAP),
        (None, 880, False, [candidate(880)], 2 * LEAP),
        (20_003, 20_003, True, [candidate(20_001)], 4 * LEAP),
        (9_999, 9_999, False, [candidate(9_999)], 2 * LEAP),
        (10_000, 10_000, False, [candidate(10_000)], 3 * LEAP),
    ],
)
def test_when_numbers_leap(newest_record, highest, head, states, number):
    assert choose_version(newest_record, highest, states, head=head)[1] == number
    assert number is None or number >= highest + LEAP


def test_the_newest_state_is_taken_and_of_equals_the_exact_one():
    offered = (candidate(5), candidate(7, exact=False), candidate(7), candidate(6))
    assert choose_version(7, 7, offered, head=True)[0] == candidate(7)
    offered = (candidate(7), candidate(9, exact=False))
    assert choose_version(7, 9, offered, head=True)[0] == candidate(9, exact=False)
