"""Tests that the loop survives errors, and reads files again only after changes."""

import os
import threading
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator import controller as module
from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.cluster.orchestrator.control_files import (
    DesiredRun,
    Probe,
    read_intent,
    write_answered,
    write_intent,
    write_probe,
)
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller import Controller, EndedJobLookup, FileChangeWatch
from Daddy.cluster.orchestrator.controller_types import (
    JobState,
    Ledger,
    Mode,
    QueueJob,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.decisions.controller_failover import blind_seconds
from Daddy.cluster.orchestrator.decisions.run_pauses import find_pause_reason
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, replay
from Daddy.cluster.orchestrator.scheduler_interface import JobRef
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import FileError
from Daddy.core.event_log import read_events
from Daddy.core.lease import Lease, newest_term_state, read_lease
from Daddy.core.run_paths import RunPaths
from tests.cluster.conftest import until
from tests.cluster.test_apply_plan import ApplierCase
from tests.components import small_disk
from tests.patience import PATIENCE_S

CLOCK = SystemClock()


def make_controller(case: ApplierCase, clock: Clock = CLOCK) -> Controller:
    case.applier.clock = clock
    return Controller(
        case.applier,
        policy_of=lambda _release: ControllerPolicy(
            pass_s=0.05, hot_pass_s=0.05, quiet_pass_s=0.05
        ),
        children=ChildPrograms({}, case.run.logs, {}, clock),
        steps=lambda: (0, 0),
        poll_s=0.02,
    )


def test_a_disk_that_takes_nothing_for_a_while_costs_passes_and_not_the_controller(
    tmp_path: Path,
) -> None:
    case, stop = ApplierCase(tmp_path), threading.Event()
    run = case.run
    write_intent(run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
    beat = run.controller_lease / "beat.json"
    beat.mkdir()  # a folder in the file's place makes writes fail
    run.events.write_text("no folder")
    controller = make_controller(case)
    loop = threading.Thread(target=controller.run_passes, args=(stop,))
    loop.start()
    try:
        assert not stop.wait(0.4)
        assert loop.is_alive()
        beat.rmdir()
        run.events.unlink()
        until(run.status.exists)
        assert read_json(run.status)["term"] == 1
    finally:
        stop.set()
        loop.join(PATIENCE_S)
    assert not loop.is_alive()


def test_a_full_disk_costs_passes_and_its_end_is_recorded_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """1. The disk fills. 2. Passes fail. 3. There is room: failures so far are forgiven."""
    monkeypatch.setattr(module, "_LEAST_ROOM", 400_000)
    with small_disk(tmp_path / "disk", monkeypatch) as disk:
        case = ApplierCase(disk.folder)
        write_intent(case.run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
        controller = make_controller(case)
        disk.fill()
        for _ in range(3):
            with controller._surviving("a pass"):
                controller.make_pass()
        assert caplog.text.count("a pass failed: OSError") == 1
        disk.free()
        controller.make_pass()
        room_ts = case.applier.view.room_ts
        controller.make_pass()
        assert case.applier.view.room_ts == room_ts > 0.0


def test_learners_that_failed_for_want_of_room_are_forgiven_once_there_is_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The controller's own small files still fit, a checkpoint does not."""
    with small_disk(tmp_path / "disk", monkeypatch) as disk:
        case = ApplierCase(disk.folder)
        write_intent(case.run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
        for number in range(1, 5):
            token, reason = f"{number:012x}", "exit code 9: No space left on device"
            case.ledger.append(LedgerEntry("intent", CLOCK.now(), token, {"number": number}))
            facts = {"outcome": "crashed", "reason": reason}
            case.ledger.append(LedgerEntry("ended", CLOCK.now(), token, facts))
        monkeypatch.setattr(module, "_LEAST_ROOM", 400_000)
        controller = make_controller(case)
        disk.fill(leave=300_000)
        for _ in range(3):
            controller.make_pass()
        assert controller._holds
        assert case.applier.view.room_ts == 0.0
        disk.free()
        controller.make_pass()
        assert case.applier.view.room_ts > 0.0
        assert not controller._holds


def test_a_disk_with_room_is_tried_once_for_each_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Learners fail at files for another reason; each try writes as much as a checkpoint has."""
    case, tried = ApplierCase(tmp_path / "run"), list[int]()
    write_intent(case.run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)

    def fail(number: int) -> None:
        token, facts = f"{number:012x}", {"outcome": "crashed", "reason": "exit code 9"}
        case.ledger.append(LedgerEntry("intent", CLOCK.now(), token, {"number": number}))
        case.ledger.append(LedgerEntry("ended", CLOCK.now(), token, facts))

    for number in range(1, 5):
        fail(number)
    real = module.find_full_disk
    monkeypatch.setattr(
        module, "find_full_disk", lambda folder, size: (tried.append(size), real(folder, size))[1]
    )
    controller = make_controller(case)
    for _ in range(4):
        controller.make_pass()
    assert controller._holds
    assert len(tried) == 1
    assert case.applier.view.room_ts == 0.0


class RunningJobCase(ApplierCase):
    """A run with one running job."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        token = "0" * 12
        self.ledger.append(LedgerEntry("intent", 1.0, token, {"number": 1}))
        self.ledger.append(LedgerEntry("submitted", 1.0, token, {"job_id": 17}))
        job = QueueJob(17, token, JobState.RUNNING, "RUNNING")
        self.site.snapshot = lambda: Snapshot(CLOCK.now(), (job,))  # type: ignore[method-assign]


def test_an_intent_that_cannot_be_found_is_no_wish_to_cancel_everything(tmp_path: Path) -> None:
    case = RunningJobCase(tmp_path)
    controller, stop = make_controller(case), threading.Event()
    loop = threading.Thread(target=controller.run_passes, args=(stop,))
    loop.start()
    try:
        until(lambda: any(e["event"] == "error" for e in read_events(case.run.events)))
        assert case.site.refs == []
        assert loop.is_alive()
    finally:
        stop.set()
        loop.join(PATIENCE_S)


class MovingClock(SystemClock):
    """A clock whose monotonic time the test moves."""

    moved = 0.0

    def monotonic(self) -> float:
        return super().monotonic() + self.moved


def test_a_blind_controller_gives_way_only_to_a_listing_that_answers_meanwhile(
    tmp_path: Path,
) -> None:
    case, clock, blind = ApplierCase(tmp_path), MovingClock(), True
    write_intent(case.run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
    unknown, answer = UnknownQueue(0.0, "squeue is not installed"), Snapshot(CLOCK.now(), ())
    case.site.snapshot = lambda: unknown if blind else answer  # type: ignore[method-assign]
    write_answered(case.run, "pid 1 on n1", 1.0)  # long ago, beside another controller
    controller, stop = make_controller(case, clock), threading.Event()
    told = partial(blind_beat, case.run)

    def listed(known: bool) -> bool:
        status = case.run.status
        return status.exists() and read_json(status)["queue"]["known"] is known

    loop = threading.Thread(target=controller.run_passes, args=(stop,))
    loop.start()
    try:
        until(lambda: listed(False))
        assert not told()
        clock.moved += 61.0
        until(told)
        write_probe(case.run, Probe(may_submit=True, why="tried", by="n1", ts=2.0))
        blind = False
        until(lambda: listed(True))
        clock.moved += 10.0
        until(lambda: not told())
        blind = True
        until(lambda: listed(False))
        clock.moved += 71.0
        until(told)
        assert loop.is_alive()
        write_answered(case.run, "pid 2 on n1", 3.0)
        loop.join(PATIENCE_S)
        assert not loop.is_alive()
    finally:
        stop.set()
        loop.join(PATIENCE_S)


def blind_beat(run: RunPaths) -> bool:
    """Return True if the controller's heartbeat says that it cannot read the queue."""
    view = read_lease(run.controller_lease)
    return view is not None and blind_seconds(view.beat) >= 60


def test_a_start_that_is_said_while_the_run_ends_is_not_lost(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path)
    done = DesiredRun(Mode.DONE, 4, "local", "r", "cartpole")
    write_intent(case.run, done, 0.0)

    def listing() -> Snapshot:
        write_intent(case.run, replace(done, mode=Mode.RUN), 1.0)
        return Snapshot(CLOCK.now(), ())

    case.site.snapshot = listing  # type: ignore[method-assign]
    final, _ = make_controller(case).make_pass()
    intent = read_intent(case.run)
    assert intent is not None
    assert (final, intent.mode) == (None, Mode.RUN)


def test_a_start_said_on_a_host_whose_clock_is_behind_forgives_failures_too(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path)
    wanted = DesiredRun(Mode.RUN, 0, "local", "r", "cartpole", started_ts=CLOCK.now())
    for said in (wanted, replace(wanted, started_ts=wanted.started_ts - 600.0)):
        write_intent(case.run, said, 0.0)
        before = CLOCK.now()
        for _ in range(2):
            make_controller(case).make_pass()
        assert case.ledger.view.start_seen_ts >= before
    assert case.kinds().count("start") == 2


def test_a_wall_clock_that_is_set_back_does_not_put_the_controller_to_sleep(tmp_path: Path) -> None:
    case, stop = ApplierCase(tmp_path), threading.Event()
    write_intent(case.run, DesiredRun(Mode.RUN, 0, "local", "r", "cartpole"), 0.0)
    clock = SystemClock()
    controller = make_controller(case, clock)
    wake_at = clock.now() + 0.2
    loop = threading.Thread(target=controller._idle, args=(stop, wake_at))
    loop.start()
    clock.now = lambda: wake_at - 3600.0  # type: ignore[method-assign]
    loop.join(PATIENCE_S)
    stop.set()
    assert not loop.is_alive()


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    paths = RunPaths(tmp_path)
    write_intent(paths, DesiredRun(Mode.RUN, 2, "local", "r", "cartpole"), 0.0)
    return paths


def test_a_lease_that_is_claimed_ended_and_claimed_again_is_seen_each_time(run: RunPaths) -> None:
    look, folder = FileChangeWatch(run), run.slot(1).lease
    seen = [look(2)]
    for _ in range(2):
        lease = Lease.acquire(folder, {})
        assert lease is not None
        seen.append(look(2))
        lease.release("exit 10")
        seen.append(look(2))
    assert [state[2] for state in seen] == [
        (0, False),
        (1, False),
        (1, True),
        (2, False),
        (2, True),
    ]
    assert {state[1] for state in seen} == {(0, False)}


def test_an_intent_that_is_written_anew_damaged_or_gone_is_seen(run: RunPaths) -> None:
    look = FileChangeWatch(run)
    before = look(0)
    write_intent(run, DesiredRun(Mode.DRAIN, 2, "local", "r", "cartpole"), 0.0)
    assert look(0) != before
    run.intent.write_text('{"mode": ')
    with pytest.raises(FileError):
        look(0)
    run.intent.unlink()
    assert look(0) == (None,)


def test_beats_alone_change_nothing_and_what_stands_still_is_not_read_again(
    run: RunPaths, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = []
    monkeypatch.setattr(
        module, "newest_term_state", lambda path: read.append(path) or newest_term_state(path)
    )
    lease = Lease.acquire(run.slot(0).lease, {})
    assert lease is not None
    look = FileChangeWatch(run)
    first = look(1)
    assert [look(1) for _ in range(50)] == [first] * 50
    assert len(read) == 2, "once more, for what came within the same tick"
    lease.beat()
    assert [look(1) for _ in range(50)] == [first] * 50
    assert len(read) == 4


def test_a_goodbye_within_the_same_tick_is_seen_at_the_next_look(run: RunPaths) -> None:
    lease, folder = Lease.acquire(run.slot(0).lease, {}), run.slot(0).lease
    assert lease is not None
    look, stamp = FileChangeWatch(run), folder.stat()
    assert look(1)[1] == (1, False)
    lease.release("exit 10")
    os.utime(folder, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
    assert look(1)[1] == (1, True)


TOKEN, BEGAN, ENDED = "a" * 12, 1000.0, 1060.0
DEAD = QueueJob(17, TOKEN, JobState.ENDED, "CANCELLED")


class Accounting:
    """An accounting database with the jobs in ``known`` that counts its calls."""

    def __init__(self) -> None:
        self.known: tuple[QueueJob, ...] = ()
        self.asked = 0
        self.nodes: list[set[str]] = []

    def read_drained_nodes(self, nodes: set[str]) -> dict[str, str]:
        self.nodes.append(nodes)
        return {"n1": "Prolog error"}

    def read_ended_jobs(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        self.asked += 1
        return tuple(job for job in self.known if JobRef(job.job_id, job.token) in jobs)


def history(*more: LedgerEntry) -> Ledger:
    return replay(
        [
            LedgerEntry("start", BEGAN, "", {"release": "r", "asked": BEGAN}),
            LedgerEntry("intent", BEGAN, TOKEN, {"number": 1, "reason": "a slot is empty"}),
            LedgerEntry("submitted", BEGAN, TOKEN, {"job_id": 17}),
            *more,
        ]
    )


CANCELLED = LedgerEntry("ended", ENDED, TOKEN, {"outcome": "cancelled", "reason": "cancelled"})


def test_an_administrator_is_known_although_the_database_hears_of_it_minutes_later() -> None:
    database = Accounting()
    inquest, ledger = EndedJobLookup(database), history(CANCELLED)
    assert inquest.find_cancellers(ledger, ENDED + 60) == ()
    assert find_pause_reason(ledger, Snapshot(ENDED + 60, ()), ControllerPolicy()) is None
    database.known = (replace(DEAD, canceller=0),)
    told = inquest.find_cancellers(ledger, ENDED + 120)
    now = history(CANCELLED, *told)
    assert (
        find_pause_reason(now, Snapshot(ENDED + 120, ()), ControllerPolicy())
        == "user 0 cancelled job 17"
    )
    assert inquest.find_cancellers(now, ENDED + 180) == ()
    assert database.asked == 2


def test_what_was_answered_or_is_long_past_or_was_our_wish_is_not_asked_again() -> None:
    database = Accounting()
    inquest = EndedJobLookup(database)
    database.known = (DEAD,)  # cancelled by the person
    assert inquest.find_cancellers(history(CANCELLED), ENDED + 60) == ()
    assert inquest.find_cancellers(history(CANCELLED), ENDED + 120) == ()
    assert database.asked == 1
    other = EndedJobLookup(database)
    other.find_cancellers(history(CANCELLED), ENDED + 700)
    other.find_cancellers(
        history(LedgerEntry("cancelled", BEGAN + 1, TOKEN), CANCELLED), ENDED + 60
    )
    assert database.asked == 1


@pytest.mark.parametrize(
    ("listed", "more", "asked"),
    [
        ((), (), 0),
        ((), (LedgerEntry("absent", BEGAN + 5, TOKEN),), 1),
        ((DEAD,), (), 1),
        ((DEAD,), (LedgerEntry("dismissed", BEGAN + 5, TOKEN),), 0),
        ((replace(DEAD, slurm_state="COMPLETED"),), (), 0),
    ],
    ids=["not missed yet", "missed", "cancelled", "cancelled by us", "ended"],
)
def test_of_a_pass_the_missed_and_the_cancelled_are_asked(listed, more, asked) -> None:
    database = Accounting()
    database.known = (replace(DEAD, canceller=0),)
    snapshot = Snapshot(BEGAN + 9, listed)
    seen = EndedJobLookup(database).with_ended_jobs(history(*more), snapshot)
    assert database.asked == asked
    assert seen.jobs == (*listed, *database.known[:asked])


CLAIMED = LedgerEntry("claimed", BEGAN + 5, TOKEN, {"slot": 0, "term": 1})
PROLOG = replace(DEAD, node="n1")


@pytest.mark.parametrize(
    ("listed", "more", "asked"),
    [
        (PROLOG, (), True),
        (replace(PROLOG, slurm_state="FAILED", exit_code=1), (), True),
        (replace(PROLOG, slurm_state="FAILED", exit_code=11), (), False),
        (replace(PROLOG, slurm_state="FAILED", exit_code=3), (), False),
        (replace(PROLOG, slurm_state="RUNNING", state=JobState.RUNNING), (), False),
        (PROLOG, (CLAIMED,), False),
        (PROLOG, (LedgerEntry("dismissed", BEGAN + 5, TOKEN),), False),
        (DEAD, (), False),
    ],
    ids=["a prolog", "a crash", "no slot", "refused", "runs", "claimed", "our wish", "pending"],
)
def test_nodes_are_asked_for_only_if_a_job_ended_there_unclaimed(listed, more, asked) -> None:
    cluster = Accounting()
    seen = EndedJobLookup(cluster).with_ended_jobs(history(*more), Snapshot(BEGAN + 9, (listed,)))
    assert cluster.nodes == [{"n1"}] * asked
    assert [job.drained for job in seen.jobs] == ["Prolog error" if asked else ""]
