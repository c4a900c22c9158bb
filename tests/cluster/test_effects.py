"""What is done is on disk first, and a controller that lost its term does nothing more."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.effects import Effects
from Daddy.cluster.orchestrator.ledger import LedgerFile, read_entries
from Daddy.cluster.orchestrator.records import (
    Cancel,
    Chaining,
    Conclude,
    EndTerm,
    Mode,
    Observation,
    Snapshot,
    Submit,
)
from Daddy.cluster.orchestrator.scheduler import (
    Answer,
    JobRef,
    JobSpec,
    Refused,
    Submitted,
    Unanswered,
)
from Daddy.core.clock import SystemClock
from Daddy.core.errors import ControllerAliveError, SchedulerError
from Daddy.core.events import EventWriter, read_events
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.paths import RunPaths

CLOCK = SystemClock()


@dataclass
class Site:
    """Answers as told, and remembers what it was asked and what the ledger said at that moment."""

    ledger: Path
    answers: list[Answer]
    asked: list[str] = field(default_factory=list)
    refs: list[JobRef] = field(default_factory=list)
    name: str = "told"

    def submit(self, spec: JobSpec) -> Answer:
        newest = list(read_entries(self.ledger))[-1]
        assert (newest.kind, newest.token) == ("intent", spec.token)
        self.asked.append(spec.token)
        return self.answers.pop(0)

    def snapshot(self) -> Observation:
        return Snapshot(0.0, ())

    def signal(self, jobs) -> None:
        self.refs += jobs

    def cancel(self, jobs) -> None:
        self.refs += jobs
        if self.answers:
            raise SchedulerError("scancel failed", "later")


class Hands:
    def __init__(self, folder: Path, *answers: Answer) -> None:
        self.run = RunPaths(folder)
        lease = Lease.claim(self.run.controller_lease, {"pid": 1})
        assert lease is not None
        self.ledger = LedgerFile(self.run.ledger, lease.term)
        self.site = Site(self.run.ledger, list(answers))
        events = EventWriter(self.run.events, "tiny", "cartpole", "controller", "me", CLOCK)
        self.effects = Effects(self.run, lease, self.ledger, self.site, self.spec, events, CLOCK)

    def spec(self, token: str, number: int, after: int | None) -> JobSpec:
        folder = self.run.root
        return JobSpec(token, number, "tiny-000000", ("true",), {}, folder, folder, folder, 60, 5)

    def kinds(self) -> list[str]:
        return [entry.kind for entry in read_entries(self.run.ledger)]


def test_an_intent_is_on_disk_before_the_scheduler_is_asked(tmp_path: Path) -> None:
    hands = Hands(tmp_path, Submitted(17))
    hands.effects.apply([Submit("a slot is empty")])
    assert hands.kinds() == ["intent", "submitted"]
    (attempt,) = hands.ledger.view.attempts
    assert (attempt.token, attempt.job_id) == (hands.site.asked[0], 17)


@pytest.mark.parametrize(
    ("answer", "kinds"),
    [
        (Unanswered("Socket timed out"), ["intent", "unanswered"]),
        (Refused("no more", limit=True), ["intent", "learnt", "rejected"]),
        (Refused("invalid partition", for_good=True), ["intent", "rejected"]),
    ],
)
def test_after_silence_or_a_refusal_nothing_more_is_submitted_in_this_pass(
    tmp_path: Path, answer: Answer, kinds: list[str]
) -> None:
    hands = Hands(tmp_path, answer)
    hands.effects.apply([Submit("one"), Submit("two"), Submit("three")])
    assert hands.kinds() == kinds
    assert len(hands.site.asked) == 1


def test_a_submit_limit_is_learnt_and_kept(tmp_path: Path) -> None:
    hands = Hands(tmp_path, Refused("QOSMaxSubmitJobPerUserLimit", limit=True))
    hands.effects.apply([Submit("one")])
    assert LedgerFile(hands.run.ledger, 2).view.chaining is Chaining.LATE


def test_without_its_term_a_controller_does_nothing_and_writes_nothing(tmp_path: Path) -> None:
    hands = Hands(tmp_path, Submitted(17))
    end_term(hands.run.controller_lease, 1, "taken over")
    with pytest.raises(ControllerAliveError):
        hands.effects.apply([Submit("one")])
    assert hands.site.asked == []
    assert hands.kinds() == []


def test_a_cancel_that_failed_is_not_written_down_as_done(tmp_path: Path) -> None:
    hands = Hands(tmp_path, Submitted(1), Submitted(2))
    hands.effects.apply([Cancel("0" * 12, 5, "surplus")])
    assert hands.kinds() == []
    told = [event for event in read_events(hands.run.events) if event["event"] == "error"]
    assert "scancel failed" in told[0]["data"]["text"]


def test_a_dead_holders_term_is_ended_and_a_conclusion_is_handed_back(tmp_path: Path) -> None:
    hands = Hands(tmp_path)
    Lease.claim(hands.run.slot(2).lease, {"token": "dead"})
    final = hands.effects.apply([EndTerm(2, 1, "its job is gone"), Conclude(Mode.STOPPED, "")])
    view = read_lease(hands.run.slot(2).lease)
    assert view is not None
    assert (view.ended, final) == ("its job is gone", Mode.STOPPED)


def test_every_fact_is_an_event_in_words(tmp_path: Path) -> None:
    hands = Hands(tmp_path, Submitted(17))
    hands.effects.apply([Submit("a slot is empty")])
    texts = [event["data"]["text"] for event in read_events(hands.run.events)]
    assert texts == ["attempt 1 intent: a slot is empty", "attempt 1 (job 17) submitted"]
