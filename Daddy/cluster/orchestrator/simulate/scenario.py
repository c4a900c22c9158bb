"""Pure: what is assumed of a site and of the world, as values. Sources: ``docs/simulator.md``.

All times are seconds. A *scenario* is one cell of the table without its policy and its seed.
"""

from __future__ import annotations

from dataclasses import dataclass, field

DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Workload:
    """How long jobs of one person wait here: log-normal, or the waits somebody measured."""

    name: str
    median_s: float
    sigma: float
    longest_s: float = DAY_S
    measured_s: tuple[float, ...] = ()
    """Sorted waits of a real site; they replace the log-normal where there are any."""


WORKLOADS = {
    one.name: one
    for one in (
        Workload("kalos", 17.0, 2.25),
        Workload("philly", 189.0, 2.45),
        Workload("busy", 2400.0, 1.2),
    )
}


@dataclass(frozen=True, slots=True)
class Rates:
    """How often things go wrong, and how long for."""

    crash_every_s: float = 5 * DAY_S
    """Of running time of one job."""
    hang_every_s: float = 10 * DAY_S
    """Of running time of one job."""
    node_failure_every_s: float = 1000 / 6.5 * DAY_S
    node_noticed_s: float = 300.0
    outage_every_s: float = 15 * DAY_S
    """Between two times that slurmctld is away."""
    outage_s: float = 1200.0
    controller_death_every_s: float = 10 * DAY_S
    watchdog_s: float = 300.0
    """After which ours is back; a person needs ``human_s``."""
    human_s: float = 8 * 3600.0
    """Until a person sees that something needs them."""
    bad_deploys: int = 1
    """A month; jobs that start from one die."""
    bad_deploy_s: float = 8 * 3600.0
    black_holes: int = 1
    """A month: one node fails every job it gets, and gets many."""
    black_hole_s: float = 12 * 3600.0
    black_hole_share: float = 0.5
    dies_after_s: float = 20.0
    maintenance_s: float = 8 * 3600.0
    maintenance_notice_s: float = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class Scenario:
    """A site and its rules."""

    workload: Workload
    correlation: float = 0.9
    """Share of a wait's variance that all jobs submitted around the same time have in common."""
    memory_s: float = 6 * 3600.0
    """How fast that common part changes: its correlation falls to 1/e in this time."""
    credit: float = 1.0
    """Share of the time blocked by the running cap that counts as waiting."""
    usage_weight: float = 0.0
    """Full use of the cap makes waits 1 + this times as long (decayed, half-life a week)."""
    maintenance: bool = False
    """One reservation a month, during which nothing runs."""
    max_submit: int | None = None
    """Jobs of one person that may wait or run."""
    days: float = 30.0
    cap: int = 4
    limit_s: float = 14_400.0
    boot_s: float = 15.0
    """Start of the job to the first optimiser step, for every policy."""
    checkpoint_s: float = 60.0
    """Between two checkpoints, for every policy."""
    drain_s: float = 3.0
    """Last checkpoint and leaving, for every policy."""
    start_lag_s: float = 1.0
    """A place under the cap is free, until the next job runs."""
    rates: Rates = field(default_factory=Rates)

    @property
    def span_s(self) -> float:
        return self.days * DAY_S
