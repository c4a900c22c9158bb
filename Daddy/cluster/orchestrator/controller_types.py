"""Pure. Defines the records on which the controller decides: queue, slots, attempts and limits.

A *slot* is one learner's place in the run; the process that holds its *lease* trains there, and
each new holder gets the next *term*, a number. An *attempt* is one submission to fill a slot; it
has at most one *job* (the scheduler's term). A *snapshot* is one complete listing of the queue;
where the listing fails there is an ``UnknownQueue``, and the controller submits and cancels nothing
in that pass. *This run's jobs* are the controller's; all others are *the person's other jobs*.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

SUMMARY_VERSION = 2
"""Format version of ``controller/status.json``, which each pass writes and ``status`` reads."""


class Mode(str, Enum):
    """The run's mode: typed by the person (RUN, DRAIN, NOW) or set by the controller."""

    RUN = "run"  # the controller keeps every slot filled
    DRAIN = "drain"  # stop: running jobs get a signal and write a checkpoint, others are cancelled
    NOW = "now"  # stop --now: every job is cancelled at once
    STOPPED = "stopped"  # set by the controller when no job is left after a stop
    DONE = "done"  # set by the controller when the run has all its steps; jobs end as in DRAIN
    PAUSED = "paused"  # set by the controller (submit_blocks): jobs go on, none is submitted


class JobState(str, Enum):
    """The scheduler's state of a job, reduced to the three cases that decisions tell apart."""

    PENDING = "pending"  # it waits in the queue, also after a requeue
    RUNNING = "running"  # also suspended jobs and states unknown to Daddy
    ENDED = "ended"  # in any way


class WaitReason(str, Enum):
    """The scheduler's reason for which a job waits, reduced to seven cases."""

    TURN = "turn"  # it starts in its turn, by priority and free resources
    CAP = "cap"  # the person's limit of running jobs is reached
    BUDGET = "budget"  # the allocation of compute time is used up
    RESERVATION = "reservation"  # its time limit reaches into a maintenance reservation
    ADMIN = "admin"  # an administrator holds it
    NEVER = "never"  # it can never start with the resources that it requests
    CLOSED = "closed"  # its partition or nodes are down


class Phase(str, Enum):
    """An attempt's phase: INTENT → SUBMITTED → RUNNING → ENDED, or INTENT → REJECTED.

    It is SUBMITTED again when the scheduler requeues the job, or lists it after the attempt ended.
    """

    INTENT = "intent"  # recorded before sbatch runs, so a controller that dies then leaves a trace
    SUBMITTED = "submitted"  # the scheduler gave it a job id
    RUNNING = "running"  # the scheduler started the job
    ENDED = "ended"  # JobOutcome says how
    REJECTED = "rejected"  # the scheduler refused it, or never listed it


class JobOutcome(str, Enum):
    """The way in which an attempt ended; failures delay further jobs (``circuit_breaker``).

    *Failure if unsaved*: only if it wrote no checkpoint; NOT_NEEDED only if a slot was empty, too.
    """

    DONE = "done"  # exit code 0: the run has all its steps; failure if unsaved
    DRAINED = "drained"  # stop request, time limit or preemption, training continues; no failure
    NOT_NEEDED = (
        "not needed"  # exit code 11: no slot was free, or another took its; failure if unsaved
    )
    CANCELLED = "cancelled"  # by the controller or a person; no failure
    LOST = "lost"  # gone from the queue, the cause is unknown; no failure
    NODE_FAILED = "node failed"  # its node crashed, did not boot or was drained at once; no failure
    CRASHED = "crashed"  # any other end; failure if unsaved
    HUNG = "hung"  # its heartbeat had stopped before it ended; failure if unsaved
    UNLAUNCHED = "not launched"  # Slurm could not start its job script; failure
    REFUSED = "refused"  # the learner cannot start, or asked not to be restarted; failure


class Chaining(str, Enum):
    """The way in which successors, the jobs for slots that are still held, wait in the queue."""

    POOL = "pool"  # side by side: any of them may start and claim any slot
    CHAIN = "chain"  # each waits until its predecessor has ended
    LATE = "late"  # none is submitted ahead: the next job is submitted once a slot is empty


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """The site's limits, read from Slurm or learnt from its messages; None: unknown."""

    max_running: int | None = None
    """Most jobs of one person that may run at once."""
    max_submitted: int | None = None
    """Most jobs of one person that may wait and run."""
    counts_waiting: bool = False
    """True once a submission was refused because too many jobs waited: submit none ahead."""
    enforced: bool = False
    """True if the scheduler is known to hold back jobs above ``max_running``."""
    blocks_others: bool = False
    """``assoc_limit_stop``: a job that waits for a limit may stall the whole partition."""
    keeps_marks: bool = True
    """True while the queue lists our jobs with the names and comments that identify them."""


@dataclass(frozen=True, slots=True)
class DesiredRun:
    """The run that the person asked for, as in ``intent.json``."""

    mode: Mode
    slots: int
    executor: str = ""
    release: str = ""
    game: str = ""
    reason: str = ""
    started_ts: float = 0.0  # wall seconds of the last start
    daemon: bool = True  # False: no controller on a login node, the jobs make its passes
    environment: Mapping[str, str] = field(default_factory=dict)  # of the shell of the last start
    stopped_slots: tuple[int, ...] = ()
    """Slots that the person stopped (``stop --slot``), until the next ``start``."""

    @property
    def open_slots(self) -> tuple[int, ...]:
        """The slots to fill."""
        return tuple(slot for slot in range(self.slots) if slot not in self.stopped_slots)


@dataclass(frozen=True, slots=True)
class Orders:
    """The controller's orders to starting jobs: slots that they may claim → release for each."""

    slots: Mapping[int, str] = field(default_factory=dict)
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueueJob:
    """One job as the scheduler lists it; times in wall seconds."""

    job_id: int
    token: str
    """The attempt's token; empty for the person's other jobs."""
    state: JobState
    slurm_state: str
    """Slurm's state and reason as text, or similar words of the local queue."""
    slurm_reason: str = ""
    node: str = ""
    started_ts: float | None = None
    ends_ts: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    expected_ts: float | None = None  # when the scheduler expects to start a waiting job
    run_id: str = ""
    """Id of the person's other Daddy run that it belongs to; else empty."""
    canceller: int | None = None
    """User id of another person that cancelled it, where the site's accounting records that."""
    asked_memory: str = ""
    """Memory that it requested, in Slurm's notation; as ``used_bytes``, from accounting alone."""
    used_bytes: int | None = None
    """Most memory that one of its steps used."""
    drained: str = ""
    """Slurm's reason for draining its node, if the job ended there unexplained and unclaimed."""
    wait_reason: WaitReason = WaitReason.TURN

    @property
    def completing(self) -> bool:
        """True while Slurm runs the epilog of an ended job, or waits for its processes."""
        return self.slurm_state.startswith("COMPLETING")


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete listing of the person's jobs, requested at ``begun_ts`` (wall seconds)."""

    begun_ts: float
    jobs: tuple[QueueJob, ...]
    """This run's jobs."""
    others: tuple[QueueJob, ...] = ()
    """The person's other jobs, also of other runs: read, never changed."""
    maintenance_ts: float | None = None
    """Wall seconds at which the next maintenance begins; None where no job waits for its end."""
    closed: str = ""
    """Slurm's words, if no waiting job can start because partitions or their nodes are closed."""

    @property
    def others_live(self) -> int:
        """Number of the person's other jobs that wait or run."""
        return sum(1 for job in self.others if job.state is not JobState.ENDED)


@dataclass(frozen=True, slots=True)
class UnknownQueue:
    """The queue could not be listed: this proves nothing about any job."""

    begun_ts: float
    error: str


QueueReading = Snapshot | UnknownQueue


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot's newest lease and checkpoint as they are on disk."""

    slot: int
    term: int
    token: str
    end_reason: str | None = None
    """The reason for which this term ended; None while it lasts."""
    holder_alive: bool | None = None
    """True where the holder's process lives; None for a holder on another host."""
    checkpoint_term: int = 0
    """The term in which the newest checkpoint was written."""
    checkpoint_step: int = 0
    release: str = ""
    restarts: int = 0
    """Times that the scheduler had requeued the holder's job when it claimed the slot."""
    silent_s: float = 0.0
    """Seconds without a new heartbeat, by the controller's clock."""
    beat: int | None = None
    """The counter of the holder's newest heartbeat."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Facts about an attempt's job from several listings; times in wall seconds."""

    answered_ts: float | None = None
    """Time at which the scheduler answered the submission, or the controller stopped waiting."""
    restarts: int = 0  # times that the scheduler requeued the job
    absences: int = 0
    """Consecutive complete listings without the job."""
    absent_ts: float = 0.0
    absent_beat: int | None = None
    """Counter of its heartbeat at that time: one that moves proves the listings incomplete."""
    silent_ts: float | None = None
    """Time at which the learner's heartbeat was found stopped; None while it beats."""


@dataclass(frozen=True, slots=True)
class RequestedChanges:
    """The changes to a job that the controller requested; times in wall seconds."""

    signalled_ts: float | None = None
    dismissed: bool = False
    """The controller wants the job gone, also where no cancel was answered yet."""
    cancelled_ts: float | None = None
    held: bool = False
    released_ts: float = 0.0
    """Time at which the controller last ended its own hold."""
    excluded: tuple[str, ...] = ()
    limit_s: int | None = None
    """Time limit in seconds where it was set shorter than the run's."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One submission to fill a slot, rebuilt from the ledger; times in wall seconds."""

    token: str
    number: int
    phase: Phase
    intended_ts: float
    job_id: int | None = None
    after: int | None = None  # id of the job that must end before this one starts (CHAIN)
    release: str = ""
    """The release that it runs; before it claims a slot, the newest release at its submission."""
    started_ts: float | None = None
    ends_ts: float | None = None
    """Time at which the scheduler ends the job, as listed at its start."""
    ended_ts: float | None = None
    node: str = ""
    slot: int | None = None
    term: int | None = None
    claimed_ts: float | None = None
    left_ts: float | None = None
    """Time at which the controller saw that the job had released its slot."""
    progressed_ts: float | None = None
    """Time at which the controller saw the first checkpoint of ``term``."""
    observed: Observed = Observed()
    requests: RequestedChanges = RequestedChanges()
    canceller: int | None = None  # as in QueueJob
    outcome: JobOutcome | None = None
    reason: str = ""

    @property
    def live(self) -> bool:
        """True while its job may exist: it is neither ended nor rejected."""
        return self.phase not in (Phase.ENDED, Phase.REJECTED)

    @property
    def training(self) -> bool:
        """True while it holds a slot."""
        return self.slot is not None and self.left_ts is None and self.live

    @property
    def queued(self) -> bool:
        """True while its job waits in the queue."""
        return self.phase is Phase.SUBMITTED and self.slot is None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A lease term that its holder did not end, as it was killed or its node failed."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True)
class Ledger:
    """The run's attempts, oldest first (old ended ones are dropped), and totals over all."""

    attempts: tuple[Attempt, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    site: SiteLimits = SiteLimits()
    start_seen_ts: float = 0.0
    """Time at which the controller saw the last ``start``; earlier failures do not count."""
    start_typed_ts: float = 0.0
    """Time of that ``start`` by the clock of the host on which it was typed."""
    room_ts: float = 0.0
    """Time at which a full disk last had room again: most earlier failures do not count."""
    proven: tuple[str, ...] = ()
    """Releases that wrote a checkpoint, latest last."""
    noticed: Mapping[str, float] = field(default_factory=dict)
    """Kind of notification → time at which the person last got it."""
    slow_claims: tuple[float, ...] = ()
    """Times of claims of slots that had been empty for long (``SLOW_CLAIM_S``), newest last."""
    used_s: float = 0.0
    """Run time of ended jobs in seconds, for the budget."""

    @cached_property
    def live(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.live)

    @cached_property
    def ended_or_rejected(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if not attempt.live)

    @property
    def slots_held(self) -> int:
        """Number of slots up to the last one that is held, also after a start with fewer slots."""
        return max(((job.slot or 0) + 1 for job in self.live if job.training), default=0)

    @property
    def next_number(self) -> int:
        return self.attempts[-1].number + 1 if self.attempts else 1
