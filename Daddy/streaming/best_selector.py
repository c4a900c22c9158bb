"""Pure. Chooses the featured agents: the best few, without replacing a shown agent too often.

Rank: badges + story flags, then the episode's return, then the most recent report. A shown agent
keeps its place for ``dwell_s``; after that a better agent must lead by ``margin`` points, and after
``long_dwell_s`` any better rank is enough. When an episode ends, its last picture stays for
``grace_s``; then a better agent may replace it if its agent was shown for ``short_dwell_s``. An
agent with less than ``flash_s`` of its episode left is not newly shown while another agent waits,
because the best agents are near the end of their episodes and would be visible for seconds only. A
pinned agent is shown at any rank; after a silence it returns with its first report. ``scripts/bench
stream`` simulates how often pictures change, and the share of the best score that is shown.
"""

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Daddy.streaming.protocol.messages import TelemetryRow


class AgentKey(NamedTuple):
    """Identifies one agent of the fleet: its peer and its index in that peer."""

    peer: str
    agent: int

    def __str__(self) -> str:
        return f"{self.peer}/{self.agent}"


class Candidate(NamedTuple):
    """Describes an agent that could be featured; ``reported_at`` in monotonic seconds."""

    key: AgentKey
    report: TelemetryRow
    reported_at: float
    episode_left_s: float = math.inf

    @property
    def rank(self) -> tuple[int, float, float]:
        return (self.report.score, self.report.episode_return, self.reported_at)


class FeaturedAgent(NamedTuple):
    """An agent on screen; ``ended``: time at which the episode last ended (monotonic s)."""

    key: AgentKey
    shown_since: float
    episode: int
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class FeaturingRules:
    """Bounds on how often featured agents are replaced: seconds, and points for ``margin``."""

    short_dwell_s: float = 5.0
    dwell_s: float = 20.0
    long_dwell_s: float = 60.0
    margin: int = 2
    grace_s: float = 3.0
    flash_s: float = 10.0
    stale_s: float = 10.0


class Selection(NamedTuple):
    """Holds the featured agents, one per place, and a sentence for each change."""

    places: tuple[FeaturedAgent, ...]
    reasons: tuple[str, ...] = ()


def select_top(
    candidates: Sequence[Candidate],
    current: Sequence[FeaturedAgent],
    top_k: int,
    now: float,
    rules: FeaturingRules,
    pinned: Collection[AgentKey] = (),
) -> Selection:
    """Return the next places: agents that stay keep their place; pinned agents come first."""
    fresh = {agent.key: agent for agent in candidates if now - agent.reported_at <= rules.stale_s}
    pins = [key for key in pinned if key in fresh][:top_k]
    reasons = [f"{place.key} stopped reporting" for place in current if place.key not in fresh]
    places = [_note_episode(p, fresh[p.key], now) for p in current if p.key in fresh]
    while len(places) > top_k:  # the last agent that is not pinned goes first
        places.remove([place for place in places if place.key not in pins][-1])
    shown = {place.key for place in places}
    waiting = [agent for agent in fresh.values() if agent.key not in shown]
    waiting.sort(key=lambda agent: agent.rank, reverse=True)
    waiting.sort(key=lambda agent: (agent.key not in pins, agent.episode_left_s < rules.flash_s))
    while waiting and len(places) < top_k:
        places.append(_enter(waiting.pop(0), now))
        reasons.append(f"{places[-1].key} takes a free place")
    lasting = [a for a in waiting if a.key in pins or a.episode_left_s >= rules.flash_s]
    for challenger in (lasting or waiting)[:top_k]:
        open_to_all = [place for place in places if place.key not in pins]
        if not open_to_all:
            break
        weakest = min(open_to_all, key=lambda place: fresh[place.key].rank)
        why = _reason_to_replace(weakest, fresh[weakest.key], challenger, now, rules)
        if why := "it is pinned" if challenger.key in pins else why:
            places[places.index(weakest)] = _enter(challenger, now)
            reasons.append(f"{challenger.key} replaces {weakest.key}: {why}")
    return Selection(tuple(places), tuple(reasons))


def _enter(agent: Candidate, now: float) -> FeaturedAgent:
    return FeaturedAgent(agent.key, now, agent.report.episode)


def _note_episode(place: FeaturedAgent, agent: Candidate, now: float) -> FeaturedAgent:
    if agent.report.episode == place.episode:
        return place
    return place._replace(episode=agent.report.episode, ended=now)


def _reason_to_replace(
    place: FeaturedAgent, holder: Candidate, rival: Candidate, now: float, rules: FeaturingRules
) -> str | None:
    if rival.rank[:2] <= holder.rank[:2]:
        return None
    shown = now - place.shown_since
    lead = rival.rank[0] - holder.rank[0]
    over = place.ended is not None and now - place.ended >= rules.grace_s
    if over and shown >= rules.short_dwell_s:
        return "its episode is over"
    if shown >= rules.dwell_s and lead >= rules.margin:
        return f"{lead} points ahead"
    if shown >= rules.long_dwell_s:
        return "ahead, and it was shown for long"
    return None
