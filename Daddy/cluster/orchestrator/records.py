"""Pure: the nouns of the controller. Values only; ``plan`` decides, ``effects`` acts.

An *attempt* is our n-th try to fill a slot and has at most one *job* (the scheduler's word). A
*snapshot* is one complete look at the queue; where no such look was possible there is ``Unknown``,
and nothing may be submitted or cancelled because of it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Mode(str, Enum):
    """What the person wants of the run."""

    RUN = "run"
    DRAIN = "drain"
    NOW = "now"
    STOPPED = "stopped"
    DONE = "done"


class JobState(str, Enum):
    """What the scheduler says of a job, reduced to what decisions need."""

    PENDING = "pending"
    RUNNING = "running"
    ENDED = "ended"


class Phase(str, Enum):
    """Where an attempt is in its life. ``INTENT`` is also what a crash in mid-submit leaves."""

    INTENT = "intent"
    SUBMITTED = "submitted"
    RUNNING = "running"
    ENDED = "ended"
    REJECTED = "rejected"


class Outcome(str, Enum):
    """How an attempt ended. Only ``CRASHED`` and ``REFUSED`` are failures."""

    DONE = "done"
    DRAINED = "drained"
    NOT_NEEDED = "not needed"
    CANCELLED = "cancelled"
    LOST = "lost"
    CRASHED = "crashed"
    REFUSED = "refused"
    """The learner asked not to be restarted, or can never start as configured."""


class Chaining(str, Enum):
    """How successors wait: freely in a pool, each behind its predecessor, or not at all."""

    POOL = "pool"
    CHAIN = "chain"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class Desired:
    """What was asked for, from ``controller/intent.json``."""

    mode: Mode
    slots: int


@dataclass(frozen=True, slots=True)
class QueueJob:
    """One line of the queue; ``word`` and ``why`` are the scheduler's own words; wall seconds."""

    job_id: int
    token: str
    state: JobState
    word: str
    why: str = ""
    node: str = ""
    started_ts: float | None = None
    ends_ts: float | None = None
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """One complete listing of this run's jobs; ``begun_ts`` is from before it was asked for."""

    begun_ts: float
    jobs: tuple[QueueJob, ...]
    strangers: int = 0
    """Jobs of the same person that are not ours: counted, never touched."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """The queue could not be read. Absence of evidence, not evidence of absence."""

    begun_ts: float
    why: str


Observation = Snapshot | Unknown


@dataclass(frozen=True, slots=True)
class SlotView:
    """A slot's newest lease and checkpoint as they stand on disk."""

    slot: int
    term: int
    token: str
    goodbye: str | None = None
    """The reason this term ended for; None while it goes on."""
    holder_alive: bool | None = None
    """Whether the holder's process lives; None where that cannot be seen from here."""
    checkpoint_term: int = 0
    checkpoint_step: int = 0


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
    started_ts: float | None = None
    ended_ts: float | None = None
    slot: int | None = None
    term: int | None = None
    left: bool = False
    """It has released its slot and is on its way out."""
    progressed_ts: float | None = None
    absences: int = 0
    absent_ts: float = 0.0
    signalled_ts: float | None = None
    cancelled_ts: float | None = None
    outcome: Outcome | None = None
    reason: str = ""

    @property
    def live(self) -> bool:
        """Whether a job of it may exist: everything that is neither ended nor rejected."""
        return self.phase not in (Phase.ENDED, Phase.REJECTED)

    @property
    def training(self) -> bool:
        """Whether it holds a slot."""
        return self.live and self.slot is not None and not self.left


@dataclass(frozen=True, slots=True)
class Orphan:
    """A term whose holder is proven gone and did not end it: killed, or its node died."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class Ledger:
    """Attempts in the order intended (old ended ones are let go), and what the site taught."""

    attempts: tuple[Attempt, ...] = ()
    orphans: tuple[Orphan, ...] = ()
    chaining: Chaining | None = None
    started_ts: float = 0.0
    """When the person last said ``start``: older failures no longer count."""

    @property
    def live(self) -> tuple[Attempt, ...]:
        return tuple(attempt for attempt in self.attempts if attempt.live)

    @property
    def next_number(self) -> int:
        return max((attempt.number for attempt in self.attempts), default=0) + 1


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of the house, in seconds and counts."""

    pass_s: float = 60.0
    hot_pass_s: float = 10.0
    """Between passes while something is about to change."""
    hot_for_s: float = 120.0
    absence_gap_s: float = 30.0
    """Two listings count as two looks only this far apart."""
    drain_s: float = 180.0
    """What a signalled job gets before it is cancelled."""
    recancel_s: float = 60.0
    delays_s: tuple[float, ...] = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
    """Wait after the first, second, … failure in a row without checkpoint progress."""
    chaining: Chaining = Chaining.POOL
    max_running: int = 4
    spares: int = 4
    """Successors that may wait beyond the slots."""


@dataclass(frozen=True, slots=True)
class Submit:
    """Queue one more job; behind job ``after`` where that is given."""

    reason: str
    after: int | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """Ask a running job to checkpoint and leave."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class Cancel:
    """End a job, whatever it does."""

    token: str
    job_id: int
    reason: str


@dataclass(frozen=True, slots=True)
class EndTerm:
    """Free the slot of a holder that is proven gone."""

    slot: int
    term: int
    reason: str


@dataclass(frozen=True, slots=True)
class Conclude:
    """Nothing is left to do for ever: write down the final mode and leave."""

    mode: Mode
    reason: str


Action = Submit | Signal | Cancel | EndTerm | Conclude


@dataclass(frozen=True, slots=True)
class Plan:
    """What to do now, why, and when to ask again at the latest (wall seconds)."""

    actions: tuple[Action, ...]
    reasons: tuple[str, ...]
    wake_at: float
