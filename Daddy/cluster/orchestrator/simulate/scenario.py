"""Pure. The assumptions about a site and the world, as values. Sources: ``docs/simulator.md``.

All times are seconds. A *scenario* is one cell of the table without its policy and its seed. The
waits of a person's own site are read from an export of ``sacct``, in which every job that ever
started has one wait: from the time it was eligible until it started.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from statistics import median

DAY_S = 86_400.0
OURS = "ours"
NO_DAEMON = "no_daemon"
POLICIES = (OURS, "seed_gang", "seed_per_slot", "self_requeue", "singleton", "array")
"""As the table and the JSON file name them."""
_NEVER_BLOCKED = frozenset({"seed_gang", "seed_per_slot", "self_requeue", "singleton"})
"""They never have more jobs that may start than may run: credit is nothing to them."""
_WORSE = 3.0
"""Full use makes waits four times as long in the row about our own decayed usage."""
_FEWEST = 20
"""Waits without which a distribution is a guess."""


@dataclass(frozen=True, slots=True)
class Workload:
    """The waits of one person's jobs: log-normal, or measured."""

    name: str
    median_s: float
    sigma: float
    longest_s: float = DAY_S
    measured_s: tuple[float, ...] = ()
    """Sorted waits of a real site; they replace the log-normal where there are any."""


WORKLOADS = {
    "kalos": Workload("kalos", 17.0, 2.25),
    "philly": Workload("philly", 189.0, 2.45),
    "busy": Workload("busy", 2400.0, 1.2),
}


@dataclass(frozen=True, slots=True)
class Rates:
    """Frequencies and durations of everything that goes wrong."""

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
    """Time in which the correlation of that common part falls to 1/e."""
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


@dataclass(frozen=True, slots=True)
class ScenarioRow:
    """One line of the table: a scenario and its policies."""

    group: str
    scenario: Scenario
    policies: tuple[str, ...] = POLICIES

    @property
    def workload(self) -> str:
        return self.scenario.workload.name


def effective_scenario(scenario: Scenario, policy: str) -> Scenario:
    """The same for all scenarios that make no difference to the policy."""
    return replace(scenario, credit=1.0) if policy in _NEVER_BLOCKED else scenario


def main_rows(workloads: Sequence[Workload], days: float) -> list[ScenarioRow]:
    """The scenario of the targets: waits that come together, and full credit."""
    with_failover = (*POLICIES[:1], NO_DAEMON, *POLICIES[1:])
    title = "correlated waits, credit 1"
    return [
        ScenarioRow(title, Scenario(workload, days=days), with_failover) for workload in workloads
    ]


def variant_rows(workloads: Sequence[Workload], days: float) -> list[ScenarioRow]:
    """The other rules that a site may have."""
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


class ExportError(ValueError):
    """The text is no export that waits can be read from; the message has the reason."""


def read_export(text: str, name: str = "own site") -> Workload:
    """The workload of one export; ExportError when it holds too little.

    ``sacct -P -X -S now-90days -o Submit,Eligible,Start,End,State`` makes one; more columns are
    passed over.
    """
    rows = csv.DictReader(text.strip().splitlines(), delimiter="|", quoting=csv.QUOTE_NONE)
    missing = [column for column in ("Eligible", "Start") if column not in (rows.fieldnames or ())]
    if missing:
        raise ExportError(f"the first line has no column {' and no column '.join(missing)}")
    waits = sorted(_waits(rows))
    if len(waits) < _FEWEST:
        raise ExportError(f"{len(waits)} jobs started, and {_FEWEST} are needed")
    return Workload(name, median(waits), 0.0, longest_s=waits[-1], measured_s=tuple(waits))


def _waits(rows: Iterable[Mapping[str, str | None]]) -> Iterator[float]:
    """Steps (``123.batch``) have no Eligible of their own and fall out with unreadable lines."""
    for row in rows:
        began = _stamp(row["Start"])
        ready = _stamp(row["Eligible"]) or _stamp(row.get("Submit"))
        if began is not None and ready is not None and began >= ready:
            yield began - ready


def _stamp(text: str | None) -> float | None:
    """Seconds; None for ``Unknown`` and ``None``. Time zones cancel out."""
    if text and text.isdigit():
        return float(text)
    try:
        return (datetime.fromisoformat(text or "") - datetime(1970, 1, 1)).total_seconds()  # noqa: DTZ001
    except ValueError:
        return None
