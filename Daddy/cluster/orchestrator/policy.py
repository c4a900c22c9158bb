"""Pure: the rules of the house, as one value. ``rules`` makes it from the configuration."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf


@dataclass(frozen=True, slots=True)
class Policy:
    """The rules of the house, in seconds and counts."""

    pass_s: float = 60.0
    """Between passes when something is awaited."""
    quiet_pass_s: float = 150.0
    """Between passes when all slots train and nothing ends soon."""
    hot_pass_s: float = 10.0
    """Between passes while something is about to change."""
    hot_for_s: float = 120.0
    absence_gap_s: float = 30.0
    """Two listings count as two looks only this far apart."""
    answer_s: float = 40.0
    """The longest that a submission can take to be answered."""
    drain_s: float = 180.0
    """What a signalled job gets before it is cancelled."""
    recancel_s: float = 60.0
    delays_s: tuple[float, ...] = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
    """Wait after the first, second, … failure in a row without checkpoint progress."""
    breaker_failures: int = 5
    """Failures in a row of the whole fleet that open the breaker."""
    canary_s: float = 3600.0
    """Between two tries while the breaker is open."""
    forget_s: float = 6 * 3600.0
    """Quiet time after which failures no longer count."""
    strike_s: float = 24 * 3600.0
    """How long a node that failed twice is left out."""
    max_excluded: int = 3
    silence_s: float = 300.0
    """Without a beat for this long a learner counts as hung."""
    stall_s: float = 1800.0
    """Beating, but without a checkpoint for this long: worth a word to the person."""
    prequeue: bool = True
    overlap: bool = False
    enforced: bool = False
    """The scheduler is known to hold back what would be one too many (our own local queue)."""
    max_running: int = 4
    spares: int = 4
    """Successors that may wait beyond the slots, one for each job that trains."""
    extra: int = 8
    """More of them where the queue is slow."""
    slow_claim_s: float = 60.0
    """A slot that waited longer than this for the queue shows that the queue is slow."""
    budget_s: float = inf
    """Job-seconds that the run may take in all."""
    limit_s: float = 14_400.0
    """Time limit of a job."""
    hourly: int = 20
    """Submissions in any hour; and in any day ten times as many."""
    reserve: int = 2
    """Places of the site's submit limit that are left to the person's own jobs."""
