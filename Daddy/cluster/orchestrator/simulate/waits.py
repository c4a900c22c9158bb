"""Pure: how long a job has to wait before the site starts it."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import TYPE_CHECKING

from Daddy.cluster.orchestrator.simulate.scenario import DAY_S, Scenario, Workload
from Daddy.cluster.orchestrator.simulate.weather import Weather

if TYPE_CHECKING:
    from random import Random

_NORMAL = NormalDist()
_HALF_LIFE_S = 7 * DAY_S


class Usage:
    """The person's decayed use of the site, as a share of what the cap allows."""

    def __init__(self, cap: int) -> None:
        self._cap = cap
        self._share = 0.0
        self._now = 0.0

    def advance(self, now: float, running: int) -> float:
        """The share at ``now``, when ``running`` jobs ran since the last call."""
        keep = 0.5 ** ((now - self._now) / _HALF_LIFE_S)
        self._share = keep * self._share + (1 - keep) * running / self._cap
        self._now = now
        return self._share


class Waits:
    """Draws waits; jobs submitted together share most of their luck where waits correlate."""

    def __init__(self, scenario: Scenario, weather: Weather, luck: Random) -> None:
        self._workload = scenario.workload
        self._weather = weather
        self._luck = luck
        self._common = math.sqrt(scenario.correlation)
        self._own = math.sqrt(1 - scenario.correlation)
        self._weight = scenario.usage_weight

    def draw(self, now: float, usage: float) -> float:
        """Seconds of waiting that a job submitted ``now`` needs."""
        z = self._own * self._luck.gauss(0, 1)
        if self._common:
            z += self._common * self._weather.mood(now)
        wait = wait_at(self._workload, z) * (1 + self._weight * usage)
        return min(wait, self._workload.longest_s)


def wait_at(workload: Workload, z: float) -> float:
    """The wait at ``z`` standard deviations."""
    measured = workload.measured_s
    if measured:
        return measured[min(int(_NORMAL.cdf(z) * len(measured)), len(measured) - 1)]
    return min(workload.median_s * math.exp(workload.sigma * z), workload.longest_s)
