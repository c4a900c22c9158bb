"""Pure. Draws a month's incidents, equal for all policies of one seed, and the waits of jobs.

Each function takes its random generator. During the month only waits and failures of single jobs
are drawn.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import NormalDist
from typing import TYPE_CHECKING

from scripts.simulator.scenario import DAY_S, Scenario, Workload

if TYPE_CHECKING:
    from random import Random

Window = tuple[float, float]
_GRID_S = 600.0
_MONTH_S = 30 * DAY_S
_HALF_LIFE_S = 7 * DAY_S
_NORMAL = NormalDist()


def window_at(windows: Iterable[Window], now: float) -> Window | None:
    """Return the window that contains ``now``, or None."""
    return next((window for window in windows if window[0] <= now < window[1]), None)


@dataclass(frozen=True, slots=True)
class Incidents:
    """Holds one month's incidents; times in seconds since its beginning."""

    outages: tuple[Window, ...]
    """Windows in which slurmctld does not answer."""
    deaths: tuple[float, ...]
    """Times at which the controller's process dies."""
    deploys: tuple[Window, ...]
    """Windows in which the newest release is broken."""
    black_holes: tuple[Window, ...]
    """Windows in which one node fails every job at once and attracts many."""
    maintenance: tuple[Window, ...]
    common: tuple[float, ...]
    """The waits' common component every ten minutes, standard normal."""


def draw_incidents(scenario: Scenario, rng: Random) -> Incidents:
    """Draw the incidents of one month, or of the scenario's days."""
    rates, span = scenario.rates, scenario.span_s
    begins = _arrivals(rng, rates.outage_every_s, span)
    return Incidents(
        outages=tuple((begin, begin + rng.expovariate(1 / rates.outage_s)) for begin in begins),
        deaths=tuple(_arrivals(rng, rates.controller_death_every_s, span)),
        deploys=_monthly(rng, rates.bad_deploys, rates.bad_deploy_s, span),
        black_holes=_monthly(rng, rates.black_holes, rates.black_hole_s, span),
        maintenance=_maintenance(scenario),
        common=_common(rng, scenario.memory_s, span),
    )


def _arrivals(rng: Random, every: float, span: float) -> list[float]:
    times, now = [], rng.expovariate(1 / every)
    while now < span:
        times.append(now)
        now += rng.expovariate(1 / every)
    return times


def _monthly(rng: Random, times: int, length: float, span: float) -> tuple[Window, ...]:
    """Draw windows of ``length`` seconds, ``times`` in each month that is long enough."""
    windows = []
    for month in range(math.ceil(span / _MONTH_S)):
        begin, end = month * _MONTH_S, min((month + 1) * _MONTH_S, span)
        for _ in range(times):
            if end - begin > 2 * length:
                start = rng.uniform(begin + length / 2, end - length)
                windows.append((start, start + length))
    return tuple(windows)


def _maintenance(scenario: Scenario) -> tuple[Window, ...]:
    """Return one maintenance in the middle of each month, the same for every seed."""
    if not scenario.maintenance:
        return ()
    length, period = scenario.rates.maintenance_s, min(_MONTH_S, scenario.span_s)
    count = max(1, int(scenario.span_s / _MONTH_S))
    middles = (period * (month + 0.5) for month in range(count))
    return tuple((middle, middle + length) for middle in middles)


def _common(rng: Random, memory: float, span: float) -> tuple[float, ...]:
    keep = math.exp(-_GRID_S / memory)
    fresh = math.sqrt(1 - keep * keep)
    value, path = rng.gauss(0, 1), []
    for _ in range(int(span / _GRID_S) + 1):
        path.append(value)
        value = keep * value + fresh * rng.gauss(0, 1)
    return tuple(path)


class DecayedUsage:
    """Tracks the person's decayed usage of the site, as a share of the cap."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._share = 0.0
        self._now = 0.0

    def advance(self, now: float, running: int) -> float:
        """Return the share at ``now``; ``running`` jobs ran since the last call."""
        keep = 0.5 ** ((now - self._now) / _HALF_LIFE_S)
        self._share = keep * self._share + (1 - keep) * running / self._cap
        self._now = now
        return self._share


def draw_wait(
    scenario: Scenario, incidents: Incidents, rng: Random, now: float, usage: float
) -> float:
    """Draw the seconds that a job submitted at ``now`` waits, correlated as the scenario says."""
    workload, shared = scenario.workload, math.sqrt(scenario.correlation)
    z = math.sqrt(1 - scenario.correlation) * rng.gauss(0, 1)
    if shared:
        index = min(int(now / _GRID_S), len(incidents.common) - 1)
        z += shared * incidents.common[index]
    wait = wait_quantile(workload, z) * (1 + scenario.usage_weight * usage)
    return min(wait, workload.longest_s)


def wait_quantile(workload: Workload, z: float) -> float:
    """Return the wait at ``z`` standard deviations of the log-normal or measured waits."""
    measured = workload.measured_s
    if measured:
        return measured[min(int(_NORMAL.cdf(z) * len(measured)), len(measured) - 1)]
    return min(workload.median_s * math.exp(workload.sigma * z), workload.longest_s)
