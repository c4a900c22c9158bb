"""Pure. The control parameters of one run, and how they follow from its configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from Daddy.core.humanize import parse_duration

if TYPE_CHECKING:
    from Daddy.core.settings import Config

HOT_FOR_S = 120.0
"""Seconds after a submission, and around a job's end, in which passes are closer together."""
SILENCE_S = 300.0
"""Seconds without a beat after which a learner counts as hung."""
SLOW_CLAIM_S = 60.0
"""Seconds that a slot waits for the queue beyond which the queue counts as slow."""
_LOCAL_DELAYS_S = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
_LOCAL_PASS_S = 2.0
_SLURM_HOT_PASS_S = 10.0
_SLURM_QUIET_PASS_S = 150.0
_HOURLY = 20
"""Submissions in an hour that no site minds; short jobs need more to stay alive at all."""
_LOCAL_HOURLY = 3600


@dataclass(frozen=True, slots=True)
class ControllerPolicy:
    """Seconds and counts that the decisions go by."""

    pass_s: float = 60.0
    """Between passes when something is awaited."""
    quiet_pass_s: float = 150.0
    """Between passes when all slots train and nothing ends soon."""
    hot_pass_s: float = 10.0
    """Between passes while something is about to change."""
    absence_gap_s: float = 30.0
    """Two listings count as two looks only this far apart."""
    answer_s: float = 40.0
    """The longest that a submission can take to be answered."""
    drain_s: float = 120.0
    """Seconds for a signalled job to leave: a checkpoint on a slow disk takes half a minute."""
    recancel_s: float = 60.0
    delays_s: tuple[float, ...] = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
    """Wait after the first, second, … failure in a row without checkpoint progress."""
    breaker_failures: int = 5
    """Failures in a row of the whole fleet that open the breaker."""
    canary_s: float = 3600.0
    """Between two tries while the breaker is open."""
    forget_s: float = 6 * 3600.0
    """Quiet time after which failures no longer count."""
    enforced: bool = False
    """The scheduler is known to hold back what would be one too many (our own local queue)."""
    max_running: int = 4
    spares: int = 4
    """Successors that may wait beyond the slots, one for each job that trains."""
    extra: int = 8
    """More of them where the queue is slow."""
    budget_s: float = inf
    """Job-seconds that the run may take in all."""
    limit_s: float = 14_400.0
    """Time limit of a job."""
    hourly: int = 20
    """Submissions in any hour; and in any day ten times as many."""


def derive_policy(config: Config, executor: str) -> ControllerPolicy:
    """The parameters for one executor."""
    settings, slots = config.controller, config.slurm.max_running
    limit = float(parse_duration(config.slurm.time_limit))
    policy = ControllerPolicy(
        pass_s=settings.poll_seconds,
        quiet_pass_s=max(settings.poll_seconds, min(_SLURM_QUIET_PASS_S, limit / 20)),
        hot_pass_s=min(settings.poll_seconds, _SLURM_HOT_PASS_S),
        max_running=slots,
        limit_s=limit,
        hourly=max(_HOURLY, int(3 * slots * 3600.0 / limit)),
        budget_s=settings.budget_gpu_hours * 3600.0 / max(1, config.slurm.gpus_per_job) or inf,
    )
    return _for_this_machine(policy) if executor == "local" else policy


def _for_this_machine(policy: ControllerPolicy) -> ControllerPolicy:
    """Locally a look costs nothing, cannot be wrong, and the queue keeps the cap itself."""
    pass_s = min(policy.pass_s, _LOCAL_PASS_S)
    return replace(
        policy,
        pass_s=pass_s,
        quiet_pass_s=pass_s,
        hot_pass_s=min(policy.pass_s, 1.0),
        absence_gap_s=0.0,
        answer_s=0.0,
        recancel_s=15.0,
        delays_s=_LOCAL_DELAYS_S,
        canary_s=600.0,
        enforced=True,
        extra=0,
        hourly=_LOCAL_HOURLY,
    )


def file_poll_seconds(config: Config, executor: str) -> float:
    """Time between two looks at the small files; network file systems are asked less often."""
    return 0.2 if executor == "local" else min(3.0, config.controller.poll_seconds / 2)
