"""Pure: what the events of a run say happened, folded into one picture.

``status``, the dashboard, the plots and the demo's summary all look at this and at nothing else, so
that they cannot disagree. Feed it events in any order of files; it sorts by stamp where order
matters.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any


@dataclass(slots=True)
class Attempt:
    """One try to fill a slot, as its job told it. Stamps are wall seconds; None: not yet."""

    token: str
    job_id: str = ""
    slot: int | None = None
    term: int = 0
    started: float | None = None
    claimed: float | None = None
    first_update: float | None = None
    boot_s: float | None = None
    """Seconds from the job's start to its first optimizer step."""
    boot: dict[str, float] = field(default_factory=dict)
    """The same, by phase."""
    goodbye: float | None = None
    reason: str = ""
    exit_code: int | None = None
    resumed_step: int = 0
    checkpoint_step: int = 0
    deadline: float | None = None
    last_seen: float = 0.0

    @property
    def running(self) -> bool:
        """Claimed a slot and has not said goodbye (it may have been killed since)."""
        return self.claimed is not None and self.goodbye is None


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode: when, by whom, its return and its length in steps."""

    ts: float
    peer: str
    value: float
    length: int


@dataclass(frozen=True, slots=True)
class Milestone:
    """Who reached a milestone of the story first: when, and after how many steps of its own.

    ``assists`` are the scripted helps that had acted in that game.
    """

    ts: float
    peer: str
    step: int
    assists: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Handover:
    """A slot passed on: seconds from the predecessor's goodbye to the successor's first line."""

    slot: int
    at: float
    gap_s: float
    predecessor: str
    successor: str


@dataclass(slots=True)
class Laptop:
    """What a laptop did: versions it played, how they came, what became of its contributions."""

    versions: list[int] = field(default_factory=list)
    transport: str = ""
    accepted: int = 0
    refused: int = 0
    steps_per_second: float = 0.0


@dataclass(slots=True)
class Viewer:
    """What the viewer showed: frames per agent, who is live, and the way they came."""

    frames: dict[str, int] = field(default_factory=dict)
    live: frozenset[str] = frozenset()
    """Agents of whom the last report brought new frames."""
    transport: str = ""

    @property
    def total(self) -> int:
        return sum(self.frames.values())


@dataclass(slots=True)
class Fleet:
    """All of it."""

    attempts: dict[str, Attempt] = field(default_factory=dict)
    episodes: list[Episode] = field(default_factory=list)
    random_episodes: list[Episode] = field(default_factory=list)
    milestones: dict[str, Milestone] = field(default_factory=dict)
    metrics: dict[str, dict[str, float]] = field(default_factory=dict)
    adopted: dict[str, int] = field(default_factory=dict)
    version_times: dict[int, float] = field(default_factory=dict)
    laptop: Laptop = field(default_factory=Laptop)
    viewer: Viewer = field(default_factory=Viewer)
    notes: deque[tuple[float, str]] = field(default_factory=lambda: deque(maxlen=50))

    def in_slot(self, slot: int) -> list[Attempt]:
        """Attempts that held ``slot``, oldest first."""
        mine = [one for one in self.attempts.values() if one.slot == slot]
        return sorted(mine, key=lambda one: one.claimed or 0.0)

    def handovers(self) -> list[Handover]:
        """Every passing on of a slot whose predecessor said goodbye, oldest first."""
        slots = {one.slot for one in self.attempts.values() if one.slot is not None}
        found = [passed for slot in sorted(slots) for passed in _handovers(self.in_slot(slot))]
        return sorted(found, key=lambda one: one.at)


def _handovers(attempts: list[Attempt]) -> Iterable[Handover]:
    for old, new in pairwise(attempts):
        if old.goodbye is not None and new.started is not None and new.slot is not None:
            gap = max(0.0, new.started - old.goodbye)
            yield Handover(new.slot, new.started, gap, old.token, new.token)


def fold(events: Iterable[Mapping[str, Any]], fleet: Fleet | None = None) -> Fleet:
    """Take events into ``fleet`` (a new one unless given) and return it."""
    fleet = fleet or Fleet()
    for event in events:
        reader = _READERS.get(event["source"]["kind"])
        if reader is not None:
            reader(fleet, event)
    return fleet


def _learner(fleet: Fleet, event: Mapping[str, Any]) -> None:
    data, peer = event["data"], event["source"]["id"]
    if event["event"] == "metric":
        fleet.metrics[peer] = {k: v for k, v in data.items() if isinstance(v, int | float)}
        fleet.metrics[peer]["step"] = event["step"]
        fleet.metrics[peer]["ts"] = event["ts"]
    elif event["event"] == "result" and data.get("result") == "episodes":
        fleet.episodes.extend(_episodes(event))
    elif event["event"] == "progress" and "milestone" in data:
        helped = tuple(map(str, data.get("assists", ())))
        name, here = str(data["milestone"]), Milestone(event["ts"], peer, event["step"], helped)
        first = fleet.milestones.setdefault(name, here)
        fleet.milestones[name] = min(first, here, key=lambda one: one.ts)
    elif event["event"] == "state":
        _learner_state(fleet, event)


def _episodes(event: Mapping[str, Any]) -> Iterable[Episode]:
    data = event["data"]
    for value, length in zip(data["returns"], data["lengths"], strict=True):
        yield Episode(event["ts"], event["source"]["id"], float(value), int(length))


def _learner_state(fleet: Fleet, event: Mapping[str, Any]) -> None:
    data, state = event["data"], event["data"].get("state")
    if state == "adopted":
        fleet.adopted[event["source"]["id"]] = data["version"]
        first = fleet.version_times.get(data["version"], event["ts"])
        fleet.version_times[data["version"]] = min(first, event["ts"])
    if "token" not in data:
        return
    attempt = fleet.attempts.setdefault(data["token"], Attempt(data["token"]))
    attempt.last_seen = max(attempt.last_seen, event["ts"])
    attempt.job_id = str(data.get("job_id") or attempt.job_id)
    if state in ("started", "first_update", "goodbye", "claimed"):
        setattr(attempt, state, event["ts"])
    if state == "claimed":
        attempt.slot, attempt.term = data["slot"], data["term"]
        attempt.deadline = data.get("deadline")
    elif state == "first_update" and "boot_s" in data:
        attempt.boot_s, attempt.boot = float(data["boot_s"]), dict(data["phases"])
    elif state == "resumed":
        attempt.resumed_step = data["checkpoint_step"]
    elif state == "checkpointed":
        attempt.checkpoint_step = event["step"]
    elif state == "goodbye":
        attempt.reason, attempt.exit_code = data["reason"], data["exit_code"]


def _actor(fleet: Fleet, event: Mapping[str, Any]) -> None:
    data, laptop = event["data"], fleet.laptop
    if data.get("state") == "playing":
        laptop.versions.append(data["version"])
    elif data.get("state") == "receipt":
        laptop.accepted += bool(data.get("accepted"))
        laptop.refused += not data.get("accepted")
    elif event["event"] == "metric":
        laptop.steps_per_second = float(data.get("steps_per_second", 0.0))


def _sync(fleet: Fleet, event: Mapping[str, Any]) -> None:
    if event["data"].get("state") == "pulled":
        fleet.laptop.transport = event["data"]["transport"]


def _viewer(fleet: Fleet, event: Mapping[str, Any]) -> None:
    data, viewer = event["data"], fleet.viewer
    if data.get("transport"):
        viewer.transport = data["transport"]
    frames_of = data.get("frames", {})
    viewer.live = frozenset(agent for agent, frames in frames_of.items() if int(frames))
    for agent, frames in frames_of.items():
        viewer.frames[agent] = viewer.frames.get(agent, 0) + int(frames)


def _demo(fleet: Fleet, event: Mapping[str, Any]) -> None:
    if event["event"] == "result" and event["data"].get("result") == "random":
        fleet.random_episodes.extend(_episodes(event))


def _controller(fleet: Fleet, event: Mapping[str, Any]) -> None:
    if event["event"] in ("log", "state", "error"):
        text = event["data"].get("text") or event["data"].get("reason") or ""
        if text:
            fleet.notes.append((event["ts"], str(text)))


_READERS = {
    "learner": _learner,
    "actor": _actor,
    "laptop": _sync,
    "viewer": _viewer,
    "demo": _demo,
    "controller": _controller,
}
