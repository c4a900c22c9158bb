"""Pure. Bounds the sandboxes that live at once, and estimates a run's time, with the arithmetic."""

from dataclasses import dataclass

from Daddy.core.humanize import format_span
from Daddy.fanout.fanout_settings import AUTO_STOP_S, FanoutSettings

MOST_LIVE = 200
"""Live sandboxes on one machine: beyond it each start takes longer."""
STARTS_PER_S = 35.0
"""Sandboxes that one machine of two cores starts and ends in a second."""
JOBS, JOB_CORES = 4, 8
"""The cluster of the estimate: four jobs of eight cores."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """Holds the cost of one sandbox: CPU seconds, MiB of memory, and the origin of the figures."""

    cpu_s: float
    memory_mb: int
    origin: str
    time_limit_s: float = AUTO_STOP_S


def stated_cost(settings: FanoutSettings) -> ProgramCost:
    """Return the cost of cartpole_task.py as it was measured once, of another program the most."""
    steps, limit_s = settings.timesteps, settings.time_limit_s
    if settings.own_program:
        return ProgramCost(limit_s, 512, "at most, for a program of --task", limit_s)
    if settings.policy == "controller":
        return ProgramCost(0.25, 64, "stated for --policy controller")
    start_s, step_s = 3.0, 5.4e-5 if settings.policy == "ppo" else 4e-4
    cpu_s = start_s + step_s * steps
    origin = f"stated: {start_s:g} s + {steps:,} steps x {step_s:g} s"
    return ProgramCost(cpu_s, 512, origin, limit_s)


def concurrency_limit(
    workers: int | None, sandboxes: int, cores: int, free_bytes: int, cost: ProgramCost
) -> tuple[int, str]:
    """Return the most sandboxes that live at once on a machine, and the bound that decided.

    A person's `workers` replaces the estimate of how many end in time.
    """
    memory = max(1, free_bytes // (cost.memory_mb * _MIB))
    in_time = max(cores, int(cores * cost.time_limit_s / (2 * cost.cpu_s)))
    asked = in_time, f"more might not end in time (cores: {cores})"
    if workers is not None:
        asked = workers, f"--workers {workers}"
    bounds = [
        asked,
        (sandboxes, f"there are {sandboxes:,}"),
        (MOST_LIVE, f"{MOST_LIVE} is the most on one machine"),
        (memory, f"{free_bytes // _MIB:,} MiB are free, {cost.memory_mb} MiB each"),
    ]
    return min(bounds, key=lambda bound: bound[0])


def estimate_lines(sandboxes: int, cost: ProgramCost, cores: int) -> list[str]:
    """Return the time that a run takes here and on a cluster, as sentences with the arithmetic."""
    total = sandboxes * cost.cpu_s
    return [
        f"{sandboxes:,} x {cost.cpu_s:.2f} CPU s ({cost.origin}) = {format_span(total)} of CPU",
        f"here: {_span(sandboxes, total, cores, 1)}",
        f"on {JOBS} jobs: {_span(sandboxes, total, JOBS * JOB_CORES, JOBS)}",
    ]


def _span(sandboxes: int, total_s: float, cores: int, machines: int) -> str:
    by_cpu, by_starts = total_s / cores, sandboxes / (STARTS_PER_S * machines)
    if by_cpu >= by_starts:
        unit = "cores" if cores > 1 else "core"
        return f"{format_span(by_cpu)} ({format_span(total_s)} / {cores} {unit})"
    starts = f"{STARTS_PER_S * machines:g} starts a second"
    return f"{format_span(by_starts)} ({sandboxes:,} / {starts})"
