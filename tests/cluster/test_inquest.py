"""Accounting is asked about the dead, again while it lags, and not again once it has answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.control_parameters import Policy
from Daddy.cluster.orchestrator.decisions.submit_blocks import pause_reason
from Daddy.cluster.orchestrator.history import Entry, replay
from Daddy.cluster.orchestrator.inquest import Inquest
from Daddy.cluster.orchestrator.records import JobState, Ledger, QueueJob, Snapshot
from Daddy.cluster.orchestrator.scheduler import JobRef

TOKEN, BEGAN, ENDED = "a" * 12, 1000.0, 1060.0
DEAD = QueueJob(17, TOKEN, JobState.ENDED, "CANCELLED")


class Accounting:
    """A database that hears of a job when it is told, and counts the questions."""

    def __init__(self) -> None:
        self.known: tuple[QueueJob, ...] = ()
        self.asked = 0

    def autopsy(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        self.asked += 1
        return tuple(one for one in self.known if JobRef(one.job_id, one.token) in jobs)


def history(*more: Entry) -> Ledger:
    return replay(
        [
            Entry("start", BEGAN, "", {"release": "r", "asked": BEGAN}),
            Entry("intent", BEGAN, TOKEN, {"number": 1, "reason": "a slot is empty"}),
            Entry("submitted", BEGAN, TOKEN, {"job_id": 17}),
            *more,
        ]
    )


CANCELLED = Entry("ended", ENDED, TOKEN, {"outcome": "cancelled", "reason": "cancelled"})


def test_an_administrator_is_known_although_the_database_hears_of_it_minutes_later() -> None:
    database = Accounting()
    inquest, ledger = Inquest(database), history(CANCELLED)
    assert inquest.cancellers(ledger, ENDED + 60) == ()
    assert pause_reason(ledger, Snapshot(ENDED + 60, ()), Policy()) is None
    database.known = (replace(DEAD, canceller=0),)
    told = inquest.cancellers(ledger, ENDED + 120)
    now = history(CANCELLED, *told)
    assert pause_reason(now, Snapshot(ENDED + 120, ()), Policy()) == "user 0 cancelled job 17"
    assert inquest.cancellers(now, ENDED + 180) == ()
    assert database.asked == 2


def test_what_was_answered_or_is_long_past_or_was_our_wish_is_not_asked_again() -> None:
    database = Accounting()
    inquest = Inquest(database)
    database.known = (DEAD,)  # by the person
    assert inquest.cancellers(history(CANCELLED), ENDED + 60) == ()
    assert inquest.cancellers(history(CANCELLED), ENDED + 120) == ()
    assert database.asked == 1
    other = Inquest(database)
    other.cancellers(history(CANCELLED), ENDED + 700)
    other.cancellers(history(Entry("cancelled", BEGAN + 1, TOKEN), CANCELLED), ENDED + 60)
    assert database.asked == 1


@pytest.mark.parametrize(
    ("listed", "more", "asked"),
    [
        ((), (), 0),
        ((), (Entry("absent", BEGAN + 5, TOKEN),), 1),
        ((DEAD,), (), 1),
        ((DEAD,), (Entry("dismissed", BEGAN + 5, TOKEN),), 0),
        ((replace(DEAD, word="COMPLETED"),), (), 0),
    ],
    ids=["not missed yet", "missed", "cancelled", "cancelled by us", "ended"],
)
def test_of_a_pass_the_missed_and_the_cancelled_are_asked(listed, more, asked) -> None:
    database = Accounting()
    database.known = (replace(DEAD, canceller=0),)
    snapshot = Snapshot(BEGAN + 9, listed)
    seen = Inquest(database).with_the_dead(history(*more), snapshot)
    assert database.asked == asked
    assert seen.jobs == (*listed, *database.known[:asked])
