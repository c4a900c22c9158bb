"""The loop: look, write down, decide, act. All it knows is on disk, so it may die anywhere.

Between passes it looks at a few small files only (the intent and the slots' leases): a goodbye
leads to the next pass at once, without asking the scheduler meanwhile.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial

from Daddy.cluster.orchestrator.apply_plan import PlanApplier
from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.cluster.orchestrator.control_files import read_intent, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import (
    Attempt,
    Intent,
    JobOutcome,
    Ledger,
    Mode,
    QueueJob,
    QueueReading,
    SiteLimits,
    SlotView,
    Snapshot,
    UnknownQueue,
)
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.cluster.orchestrator.plan_actions import Plan
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.reconcile import reconcile
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, Scheduler
from Daddy.cluster.orchestrator.slot_status import HeartbeatSilence, read_slots
from Daddy.cluster.orchestrator.status_summary import summarise
from Daddy.core.atomic_files import write_json
from Daddy.core.errors import ControllerAliveError, FileError
from Daddy.core.lease import newest_term_state
from Daddy.core.run_paths import RunPaths

_log = logging.getLogger(__name__)
_BEAT_S = 10.0
"""Seconds between two proofs of life of the controller's lease."""
_LATE_S = 600.0
"""Seconds by which accounting may lag behind before it is asked no more."""

_Stamp = tuple[int, int, int] | None
"""(inode, time of the last change in ns, bytes); None where there is nothing."""


@dataclass
class Controller:
    """Keeps one run as it is wanted, until it is stopped or done."""

    applier: PlanApplier
    rules: Callable[[str], ControllerPolicy]
    """Release → the control parameters that its configuration sets."""
    children: ChildPrograms
    steps: Callable[[], tuple[int, int]]
    """(fleet steps so far, steps that end the run or 0)."""
    look_s: float
    """Seconds between two looks at the small files."""
    watched: HeartbeatSilence | None = None
    """Durations of silent beats, where somebody watched them before us."""
    _known: Snapshot | None = field(default=None, init=False)
    _beaten: float = field(default=float("-inf"), init=False)
    _steps: tuple[int, int] = field(default=(0, 0), init=False)

    def __post_init__(self) -> None:
        self._policy = self.rules("")
        self._silence = self.watched or HeartbeatSilence(self.applier.clock)
        self._files = FileChangeWatch(self.applier.run)
        self._ended = EndedJobLookup(self.applier.scheduler)
        self._surveyed = self.watched is not None  # others make passes too: asked once is enough

    def run(self, stop: threading.Event) -> Mode | None:
        """Passes until the run is over (its final mode) or ``stop`` is set (None: jobs go on).

        A bug or a full disk costs a pass, or the waiting for the next one, and is told; the fleet
        is left alone. ControllerAliveError once another controller has taken over.
        """
        final, wake_at = None, 0.0
        try:
            while final is None and not stop.is_set():
                clock = self.applier.clock
                with self._surviving("a pass"):
                    wake_at = clock.now() + self._policy.pass_s
                    final, wake_at = self.make_pass()
                if final is None:
                    with self._surviving("a look", stop):
                        self._idle(stop, wake_at)
            return final
        finally:
            self.children.end_all()

    @contextlib.contextmanager
    def _surviving(self, what: str, stop: threading.Event | None = None) -> Iterator[None]:
        """Tell of any failure inside, in the log and as an event, where the disk takes them.

        With ``stop`` wait a little then.
        """
        try:
            yield
        except ControllerAliveError:
            raise
        except Exception as error:  # noqa: BLE001 - a place where the loop must survive
            _log.exception("%s failed", what)
            with contextlib.suppress(OSError):
                self.applier.log_event("error", text=f"{what} failed: {error!r}")
            if stop is not None:
                self.applier.clock.wait(stop, self._policy.hot_pass_s)

    def make_pass(self) -> tuple[Mode | None, float]:
        """Look, write down, decide, act. Returns the final mode, if any, and when to come again."""
        self._beat()
        desired = self._desired()
        self._policy = policy = self.rules(desired.release)
        self._survey()
        snapshot = self.applier.scheduler.snapshot()
        self._excuse_suspended(snapshot)
        slots = read_slots(self.applier.run, max(desired.slots, policy.max_running), self._silence)
        now = self.applier.clock.now()
        if isinstance(snapshot, Snapshot):
            snapshot = self._ended.with_ended_jobs(self.applier.view, snapshot)
            self.applier.record_entries(reconcile(self.applier.view, snapshot, slots, policy, now))
            self.applier.record_entries(self._ended.find_cancellers(self.applier.view, now))
        decided = plan(desired, self.applier.view, snapshot, policy, now)
        self.applier.publish_orders(decided.orders)
        others = snapshot.others_live if isinstance(snapshot, Snapshot) else 0
        final = self.applier.apply(decided.actions, others)
        if final is not None and not self._conclude(final, desired):
            final = None
        self._summarise(snapshot, slots, decided, now)
        return final, decided.wake_at

    def _excuse_suspended(self, snapshot: QueueReading) -> None:
        """A suspended learner cannot beat: silence counts from when the scheduler lets it go on."""
        if isinstance(snapshot, Snapshot):
            tokens = {job.token for job in snapshot.jobs if job.word.startswith("SUSPENDED")}
            held = (one for one in self.applier.view.live if one.token in tokens)
            self._silence.forget(one.slot for one in held if one.slot is not None)

    def _survey(self) -> None:
        """Once in a term: what the site allows, as far as it can be read."""
        if self._surveyed:
            return
        self._surveyed = True
        site, source = self.applier.scheduler.read_limits()
        nothing = asdict(SiteLimits())
        read = {name: value for name, value in asdict(site).items() if value != nothing[name]}
        if not read.items() <= asdict(self.applier.view.site).items():
            self.applier.record_entry("learnt", "", site=read, why=source)

    def _desired(self) -> Intent:
        """The intent; a run that has reached its steps is done, and that is written down first."""
        intent = read_intent(self.applier.run)
        if intent is None:  # it was written before we began: not seeing it is no wish to stop
            raise FileError(
                f"{self.applier.run.intent} is gone", "say start or stop: the jobs go on"
            )
        done, total = self._steps = self.steps()
        if intent.started_ts != self.applier.view.asked_ts:  # no order: another clock
            facts = {"release": intent.release, "asked": intent.started_ts}
            self.applier.record_entries([LedgerEntry("start", self.applier.clock.now(), "", facts)])
        if intent.mode is Mode.RUN and 0 < total <= done:
            reason = f"{done:,} of {total:,} steps: raise training.total_steps and start to go on"
            intent = replace(intent, mode=Mode.DONE, reason=reason)
            write_intent(self.applier.run, intent, self.applier.clock.now())
            self.applier.log_event("state", state="total_steps", text=f"the run is done: {reason}")
        return intent

    def _conclude(self, final: Mode, desired: Intent) -> bool:
        """Write the end down; False where the person has asked for something else meanwhile."""
        intent = read_intent(self.applier.run)
        if intent is not None and intent != desired:
            return False
        if intent is not None:
            write_intent(self.applier.run, replace(intent, mode=final), self.applier.clock.now())
        self.applier.log_event("state", state="concluded", text=f"the run is {final.value}")
        return True

    def _summarise(
        self, snapshot: QueueReading, slots: tuple[SlotView, ...], decided: Plan, now: float
    ) -> None:
        if isinstance(snapshot, Snapshot):
            self._known = snapshot
        intent, (done, total) = read_intent(self.applier.run), self._steps
        last = snapshot if self._known is None else self._known
        summary = summarise(intent, self.applier.view, last, slots, decided, self._policy, now)
        if isinstance(snapshot, UnknownQueue):
            summary["queue"] = {**summary["queue"], "known": False, "why": snapshot.why}
        write_json(
            self.applier.run.status,
            {
                **summary,
                "term": self.applier.lease.term,
                "steps": {"done": done, "total": total},
                "companions": self.children.pids(),
            },
        )

    def _beat(self) -> None:
        now = self.applier.clock.monotonic()
        if now - self._beaten >= _BEAT_S:
            self.applier.check_term()
            self.applier.lease.beat()
            self._beaten = now

    def _idle(self, stop: threading.Event, wake_at: float) -> None:
        """Wait until ``wake_at``, or until a small file says that something happened."""
        before = self._files(self._policy.max_running)
        most = max(self._policy.pass_s, self._policy.quiet_pass_s)
        longest = min(most, wake_at - self.applier.clock.now())  # wall clocks are set back
        until = self.applier.clock.monotonic() + longest
        while (rest := until - self.applier.clock.monotonic()) > 0:
            if self.applier.clock.wait(stop, min(self.look_s, rest)):
                return
            self._beat()
            self.children.restart_ended()
            if self._files(self._policy.max_running) != before:
                return


class EndedJobLookup:
    """Asks accounting how jobs ended and who cancelled them; nothing twice that was answered.

    A listing forgets jobs and never names a canceller. Accounting knows both, but may hear of an
    end minutes later: it is asked again for a while, and the wait keeps nothing else up.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._answered: set[str] = set()

    def with_ended_jobs(self, ledger: Ledger, snapshot: Snapshot) -> Snapshot:
        """The listing, with those that have left it and those that somebody cancelled."""
        words = {job.token: job.word for job in snapshot.jobs}
        dead = self._ask(one for one in ledger.live if _unexplained(one, words.get(one.token)))
        return replace(snapshot, jobs=(*snapshot.jobs, *dead)) if dead else snapshot

    def find_cancellers(self, ledger: Ledger, now: float) -> tuple[LedgerEntry, ...]:
        """The users who cancelled jobs a while ago, as far as accounting knows by now."""
        told = self._ask(
            one
            for one in ledger.attempts
            if one.outcome is JobOutcome.CANCELLED
            and _unasked(one)
            and one.token not in self._answered
            and now - (one.ended_ts or 0.0) < _LATE_S
        )
        return tuple(
            LedgerEntry("canceller", now, job.token, {"canceller": job.canceller})
            for job in told
            if job.canceller is not None
        )

    def _ask(self, attempts: Iterable[Attempt]) -> tuple[QueueJob, ...]:
        jobs = [JobRef(one.job_id, one.token) for one in attempts if one.job_id is not None]
        told = self._scheduler.read_ends(jobs) if jobs else ()
        self._answered |= {job.token for job in told}
        return told


def _unexplained(attempt: Attempt, word: str | None) -> bool:
    """True for one that has left the listing, or is listed as cancelled by somebody."""
    if word is None:
        return attempt.observed.absences > 0
    return word.startswith("CANCELLED") and _unasked(attempt)


def _unasked(attempt: Attempt) -> bool:
    """True where its end, if it was cancelled, was not our wish."""
    return not attempt.requests.dismissed


class FileChangeWatch:
    """A run's intent and the state of its slots' leases, as one value to be compared.

    A file or folder is read again only when its stamp differs. It is opened for the stamp: on NFS
    an opened name is asked for at the server, while one that is only looked up may be minutes old.
    """

    def __init__(self, run: RunPaths) -> None:
        self._intent = partial(read_intent, run)
        self._path = os.fspath(run.intent)
        self._lease = cache(lambda slot: run.slot(slot).lease)
        self._seen: dict[str, tuple[_Stamp, bool, object]] = {}

    def __call__(self, slots: int) -> tuple[object, ...]:
        """The intent, then (newest term, ended) of each slot. FileError for a damaged intent."""
        leases = (self._lease(slot) for slot in range(slots))
        states = (
            self._look(os.fspath(lease), partial(newest_term_state, lease)) for lease in leases
        )
        return (self._look(self._path, self._intent), *states)

    def _look(self, path: str, read: Callable[[], object]) -> object:
        """The content of one path, read again at the two looks after a change.

        The second for what came within the same tick of the file system's clock as the first saw.
        """
        stamp = _stamp(path)
        known, settled, value = self._seen.get(path, (None, False, None))
        if stamp != known or not settled:
            value = read()
            self._seen[path] = (stamp, stamp == known, value)
        return value


def _stamp(path: str) -> _Stamp:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return found.st_ino, found.st_mtime_ns, found.st_size
