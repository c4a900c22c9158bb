"""Pure. Holds the controller's records: the queue, the slots, its attempts and the site's limits.

An *attempt* is the controller's n-th try to fill a slot and has at most one *job* (the scheduler's
term). A *snapshot* is one complete listing of the queue; where the queue could not be listed there
is an ``UnknownQueue``, and the controller submits and cancels nothing because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

SUMMARY_VERSION = 2
"""Format version of ``controller/status.json``, which each pass writes and ``status`` reads."""


class Mode(str, Enum):
    """Names the modes of a run that the person asked for."""

    RUN = "run"
    DRAIN = "drain"
    NOW = "now"
    STOPPED = "stopped"
    DONE = "done"
    PAUSED = "paused"
    """Jobs go on and none is submitted until the person runs ``start`` (``submit_blocks``)."""


class JobState(str, Enum):
    """Reduces the scheduler's state of a job to the three cases that decisions tell apart."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class WaitReason(str, Enum):
    """Reduces the scheduler's reason for which a job waits to six cases."""

    TURN = "turn"
    """Free resources or priority: the job starts in its turn."""
    CAP = "cap"
    """The person's limit of running jobs is reached."""
    BUDGET = "budget"
    """The allocation of compute time is used up."""
    RESERVATION = "reservation"
    """The job's time limit reaches into a maintenance reservation."""
    ADMIN = "admin"
    """An administrator holds the job."""
    NEVER = "never"
    """The job can never start with the resources that it requests."""


class Phase(str, Enum):
    """Names an attempt's phase; a controller that dies during ``sbatch`` leaves ``INTENT``."""

    INTENT = "intent"
    SUBMITTED = "submitted"
    RUNNING = "running"
    ENDED = "ended"
    REJECTED = "rejected"


class JobOutcome(str, Enum):
    """Names an attempt's result; ``decisions.circuit_breaker`` selects the failures."""

    DONE = "done"
    DRAINED = "drained"
    NOT_NEEDED = "not needed"
    CANCELLED = "cancelled"
    LOST = "lost"
    NODE_FAILED = "node failed"
    CRASHED = "crashed"
    HUNG = "hung"
    """Its heartbeat stopped, and the controller ended it for that."""
    UNLAUNCHED = "not launched"
    """The scheduler could not start its job script."""
    REFUSED = "refused"
    """The learner asked not to be restarted, or cannot start with its configuration."""


class Chaining(str, Enum):
    """Names how successors wait: any starts next, each behind its predecessor, or none."""

    POOL = "pool"
    CHAIN = "chain"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """Holds this site's limits as read from Slurm or learnt from its answers; None: unknown."""

    max_running: int | None = None
    """Most jobs of one person that may run at once."""
    max_submitted: int | None = None
    """Most jobs of one person that may wait and run."""
    counts_waiting: bool = False
    """The scheduler refused a submission because too many jobs were waiting."""
    enforced: bool = False
    """The scheduler keeps jobs over the limit waiting: the limit was read or seen to hold."""
    blocks_others: bool = False
    """``assoc_limit_stop``: a job that waits for a limit may stall the whole partition."""
    keeps_marks: bool = True
    """The queue shows names and comments as submitted; else no successor is submitted ahead,
    because the controller could not tell its jobs from other people's."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Holds the run that the person asked for: mode, slots, executor, release and game."""

    mode: Mode
    slots: int
    executor: str = ""
    release: str = ""
    game: str = ""
    reason: str = ""
    started_ts: float = 0.0
    """Wall seconds of the last ``start``; failures before it no longer count."""
    daemon: bool = True
    """True: a controller runs on a login node; False: the jobs make its passes."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Holds the slots that starting jobs may claim, and each slot's release, for the launcher."""

    slots: Mapping[int, str] = field(default_factory=dict)
    """Slot that may be claimed → release to run there."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueueJob:
    """Holds one line of the queue; ``word``: Slurm's state, ``why``: its reason; wall seconds."""

    job_id: int
    token: str
    """The attempt's token; empty for a job that is not of this run."""
    state: JobState
    word: str
    why: str = ""
    node: str = ""
    started_ts: float | None = None
    ends_ts: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    expected_ts: float | None = None
    """Wall seconds at which the scheduler expects to start a waiting job."""
    run_id: str = ""
    """The person's other run that it belongs to; empty for this run's jobs and for foreign ones."""
    canceller: int | None = None
    """User id of another person that cancelled it, where the site's accounting records that."""
    waits: WaitReason = WaitReason.TURN


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Holds one complete listing of this run's jobs, requested at ``begun_ts`` (wall seconds)."""

    begun_ts: float
    jobs: tuple[QueueJob, ...]
    others: tuple[QueueJob, ...] = ()
    """The same person's other jobs, also of other runs: read, never changed."""
    maintenance_ts: float | None = None
    """Wall seconds at which a maintenance reservation begins; None without one."""

    @property
    def others_live(self) -> int:
        """Number of the person's other jobs that wait or run."""
        return sum(1 for job in self.others if job.state is not JobState.ENDED)


@dataclass(frozen=True, slots=True)
class UnknownQueue:
    """Reports a queue that could not be listed; it proves nothing about any job."""

    begun_ts: float
    why: str


QueueReading = Snapshot | UnknownQueue


@dataclass(frozen=True, slots=True)
class SlotView:
    """Holds a slot's newest lease and checkpoint as they are on disk."""

    slot: int
    term: int
    token: str
    end_reason: str | None = None
    """The reason for which this term ended; None while it lasts."""
    holder_alive: bool | None = None
    """True where the holder's process lives; None for a holder on another host."""
    checkpoint_term: int = 0
    checkpoint_step: int = 0
    release: str = ""
    restarts: int = 0
    """Times that the scheduler had requeued the holder's job when it claimed the slot."""
    silent_s: float = 0.0
    """Seconds without a new heartbeat, by the controller's clock."""


@dataclass(frozen=True, slots=True)
class Observed:
    """Collects facts about an attempt's job from several listings; times in wall seconds."""

    answered_ts: float | None = None
    """Time at which the scheduler answered the submission, or the controller stopped waiting."""
    restarts: int = 0
    """Number of times that the scheduler requeued the job."""
    absences: int = 0
    """Consecutive complete listings without the job."""
    absent_ts: float = 0.0
    silent_ts: float | None = None
    """Time at which the learner's heartbeat was found stopped; None while it beats."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Holds the changes that the controller requested of a job; times in wall seconds."""

    signalled_ts: float | None = None
    dismissed: bool = False
    """The controller wants the job gone, also where no cancel was answered yet."""
    cancelled_ts: float | None = None
    held: bool = False
    excluded: tuple[str, ...] = ()
    limit_s: int | None = None
    """Time limit in seconds where it was set shorter than the run's."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """Holds one try to fill a slot, rebuilt from the ledger; times in wall seconds."""

    token: str
    number: int
    phase: Phase
    intended_ts: float
    job_id: int | None = None
    after: int | None = None
    """Id of the job that must end before this one starts (chain mode)."""
    release: str = ""
    """The release that it runs; before it claims a slot, the newest release at its submission."""
    started_ts: float | None = None
    ended_ts: float | None = None
    node: str = ""
    slot: int | None = None
    term: int | None = None
    claimed_ts: float | None = None
    left_ts: float | None = None
    """Time at which the controller saw that it had released its slot."""
    progressed_ts: float | None = None
    observed: Observed = Observed()
    requests: Requests = Requests()
    canceller: int | None = None
    """User id of another person that cancelled its job."""
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
    """Names a lease term that its holder did not end before it was killed or its node failed."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True)
class Ledger:
    """Holds the run's attempts, oldest first (old ended ones are dropped), and site limits."""

    attempts: tuple[Attempt, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    site: SiteLimits = SiteLimits()
    started_ts: float = 0.0
    """Time at which the controller saw the last ``start``; earlier failures do not count."""
    asked_ts: float = 0.0
    """Time of that ``start`` by the clock of the host on which it ran."""
    proven: tuple[str, ...] = ()
    """Releases that wrote a checkpoint, latest last."""
    noticed: Mapping[str, float] = field(default_factory=dict)
    """Kind of notification → time at which the person last got it."""
    slow_claims: tuple[float, ...] = ()
    """Times of claims that came after a long wait in the queue, newest last."""
    used_s: float = 0.0
    """Run time of ended jobs in seconds, for the budget."""

    @cached_property
    def live(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.live)

    @cached_property
    def over(self) -> tuple[Attempt, ...]:
        """Attempts that ended or were rejected."""
        return tuple(attempt for attempt in self.attempts if not attempt.live)

    @property
    def next_number(self) -> int:
        """Number of the next attempt, one above the newest."""
        return self.attempts[-1].number + 1 if self.attempts else 1
