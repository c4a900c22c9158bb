"""The ledger entries that one listing and the leases lead to."""

import pytest

from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    JobOutcome,
    JobState,
    Ledger,
    Phase,
    QueueJob,
    SiteLimits,
    SlotView,
    Snapshot,
)
from Daddy.cluster.orchestrator.ledger_replay import fold
from Daddy.cluster.orchestrator.reconcile import reconcile
from tests.cluster.world import attempt_of

NOW = 1000.0
POLICY = ControllerPolicy(absence_gap_s=30.0, max_running=2)
TOKEN = "00000000000a"


def attempt(phase: Phase = Phase.RUNNING, **facts) -> Attempt:
    basics = {"token": TOKEN, "number": 1, "intended_ts": 100.0, "job_id": 7, "started_ts": 110.0}
    return attempt_of(**{**basics, "phase": phase, **facts})


def row(state: JobState = JobState.RUNNING, word: str = "RUNNING", **facts) -> QueueJob:
    return QueueJob(**{"job_id": 7, "token": TOKEN, "state": state, "slurm_state": word, **facts})


def view(**facts) -> SlotView:
    return SlotView(**{"slot": 0, "term": 3, "token": TOKEN, **facts})


def seen(known: Ledger, *rows: QueueJob, slots=(), now: float = NOW):
    return reconcile(known, Snapshot(now - 1, rows), slots, POLICY, now)


def kinds(entries) -> list[str]:
    return [entry.kind for entry in entries]


def after(known: Ledger, entries) -> Ledger:
    for entry in entries:
        known = fold(known, entry)
    return known


def test_one_listing_without_a_job_is_no_proof_and_two_are() -> None:
    known = Ledger((attempt(),))
    first = seen(known)
    assert kinds(first) == ["absent"]
    known = after(known, first)
    assert seen(known, now=NOW + 29) == ()
    (gone,) = seen(known, now=NOW + 31)
    assert (gone.kind, gone.data["outcome"]) == ("ended", "lost")


def test_a_job_that_shows_up_again_was_never_gone() -> None:
    known = after(Ledger((attempt(),)), seen(Ledger((attempt(),))))
    back = seen(known, row())
    assert kinds(back) == ["present"]
    assert after(known, back).attempts[0].observed.absences == 0


def test_one_listing_is_enough_with_a_goodbye_on_disk_or_a_dead_process() -> None:
    known = Ledger((attempt(slot=0, term=3),))
    said = seen(known, slots=(view(end_reason="wall time"),))
    assert kinds(said) == ["left", "ended"]
    assert said[-1].data == {"outcome": "drained", "reason": "wall time"}
    died = seen(known, slots=(view(holder_alive=False),))
    assert kinds(died) == ["ended", "orphaned"]


@pytest.mark.parametrize(
    ("end_reason", "outcome"),
    [
        ("total_steps 80000 reached", "done"),
        ("exit code 93: the policy collapsed: entropy 0", "refused"),
        ("exit code 3: training.device cuda: no GPU", "refused"),
        ("exit code 9: no space left", "crashed"),
        ("exit code 1: bug", "crashed"),
    ],
)
def test_the_end_of_a_lease_tells_the_outcome_of_an_unlisted_job(
    end_reason: str, outcome: str
) -> None:
    known = Ledger((attempt(slot=0, term=3),))
    *_, ended = seen(known, slots=(view(end_reason=end_reason),))
    assert (ended.data["outcome"], ended.data["reason"]) == (outcome, end_reason)


def test_a_listing_from_before_the_submission_says_nothing_about_it() -> None:
    known = Ledger((attempt(Phase.INTENT, job_id=None, intended_ts=NOW),))
    assert seen(known) == ()


def test_a_submission_without_an_answer_is_adopted_by_its_token() -> None:
    known = Ledger((attempt(Phase.INTENT, job_id=None, started_ts=None),))
    entries = seen(known, row(JobState.PENDING, "PENDING"))
    adopted = after(known, entries).attempts[0]
    assert (adopted.phase, adopted.job_id) == (Phase.SUBMITTED, 7)


def test_a_submission_that_never_shows_up_is_given_up_and_taken_back_if_it_comes_late() -> None:
    known = Ledger((attempt(Phase.INTENT, job_id=None, started_ts=None),))
    known = after(known, seen(known))
    known = after(known, seen(known, now=NOW + 31))
    assert known.attempts[0].phase is Phase.REJECTED
    late = seen(known, row(JobState.PENDING, "PENDING"), now=NOW + 90)
    assert after(known, late).attempts[0].phase is Phase.SUBMITTED


def test_a_job_of_ours_that_the_ledger_lost_is_adopted() -> None:
    adopted = after(Ledger(), seen(Ledger(), row())).attempts
    assert [(attempt.token, attempt.job_id, attempt.number) for attempt in adopted] == [
        (TOKEN, 7, 1)
    ]


@pytest.mark.parametrize(
    ("word", "code", "outcome"),
    [
        ("FAILED", 10, "drained"),
        ("COMPLETED", 0, "done"),
        ("FAILED", 11, "not needed"),
        ("FAILED", 93, "refused"),
        ("FAILED", 3, "refused"),
        ("FAILED", 1, "crashed"),
        ("FAILED", 137, "crashed"),
        ("OUT_OF_MEMORY", 125, "crashed"),
        ("OUT_OF_MEMORY", 0, "crashed"),
        ("DEADLINE", 0, "drained"),
        ("TIMEOUT", 0, "drained"),
        ("PREEMPTED", 0, "drained"),
        ("NODE_FAIL", 0, "node failed"),
        ("CANCELLED by 1000", 0, "cancelled"),
        ("COMPLETED", None, "done"),
    ],
)
def test_what_an_end_means(word: str, code: int | None, outcome: str) -> None:
    entries = seen(Ledger((attempt(),)), row(JobState.ENDED, word, exit_code=code))
    assert entries[-1].data["outcome"] == outcome


@pytest.mark.parametrize(
    ("word", "code", "reason"),
    [
        ("OUT_OF_MEMORY", 253, "out of memory (OUT_OF_MEMORY): raise slurm.memory or lower"),
        ("OUT_OF_MEMORY", 0, "out of memory (OUT_OF_MEMORY): raise slurm.memory or lower"),
        ("FAILED", 137, "exit code 137 (killed by SIGKILL, often for lack of memory: raise"),
        ("FAILED", 127, "exit code 127 (a program was not found: check slurm.setup"),
        ("FAILED", 139, "exit code 139 (killed by SIGSEGV)"),
        ("FAILED", 9, "exit code 9"),
        ("NODE_FAIL", 1, "node n1 failed (NODE_FAIL)"),
        ("TIMEOUT", 143, "timeout"),
        ("PREEMPTED", 143, "preempted"),
        ("CANCELLED by 0", 143, "cancelled"),
        ("DEADLINE", 0, "deadline"),
    ],
)
def test_the_scheduler_s_word_for_an_end_counts_more_than_the_number(
    word: str, code: int, reason: str
) -> None:
    entries = seen(Ledger((attempt(),)), row(JobState.ENDED, word, exit_code=code, node="n1"))
    assert entries[-1].data["reason"].startswith(reason)


@pytest.mark.parametrize(
    ("word", "own", "outcome", "reason"),
    [
        ("OUT_OF_MEMORY", "exit code 1: a process ended", "crashed", "out of memory ("),
        ("NODE_FAIL", "signal SIGTERM", "node failed", "node n1 failed (NODE_FAIL)"),
    ],
)
def test_slurm_s_word_is_told_beside_the_learner_s_own_reason(
    word: str, own: str, outcome: str, reason: str
) -> None:
    """Slurm killed one of the learner's processes, or sent SIGTERM as it gave the node up."""
    known = Ledger((attempt(slot=0, term=3),))
    ended = row(JobState.ENDED, word, exit_code=3, node="n1")
    *_, entry = seen(known, ended, slots=(view(end_reason=own),))
    assert entry.data["outcome"] == outcome
    assert entry.data["reason"].startswith(reason)
    assert entry.data["reason"].endswith(f"; {own}")


@pytest.mark.parametrize(
    ("known", "slots", "outcome"),
    [
        (attempt(), (), "not launched"),
        (attempt(slot=0, term=3), (), "crashed"),
        (attempt(), (view(restarts=1),), "crashed"),
        (attempt(), (view(restarts=0),), "not launched"),
    ],
)
def test_a_launch_failure_after_a_claim_is_a_crash(known, slots, outcome) -> None:
    """Slurm gives that reason also to a job whose script was killed."""
    ended = row(
        JobState.ENDED, "FAILED", exit_code=137, slurm_reason="JobLaunchFailure", restarts=1
    )
    entries = seen(Ledger((known,)), ended, slots=slots)
    (entry,) = [entry for entry in entries if entry.kind == "ended"]
    assert entry.data["outcome"] == outcome
    assert "exit code 137 (killed by SIGKILL, often for lack of memory" in entry.data["reason"]
    assert ("JobLaunchFailure" in entry.data["reason"]) == (outcome == "not launched")


@pytest.mark.parametrize(
    ("known", "word", "reason", "outcome"),
    [
        (attempt(), "CANCELLED", "Prolog error", "node failed"),
        (attempt(), "FAILED", "Prolog error", "node failed"),
        (attempt(slot=0, term=3), "CANCELLED", "Prolog error", "cancelled"),
        (attempt(), "CANCELLED", "", "cancelled"),
    ],
)
def test_an_unclaimed_job_on_a_drained_node_is_that_nodes_failure(
    known, word, reason, outcome
) -> None:
    ended = row(JobState.ENDED, word, exit_code=0, node="n1", drained=reason)
    (entry,) = (entry for entry in seen(Ledger((known,)), ended) if entry.kind == "ended")
    assert entry.data["outcome"] == outcome
    if reason:
        assert entry.data["reason"] == "node n1 is drained: Prolog error"


def test_a_claim_progress_and_leaving_are_read_from_the_slot() -> None:
    known = Ledger((attempt(),))
    claimed = seen(known, row(), slots=(view(),))
    assert kinds(claimed) == ["claimed"]
    known = after(known, claimed)
    assert known.attempts[0].training
    older = seen(known, row(), slots=(view(checkpoint_term=2, checkpoint_step=900),))
    assert older == ()  # a checkpoint of an earlier term is no progress of this attempt
    own = seen(known, row(), slots=(view(checkpoint_term=3, checkpoint_step=950),))
    assert kinds(own) == ["progressed"]
    left = seen(known, row(), slots=(view(end_reason="wall time"),))
    assert kinds(left) == ["left"]
    assert not after(known, left).attempts[0].training


def test_a_slot_held_by_an_ended_job_is_an_orphan_and_a_living_one_is_not() -> None:
    ended = Ledger((attempt(Phase.ENDED, slot=0, term=3),))
    (orphan,) = seen(ended, slots=(view(),))
    assert (orphan.kind, orphan.data["slot"], orphan.data["term"]) == ("orphaned", 0, 3)
    assert seen(after(ended, [orphan]), slots=(view(),)) == ()
    assert seen(ended, slots=(view(holder_alive=True),)) == ()


def test_a_waiting_job_given_up_as_lost_is_adopted_when_it_claims_a_slot() -> None:
    """Empty listings while all slots change hands: no heartbeat proves them incomplete."""
    known = Ledger((attempt(Phase.SUBMITTED, started_ts=None),))
    known = after(known, seen(known))
    known = after(known, seen(known, now=NOW + 31))
    assert known.attempts[0].outcome is JobOutcome.LOST
    back = seen(known, slots=(view(beat=1),), now=NOW + 32)
    assert kinds(back) == ["submitted"]
    known = after(known, back)
    for now, beat in ((NOW + 36, 2), (NOW + 40, 3), (NOW + 80, 40)):
        entries = seen(known, slots=(view(beat=beat),), now=now)
        assert "ended" not in kinds(entries)
        assert "orphaned" not in kinds(entries)
        known = after(known, entries)
    assert known.attempts[0].training
    still = (view(beat=40, silent_s=200.0),)
    known = after(known, seen(known, slots=still, now=NOW + 300))
    assert "ended" in kinds(seen(known, slots=still, now=NOW + 430))


def test_a_learner_started_by_hand_is_let_be_until_its_process_is_gone() -> None:
    by_hand = view(token="ffffffffffff")
    assert seen(Ledger(), slots=(by_hand,)) == ()
    gone = view(token="ffffffffffff", holder_alive=False)
    assert kinds(seen(Ledger(), slots=(gone,))) == ["orphaned"]


def test_of_two_jobs_with_one_token_the_one_that_trains_counts() -> None:
    known = Ledger((attempt(slot=0, term=3),))
    surplus = row(JobState.ENDED, "FAILED", job_id=8, exit_code=11)
    for rows in ((row(), surplus), (surplus, row())):
        assert seen(known, *rows, slots=(view(),)) == ()


def test_a_job_begins_anew_once_its_node_has_booted() -> None:
    known = Ledger((attempt(started_ts=110.0),))
    booted = row(started_ts=900.0, node="cloud1")
    (began,) = seen(known, booted)
    assert (began.kind, began.data["started_ts"]) == ("started", 900.0)
    assert seen(after(known, (began,)), booted) == ()


def test_a_requeued_job_gives_up_its_slot_and_waits_again() -> None:
    known = Ledger((attempt(slot=0, term=3),))
    entries = seen(
        known, row(JobState.PENDING, "PENDING", slurm_reason="BeginTime"), slots=(view(),)
    )
    assert kinds(entries) == ["requeued", "orphaned"]
    again = after(known, entries).attempts[0]
    assert (again.phase, again.slot) == (Phase.SUBMITTED, None)


def test_a_surplus_job_that_ran_beside_a_full_fleet_teaches_to_chain() -> None:
    known_site = SiteLimits(enforced=True)
    full = [attempt(token=f"{n:012x}", number=n, slot=n, term=1, job_id=n) for n in (1, 2)]
    known = Ledger((*full, attempt(number=3)), site=known_site)
    rows = [row(token=holder.token, job_id=holder.job_id) for holder in full]
    entries = seen(known, *rows, row(JobState.ENDED, "FAILED", exit_code=11))
    assert kinds(entries)[-1] == "learnt"
    half = Ledger((full[0], attempt(number=3)), site=known_site)
    entries = seen(half, rows[0], row(JobState.ENDED, "FAILED", exit_code=11))
    assert "learnt" not in kinds(entries)


def test_a_hand_over_that_was_seen_at_once_was_not_slow() -> None:
    """The successor holds the slot in the listing that first lacks its predecessor."""
    older = attempt(token="0" * 12, job_id=6, slot=0, term=2, claimed_ts=200.0)
    known = Ledger((older, attempt(Phase.SUBMITTED, started_ts=None)))
    ended = row(JobState.ENDED, "FAILED", token="0" * 12, job_id=6, exit_code=10)
    (claimed,) = [
        entry for entry in seen(known, ended, row(), slots=(view(),)) if entry.kind == "claimed"
    ]
    assert "slow" not in claimed.data


def test_a_job_that_our_own_hold_kept_from_an_empty_slot_was_not_slow() -> None:
    for released_ts, slow in ((0.0, True), (NOW - 20, False)):
        known = attempt(Phase.SUBMITTED, started_ts=None, released_ts=released_ts)
        entries = seen(Ledger((known,)), row(), slots=(view(term=1),))
        (claimed,) = [entry for entry in entries if entry.kind == "claimed"]
        assert ("slow" in claimed.data) is slow
