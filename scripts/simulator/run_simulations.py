"""Simulates months in parallel, one process per core, and formats the results as text and JSON."""

import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from random import Random
from statistics import mean
from textwrap import fill

from Daddy.core.clock import Clock
from Daddy.core.confidence_intervals import mean_interval
from Daddy.core.host_and_processes import usable_cores
from Daddy.core.humanize import GAP, kept_columns
from Daddy.core.process_pool import process_pool
from scripts.simulator.baseline_policies import BASELINES
from scripts.simulator.incidents import draw_incidents
from scripts.simulator.scenario import (
    NO_DAEMON,
    OURS,
    POLICIES,
    Scenario,
    ScenarioRow,
    scenario_for,
)
from scripts.simulator.simulated_controller import SimulatedController
from scripts.simulator.simulated_site import GpuTime, JobPolicy, SimulatedSite

Results = Mapping[ScenarioRow, Mapping[str, Sequence[GpuTime]]]
"""Row → policy → its months in the order of the seeds."""
_Task = tuple[int, str, Scenario]
_LOG_EVERY_S = 15.0
_CHUNK = 4
_HEADS = {
    OURS: "ours",
    NO_DAEMON: "no daemon",
    "seed_gang": "seed gang",
    "seed_per_slot": "seed/slot",
    "self_requeue": "requeue",
    "singleton": "singleton",
    "array": "array",
}
_TITLE = (
    "GPU-hours that trained, in percent of what the running cap allows: mean over {seeds} seeds "
    "of {days:g} days, ± 95 %"
)
_FOOT = (
    "idle: our allocated hours that did not train; calls, sbatch: our Slurm commands a day and the "
    "submissions among them. Assumptions and their sources: docs/simulator.md"
)
_EFFORT = ("idle", "calls", "sbatch")
_FIRST, _COLUMN, _NARROW, _PROSE = 8, 12, 6, 95
"""Letters of a row's name, of a policy's share, of a figure of effort, and of a line of prose."""


def make_site(scenario: Scenario, policy: str, seed: int) -> tuple[SimulatedSite, JobPolicy]:
    """Return a new site and the policy on it; all policies of a seed get the same incidents."""
    incidents = draw_incidents(scenario, Random(f"weather {seed}"))
    site = SimulatedSite(scenario, incidents, Random(f"jobs {policy} {seed}"))
    if policy in (OURS, NO_DAEMON):
        return site, SimulatedController(site, daemon=policy == OURS)
    return site, BASELINES[policy](site)


def simulate_month(scenario: Scenario, policy: str, seed: int) -> GpuTime:
    """Simulate one policy's month, which scenario and seed determine completely."""
    site, person = make_site(scenario, policy, seed)
    return site.run_month(person)


def run_rows(rows: Sequence[ScenarioRow], seeds: int, clock: Clock) -> Results:
    """Simulate every policy of every row with every seed; print progress to standard error."""
    keys = {(policy, scenario_for(row.scenario, policy)) for row in rows for policy in row.policies}
    tasks = [(seed, *key) for seed in range(seeds) for key in sorted(keys, key=repr)]
    by_key: dict[tuple[str, Scenario], dict[int, GpuTime]] = defaultdict(dict)
    begun_ts = printed_ts = clock.monotonic()
    with process_pool(usable_cores()) as pool:
        months = pool.imap_unordered(_live, tasks, _CHUNK)
        for count, ((seed, policy, scenario), month) in enumerate(months, 1):
            by_key[policy, scenario][seed] = month
            now = clock.monotonic()
            if now - printed_ts >= _LOG_EVERY_S:
                printed_ts, left_s = now, (now - begun_ts) / count * (len(tasks) - count)
                text = f"{count:,} of {len(tasks):,} months, about {left_s:.0f} s to go"
                print(text, file=sys.stderr, flush=True)
    return {
        row: {
            policy: [
                by_key[policy, scenario_for(row.scenario, policy)][seed] for seed in range(seeds)
            ]
            for policy in row.policies
        }
        for row in rows
    }


def _live(task: _Task) -> tuple[_Task, GpuTime]:
    seed, policy, scenario = task
    return task, simulate_month(scenario, policy, seed)


@dataclass(frozen=True, slots=True)
class ShareEstimate:
    """Holds a mean share and its 95 % confidence interval over seeds."""

    used: float
    low: float
    high: float

    def __str__(self) -> str:
        half = max(self.high - self.used, self.used - self.low)
        return f"{100 * self.used:.2f} ±{100 * half:.2f}"


def estimate_share(months: Sequence[GpuTime]) -> ShareEstimate:
    """Return mean and 95 % interval; of a single month the interval is 0 to 1."""
    used = mean_interval([month.used for month in months])
    return ShareEstimate(used.middle, max(0.0, used.low), min(1.0, used.high))


def format_table(results: Results, days: float, seeds: int, width: int) -> str:
    """Return ``results`` as a text table: a row per scenario, a column per policy.

    Columns that ``width`` letters cannot hold are left out and named below the table.
    """
    policies = [name for name in _HEADS if any(name in cells for cells in results.values())]
    heads = ["", *(_HEADS[name] for name in policies), *_EFFORT]
    widths = [_FIRST, *[_COLUMN] * len(policies), *[_NARROW] * len(_EFFORT)]
    kept = kept_columns(heads, widths, width, [*reversed(heads[2:])])

    def line(*cells: str) -> str:
        gap = " " * GAP
        return gap.join(f"{cells[place]:{'>' if place else '<'}{widths[place]}}" for place in kept)

    text = min(_PROSE, width)
    lines = [fill(_TITLE.format(seeds=seeds, days=days), text), "", line(*heads)]
    group = ""
    for row, cells in results.items():
        lines += [row.group] * (row.group != group)
        group = row.group
        shares = (str(estimate_share(cells[name])) if name in cells else "" for name in policies)
        lines.append(line(f"  {row.workload}", *shares, *_effort(cells[OURS], days)))
    missing = [head for place, head in enumerate(heads) if place not in kept]
    hidden = [fill(f"too narrow for: {', '.join(missing)}", text)] if missing else []
    return "\n".join([*lines, "", *hidden, fill(_FOOT, text)])


def _effort(months: Sequence[GpuTime], days: float) -> tuple[str, str, str]:
    idle = mean(month.idle for month in months)
    commands = mean(month.commands / days for month in months)
    submissions = mean(month.submissions / days for month in months)
    return f"{100 * idle:.2f}%", f"{commands:.0f}", f"{submissions:.1f}"


def results_to_json(results: Results, days: float, seeds: int) -> dict[str, object]:
    """Return the results as JSON: shares of the allowed GPU-hours by workload and policy."""
    workloads = {
        row.workload: {
            name: {
                fact: round(value, 6) for fact, value in asdict(estimate_share(cells[name])).items()
            }
            for name in POLICIES
        }
        for row, cells in results.items()
    }
    return {"days": days if days % 1 else int(days), "seeds": seeds, "workloads": workloads}
