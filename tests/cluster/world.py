"""Simulates a queue in memory, whose jobs also crash or vanish, with the real planner.

The controller's only state is the list of ledger entries, as on disk; a crash loses the rest.
"""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields, replace

from Daddy.cluster.orchestrator.action_types import (
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
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
    JobState,
    Ledger,
    Mode,
    Observed,
    QueueJob,
    QueueReading,
    RequestedChanges,
    SiteLimits,
    SlotView,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry, replay
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.reconcile import reconcile


def attempt_of(**facts) -> Attempt:
    """Make an attempt from its fields and those of its inner records."""
    inner = {
        name: kind(**{part.name: facts.pop(part.name) for part in fields(kind)
                      if part.name in facts})
        for name, kind in (("observed", Observed), ("requests", RequestedChanges))
    }  # fmt: skip
    return Attempt(**facts, **inner)


@dataclass
class Job:
    """A job of the simulated scheduler."""

    job_id: int
    token: str
    state: JobState = JobState.PENDING
    word: str = "PENDING"
    exit_code: int | None = None
    slot: int | None = None
    appears_at: float = 0.0
    after: int | None = None
    held: bool = False


@dataclass
class Slot:
    """A slot's newest term."""

    term: int = 0
    token: str = ""
    end_reason: str | None = "never held"
    checkpoint_term: int = 0


@dataclass
class World:
    """The simulated time, queue and leases, and the ledger entries."""

    policy: ControllerPolicy
    desired: DesiredRun
    now: float = 1000.0
    entries: list[LedgerEntry] = field(default_factory=list)
    jobs: dict[str, Job] = field(default_factory=dict)
    slots: list[Slot] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    concluded: Mode | None = None
    orders: Orders | None = None
    submits: int = 0
    lived: int = 0
    """Attempts that were live when the last plan was made."""

    def __post_init__(self) -> None:
        self.slots = [Slot() for _ in range(self.desired.slots)]

    @property
    def ledger(self) -> Ledger:
        return replay(self.entries)

    # the controller -------------------------------------------------------------------------

    def snapshot(self) -> Snapshot:
        rows = [
            QueueJob(
                job.job_id,
                job.token,
                job.state,
                job.word,
                exit_code=job.exit_code,
                node="" if job.state is JobState.PENDING else f"n{job.job_id % 5}",
            )
            for job in self.jobs.values()
            if job.appears_at <= self.now and job.word != "VANISHED"
        ]
        return Snapshot(self.now, tuple(rows))

    def views(self) -> tuple[SlotView, ...]:
        return tuple(
            SlotView(
                number, slot.term, slot.token, slot.end_reason, checkpoint_term=slot.checkpoint_term
            )
            for number, slot in enumerate(self.slots)
            if slot.term
        )

    def one_pass(self, *, blind: bool = False, effects: int = 1000) -> tuple[Action, ...]:
        """Make one pass, killed after so many effects; return the planned actions."""
        reading: QueueReading = UnknownQueue(self.now, "frozen") if blind else self.snapshot()
        if isinstance(reading, Snapshot):
            self.entries += reconcile(self.ledger, reading, self.views(), self.policy, self.now)
        self.lived = len(self.ledger.live)
        decided = plan(self.desired, self.ledger, reading, self.policy, self.now)
        planned, self.orders = decided.actions, decided.orders or self.orders
        for done, _ in zip(self._effects(planned), range(effects), strict=False):
            del done
        self.now += 1.0
        return planned

    def _effects(self, actions: tuple[Action, ...]) -> Iterator[None]:
        """Yield after each durable step: the controller may be killed between any two of them."""
        for action in actions:
            if isinstance(action, Submit):
                yield from self._submit(action)
            elif isinstance(action, EndTerm):
                slot = self.slots[action.slot]
                if slot.term == action.term and slot.end_reason is None:
                    slot.end_reason = action.reason
                yield
                self._note("freed", "", slot=action.slot, term=action.term)
            elif isinstance(action, Conclude):
                self.concluded = action.mode
            elif isinstance(action, Pause):
                self.desired = replace(self.desired, mode=Mode.PAUSED)
                yield
                self._note("paused", "", reason=action.reason)
            elif isinstance(action, Notify):
                self._note("noticed", "", notice=action.kind)
            elif isinstance(action, Amend):
                job = self.jobs[action.token]
                job.held = job.held if action.hold is None else action.hold
                yield
                facts = {"hold": action.hold, "exclude": action.exclude}
                changes = {name: value for name, value in facts.items() if value is not None}
                self._note("amended", action.token, **changes)
            else:
                self._touch(action)
                yield
                kind = "signalled" if isinstance(action, Signal) else "cancelled"
                self._note(kind, action.token)
            yield

    def _submit(self, action: Submit) -> Iterator[None]:
        self.submits += 1
        token = f"{self.submits:012x}"
        self._note("intent", token, number=self.ledger.next_number, after=action.after)
        yield
        answer = self.answers.pop(0) if self.answers else "created"
        delays = {"created": 0.0, "silent": 0.0, "late": 90.0}
        if answer in delays:
            self.jobs[token] = Job(
                self.submits, token, appears_at=self.now + delays[answer], after=action.after
            )
        yield
        if answer == "created":
            self._note("submitted", token, job_id=self.submits)
        else:
            self._note("unanswered", token)

    def _touch(self, action: Signal | Cancel) -> None:
        job = self.jobs[action.token]
        assert job.job_id == action.job_id
        if isinstance(action, Cancel):
            self._end(job, "CANCELLED", None, end_reason=None)
        elif job.slot is not None:
            self._end(job, "FAILED", 10, end_reason="signal")

    def _note(self, kind: str, token: str, **data: object) -> None:
        self.entries.append(LedgerEntry(kind, self.now, token, data))

    # the site -------------------------------------------------------------------------------

    @property
    def running(self) -> list[Job]:
        return [job for job in self.jobs.values() if job.state is JobState.RUNNING]

    @property
    def pending(self) -> list[Job]:
        waiting = (job for job in self.jobs.values() if job.state is JobState.PENDING)
        return [job for job in waiting if job.appears_at <= self.now]

    @property
    def eligible(self) -> list[Job]:
        """Waiting jobs that only the cap keeps from starting."""
        existing = {job.job_id for job in self.jobs.values() if job.state is not JobState.ENDED}
        return [job for job in self.pending if not job.held and job.after not in existing]

    def start_one(self) -> None:
        """Start the first waiting job if the cap allows; the job claims a slot."""
        if self.eligible and len(self.running) < self.policy.max_running:
            job = self.eligible[0]
            job.state, job.word = JobState.RUNNING, "RUNNING"
            may = range(len(self.slots)) if self.orders is None else self.orders.slots
            free = [n for n in sorted(may) if self.slots[n].end_reason is not None]
            if not free:
                self._end(job, "FAILED", 11, end_reason=None)
                return
            job.slot = free[0]
            slot = self.slots[free[0]]
            slot.term, slot.token, slot.end_reason = slot.term + 1, job.token, None

    def progress(self, number: int) -> None:
        slot = self.slots[number]
        if slot.end_reason is None:
            slot.checkpoint_term = slot.term

    def end(self, index: int, how: str) -> None:
        """End a running job: at its time limit, by a crash, by scancel, or without a record."""
        if not self.running:
            return
        job = self.running[index % len(self.running)]
        if how == "wall":
            if job.slot is not None:
                self.progress(job.slot)
            self._end(job, "FAILED", 10, end_reason="wall time")
        elif how == "crash":
            self._end(job, "FAILED", 1, end_reason=None)
        elif how == "scancel":
            self._end(job, "CANCELLED", None, end_reason=None)
        else:
            self._end(job, "VANISHED", None, end_reason=None)

    def _end(self, job: Job, word: str, code: int | None, end_reason: str | None) -> None:
        job.state, job.word, job.exit_code = JobState.ENDED, word, code
        if job.slot is not None and end_reason is not None:
            slot = self.slots[job.slot]
            if slot.token == job.token and slot.end_reason is None:
                slot.end_reason = end_reason

    def say_start(self) -> None:
        """Set the mode to ``run``, as the person does after a pause."""
        self.desired = replace(self.desired, mode=Mode.RUN)
        self._note("start", "")

    def learn(self, site: SiteLimits) -> None:
        """Record limits of the site, as the controller does."""
        self._note("learnt", "", site=asdict(site))

    def settle(self, passes: int = 60) -> None:
        """Make passes in which jobs start and progress and nothing fails."""
        self.answers.clear()
        for _ in range(passes):
            self.one_pass()
            self.start_one()
            for number in range(len(self.slots)):
                self.progress(number)
            self.now += self.policy.pass_s
