"""Carries out what ``plan`` decided, one action at a time, each under the lease and in the ledger.

An intent is on disk before the scheduler is asked, so that a crash in between leaves a question
(listings answer it) and never a forgotten job. After a refusal or silence no further job is tried
in the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from Daddy.cluster.orchestrator.control_files import read_intent, write_intent, write_orders
from Daddy.cluster.orchestrator.controller_records import Attempt, Ledger, Mode, Orders
from Daddy.cluster.orchestrator.decisions.circuit_breaker import REFUSED, REFUSED_FOR_GOOD
from Daddy.cluster.orchestrator.decisions.job_cap import limits_after_refusal
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.cluster.orchestrator.plan_actions import (
    Action,
    Amend,
    Cancel,
    Conclude,
    EndTerm,
    Notify,
    Pause,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.scheduler_interface import (
    JobRef,
    JobSpec,
    Refused,
    Scheduler,
    Submitted,
    Unanswered,
)
from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError, SchedulerError
from Daddy.core.event_log import EventWriter
from Daddy.core.lease import Lease, end_term
from Daddy.core.name_validation import new_token
from Daddy.core.run_paths import RunPaths


@dataclass
class PlanApplier:
    """The only hands of the controller."""

    run: RunPaths
    lease: Lease
    ledger: LedgerFile
    scheduler: Scheduler
    make_spec: Callable[[str, int, Submit], JobSpec]
    """(token, number, wish) → the job."""
    events: EventWriter
    clock: Clock
    notify_person: Callable[[str, str], None] = lambda _kind, _text: None
    """(kind of trouble, text)."""

    @property
    def view(self) -> Ledger:
        """The ledger as it stands."""
        return self.ledger.view

    def apply(self, actions: Sequence[Action], others: int = 0) -> Mode | None:
        """Do them in order; the final mode when one of them concludes the run.

        ``others``: how many jobs of the person's own wait or run beside ours.
        """
        final: Mode | None = None
        discouraged = False
        for action in actions:
            self.check_term()
            if isinstance(action, Submit):
                discouraged = discouraged or not self._submit(action, others)
            elif isinstance(action, Conclude):
                final = action.mode
            elif isinstance(action, EndTerm):
                end_term(self.run.slot(action.slot).lease, action.term, action.reason)
                self.record_entry(
                    "freed", "", slot=action.slot, term=action.term, reason=action.reason
                )
            elif isinstance(action, Pause):
                self._pause(action.reason)
            elif isinstance(action, Notify):
                self._notify(action.kind, action.reason)
            else:
                self._touch(action)
        return final

    def check_term(self) -> None:
        """ControllerAliveError once another controller has taken over: we are powerless then."""
        if not self.lease.held():
            raise ControllerAliveError(
                f"this controller's term {self.lease.term} has ended: another one took over",
                "nothing is to be done; `status` names the one that works",
            )

    def publish_orders(self, orders: Orders | None) -> None:
        """Leave word for the jobs that start from now on."""
        if orders is not None:
            self.check_term()
            write_orders(self.run, orders)

    def _touch(self, action: Signal | Cancel | Amend) -> None:
        """Do something to a job: the scheduler's error is told and tried again at the next pass.

        A cancel and a hold are on disk first, for a command without an answer may have been carried
        out: nobody else cancelled that job, and a job that may be held is let go again. A ledger
        that cannot be written ends the pass.
        """
        job = JobRef(action.job_id, action.token)
        facts: dict[str, object] = {"job_id": action.job_id, "reason": action.reason}
        try:
            if isinstance(action, Signal):
                self.scheduler.signal(job)
                self.record_entry("signalled", action.token, **facts)
            elif isinstance(action, Cancel):
                self.record_entry("dismissed", action.token, **facts)
                self.scheduler.cancel(job)
                self.record_entry("cancelled", action.token, **facts)
            else:
                self._amend(job, action, facts)
        except SchedulerError as error:
            self.log_event("error", text=f"job {action.job_id}: {error.message}")

    def _amend(self, job: JobRef, action: Amend, facts: Mapping[str, object]) -> None:
        wishes = {"hold": action.hold, "exclude": action.exclude, "limit_s": action.limit_s}
        changes = {name: value for name, value in wishes.items() if value is not None}
        if action.hold:
            self.record_entry("amended", action.token, hold=True, **facts)
        self.scheduler.amend(job, action)
        if changes != {"hold": True}:  # that is on disk already
            self.record_entry("amended", action.token, **facts, **changes)

    def _pause(self, reason: str) -> None:
        """Durable before anything else: every controller from now on obeys it."""
        intent = read_intent(self.run)
        if intent is not None and intent.mode is not Mode.RUN:
            return  # the person was faster
        if intent is not None:
            paused = replace(intent, mode=Mode.PAUSED, reason=reason)
            write_intent(self.run, paused, self.clock.now())
        self.record_entry("paused", "", reason=reason)
        self._notify("paused", f"the run is paused: {reason}")

    def _notify(self, kind: str, reason: str) -> None:
        """Told once, even if the telling fails: a broken hook must not be run every minute."""
        self.record_entry("noticed", "", notice=kind, reason=reason)
        self.notify_person(kind, reason)

    def _submit(self, action: Submit, others: int) -> bool:
        """True where the scheduler took the job."""
        token, number = new_token(), self.view.next_number
        spec = self.make_spec(token, number, action)
        release = spec.environment.get("DADDY_RELEASE", "")
        asked = {"after": action.after, "exclude": action.exclude}
        asked = {name: value for name, value in asked.items() if value}
        facts = {"number": number, "reason": action.reason, "release": release}
        self.record_entry("intent", token, **facts, **asked)
        self.check_term()
        answer = self.scheduler.submit(spec)
        if isinstance(answer, Submitted):
            self.record_entry("submitted", token, job_id=answer.job_id)
            return True
        if isinstance(answer, Unanswered):
            self.record_entry("unanswered", token, reason=answer.why)
            return False
        if answer.limit:
            self.record_entry(
                "learnt", "", site=limits_after_refusal(self.view, others), why=answer.why
            )
        final = is_permanent_refusal(self.view.attempts, token, action, answer)
        said = REFUSED_FOR_GOOD if final else REFUSED
        self.record_entry("rejected", token, reason=f"{said}: {answer.why}")
        return False

    def record_entries(self, entries: Iterable[LedgerEntry]) -> None:
        """Write down what was seen."""
        for entry in entries:
            self.check_term()
            self._write(entry)

    def record_entry(self, kind: str, token: str, **data: object) -> None:
        """Write down what was done."""
        self._write(LedgerEntry(kind, self.clock.now(), token, data))

    def _write(self, entry: LedgerEntry) -> None:
        """One fact, in the ledger and as an event, for status, dashboard and plots."""
        self.ledger.append(entry)
        facts: dict[str, object] = {"state": entry.kind, **entry.data}
        if entry.token:
            facts["token"] = entry.token
        for attempt in self.view.attempts:
            if attempt.token == entry.token:
                facts |= {"number": attempt.number, "job_id": attempt.job_id, "slot": attempt.slot}
        facts["text"] = _sentence(entry.kind, facts)
        self.events.write("state", 0, facts)

    def log_event(self, event: str, **data: object) -> None:
        """An event that is no fact of the ledger."""
        self.events.write(event, 0, data)


def is_permanent_refusal(
    attempts: Sequence[Attempt], token: str, wish: Submit, answer: Refused
) -> bool:
    """True where asking again cannot help.

    It can where nodes are left out (it may be for these), and where the scheduler took a job of the
    same release before: then something is wrong with it and not with the job, such as an
    accounting that is away and makes every account look invalid.
    """
    here = next((one.release for one in attempts if one.token == token), "")
    taken = any(one.job_id is not None and one.release == here for one in attempts)
    return answer.for_good and not wish.exclude and not taken


def _sentence(kind: str, facts: Mapping[str, object]) -> str:
    who = f"attempt {facts['number']}" if "number" in facts else "run"
    job = f" (job {facts['job_id']})" if facts.get("job_id") is not None else ""
    why = f": {facts['reason']}" if facts.get("reason") else ""
    slot = f" slot {facts['slot']}" if facts.get("slot") is not None else ""
    return f"{who}{job} {kind}{slot}{why}"
