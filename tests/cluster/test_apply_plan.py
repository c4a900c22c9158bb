"""Tests that actions are in the ledger first, and that a controller without its lease does none."""

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.action_types import (
    Action,
    Amend,
    Cancel,
    Conclude,
    EndTerm,
    Orders,
    Pause,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.apply_plan import PlanApplier
from Daddy.cluster.orchestrator.control_files import read_intent, read_orders, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    DesiredRun,
    Mode,
    QueueJob,
    QueueReading,
    Snapshot,
)
from Daddy.cluster.orchestrator.controller_types import SiteLimits as SiteFacts
from Daddy.cluster.orchestrator.decisions.circuit_breaker import REFUSED_FOR_GOOD, is_final
from Daddy.cluster.orchestrator.decisions.run_pauses import find_pause_reason
from Daddy.cluster.orchestrator.ledger_file import LedgerFile, read_entries
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.scheduler_interface import (
    JobRef,
    JobSpec,
    Refused,
    SubmitResult,
    Submitted,
    Unanswered,
)
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ControllerAliveError, FileError, SchedulerError
from Daddy.core.event_log import EventWriter, read_events
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.run_paths import RunPaths

CLOCK = SystemClock()


@dataclass
class Site:
    """A scheduler with scripted answers that records each call and the ledger at that time."""

    ledger: Path
    answers: list[SubmitResult]
    asked: list[str] = field(default_factory=list)
    refs: list[JobRef] = field(default_factory=list)
    changes: list[Amend] = field(default_factory=list)
    name: str = "told"
    calls: int = 0

    def submit(self, spec: JobSpec) -> SubmitResult:
        newest = list(read_entries(self.ledger))[-1]
        assert (newest.kind, newest.token) == ("intent", spec.token)
        self.asked.append(spec.token)
        return self.answers.pop(0)

    def snapshot(self) -> QueueReading:
        return Snapshot(0.0, ())

    def signal(self, job) -> None:
        self.refs.append(job)

    def cancel(self, job) -> None:
        self.refs.append(job)
        if self.answers:
            raise SchedulerError("scancel failed", "later")

    def amend(self, job: JobRef, change: Amend) -> None:
        self.changes.append(change)

    def read_ended_jobs(self, jobs) -> tuple[QueueJob, ...]:
        return ()

    def read_limits(self) -> tuple[SiteFacts, str]:
        return SiteFacts(), "nothing was read"


class ApplierCase:
    def __init__(self, folder: Path, *answers: SubmitResult) -> None:
        self.run = RunPaths(folder)
        lease = Lease.acquire(self.run.controller_lease, {"pid": 1})
        assert lease is not None
        self.ledger = LedgerFile(self.run.ledger, lease.term)
        self.site = Site(self.run.ledger, list(answers))
        events = EventWriter(self.run.events, "tiny", "cartpole", "controller", "me", CLOCK)
        self.applier = PlanApplier(
            self.run, lease, self.ledger, self.site, self.spec, events, CLOCK
        )

    def spec(self, token: str, number: int, wish: Submit) -> JobSpec:
        folder = self.run.root
        return JobSpec(token, number, "tiny-000000", ("true",), {}, folder, folder, folder, 60, 5)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in read_entries(self.run.ledger)]


def test_an_intent_is_on_disk_before_the_scheduler_is_asked(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Submitted(17))
    case.applier.apply([Submit("a slot is empty")])
    assert case.kinds() == ["intent", "submitted"]
    (attempt,) = case.ledger.view.attempts
    assert (attempt.token, attempt.job_id) == (case.site.asked[0], 17)


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (Unanswered("Socket timed out"), ["intent", "unanswered"]),
        (Refused("no more", too_many_waiting=True), ["intent", "learnt", "rejected"]),
        (Refused("invalid partition", permanent=True), ["intent", "rejected"]),
    ],
)
def test_after_silence_or_a_refusal_nothing_more_is_submitted_in_this_pass(
    tmp_path: Path, answer: SubmitResult, kinds: list[str]
) -> None:
    case = ApplierCase(tmp_path, answer)
    case.applier.apply([Submit("one"), Submit("two"), Submit("three")])
    assert case.kinds() == kinds
    assert len(case.site.asked) == 1


def test_what_was_taken_before_is_not_refused_for_good_now(tmp_path: Path) -> None:
    """Without its accounting database Slurm calls every account invalid."""
    away = Refused("Invalid account or account/partition combination", permanent=True)
    case = ApplierCase(tmp_path, away, Submitted(17), away)
    for wish in ("never worked here", "mended", "worked before"):
        case.applier.apply([Submit(wish)])
    reasons = [attempt.reason for attempt in case.ledger.view.attempts if attempt.reason]
    assert [reason.startswith(REFUSED_FOR_GOOD) for reason in reasons] == [True, False]


def test_a_submit_limit_is_learnt_and_kept(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Refused("QOSMaxSubmitJobPerUserLimit", too_many_waiting=True))
    case.applier.apply([Submit("one")])
    assert LedgerFile(case.run.ledger, 2).view.site.counts_waiting


def test_without_its_term_a_controller_does_nothing_and_writes_nothing(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Submitted(17))
    end_term(case.run.controller_lease, 1, "taken over")
    with pytest.raises(ControllerAliveError):
        case.applier.apply([Submit("one")])
    assert case.site.asked == []
    assert case.kinds() == []


def test_a_cancel_that_failed_is_not_written_down_as_done(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Submitted(1), Submitted(2))
    case.applier.apply([Cancel("0" * 12, 5, "surplus")])
    assert case.kinds() == ["dismissed"]
    told = [event for event in read_events(case.run.events) if event["event"] == "error"]
    assert "scancel failed" in told[0]["data"]["text"]


@pytest.mark.parametrize(
    "action",
    [
        Signal("0" * 12, 5, "it may leave"),
        Cancel("0" * 12, 5, "surplus"),
        Amend("0" * 12, 5, "a failure", hold=True),
        Amend("0" * 12, 5, "a failure", exclude=("n1",)),
    ],
)
def test_a_ledger_that_cannot_be_written_ends_the_pass(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, action: Action
) -> None:
    case = ApplierCase(tmp_path)

    def full(_: object) -> None:
        raise FileError("the disk is full", "make room")

    monkeypatch.setattr(case.ledger, "append", full)
    with pytest.raises(FileError):
        case.applier.apply([action])


class UnansweringSite(Site):
    """A scheduler that carries out commands and returns no answer."""

    def cancel(self, job) -> None:
        self.refs.append(job)
        raise SchedulerError("scancel … gave no answer within 40 s", "later")

    def amend(self, job: JobRef, change: Amend) -> None:
        self.changes.append(change)
        raise SchedulerError("scontrol … gave no answer within 40 s", "later")


def with_an_unanswering_site(folder: Path) -> tuple[ApplierCase, list[str]]:
    case = ApplierCase(folder, Submitted(17), Submitted(18))
    case.applier.apply([Submit("one"), Submit("two")])
    case.applier.scheduler = UnansweringSite(case.run.ledger, [])
    return case, case.site.asked


def test_cancels_without_an_answer_are_our_own_wish_and_no_administrators(tmp_path: Path) -> None:
    case, tokens = with_an_unanswering_site(tmp_path)
    case.applier.apply([Cancel(token, 17 + n, "surplus") for n, token in enumerate(tokens)])
    for token in tokens:
        case.applier.record_entry("ended", token, outcome="cancelled")
    assert find_pause_reason(case.ledger.view, Snapshot(0.0, ()), ControllerPolicy()) is None


def test_a_hold_without_an_answer_is_taken_back_when_it_is_over(tmp_path: Path) -> None:
    case, (token, _) = with_an_unanswering_site(tmp_path)
    case.applier.apply([Amend(token, 17, "2 failures in a row", hold=True)])
    known = LedgerFile(case.run.ledger, 2).view
    decided = plan(
        DesiredRun(Mode.RUN, 4), known, Snapshot(0.0, ()), ControllerPolicy(), CLOCK.now()
    )
    assert Amend(token, 17, "it may start again", hold=False) in decided.actions


def test_a_job_refused_without_some_nodes_is_not_refused_for_good(tmp_path: Path) -> None:
    words = "Requested node configuration is not available"
    case = ApplierCase(tmp_path, Refused(words, permanent=True), Refused(words, permanent=True))
    case.applier.apply([Submit("a slot is empty", exclude=("n1",))])
    case.applier.apply([Submit("a slot is empty")])
    assert [is_final(attempt) for attempt in case.ledger.view.attempts] == [False, True]


def test_a_limit_that_the_persons_own_jobs_filled_counts_them(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Refused("QOSMaxSubmitJobPerUserLimit", too_many_waiting=True))
    case.applier.apply([Submit("one")], others=15)
    site = LedgerFile(case.run.ledger, 2).view.site
    assert (site.max_submitted, site.counts_waiting) == (15, False)


@pytest.mark.parametrize("said", [Mode.DRAIN, Mode.NOW])
def test_a_stop_that_was_said_in_the_same_moment_is_not_lost_to_a_pause(
    tmp_path: Path, said: Mode
) -> None:
    case = ApplierCase(tmp_path)
    write_intent(case.run, DesiredRun(said, 4, "slurm", "r1", "cartpole"), 0.0)
    case.applier.apply([Pause("an administrator holds job 9")])
    intent = read_intent(case.run)
    assert intent is not None
    assert intent.mode is said


def test_a_dead_holders_term_is_ended_and_a_conclusion_is_handed_back(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path)
    Lease.acquire(case.run.slot(2).lease, {"token": "dead"})
    final = case.applier.apply([EndTerm(2, 1, "its job is gone"), Conclude(Mode.STOPPED, "")])
    view = read_lease(case.run.slot(2).lease)
    assert view is not None
    assert (view.ended, final) == ("its job is gone", Mode.STOPPED)


def test_a_change_of_a_waiting_job_is_remembered_as_it_was_made(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Submitted(17))
    case.applier.apply([Submit("a slot is empty", exclude=("n1",))])
    token = case.site.asked[0]
    change = Amend(token, 17, "n2 failed twice", hold=True, exclude=("n1", "n2"))
    assert case.ledger.view.attempts[0].requests.excluded == ("n1",)
    case.applier.apply([change])
    assert case.site.changes == [change]
    (attempt,) = LedgerFile(case.run.ledger, 2).view.attempts
    asked = attempt.requests
    assert (asked.held, asked.excluded, asked.limit_s) == (True, ("n1", "n2"), None)


def test_a_pause_is_durable_and_told_once(tmp_path: Path) -> None:
    case, told = ApplierCase(tmp_path), []
    case.applier.notify_person = lambda kind, text: told.append((kind, text))
    write_intent(case.run, DesiredRun(Mode.RUN, 4, "slurm", "r1", "cartpole"), 0.0)
    case.applier.apply([Pause("an administrator holds job 9")])
    intent = read_intent(case.run)
    assert intent is not None
    assert (intent.mode, intent.release) == (Mode.PAUSED, "r1")
    assert told == [("paused", "the run is paused: an administrator holds job 9")]
    assert "paused" in LedgerFile(case.run.ledger, 2).view.noticed


def test_orders_are_left_for_the_jobs_and_written_only_when_they_change(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path)
    orders = Orders({0: "r1", 2: "r2"}, "r2 is tried in slot 2")
    case.applier.publish_orders(orders)
    written = case.run.orders.stat().st_mtime_ns
    case.applier.publish_orders(orders)
    case.applier.publish_orders(None)
    assert case.run.orders.stat().st_mtime_ns == written
    assert read_orders(case.run) == orders


@pytest.mark.parametrize("damage", ["", "{", '{"v": 1}', '{"slots": [1]}', '{"slots": {"x": "r"}}'])
def test_orders_that_were_damaged_are_written_anew(tmp_path: Path, damage: str) -> None:
    case = ApplierCase(tmp_path)
    case.run.orders.write_text(damage)
    case.applier.publish_orders(Orders({0: "r1"}))
    assert read_orders(case.run) == Orders({0: "r1"})


def test_every_fact_is_an_event_in_words(tmp_path: Path) -> None:
    case = ApplierCase(tmp_path, Submitted(17))
    case.applier.apply([Submit("a slot is empty")])
    texts = [event["data"]["text"] for event in read_events(case.run.events)]
    assert texts == ["attempt 1 intent: a slot is empty", "attempt 1 (job 17) submitted"]
