"""Pure: what the controller knows: the queue, the slots, its attempts, and what the site taught.

An *attempt* is our n-th try to fill a slot and has at most one *job* (the scheduler's word). A
*snapshot* is one complete look at the queue; where no such look was possible there is ``Unknown``,
and nothing may be submitted or cancelled because of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from functools import cached_property

SUMMARY_VERSION = 2
"""Of what each pass writes down for whoever asks how the run stands."""


class Mode(str, Enum):
    """The person's wish for the run."""

    RUN = "run"
    DRAIN = "drain"
    NOW = "now"
    STOPPED = "stopped"
    DONE = "done"
    PAUSED = "paused"
    """An administrator's word: jobs go on, none is submitted, until the person says ``start``."""


class JobState(str, Enum):
    """The scheduler's state of a job, reduced to the needs of decisions."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class WaitReason(str, Enum):
    """The cause of a job's waiting, reduced from the scheduler's own words."""

    TURN = "turn"
    """Resources or priority: patience helps."""
    CAP = "cap"
    """The person's own limit of running jobs."""
    BUDGET = "budget"
    """An allocation that is used up."""
    RESERVATION = "reservation"
    """A maintenance that it would run into."""
    ADMIN = "admin"
    """An administrator holds it."""
    NEVER = "never"
    """It can never start as it was asked for."""


class Phase(str, Enum):
    """The stage of an attempt. A crash in mid-submit leaves ``INTENT``, too."""

    INTENT = "intent"
    SUBMITTED = "submitted"
    RUNNING = "running"
    ENDED = "ended"
    REJECTED = "rejected"


class JobOutcome(str, Enum):
    """The end of an attempt; ``decisions.circuit_breaker`` tells the failures."""

    DONE = "done"
    DRAINED = "drained"
    NOT_NEEDED = "not needed"
    CANCELLED = "cancelled"
    LOST = "lost"
    NODE_FAILED = "node failed"
    CRASHED = "crashed"
    HUNG = "hung"
    """It gave no sign of life any more and was ended for it."""
    UNLAUNCHED = "not launched"
    """The scheduler could not start its script at all."""
    REFUSED = "refused"
    """The learner asked not to be restarted, or can never start as configured."""


class Chaining(str, Enum):
    """Successors wait freely in a pool, each behind its predecessor, or not at all."""

    POOL = "pool"
    CHAIN = "chain"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class SiteLimits:
    """Limits of this site, as far as they were read or learnt; None: not known."""

    max_running: int | None = None
    """Jobs of one person that run at once."""
    max_submitted: int | None = None
    """Jobs of one person that wait or run."""
    counts_waiting: bool = False
    """A submission was refused because too many jobs were waiting already."""
    enforced: bool = False
    """A job was seen waiting for the cap, or the cap was read: more jobs may wait than may run."""
    blocks_others: bool = False
    """``assoc_limit_stop``: a job that waits for a cap may stall the whole partition."""
    keeps_marks: bool = True
    """Names and comments of jobs come back as they were given; without that nothing is queued
    ahead, because a job could not be told from a stranger's."""


@dataclass(frozen=True, slots=True)
class Intent:
    """Mode and size of the fleet, its executor, release and game: what the person asked for."""

    mode: Mode
    slots: int
    executor: str = ""
    release: str = ""
    game: str = ""
    reason: str = ""
    started_ts: float = 0.0
    """When ``start`` was last said, wall seconds: failures before that are forgiven."""
    daemon: bool = True
    """A controller is to live on a login node; if not, the jobs make its passes."""


@dataclass(frozen=True, slots=True)
class Orders:
    """Knowledge for a job that claims a slot: the slots that may be had, and the release to run.

    Read by the launcher at the start of every job, so that what waits in the queue never has to
    be changed for it.
    """

    slots: Mapping[int, str] = field(default_factory=dict)
    """Slot that may be claimed → release to run there."""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class QueueJob:
    """One line of the queue; ``word`` and ``why`` are the scheduler's own words; wall seconds."""

    job_id: int
    token: str
    """Empty for a job that is not of this run."""
    state: JobState
    word: str
    why: str = ""
    node: str = ""
    started_ts: float | None = None
    ends_ts: float | None = None
    exit_code: int | None = None
    restarts: int = 0
    """Times that the scheduler itself put it back into the queue."""
    expected_ts: float | None = None
    """When the scheduler expects to start a waiting job."""
    run_id: str = ""
    """Another run of ours that it belongs to; empty for this run's jobs and for strangers."""
    canceller: int | None = None
    """Somebody else's user id that cancelled it, where the site's accounting tells."""
    waits: WaitReason = WaitReason.TURN


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete listing of this run's jobs; ``begun_ts`` is from before it was asked for."""

    begun_ts: float
    jobs: tuple[QueueJob, ...]
    others: tuple[QueueJob, ...] = ()
    """The same person's other jobs, other runs included: looked at, never touched."""
    maintenance_ts: float | None = None
    """When a reservation begins that keeps jobs from starting; None where none is seen."""

    @property
    def others_live(self) -> int:
        """Number of the person's other jobs that wait or run."""
        return sum(1 for job in self.others if job.state is not JobState.ENDED)


@dataclass(frozen=True, slots=True)
class UnknownQueue:
    """The queue could not be read. Absence of evidence, not evidence of absence."""

    begun_ts: float
    why: str


QueueReading = Snapshot | UnknownQueue


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot's newest lease and checkpoint as they stand on disk."""

    slot: int
    term: int
    token: str
    end_reason: str | None = None
    """The reason this term ended for; None while it goes on."""
    holder_alive: bool | None = None
    """True where the holder's process lives; None where that cannot be seen from here."""
    checkpoint_term: int = 0
    checkpoint_step: int = 0
    release: str = ""
    """The release that its holder runs."""
    restarts: int = 0
    """Restarts of the holder's job by the scheduler before it claimed."""
    silent_s: float = 0.0
    """Seconds for which its beat has stood still on our own clock."""


@dataclass(frozen=True, slots=True)
class Observed:
    """The sum of several looks at an attempt's job; stamps are wall seconds."""

    answered_ts: float | None = None
    """When the scheduler's answer to the submission came, or was given up."""
    restarts: int = 0
    """Times that the scheduler put the job back into the queue."""
    absences: int = 0
    """Complete listings in a row without the job."""
    absent_ts: float = 0.0
    silent_ts: float | None = None
    """Since when the learner gives no sign of life; None while it does."""


@dataclass(frozen=True, slots=True)
class Requests:
    """The controller's requests to an attempt's job; stamps are wall seconds."""

    signalled_ts: float | None = None
    dismissed: bool = False
    """The job was to go, be the scheduler's answer known or not."""
    cancelled_ts: float | None = None
    held: bool = False
    excluded: tuple[str, ...] = ()
    """Nodes it is kept away from."""
    limit_s: int | None = None
    """Time limit where it was made shorter than the run's."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try to fill a slot, as the ledger tells it."""

    token: str
    number: int
    phase: Phase
    intended_ts: float
    job_id: int | None = None
    after: int | None = None
    """Job id that must end first (chain mode)."""
    release: str = ""
    """Its release: chosen when it claimed its slot, until then the newest when submitted."""
    started_ts: float | None = None
    ended_ts: float | None = None
    node: str = ""
    slot: int | None = None
    term: int | None = None
    claimed_ts: float | None = None
    left_ts: float | None = None
    """When it was seen to have released its slot; from then on it is on its way out."""
    progressed_ts: float | None = None
    observed: Observed = Observed()
    requests: Requests = Requests()
    canceller: int | None = None
    """Somebody else's user id that cancelled it."""
    outcome: JobOutcome | None = None
    reason: str = ""

    @property
    def live(self) -> bool:
        """True where a job of it may exist: it is neither ended nor rejected."""
        return self.phase not in (Phase.ENDED, Phase.REJECTED)

    @property
    def training(self) -> bool:
        """True while it holds a slot."""
        return self.slot is not None and self.left_ts is None and self.live

    @property
    def queued(self) -> bool:
        """True while it is known to wait in the queue."""
        return self.phase is Phase.SUBMITTED and self.slot is None


@dataclass(frozen=True, slots=True)
class Orphan:
    """A term whose holder is proven gone and did not end it: killed, or its node died."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True)
class Ledger:
    """Attempts in the order intended (old ended ones are let go), and what the site taught."""

    attempts: tuple[Attempt, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    site: SiteLimits = SiteLimits()
    started_ts: float = 0.0
    """When the person's last ``start`` was noticed: older failures no longer count."""
    asked_ts: float = 0.0
    """The stamp of that ``start``, by the clock of the host where it was said."""
    proven: tuple[str, ...] = ()
    """Releases that made checkpoint progress, newest last."""
    noticed: Mapping[str, float] = field(default_factory=dict)
    """When the person was last told about a kind of trouble."""
    slow_claims: tuple[float, ...] = ()
    """When slots were filled after a long wait for the queue, newest last."""
    used_s: float = 0.0
    """Job-seconds that ended attempts took from the allocation."""

    @cached_property
    def live(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.live)

    @cached_property
    def over(self) -> tuple[Attempt, ...]:
        """Those that are not live."""
        return tuple(attempt for attempt in self.attempts if not attempt.live)

    @property
    def next_number(self) -> int:
        """Numbers only grow, in the order intended."""
        return self.attempts[-1].number + 1 if self.attempts else 1
