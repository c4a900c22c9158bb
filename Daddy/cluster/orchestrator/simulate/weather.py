"""Pure: what befalls a month whatever anybody does: the same for every policy of one seed.

Randomness comes in as a generator; nothing else is drawn later but the fate of single jobs.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.simulate.scenario import DAY_S, Scenario

if TYPE_CHECKING:
    from random import Random

Window = tuple[float, float]
_GRID_S = 600.0
_MONTH_S = 30 * DAY_S


def within(windows: Iterable[Window], now: float) -> Window | None:
    """The window that ``now`` lies in."""
    return next((one for one in windows if one[0] <= now < one[1]), None)


@dataclass(frozen=True, slots=True)
class Weather:
    """One month's fate; seconds since its beginning."""

    outages: tuple[Window, ...]
    """slurmctld is away."""
    deaths: tuple[float, ...]
    """The controller's process dies."""
    deploys: tuple[Window, ...]
    """The newest code is broken."""
    black_holes: tuple[Window, ...]
    maintenance: tuple[Window, ...]
    common: tuple[float, ...]
    """The part of waits that jobs have in common, standard normal, every ten minutes."""

    def mood(self, now: float) -> float:
        """The common part at ``now``."""
        return self.common[min(int(now / _GRID_S), len(self.common) - 1)]


def make_weather(scenario: Scenario, luck: Random) -> Weather:
    """One month's fate, as luck has it."""
    rates, span = scenario.rates, scenario.span_s
    outages = tuple(
        (start, start + luck.expovariate(1 / rates.outage_s))
        for start in _arrivals(luck, rates.outage_every_s, span)
    )
    deaths = tuple(_arrivals(luck, rates.controller_death_every_s, span))
    return Weather(
        outages=outages,
        deaths=deaths,
        deploys=_monthly(luck, rates.bad_deploys, rates.bad_deploy_s, span),
        black_holes=_monthly(luck, rates.black_holes, rates.black_hole_s, span),
        maintenance=_maintenance(scenario),
        common=_common(luck, scenario.memory_s, span),
    )


def _arrivals(luck: Random, every: float, span: float) -> list[float]:
    found, now = [], luck.expovariate(1 / every)
    while now < span:
        found.append(now)
        now += luck.expovariate(1 / every)
    return found


def _monthly(luck: Random, times: int, length: float, span: float) -> tuple[Window, ...]:
    """So many in each month or part of one that is long enough to hold it."""
    found = []
    for month in range(math.ceil(span / _MONTH_S)):
        begin, end = month * _MONTH_S, min((month + 1) * _MONTH_S, span)
        for _ in range(times):
            if end - begin > 2 * length:
                start = luck.uniform(begin + length / 2, end - length)
                found.append((start, start + length))
    return tuple(found)


def _maintenance(scenario: Scenario) -> tuple[Window, ...]:
    """In the middle of each month, so that every seed has it."""
    if not scenario.maintenance:
        return ()
    length, period = scenario.rates.maintenance_s, min(_MONTH_S, scenario.span_s)
    count = max(1, int(scenario.span_s / _MONTH_S))
    middles = (period * (month + 0.5) for month in range(count))
    return tuple((middle, middle + length) for middle in middles)


def _common(luck: Random, memory: float, span: float) -> tuple[float, ...]:
    keep = math.exp(-_GRID_S / memory)
    fresh = math.sqrt(1 - keep * keep)
    value, path = luck.gauss(0, 1), []
    for _ in range(int(span / _GRID_S) + 1):
        path.append(value)
        value = keep * value + fresh * luck.gauss(0, 1)
    return tuple(path)
