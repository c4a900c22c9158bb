"""Pure. Derives the controller's intervals, delays and limits from a run's configuration."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import TYPE_CHECKING

from Daddy.core.errors import ConfigError
from Daddy.core.humanize import parse_duration

if TYPE_CHECKING:
    from Daddy.core.settings import Config

HOT_FOR_S = 120.0
"""Seconds after a submission, and around a job's end, with passes every ``hot_pass_s``."""
SILENCE_S = 300.0
"""Seconds without a heartbeat after which a learner counts as hung."""
SLOW_CLAIM_S = 60.0
"""Seconds that a slot stays empty above which the queue counts as slow."""
_LOCAL_DELAYS_S = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
_LOCAL_PASS_S = 2.0
_SLURM_HOT_PASS_S = 10.0
_SLURM_QUIET_PASS_S = 150.0
_LONGEST_BEAT_S, _SHORTEST_BEAT_S = 10.0, 1.0
_HOURLY = 20
"""Submissions in any hour; more where the time limit of a job is short."""
_LOCAL_HOURLY = 3600


@dataclass(frozen=True, slots=True)
class ControllerPolicy:
    """Holds the intervals, delays (seconds) and limits of one controller."""

    pass_s: float = 60.0
    """Time between passes while a job is awaited."""
    quiet_pass_s: float = 150.0
    """Time between passes while all slots train and no job ends soon."""
    hot_pass_s: float = 10.0
    """Time between passes after a submission and around a job's end."""
    beat_s: float = _LONGEST_BEAT_S
    """Time between two heartbeats of the controller's lease; jobs wait a third of their length."""
    absence_gap_s: float = 30.0
    """Shortest time between two listings that both count as evidence of an absent job."""
    answer_s: float = 40.0
    """The longest time that a submission can take to be answered."""
    drain_s: float = 120.0
    """Time for a signalled job to leave: a checkpoint on a slow disk takes 30 s."""
    recancel_s: float = 60.0
    """Time after which a job that still runs is cancelled again."""
    delays_s: tuple[float, ...] = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
    """Delay after the first, second, … failure in a row without checkpoint progress."""
    breaker_failures: int = 5
    """Failures in a row of the whole fleet that open the circuit breaker."""
    canary_s: float = 3600.0
    """Time between two trial jobs while the circuit breaker is open."""
    forget_s: float = 6 * 3600.0
    """Time without a failure after which earlier ones no longer count."""
    enforced: bool = False
    """True where the queue is known to keep to ``max_running`` itself (the local queue)."""
    max_running: int = 4
    spares: int = 4
    """Successors that may wait in the queue, one for each job that trains."""
    extra: int = 8
    """Further successors where the queue is slow."""
    budget_s: float = inf
    """Job-seconds that the run may use in total."""
    limit_s: float = 14_400.0
    """Time limit of a job."""
    hourly: int = 20
    """Most submissions in any hour; ten times as many in any day."""


def derive_policy(config: Config, executor: str) -> ControllerPolicy:
    """Return the parameters of ``config`` for the executor ``slurm`` or ``local``. ConfigError."""
    settings, slots = config.controller, config.slurm.max_running
    limit = float(parse_duration(config.slurm.time_limit))
    if not limit:
        raise ConfigError(
            f"slurm.time_limit {config.slurm.time_limit} gives a job no time",
            "set the longest time that the partition allows, such as 4:00:00",
        )
    job_s = min(limit, config.training.max_runtime_seconds)
    policy = ControllerPolicy(
        beat_s=min(_LONGEST_BEAT_S, max(_SHORTEST_BEAT_S, job_s / 15)),
        pass_s=settings.poll_seconds,
        quiet_pass_s=max(settings.poll_seconds, min(_SLURM_QUIET_PASS_S, limit / 20)),
        hot_pass_s=min(settings.poll_seconds, _SLURM_HOT_PASS_S),
        max_running=slots,
        limit_s=limit,
        hourly=max(_HOURLY, int(3 * slots * 3600.0 / limit)),
        budget_s=settings.budget_gpu_hours * 3600.0 / max(1, config.slurm.gpus_per_job) or inf,
    )
    return _for_local_queue(policy) if executor == "local" else policy


def _for_local_queue(policy: ControllerPolicy) -> ControllerPolicy:
    """Return ``policy`` with shorter intervals: listing the local queue is cheap and complete."""
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
    """Return seconds between two reads of intent and leases: 0.2 on the local queue, else to 3."""
    return 0.2 if executor == "local" else min(3.0, config.controller.poll_seconds / 2)
