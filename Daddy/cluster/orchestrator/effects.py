"""Carries out what ``plan`` decided, one action at a time, each under the lease and in the ledger.

An intent is on disk before the scheduler is asked, so that a crash in between leaves a question
(listings answer it) and never a forgotten job. After a refusal or silence no further job is tried
in the same pass.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from Daddy.cluster.orchestrator.actions import (
    Action,
    Amend,
    Cancel,
    Conclude,
    EndTerm,
    Notify,
    Orders,
    Pause,
    Signal,
    Submit,
)
from Daddy.cluster.orchestrator.decisions.capacity import limit_refused
from Daddy.cluster.orchestrator.decisions.circuit_breaker import REFUSED, REFUSED_FOR_GOOD
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.intent import read_intent, write_intent
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.orders import write_orders
from Daddy.cluster.orchestrator.records import Ledger, Mode
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

MakeSpec = Callable[[str, int, Submit], JobSpec]
"""(token, number, what is wished) → the job."""
Tell = Callable[[str, str], None]
"""(kind, text) to the person."""


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
        tell_person: Tell = lambda _kind, _text: None,
    ) -> None:
        self._run = run
        self._lease = lease
        self._ledger = ledger
        self._scheduler = scheduler
        self._make_spec = make_spec
        self._events = events
        self._clock = clock
        self._tell_person = tell_person

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

    def order(self, orders: Orders | None) -> None:
        """Leave word for the jobs that start from now on."""
        if orders is not None:
            self.check_term()
            write_orders(self._run, orders)

    def _apply_one(self, action: Signal | Cancel | Amend | EndTerm | Pause | Notify) -> None:
        if isinstance(action, EndTerm):
            end_term(self._run.slot(action.slot).lease, action.term, action.reason)
            self.note("freed", "", slot=action.slot, term=action.term, reason=action.reason)
        elif isinstance(action, Pause):
            self._pause(action.reason)
        elif isinstance(action, Notify):
            self._notify(action.kind, action.reason)
        else:
            self._touch(action)

    def _touch(self, action: Signal | Cancel | Amend) -> None:
        """Something that is done to a job: an error is told and tried again at the next pass.

        What we wish is on disk first, for a command without an answer may have been carried out:
        nobody else cancelled that job, and a job that may be held is let go again.
        """
        if isinstance(action, Cancel):
            self.note("dismissed", action.token, job_id=action.job_id, reason=action.reason)
        elif isinstance(action, Amend) and action.hold:
            said = {"job_id": action.job_id, "reason": action.reason}
            self.note("amended", action.token, hold=True, **said)
        try:
            facts = self._do(action)
        except DaddyError as error:
            self.tell("error", text=f"job {action.job_id}: {error.message}")
            return
        if facts == {"hold": True}:
            return  # told already
        kind = {Signal: "signalled", Cancel: "cancelled", Amend: "amended"}[type(action)]
        self.note(kind, action.token, job_id=action.job_id, reason=action.reason, **facts)

    def _do(self, action: Signal | Cancel | Amend) -> dict[str, object]:
        """Ask the scheduler; what the ledger is to know of it."""
        job = JobRef(action.job_id, action.token)
        if isinstance(action, Signal):
            self._scheduler.signal(job)
        elif isinstance(action, Cancel):
            self._scheduler.cancel(job)
        else:
            self._scheduler.amend(job, action)
            changes = {"hold": action.hold, "exclude": action.exclude, "limit_s": action.limit_s}
            return {name: value for name, value in changes.items() if value is not None}
        return {}

    def _pause(self, reason: str) -> None:
        """Durable before anything else: whoever controls from now on obeys it."""
        intent = read_intent(self._run)
        if intent is not None and intent.mode is not Mode.RUN:
            return  # the person was faster
        if intent is not None:
            paused = replace(intent, mode=Mode.PAUSED, reason=reason)
            write_intent(self._run, paused, self._clock.now())
        self.note("paused", "", reason=reason)
        self._notify("paused", f"the run is paused: {reason}")

    def _notify(self, kind: str, reason: str) -> None:
        """Told once, even if the telling fails: a broken hook must not be run every minute."""
        self.note("noticed", "", notice=kind, reason=reason)
        self._tell_person(kind, reason)

    def _submit(self, action: Submit, others: int) -> bool:
        """Whether the scheduler took the job."""
        token, number = new_token(), self._ledger.view.next_number
        spec = self._make_spec(token, number, action)
        release = spec.environment.get("DADDY_RELEASE", "")
        facts: dict[str, object] = {"number": number, "reason": action.reason, "release": release}
        if action.after is not None:
            facts["after"] = action.after
        if action.exclude:
            facts["exclude"] = action.exclude
        self.note("intent", token, **facts)
        self.check_term()
        return self._record(token, action, self._scheduler.submit(spec), others)

    def _record(self, token: str, action: Submit, answer: Answer, others: int) -> bool:
        if isinstance(answer, Submitted):
            self.note("submitted", token, job_id=answer.job_id)
            return True
        if isinstance(answer, Refused):
            if answer.limit:
                facts = limit_refused(self._ledger.view, others)
                self.note("learnt", "", site=facts, why=answer.why)
            final = is_refused_for_good(self._ledger.view, token, action, answer)
            said = REFUSED_FOR_GOOD if final else REFUSED
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


def is_refused_for_good(ledger: Ledger, token: str, wish: Submit, answer: Refused) -> bool:
    """Pure: whether asking again cannot help.

    It can where nodes are left out (it may be for these), and where the scheduler took a job of the
    same release before: then something is wrong with it and not with the job, such as an
    accounting that is away and makes every account look invalid.
    """
    here = next((one.release for one in ledger.attempts if one.token == token), "")
    taken = any(one.job_id is not None and one.release == here for one in ledger.attempts)
    return answer.for_good and not wish.exclude and not taken


def _sentence(kind: str, facts: Mapping[str, object]) -> str:
    who = f"attempt {facts['number']}" if "number" in facts else "run"
    job = f" (job {facts['job_id']})" if facts.get("job_id") is not None else ""
    why = f": {facts['reason']}" if facts.get("reason") else ""
    slot = f" slot {facts['slot']}" if facts.get("slot") is not None else ""
    return f"{who}{job} {kind}{slot}{why}"
