"""Pure: which scenarios the table shows, in which order and under which name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from Daddy.cluster.orchestrator.simulate.scenario import Scenario, Workload

OURS = "ours"
NO_DAEMON = "no_daemon"
POLICIES = (OURS, "seed_gang", "seed_per_slot", "self_requeue", "singleton", "array")
"""As the table and the JSON file name them."""
_NEVER_BLOCKED = frozenset({"seed_gang", "seed_per_slot", "self_requeue", "singleton"})
"""They never have more jobs that may start than may run: credit is nothing to them."""
_WORSE = 3.0
"""Full use makes waits four times as long in the row about our own decayed usage."""


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: a scenario, and whom to send through it."""

    group: str
    scenario: Scenario
    policies: tuple[str, ...] = POLICIES

    @property
    def workload(self) -> str:
        return self.scenario.workload.name


def as_lived(scenario: Scenario, policy: str) -> Scenario:
    """The same for all scenarios that make no difference to the policy."""
    return replace(scenario, credit=1.0) if policy in _NEVER_BLOCKED else scenario


def main_rows(workloads: Sequence[Workload], days: float) -> list[Row]:
    """The scenario that the targets speak of: waits that come together, and full credit."""
    with_failover = (*POLICIES[:1], NO_DAEMON, *POLICIES[1:])
    title = "correlated waits, credit 1"
    return [Row(title, Scenario(one, days=days), with_failover) for one in workloads]


def more_rows(workloads: Sequence[Workload], days: float) -> list[Row]:
    """What else may be so on a site."""
    variants = {
        "correlated waits, credit 0.5": Scenario(workloads[0], credit=0.5),
        "correlated waits, credit 0": Scenario(workloads[0], credit=0.0),
        "independent waits, credit 1": Scenario(workloads[0], correlation=0.0),
        "independent waits, credit 0.5": Scenario(workloads[0], correlation=0.0, credit=0.5),
        "independent waits, credit 0": Scenario(workloads[0], correlation=0.0, credit=0.0),
        "waits worsen with our own usage": Scenario(workloads[0], usage_weight=_WORSE),
        "eight hours of maintenance": Scenario(workloads[0], maintenance=True),
        "MaxSubmit = 4": Scenario(workloads[0], max_submit=4),
    }
    return [
        Row(title, replace(scenario, workload=one, days=days))
        for title, scenario in variants.items()
        for one in workloads
    ]
