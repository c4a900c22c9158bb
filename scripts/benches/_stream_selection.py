"""Simulates hours of 32 agents to measure how often featured agents are replaced."""

import math
import random
from statistics import mean, median

from Daddy.core.shared_types import AgentReport
from Daddy.streaming.best_selector import AgentKey, FeaturedAgent, FeaturingRules, select_top
from Daddy.streaming.login.fleet_state import FleetState
from Daddy.streaming.protocol.messages import row_from_report
from Daddy.streaming.protocol.spool_segment import Segment

PLACES = 2


def simulate(hours: float) -> dict[str, dict[str, float]]:
    """Simulate episodes of 137 s with our rules, and with rules that always show the best."""
    calm = FeaturingRules()
    restless = FeaturingRules(0.0, 0.0, 0.0, 1, 0.0, flash_s=-math.inf)
    return {"ours": _simulate(hours, calm), "always_the_best": _simulate(hours, restless)}


def _simulate(hours: float, rules: FeaturingRules, seed: int = 1) -> dict[str, float]:
    chance, seconds, fleet = random.Random(seed), round(hours * 3600), FleetState()
    agents = [_Episode(chance) for _ in range(32)]
    places: tuple[FeaturedAgent, ...] = ()
    shown, dwells, shares = dict[AgentKey, int](), list[int](), list[float]()
    for now in range(seconds):
        reports = (agent.report(index, now) for index, agent in enumerate(agents))
        rows = tuple(map(row_from_report, reports))
        fleet.add_segments([Segment(now, "slot-0", "bench", "", "0", 1000 * now, rows, {})], now)
        candidates = fleet.candidates(now)
        before, places = places, select_top(candidates, places, PLACES, now, rules).places
        for gone in {place.key for place in before} - {place.key for place in places}:
            dwells.append(now - shown.pop(gone))
        for place in places:
            shown.setdefault(place.key, now)
        best = sum(sorted((row.score for row in rows), reverse=True)[:PLACES])
        seen = sum(rows[place.key.agent].score for place in places)
        shares.append(seen / best if best else 1.0)
    return {
        "median_dwell_s": float(median(dwells or [seconds])),
        "switches_per_min_and_place": len(dwells) / PLACES / (seconds / 60),
        "of_best_score": mean(shares),
    }


class _Episode:
    """An agent that gains points at random times until its episode ends."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._number, self._points, self._gain = 0, 0, 0.0
        self._ends = chance.uniform(0, 137)

    def report(self, agent: int, now: int) -> AgentReport:
        if now >= self._ends:
            self._number, self._points, self._gain = self._number + 1, 0, 0.0
            self._ends = now + self._chance.gauss(137, 20)
        self._points += self._chance.random() < 1 / 12
        self._gain += self._chance.random()
        return AgentReport(agent, 0, self._points, self._gain, self._number, 0, "", 5, now)
