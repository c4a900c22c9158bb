"""Pure: from a configuration to the rules that the controller decides by, for its queue."""

from __future__ import annotations

from dataclasses import replace
from math import inf

from Daddy.cluster.orchestrator.policy import Policy
from Daddy.core.duration import parse_duration
from Daddy.core.settings import Config

_LOCAL_DELAYS_S = (0.0, 1.0, 5.0, 30.0, 120.0, 600.0)
_SLURM_DELAYS_S = (0.0, 60.0, 300.0, 900.0, 1800.0, 3600.0)
_LOCAL_PASS_S = 2.0
_SLURM_HOT_PASS_S = 10.0
_SLURM_QUIET_PASS_S = 150.0
_HOURLY = 20
"""Submissions in an hour that no site minds; short jobs need more to stay alive at all."""
_LOCAL_HOURLY = 3600


def make_policy(config: Config, executor: str) -> Policy:
    """The rules for one executor. Locally a look costs nothing and cannot be wrong."""
    local = executor == "local"
    policy = _policy(config)
    return _for_this_machine(policy) if local else policy


def _policy(config: Config) -> Policy:
    settings, slots = config.controller, config.slurm.max_running
    limit = float(parse_duration(config.slurm.time_limit))
    handovers = 3600.0 / limit * slots
    gpus = max(1, config.slurm.gpus_per_job)
    budget = settings.budget_gpu_hours * 3600.0 / gpus
    return Policy(
        pass_s=settings.poll_seconds,
        quiet_pass_s=max(settings.poll_seconds, min(_SLURM_QUIET_PASS_S, limit / 20)),
        hot_pass_s=min(settings.poll_seconds, _SLURM_HOT_PASS_S),
        drain_s=settings.drain_seconds,
        delays_s=_SLURM_DELAYS_S,
        prequeue=settings.prequeue == "auto",
        overlap=settings.overlap,
        max_running=slots,
        spares=settings.spares,
        extra=settings.extra,
        limit_s=limit,
        hourly=max(_HOURLY, int(3 * handovers)),
        budget_s=budget or inf,
    )


def _for_this_machine(policy: Policy) -> Policy:
    """Locally a look costs nothing, cannot be wrong, and the queue keeps the cap itself."""
    return replace(
        policy,
        pass_s=min(policy.pass_s, _LOCAL_PASS_S),
        quiet_pass_s=min(policy.pass_s, _LOCAL_PASS_S),
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


def look_seconds(config: Config, executor: str) -> float:
    """Time between two looks at the small files; network file systems are asked less often."""
    return 0.2 if executor == "local" else min(3.0, config.controller.poll_seconds / 2)
