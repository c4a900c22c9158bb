"""Pure. Defines the simulator's assumptions about a site; sources in ``docs/simulator.md``.

All times are seconds. A *scenario* is one cell of the table without policy and seed. The waits of a
person's own site are read from an export of ``sacct``; the wait of a started job is the time from
eligible to started.
"""

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median

DAY_S = 86_400.0
OURS = "ours"
NO_DAEMON = "no_daemon"
POLICIES = (OURS, "seed_gang", "seed_per_slot", "self_requeue", "singleton", "array")
"""Names of the policies in the table and the JSON file."""
_NEVER_BLOCKED = frozenset({"seed_gang", "seed_per_slot", "self_requeue", "singleton"})
"""Policies without waiting jobs beyond the cap: ``credit`` makes no difference to them."""
_WORSE = 3.0
"""``usage_weight`` in the rows about decayed usage: full use makes waits four times as long."""
_FEWEST = 20
"""Fewest waits from which a distribution is estimated."""


@dataclass(frozen=True, slots=True)
class Workload:
    """Describes the waits of one person's jobs: log-normal or measured."""

    name: str
    median_s: float
    sigma: float
    longest_s: float = DAY_S
    measured_s: tuple[float, ...] = ()
    """Sorted waits of a real site, which replace the log-normal distribution."""


WORKLOADS = {
    "kalos": Workload("kalos", 17.0, 2.25),
    "philly": Workload("philly", 189.0, 2.45),
    "busy": Workload("busy", 2400.0, 1.2),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Holds mean intervals and durations of all failures."""

    crash_every_s: float = 5 * DAY_S
    """Mean run time of a job before a crash."""
    hang_every_s: float = 10 * DAY_S
    """Mean run time of a job before it hangs."""
    node_failure_every_s: float = 1000 / 6.5 * DAY_S
    node_noticed_s: float = 300.0
    outage_every_s: float = 15 * DAY_S
    """Mean seconds between two outages of slurmctld."""
    outage_s: float = 1200.0
    controller_death_every_s: float = 10 * DAY_S
    watchdog_s: float = 300.0
    """Seconds until our controller is restarted after its death."""
    human_s: float = 8 * 3600.0
    """Seconds until a person reacts to a problem."""
    bad_deploys: int = 1
    """Broken releases a month; jobs that start from one die."""
    bad_deploy_s: float = 8 * 3600.0
    black_holes: int = 1
    """Windows a month in which one node fails all its jobs at once, and gets many."""
    black_hole_s: float = 12 * 3600.0
    black_hole_share: float = 0.5
    dies_after_s: float = 20.0
    maintenance_s: float = 8 * 3600.0
    maintenance_notice_s: float = 7 * DAY_S


@dataclass(frozen=True, slots=True)
class Scenario:
    """Describes a site, its rules and the jobs on it."""

    workload: Workload
    correlation: float = 0.9
    """Share of the variance of waits that jobs submitted at the same time have in common."""
    memory_s: float = 6 * 3600.0
    """Seconds in which the common component's correlation falls to 1/e."""
    credit: float = 1.0
    """Share of the time blocked by the running cap that counts as waiting."""
    usage_weight: float = 0.0
    """Full decayed usage makes waits 1 + this times as long (half-life a week)."""
    maintenance: bool = False
    """True: one maintenance reservation a month, during which nothing runs."""
    max_submit: int | None = None
    """Most jobs of one person that wait and run; None: no limit."""
    days: float = 30.0
    cap: int = 4
    limit_s: float = 14_400.0
    boot_s: float = 15.0
    """Seconds from the start of a job to its first optimiser step."""
    checkpoint_s: float = 60.0
    """Seconds between two checkpoints."""
    drain_s: float = 3.0
    """Seconds for the last checkpoint and the exit."""
    start_lag_s: float = 1.0
    """Seconds from the end of a job at the cap to the start of the next."""
    rates: Rates = field(default_factory=Rates)

    @property
    def span_s(self) -> float:
        return self.days * DAY_S


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """Describes one row of the table: a scenario and its policies."""

    group: str
    scenario: Scenario
    policies: tuple[str, ...] = POLICIES

    @property
    def workload(self) -> str:
        return self.scenario.workload.name


def scenario_for(scenario: Scenario, policy: str) -> Scenario:
    """Return the scenario, with ``credit`` 1 if the policy does not depend on it."""
    return replace(scenario, credit=1.0) if policy in _NEVER_BLOCKED else scenario


def main_rows(workloads: Sequence[Workload], days: float) -> list[ScenarioRow]:
    """Return the rows of the main scenario: correlated waits and full credit."""
    with_failover = (*POLICIES[:1], NO_DAEMON, *POLICIES[1:])
    title = "correlated waits, credit 1"
    scenarios = [Scenario(workload, days=days) for workload in workloads]
    return [ScenarioRow(title, scenario, with_failover) for scenario in scenarios]


def variant_rows(workloads: Sequence[Workload], days: float) -> list[ScenarioRow]:
    """Return the rows of other sites: lower credit, independent waits, maintenance, limits."""
    variants: dict[str, dict[str, float]] = {
        "correlated waits, credit 0.5": {"credit": 0.5},
        "correlated waits, credit 0": {"credit": 0.0},
        "independent waits, credit 1": {"correlation": 0.0},
        "independent waits, credit 0.5": {"correlation": 0.0, "credit": 0.5},
        "independent waits, credit 0": {"correlation": 0.0, "credit": 0.0},
        "waits worsen with our own usage": {"usage_weight": _WORSE},
        "eight hours of maintenance": {"maintenance": True},
        "MaxSubmit = 4": {"max_submit": 4},
    }
    return [
        ScenarioRow(title, Scenario(workload, days=days, **rules))  # type: ignore[arg-type]
        for title, rules in variants.items()
        for workload in workloads
    ]


def read_export(text: str, name: str = "own site") -> Workload:
    """Return the workload of a ``sacct`` export; raise ValueError when it has too few waits."""
    rows = csv.DictReader(text.strip().splitlines(), delimiter="|", quoting=csv.QUOTE_NONE)
    missing = [column for column in ("Eligible", "Start") if column not in (rows.fieldnames or ())]
    if missing:
        raise ValueError(f"the first line has no column {' and no column '.join(missing)}")
    waits = sorted(_waits(rows))
    if len(waits) < _FEWEST:
        raise ValueError(f"it has {len(waits)} started jobs, and {_FEWEST} are needed")
    return Workload(name, median(waits), 0.0, longest_s=waits[-1], measured_s=tuple(waits))


def _waits(rows: Iterable[Mapping[str, str | None]]) -> Iterator[float]:
    """Yield the waits of started jobs; skip job steps and unreadable lines."""
    for row in rows:
        began = _stamp(row["Start"])
        ready = _stamp(row["Eligible"]) or _stamp(row.get("Submit"))
        if began is not None and ready is not None and began >= ready:
            yield began - ready


def _stamp(text: str | None) -> float | None:
    """Return a time in seconds; None for ``Unknown`` and ``None``. Time zones cancel out."""
    if text and text.isdigit():
        return float(text)
    try:
        return (datetime.fromisoformat(text or "") - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001
    except ValueError:
        return None
