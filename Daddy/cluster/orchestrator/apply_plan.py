"""Carries out the planner's actions, one at a time, and writes each into the ledger.

Before each action ``apply`` checks that this controller holds its lease. A submission is in the
ledger before sbatch runs: after a crash in between, the next listings show if the job exists. After
a refused or unanswered submission no further job is submitted in the same pass.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from Daddy.cluster.orchestrator.action_types import (
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
from Daddy.cluster.orchestrator.control_files import read_intent, write_intent, write_orders
from Daddy.cluster.orchestrator.controller_types import Attempt, Ledger, Mode, Orders
from Daddy.cluster.orchestrator.decisions.circuit_breaker import REFUSED, REFUSED_FOR_GOOD
from Daddy.cluster.orchestrator.decisions.job_cap import limits_after_refusal
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
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
    """Applies actions to the scheduler, the slots' leases, the ledger and the event log."""

    run: RunPaths
    lease: Lease
    ledger: LedgerFile
    scheduler: Scheduler
    make_spec: Callable[[str, int, Submit], JobSpec]
    """(token, number, action) → the job's specification."""
    events: EventWriter
    clock: Clock
    notify_person: Callable[[str, str], None] = lambda _kind, _text: None
    """(kind of trouble, text)."""

    @property
    def view(self) -> Ledger:
        return self.ledger.view

    def apply(self, actions: Sequence[Action], others: int = 0) -> Mode | None:
        """Execute the actions in order; return the mode of a ``Conclude`` among them, or None.

        ``others``: number of the person's other jobs that wait or run. Raises ControllerAliveError.
        """
        final: Mode | None = None
        refused = False
        for action in actions:
            self.check_term()
            if isinstance(action, Submit):
                refused = refused or not self._submit(action, others)
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
                self._change_job(action)
        return final

    def check_term(self) -> None:
        """Raise ControllerAliveError if this controller's term has ended or a newer term exists."""
        if not self.lease.held():
            raise ControllerAliveError(
                f"this controller's term {self.lease.term} has ended: another controller took over",
                "do nothing: `run_controller status` names the new controller",
            )

    def publish_orders(self, orders: Orders | None) -> None:
        """Write ``orders`` to ``orders.json``, which starting jobs read; None leaves the file."""
        if orders is not None:
            self.check_term()
            write_orders(self.run, orders)

    def _change_job(self, action: Signal | Cancel | Amend) -> None:
        """Signal, cancel or amend a job; log the scheduler's error (the next pass tries again).

        A cancel and a hold are in the ledger before the command runs, because a command that timed
        out may have worked: without the entry the job would count as cancelled by somebody else, or
        would stay held for ever. A ledger that cannot be written raises OSError.
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
        fields = {"hold": action.hold, "exclude": action.exclude, "limit_s": action.limit_s}
        changes = {name: value for name, value in fields.items() if value is not None}
        if action.hold:
            self.record_entry("amended", action.token, hold=True, **facts)
        self.scheduler.amend(job, action)
        if changes != {"hold": True}:  # a hold alone is in the ledger already
            self.record_entry("amended", action.token, **facts, **changes)

    def _pause(self, reason: str) -> None:
        """Write ``paused`` into intent and ledger, and notify; only if the intent's mode is run."""
        intent = read_intent(self.run)
        if intent is not None and intent.mode is not Mode.RUN:
            return  # the person changed the mode meanwhile
        if intent is not None:
            paused = replace(intent, mode=Mode.PAUSED, reason=reason)
            write_intent(self.run, paused, self.clock.now())
        self.record_entry("paused", "", reason=reason)
        self._notify("paused", f"the run is paused: {reason}")

    def _notify(self, kind: str, reason: str) -> None:
        """Record the notice, then run the notify command: a failed one is not run at every pass."""
        self.record_entry("noticed", "", notice=kind, reason=reason)
        self.notify_person(kind, reason)

    def _submit(self, action: Submit, others: int) -> bool:
        """Submit a job and record the outcome; return True if the scheduler accepted the job."""
        token, number = new_token(), self.view.next_number
        spec = self.make_spec(token, number, action)
        release = spec.environment.get("DADDY_RELEASE", "")
        options = {"after": action.after, "exclude": action.exclude}
        options = {name: value for name, value in options.items() if value}
        facts = {"number": number, "reason": action.reason, "release": release}
        self.record_entry("intent", token, **facts, **options)
        self.check_term()
        answer = self.scheduler.submit(spec)
        if isinstance(answer, Submitted):
            self.record_entry("submitted", token, job_id=answer.job_id)
            return True
        if isinstance(answer, Unanswered):
            self.record_entry("unanswered", token, reason=answer.message)
            return False
        if answer.too_many_waiting:
            limits = limits_after_refusal(self.view, others)
            self.record_entry("learnt", "", site=limits, why=answer.message)
        final = is_permanent_refusal(self.view.attempts, token, action, answer)
        prefix = REFUSED_FOR_GOOD if final else REFUSED
        self.record_entry("rejected", token, reason=f"{prefix}: {answer.message}")
        return False

    def record_entries(self, entries: Iterable[LedgerEntry]) -> None:
        for entry in entries:
            self.check_term()
            self._write(entry)

    def record_entry(self, kind: str, token: str, **data: object) -> None:
        """Append an entry, dated now, to the ledger, and its event to the event log."""
        self._write(LedgerEntry(kind, self.clock.now(), token, data))

    def _write(self, entry: LedgerEntry) -> None:
        """Append an entry to the ledger, and write the event that dashboard and plots read."""
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
        self.events.write(event, 0, data)


def is_permanent_refusal(
    attempts: Sequence[Attempt], token: str, action: Submit, answer: Refused
) -> bool:
    """Return True if submitting the same job again cannot succeed.

    False if excluded nodes may be the cause, or if the scheduler accepted a job of this release
    before: Slurm without its accounting database, for instance, calls every account invalid.
    """
    release = next((attempt.release for attempt in attempts if attempt.token == token), "")
    same = (attempt for attempt in attempts if attempt.release == release)
    accepted = any(attempt.job_id is not None for attempt in same)
    return answer.permanent and not action.exclude and not accepted


def _sentence(kind: str, facts: Mapping[str, object]) -> str:
    subject = f"attempt {facts['number']}" if "number" in facts else "run"
    job = f" (job {facts['job_id']})" if facts.get("job_id") is not None else ""
    why = f": {facts['reason']}" if facts.get("reason") else ""
    slot = f" slot {facts['slot']}" if facts.get("slot") is not None else ""
    return f"{subject}{job} {kind}{slot}{why}"
