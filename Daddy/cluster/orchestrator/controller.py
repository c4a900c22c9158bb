"""Runs the controller's loop; each pass reads the queue, updates the ledger, decides and acts.

All state is on disk, so the process may be killed at any point. Between passes the loop reads only
the intent and the slots' leases: when a job releases its slot the next pass starts at once, and
Slurm is not asked in between.
"""

import contextlib
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass, field, replace
from functools import cache, partial
from math import inf

from Daddy.cluster.orchestrator.action_types import Plan
from Daddy.cluster.orchestrator.apply_plan import PlanApplier
from Daddy.cluster.orchestrator.child_processes import ChildPrograms
from Daddy.cluster.orchestrator.control_files import read_answered, read_intent, write_intent
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import (
    Attempt,
    DesiredRun,
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
from Daddy.cluster.orchestrator.decisions.circuit_breaker import may_lack_room
from Daddy.cluster.orchestrator.decisions.controller_failover import BLIND_S
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.cluster.orchestrator.planner import plan
from Daddy.cluster.orchestrator.read_slots import CHECKPOINT_FILES, HeartbeatSilence, read_slots
from Daddy.cluster.orchestrator.reconcile import (
    doubt_listing,
    may_be_node_failure,
    reconcile,
)
from Daddy.cluster.orchestrator.scheduler_interface import JobRef, Scheduler
from Daddy.cluster.orchestrator.status_summary import summarise
from Daddy.core.atomic_files import DISK_FULL, find_full_disk, largest_file, write_json
from Daddy.core.errors import ControllerAliveError, FileError
from Daddy.core.lease import newest_term_state
from Daddy.core.run_paths import RunPaths

_log = logging.getLogger(__name__)
_FULL_RETRY_S = 1.0
"""Seconds between two tries on a full disk: jobs take over from a controller that is silent longer
than 3 s once they can write."""
_LEAST_ROOM = 1 << 20
"""Bytes that count as room before the first checkpoint."""
_LATE_S = 600.0
"""Seconds after a job's end in which accounting is asked for the user that cancelled it."""

_Stamp = tuple[int, int, int] | None
"""(inode, time of the last change in ns, size in bytes); None if the path is missing."""


@dataclass
class Controller:
    """Keeps one run as its intent says, until the run is stopped or done."""

    applier: PlanApplier
    policy_of: Callable[[str], ControllerPolicy]
    """Release → the control parameters of its configuration."""
    children: ChildPrograms
    steps: Callable[[], tuple[int, int]]
    """Returns (fleet steps so far, steps that end the run or 0)."""
    poll_s: float
    """Seconds between two reads of intent and leases."""
    measured: HeartbeatSilence | None = None
    """The silence of heartbeats that a sidecar measured before this single pass."""
    ends_run: bool = False
    """True for `stop`: the passes end when the run is to go on."""
    _last_snapshot: Snapshot | None = field(default=None, init=False)
    _last_beat: float = field(default=float("-inf"), init=False)
    _steps: tuple[int, int] = field(default=(0, 0), init=False)
    _is_full: bool = field(default=False, init=False)
    """True if the disk was full when last tried."""
    _holds: bool = field(default=False, init=False)
    _found_room_ts: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._policy = self.policy_of("")
        self._silence = self.measured or HeartbeatSilence(self.applier.clock)
        self._files = FileChangeWatch(self.applier.run)
        self._ended = EndedJobLookup(self.applier.scheduler)
        self._blind_since: float | None = None
        """Monotonic time of the first of the latest failed listings; None after an answer."""
        self._said_blind = False
        self._answered_before: object = None
        """The ``answered`` of ``failover.json`` when this controller became blind."""
        self._limits_read = self.measured is not None  # a sidecar's pass does not read them

    def run_passes(self, stop: threading.Event) -> Mode | None:
        """Make passes until the run ends (return its final mode) or ``stop`` is set (return None).

        Return None, too, when blind and another process can read the queue. With ``ends_run`` also
        until a `start` is typed (return RUN).

        Logs a failed pass and tries again later. Raises ControllerAliveError if the lease is lost.
        """
        final, wake_at = None, 0.0
        try:
            while final is None and not stop.is_set() and not self._gives_way():
                clock = self.applier.clock
                with self._surviving("a pass"):
                    wake_at = clock.now() + self._policy.pass_s
                    final, wake_at = self.make_pass()
                if final is None:
                    with self._surviving("waiting for the next pass", stop):
                        self._idle(stop, wake_at)
            return final
        finally:
            self.children.end_all()

    @contextlib.contextmanager
    def _surviving(self, task: str, stop: threading.Event | None = None) -> Iterator[None]:
        """Log an exception of the ``with`` block, do not raise it; with ``stop``, then wait."""
        try:
            yield
        except ControllerAliveError:
            raise
        except Exception as error:  # noqa: BLE001 - a place where the loop must survive
            full = isinstance(error, OSError) and error.errno in DISK_FULL
            if not (full and self._is_full):
                self._log_failure(task, error)
            if full:
                self._is_full = True
                self._silence.forget(range(self._policy.max_running))  # no learner can beat either
            if stop is not None:
                pause_s = min(_FULL_RETRY_S if full else inf, self._policy.hot_pass_s)
                self.applier.clock.wait(stop, pause_s)

    def _log_failure(self, task: str, error: Exception) -> None:
        _log.exception("%s failed", task)
        with contextlib.suppress(OSError):
            self.applier.log_event("error", text=f"{task} failed: {error!r}")

    def _note_room(self) -> None:
        """Record that a disk that was full has room for a checkpoint again.

        It was full if a pass failed, or if learners fail at files and there is no room now. The
        disk is tried once for each such failure: a try writes as much as a checkpoint has.
        """
        run, ledger, now = self.applier.run, self.applier.view, self.applier.clock.now()
        since = max(ledger.start_seen_ts, ledger.room_ts, self._found_room_ts)
        ended = ledger.ended_or_rejected if self._holds and not self._is_full else ()
        if not self._is_full and not any(may_lack_room(attempt, since) for attempt in ended):
            return
        size = largest_file(run.slots, CHECKPOINT_FILES) or _LEAST_ROOM
        full = find_full_disk(run.controller, size)
        if self._is_full and not full:
            self.applier.record_entry("room", "", reason="the disk has room again")
        self._is_full = bool(full)
        if not full:
            self._found_room_ts = now

    def make_pass(self) -> tuple[Mode | None, float]:
        """Make one pass; return (final mode or None, wall seconds at which the next is due)."""
        self._beat()
        desired = self._desired()
        if self.ends_run and desired.mode is Mode.RUN:
            return desired.mode, 0.0
        self._policy = policy = self.policy_of(desired.release)
        self._read_limits()
        snapshot = self.applier.scheduler.snapshot()
        self._note_answer(snapshot)
        self._excuse_suspended(snapshot)
        count = max(desired.slots, policy.max_running, self.applier.view.slots_held)
        slots = read_slots(self.applier.run, count, self._silence)
        now = self.applier.clock.now()
        if isinstance(snapshot, Snapshot):
            snapshot = self._ended.with_ended_jobs(self.applier.view, snapshot)
            view = self.applier.view
            believed = doubt_listing(view, snapshot, slots, policy, now)
            self.applier.record_entries(reconcile(view, snapshot, slots, policy, now))
            self.applier.record_entries(self._ended.find_cancellers(self.applier.view, now))
            snapshot = believed
        self._note_room()
        decided = plan(desired, self.applier.view, snapshot, policy, now)
        self._holds = bool(decided.holds)
        self.applier.publish_orders(decided.orders)
        others = snapshot.others_live if isinstance(snapshot, Snapshot) else 0
        final = self.applier.apply(decided.actions, others)
        if final is not None and not self._conclude(final, desired):
            final = None
        self._summarise(snapshot, slots, decided, now)
        return final, decided.wake_at

    def _note_answer(self, snapshot: QueueReading) -> None:
        if isinstance(snapshot, Snapshot):
            self._blind_since = None
        elif self._blind_since is None:
            self._blind_since = self.applier.clock.monotonic()

    def _blind_s(self) -> float:
        """Return the seconds of failed listings, 0.0 where these are less than ``BLIND_S``."""
        if self._blind_since is None:
            return 0.0
        seconds = self.applier.clock.monotonic() - self._blind_since
        return seconds if seconds >= BLIND_S else 0.0

    def _gives_way(self) -> bool:
        """Return True if our heartbeat called us blind and a listing answered elsewhere since."""
        if not self._said_blind or not self._blind_s():
            return False
        answered = read_answered(self.applier.run)
        return bool(answered) and answered != self._answered_before

    def _excuse_suspended(self, snapshot: QueueReading) -> None:
        """Reset the silence of suspended jobs to 0 s: their learners cannot send heartbeats."""
        if isinstance(snapshot, Snapshot):
            tokens = {job.token for job in snapshot.jobs if job.slurm_state.startswith("SUSPENDED")}
            live = (attempt for attempt in self.applier.view.live if attempt.token in tokens)
            self._silence.forget(attempt.slot for attempt in live if attempt.slot is not None)

    def _read_limits(self) -> None:
        """Read Slurm's job limits once per controller process, and write new ones to the ledger."""
        if self._limits_read:
            return
        self._limits_read = True
        site, source = self.applier.scheduler.read_limits()
        defaults = asdict(SiteLimits())
        limits = {name: value for name, value in asdict(site).items() if value != defaults[name]}
        if not limits.items() <= asdict(self.applier.view.site).items():
            self.applier.record_entry("learnt", "", site=limits, why=source)

    def _desired(self) -> DesiredRun:
        """Return the intent; record a new ``start``; write mode ``done`` if all steps are made."""
        intent = read_intent(self.applier.run)
        if intent is None:  # start wrote it before this process began; missing is not "stop"
            fix = "type `run_controller start` or `run_controller stop`; the jobs go on meanwhile"
            raise FileError(f"the intent {self.applier.run.intent} is gone", fix)
        done, total = self._steps = self.steps()
        if intent.started_ts != self.applier.view.start_typed_ts:  # not >: two hosts' clocks
            facts = {"release": intent.release, "asked": intent.started_ts}
            self.applier.record_entries([LedgerEntry("start", self.applier.clock.now(), "", facts)])
        if intent.mode is Mode.RUN and 0 < total <= done:
            go_on = "to go on raise training.total_steps and type `run_controller start`"
            reason = f"{done:,} of {total:,} steps: {go_on}"
            intent = replace(intent, mode=Mode.DONE, reason=reason)
            write_intent(self.applier.run, intent, self.applier.clock.now())
            self.applier.log_event("state", state="total_steps", text=f"the run is done: {reason}")
        return intent

    def _conclude(self, final: Mode, desired: DesiredRun) -> bool:
        """Write the final mode into the intent; return False if the person changed it meanwhile."""
        intent = read_intent(self.applier.run)
        if intent is not None and intent != desired:
            return False
        if intent is not None and intent.mode is not final:  # its time tells since when
            write_intent(self.applier.run, replace(intent, mode=final), self.applier.clock.now())
        self.applier.log_event("state", state="concluded", text=f"the run is {final.value}")
        return True

    def _summarise(
        self, snapshot: QueueReading, slots: tuple[SlotView, ...], decided: Plan, now: float
    ) -> None:
        if isinstance(snapshot, Snapshot):
            self._last_snapshot = snapshot
        intent, (done, total) = read_intent(self.applier.run), self._steps
        last = self._last_snapshot or snapshot
        summary = summarise(intent, self.applier.view, last, slots, decided, self._policy, now)
        if isinstance(snapshot, UnknownQueue):
            summary["queue"] = {**summary["queue"], "known": False, "why": snapshot.error}
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
        if now - self._last_beat >= self._policy.beat_s:
            self.applier.check_term()
            blind_s = self._blind_s()
            if blind_s and not self._said_blind:
                self._answered_before = read_answered(self.applier.run)
            self._said_blind = bool(blind_s)
            self.applier.lease.beat({"blind_s": round(blind_s)} if blind_s else {})
            self._last_beat = now

    def _idle(self, stop: threading.Event, wake_at: float) -> None:
        """Wait until ``wake_at``, or ``stop``, or a change of the intent or of a slot's lease."""
        before = self._files(self._policy.max_running)
        most = max(self._policy.pass_s, self._policy.quiet_pass_s)
        longest = min(most, wake_at - self.applier.clock.now())  # the wall clock may be set back
        until = self.applier.clock.monotonic() + longest
        while (rest := until - self.applier.clock.monotonic()) > 0:
            if self.applier.clock.wait(stop, min(self.poll_s, rest)):
                return
            self._beat()
            self.children.restart_ended()
            if self._gives_way():
                return
            if self._files(self._policy.max_running) != before:
                return


class EndedJobLookup:
    """Asks Slurm's accounting for ends of jobs and the user that cancelled one, sinfo for nodes.

    A squeue listing drops ended jobs and never names the canceller. Accounting has both, sometimes
    only minutes later: it is asked at each pass until it answers, at most for ``_LATE_S`` seconds.
    """

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._answered: set[str] = set()

    def with_ended_jobs(self, ledger: Ledger, snapshot: Snapshot) -> Snapshot:
        """Return ``snapshot`` plus the ends of live jobs that left it or that others cancelled.

        Jobs that a drained node ended are marked as such.
        """
        words = {job.token: job.slurm_state for job in snapshot.jobs}
        unexplained = (job for job in ledger.live if _is_unexplained(job, words.get(job.token)))
        ended = self._read_ended_jobs(unexplained)
        jobs = self._with_drained_nodes(ledger, (*snapshot.jobs, *ended))
        return replace(snapshot, jobs=jobs)

    def _with_drained_nodes(
        self, ledger: Ledger, jobs: tuple[QueueJob, ...]
    ) -> tuple[QueueJob, ...]:
        """Return ``jobs`` with the reason of the drained node in those that it may have ended."""
        live = {attempt.token: attempt for attempt in ledger.live}
        suspects = {
            job for job in jobs if job.token in live and may_be_node_failure(live[job.token], job)
        }
        nodes = {job.node for job in suspects}
        drained = self._scheduler.read_drained_nodes(nodes) if nodes else {}
        return tuple(
            replace(job, drained=drained.get(job.node, "")) if job in suspects else job
            for job in jobs
        )

    def find_cancellers(self, ledger: Ledger, now: float) -> tuple[LedgerEntry, ...]:
        """Return entries with the user ids that cancelled jobs, as far as accounting has them."""
        ended = self._read_ended_jobs(
            attempt
            for attempt in ledger.attempts
            if attempt.outcome is JobOutcome.CANCELLED
            and not attempt.requests.dismissed
            and attempt.token not in self._answered
            and now - (attempt.ended_ts or 0.0) < _LATE_S
        )
        return tuple(
            LedgerEntry("canceller", now, job.token, {"canceller": job.canceller})
            for job in ended
            if job.canceller is not None
        )

    def _read_ended_jobs(self, attempts: Iterable[Attempt]) -> tuple[QueueJob, ...]:
        jobs = [JobRef(job.job_id, job.token) for job in attempts if job.job_id is not None]
        ended = self._scheduler.read_ended_jobs(jobs) if jobs else ()
        self._answered |= {job.token for job in ended}
        return ended


def _is_unexplained(attempt: Attempt, word: str | None) -> bool:
    """Return True for a job missing for the second time, or cancelled by somebody else."""
    if word is None:
        return attempt.observed.absences > 0
    return word.startswith("CANCELLED") and not attempt.requests.dismissed


class FileChangeWatch:
    """Reads a run's intent and the state of its slots' leases, for comparison with later reads.

    A path is read again only when its stamp differs. The stamp is taken from an opened file: on NFS
    open() asks the server, while a bare stat() may return attributes that are minutes old.
    """

    def __init__(self, run: RunPaths) -> None:
        self._intent = partial(read_intent, run)
        self._path = os.fspath(run.intent)
        self._lease = cache(lambda slot: run.slot(slot).lease)
        self._cached: dict[str, tuple[_Stamp, bool, object]] = {}

    def __call__(self, slots: int) -> tuple[object, ...]:
        """Return the intent, then (newest term, ended) per slot. FileError: intent damaged."""
        leases = (self._lease(slot) for slot in range(slots))
        states = (
            self._read(os.fspath(lease), partial(newest_term_state, lease)) for lease in leases
        )
        return (self._read(self._path, self._intent), *states)

    def _read(self, path: str, read: Callable[[], object]) -> object:
        """Return the content of a path; read it at the first two calls after its stamp changed.

        1. We read the file. 2. A writer changes it within the same tick of the file system's clock:
        the stamp stays the same. 3. The second call reads it again and gets the newer content.
        """
        stamp = _stamp(path)
        previous, settled, value = self._cached.get(path, (None, False, None))
        if stamp != previous or not settled:
            value = read()
            self._cached[path] = (stamp, stamp == previous, value)
        return value


def _stamp(path: str) -> _Stamp:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    return status.st_ino, status.st_mtime_ns, status.st_size
