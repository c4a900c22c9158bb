"""Pure. Bounds the sandboxes that live at once, and estimates a run's time, with the arithmetic."""

from dataclasses import dataclass

from Daddy.core.humanize import format_span
from Daddy.fanout.fanout_settings import FanoutSettings

MOST_LIVE = 200
"""Live sandboxes of a run on one machine, or at a vendor: beyond it each start takes longer."""
LIVE_PER_CORE = 4
"""Live sandboxes to a core: each is watched fifty times a second. On two cores, a thousand of
``--policy controller`` were done after 95 s with 8 alive at once, and after 267 s with 200."""
STARTS_PER_S = 35.0
"""Sandboxes that one machine of two cores starts and ends in a second."""
JOBS, JOB_CORES = 4, 8
"""The cluster of the estimate: four jobs of eight cores."""
_MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class ProgramCost:
    """Holds the cost of one sandbox: CPU seconds, MiB of memory, and the origin of the figures.

    `per_core`: sandboxes that share a core; 1 where more might not end within their time limit.
    """

    cpu_s: float
    memory_mb: int
    origin: str
    per_core: int = LIVE_PER_CORE


def stated_cost(settings: FanoutSettings) -> ProgramCost:
    """Return the cost of cartpole_task.py as it was measured once, of another program the most."""
    if settings.own_program:
        return ProgramCost(settings.time_limit_s, 512, "at most, for a program of --task", 1)
    if settings.policy == "controller":
        return ProgramCost(0.25, 64, "stated for --policy controller")
    start_s, step_s = 3.0, 5.4e-5 if settings.policy == "ppo" else 4e-4
    cpu_s = start_s + step_s * settings.timesteps
    origin = f"stated: {start_s:g} s + {settings.timesteps:,} steps x {step_s:g} s"
    return ProgramCost(cpu_s, 512, origin)


@dataclass(frozen=True, slots=True)
class Machine:
    """Holds the usable cores and the free bytes of the machine on which sandboxes live."""

    cores: int
    free_bytes: int


def concurrency_limit(
    workers: int | None, sandboxes: int, machine: Machine | None, cost: ProgramCost
) -> tuple[int, str]:
    """Return the most sandboxes that live at once, and the bound that decided.

    `workers`, a person's wish, replaces the bound of the cores. `machine` is None for a vendor's
    sandboxes, which take nothing of this one.
    """
    bounds = [(sandboxes, f"there are {sandboxes:,}"), (MOST_LIVE, f"{MOST_LIVE} is the most")]
    if workers is not None:
        bounds.append((workers, f"--workers {workers}"))
    elif machine:
        cores = f"{machine.cores} core{'s' * (machine.cores > 1)}"
        bounds.append((machine.cores * cost.per_core, f"{cores}, {cost.per_core} to each"))
    if machine:
        fit = max(1, machine.free_bytes // (cost.memory_mb * _MIB))
        free = f"{machine.free_bytes // _MIB:,} MiB are free, {cost.memory_mb} MiB each"
        bounds.append((fit, free))
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
