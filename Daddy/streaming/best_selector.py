"""Pure. Chooses the featured agents: the best few, and without the picture jumping about.

Rank: badges + story flags, then the episode's return, then the most recent report. An agent that is
shown keeps its place for ``dwell_s``; after that a better one must lead by ``margin`` points, and
after ``long_dwell_s`` any better rank will do. When an episode ends its result stays for
``grace_s``, and the place is open once its agent was shown for ``short_dwell_s``. An agent with
less than ``flash_s`` of its episode left is not shown anew while any other waits: the best are near
the end of theirs, and would only flash by. A pinned agent stays at any rank, and has a place again
with the first report after a silence. ``scripts/bench stream`` simulates the restlessness, and the
share of the best score that is shown.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from Daddy.core.shared_types import AgentReport
from Daddy.streaming.protocol.messages import Row


class AgentKey(NamedTuple):
    """One agent of the fleet: the peer it belongs to and its index there."""

    peer: str
    agent: int

    def __str__(self) -> str:
        return f"{self.peer}/{self.agent}"


class Candidate(NamedTuple):
    """An agent that could be featured; ``seen``: its report came, ``left_s``: of its episode."""

    key: AgentKey
    report: AgentReport | Row
    seen: float
    left_s: float = math.inf

    @property
    def rank(self) -> tuple[int, float, float]:
        return (score(self.report), self.report.episode_return, self.seen)


class Featured(NamedTuple):
    """An agent in a place: since when, in which episode, and since when that episode is over."""

    key: AgentKey
    since: float
    episode: int
    ended: float | None = None


@dataclass(frozen=True, slots=True)
class Rules:
    """Bounds of the choice's restlessness; seconds and points."""

    short_dwell_s: float = 5.0
    dwell_s: float = 20.0
    long_dwell_s: float = 60.0
    margin: int = 2
    grace_s: float = 3.0
    flash_s: float = 10.0
    stale_s: float = 10.0


class Selection(NamedTuple):
    """The featured agents, one per place, and a sentence for each change."""

    places: tuple[Featured, ...]
    reasons: tuple[str, ...] = ()


def score(report: AgentReport | Row) -> int:
    """Badges plus story flags."""
    return report.badges + report.story_flags


def select(
    candidates: Sequence[Candidate],
    current: Sequence[Featured],
    top_k: int,
    now: float,
    rules: Rules,
    pinned: Collection[AgentKey] = (),
) -> Selection:
    """The next places: those that stay keep theirs; ``pinned`` are wanted most, in this order."""
    fresh = {one.key: one for one in candidates if now - one.seen <= rules.stale_s}
    kept = [key for key in pinned if key in fresh][:top_k]
    reasons = [f"{place.key} fell silent" for place in current if place.key not in fresh]
    places = [_note_episode(one, fresh[one.key], now) for one in current if one.key in fresh]
    while len(places) > top_k:  # the last agent that is not pinned goes first
        places.remove([one for one in places if one.key not in kept][-1])
    there = {place.key for place in places}
    waiting = [one for one in fresh.values() if one.key not in there]
    waiting.sort(key=lambda one: one.rank, reverse=True)
    waiting.sort(key=lambda one: (one.key not in kept, one.left_s < rules.flash_s))
    while waiting and len(places) < top_k:
        places.append(_enter(waiting.pop(0), now))
        reasons.append(f"{places[-1].key} takes a free place")
    lasting = [one for one in waiting if one.key in kept or one.left_s >= rules.flash_s]
    for challenger in (lasting or waiting)[:top_k]:
        open_to_all = [place for place in places if place.key not in kept]
        if not open_to_all:
            break
        weakest = min(open_to_all, key=lambda place: fresh[place.key].rank)
        why = _reason_to_replace(weakest, fresh[weakest.key], challenger, now, rules)
        if why := "it is pinned" if challenger.key in kept else why:
            places[places.index(weakest)] = _enter(challenger, now)
            reasons.append(f"{challenger.key} replaces {weakest.key}: {why}")
    return Selection(tuple(places), tuple(reasons))


def _enter(one: Candidate, now: float) -> Featured:
    return Featured(one.key, now, one.report.episode)


def _note_episode(place: Featured, one: Candidate, now: float) -> Featured:
    if one.report.episode == place.episode:
        return place
    return place._replace(episode=one.report.episode, ended=now)


def _reason_to_replace(
    place: Featured, holder: Candidate, challenger: Candidate, now: float, rules: Rules
) -> str | None:
    if challenger.rank[:2] <= holder.rank[:2]:
        return None
    shown = now - place.since
    lead = challenger.rank[0] - holder.rank[0]
    over = place.ended is not None and now - place.ended >= rules.grace_s
    if over and shown >= rules.short_dwell_s:
        return "its episode is over"
    if shown >= rules.dwell_s and lead >= rules.margin:
        return f"{lead} points ahead"
    if shown >= rules.long_dwell_s:
        return "ahead, and it was shown for long"
    return None
