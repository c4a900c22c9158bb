"""Carries out what ``plan`` decided, one action at a time, each under the lease and in the ledger.

An intent is on disk before the scheduler is asked, so that a crash in between leaves a question
(listings answer it) and never a forgotten job. After a refusal or silence no further job is tried
in the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from Daddy.cluster.orchestrator.breaker import REFUSED, REFUSED_FOR_GOOD
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.records import (
    Action,
    Cancel,
    Chaining,
    Conclude,
    EndTerm,
    Mode,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.scheduler import (
    Answer,
    JobRef,
    JobSpec,
    Refused,
    Scheduler,
    Submitted,
)
from Daddy.core.clock import Clock
from Daddy.core.errors import ControllerAliveError, DaddyError
from Daddy.core.events import EventWriter
from Daddy.core.lease import Lease, end_term
from Daddy.core.names import new_token
from Daddy.core.paths import RunPaths

MakeSpec = Callable[[str, int, int | None], JobSpec]
"""(token, number, job id to wait for) → the job."""


class Effects:
    """The only hands of the controller."""

    def __init__(
        self,
        run: RunPaths,
        lease: Lease,
        ledger: LedgerFile,
        scheduler: Scheduler,
        make_spec: MakeSpec,
        events: EventWriter,
        clock: Clock,
    ) -> None:
        self._run = run
        self._lease = lease
        self._ledger = ledger
        self._scheduler = scheduler
        self._make_spec = make_spec
        self._events = events
        self._clock = clock

    def apply(self, actions: Sequence[Action]) -> Mode | None:
        """Do them in order; the final mode when one of them concludes the run."""
        final: Mode | None = None
        discouraged = False
        for action in actions:
            self.check_term()
            if isinstance(action, Submit):
                discouraged = discouraged or not self._submit(action)
            elif isinstance(action, Conclude):
                final = action.mode
            else:
                self._apply_one(action)
        return final

    def check_term(self) -> None:
        """ControllerAliveError once another controller has taken over: we are powerless then."""
        if not self._lease.held():
            raise ControllerAliveError(
                f"this controller's term {self._lease.term} has ended: another one took over",
                "nothing is to be done; `status` names the one that works",
            )

    def _apply_one(self, action: Signal | Cancel | EndTerm) -> None:
        if isinstance(action, EndTerm):
            end_term(self._run.slot(action.slot).lease, action.term, action.reason)
            self.note("freed", "", slot=action.slot, term=action.term, reason=action.reason)
            return
        job = JobRef(action.job_id, action.token)
        try:
            if isinstance(action, Signal):
                self._scheduler.signal([job])
            else:
                self._scheduler.cancel([job])
        except DaddyError as error:
            self.tell("error", text=f"job {action.job_id}: {error.message}")
            return
        kind = "signalled" if isinstance(action, Signal) else "cancelled"
        self.note(kind, action.token, job_id=action.job_id, reason=action.reason)

    def _submit(self, action: Submit) -> bool:
        """Whether the scheduler took the job."""
        token, number = new_token(), self._ledger.view.next_number
        spec = self._make_spec(token, number, action.after)
        release = spec.environment.get("DADDY_RELEASE", "")
        facts: dict[str, object] = {"number": number, "reason": action.reason, "release": release}
        if action.after is not None:
            facts["after"] = action.after
        self.note("intent", token, **facts)
        self.check_term()
        return self._record(token, self._scheduler.submit(spec))

    def _record(self, token: str, answer: Answer) -> bool:
        if isinstance(answer, Submitted):
            self.note("submitted", token, job_id=answer.job_id)
            return True
        if isinstance(answer, Refused):
            if answer.limit:
                self.note("learnt", "", chaining=Chaining.LATE.value, why=answer.why)
            said = REFUSED_FOR_GOOD if answer.for_good else REFUSED
            self.note("rejected", token, reason=f"{said}: {answer.why}")
            return False
        self.note("unanswered", token, reason=answer.why)
        return False

    def record(self, entries: Sequence[Entry]) -> None:
        """Write down what was seen."""
        for entry in entries:
            self.check_term()
            self._ledger.append(entry)
            self._announce(entry.kind, entry.token, entry.data)

    def note(self, kind: str, token: str, **data: object) -> None:
        """Write down what was done."""
        self._ledger.append(Entry(kind, self._clock.now(), token, data))
        self._announce(kind, token, data)

    def _announce(self, kind: str, token: str, data: Mapping[str, object]) -> None:
        """The same fact as an event, for status, dashboard and plots."""
        facts: dict[str, object] = {"state": kind, **data}
        if token:
            attempts = (one for one in self._ledger.view.attempts if one.token == token)
            attempt = next(attempts, None)
            facts["token"] = token
            if attempt is not None:
                facts |= {"number": attempt.number, "job_id": attempt.job_id, "slot": attempt.slot}
        facts["text"] = _sentence(kind, facts)
        self._events.write("state", 0, facts)

    def tell(self, event: str, **data: object) -> None:
        """An event that is no fact of the ledger."""
        self._events.write(event, 0, data)


def _sentence(kind: str, facts: Mapping[str, object]) -> str:
    who = f"attempt {facts['number']}" if "number" in facts else "run"
    job = f" (job {facts['job_id']})" if facts.get("job_id") is not None else ""
    why = f": {facts['reason']}" if facts.get("reason") else ""
    slot = f" slot {facts['slot']}" if facts.get("slot") is not None else ""
    return f"{who}{job} {kind}{slot}{why}"
