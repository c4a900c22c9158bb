"""Entry: a live look at one run in the terminal: what ``status`` shows, and what is learnt.

``python -m Daddy.dashboard --run-dir runs/slim_run``; ``--once`` prints one picture and leaves.
It reads the run directory alone: it needs no controller and asks no scheduler.
"""

from __future__ import annotations

import argparse
import threading
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.text import Text

from Daddy.cluster.orchestrator.commands.plan import make_summary
from Daddy.cluster.orchestrator.commands.status import read_status
from Daddy.cluster.orchestrator.commands.status_screen import render_screen
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_records import UnknownQueue
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ConfigError, FileError, run_entry
from Daddy.core.event_log import EventTail
from Daddy.core.humanize import format_age, format_count
from Daddy.core.load_config import load_release_config
from Daddy.core.run_paths import RunPaths

Event = Mapping[str, Any]

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_BINS = 48


@dataclass(slots=True)
class AttemptEvents:
    """One try to fill a slot: the last event of each state that its job told."""

    token: str
    told: dict[str, Event] = field(default_factory=dict)

    def time_of(self, state: str) -> float | None:
        """Wall seconds at which it was in this state last; None: not yet."""
        return float(self.told[state]["ts"]) if state in self.told else None

    def facts_of(self, state: str) -> Mapping[str, Any]:
        """Facts that came with a state; empty where it was not reached."""
        return self.told[state]["data"] if state in self.told else {}

    @property
    def slot(self) -> int | None:
        """None before it has claimed one."""
        return self.facts_of("claimed").get("slot")

    @property
    def job_id(self) -> str:
        named = (self.facts_of(state).get("job_id") for state in self.told)
        return str(next(filter(None, named), ""))

    @property
    def last_seen(self) -> float:
        return max(float(event["ts"]) for event in self.told.values())


@dataclass(frozen=True, slots=True)
class Episode:
    """One finished episode: when, by which learner, and its return."""

    ts: float
    peer: str
    value: float


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
    """Versions that a laptop played, and the way they came."""

    versions: list[int] = field(default_factory=list)
    transport: str = ""


@dataclass(slots=True)
class Viewer:
    """Frames that the viewer showed, by agent, and the way they came."""

    frames: Counter[str] = field(default_factory=Counter)
    live: frozenset[str] = frozenset()
    """Agents of whom the last report brought new frames."""
    transport: str = ""


@dataclass(slots=True)
class EventSummary:
    """All that the events of a run tell."""

    attempts: dict[str, AttemptEvents] = field(default_factory=dict)
    heard: dict[str, Event] = field(default_factory=dict)
    """What each learner told of its slot, the newest of each fact."""
    episodes: list[Episode] = field(default_factory=list)
    random_episodes: list[Episode] = field(default_factory=list)
    laptop: Laptop = field(default_factory=Laptop)
    viewer: Viewer = field(default_factory=Viewer)

    def in_slot(self, slot: int) -> list[AttemptEvents]:
        """Attempts that held ``slot``, oldest first."""
        mine = [attempt for attempt in self.attempts.values() if attempt.slot == slot]
        return sorted(mine, key=lambda attempt: attempt.time_of("claimed") or 0.0)

    def handovers(self) -> list[Handover]:
        """Every passing on of a slot whose predecessor said goodbye, oldest first."""
        slots = {attempt.slot for attempt in self.attempts.values() if attempt.slot is not None}
        found = [
            Handover(slot, began, max(0.0, began - left), old.token, new.token)
            for slot in slots
            for old, new in pairwise(self.in_slot(slot))
            if (left := old.time_of("goodbye")) is not None
            and (began := new.time_of("started")) is not None
        ]
        return sorted(found, key=lambda passed: passed.at)


def add_events(events: Iterable[Event], fleet: EventSummary | None = None) -> EventSummary:
    """Take events into ``fleet`` (a new one unless given) and return it."""
    fleet = fleet or EventSummary()
    for event in events:
        data, source = event["data"], event["source"]
        if source["kind"] == "learner" and event["event"] in ("state", "metric"):
            heard = {} if data.get("state") == "claimed" else fleet.heard.get(source["id"], {})
            fleet.heard[source["id"]] = {**heard, **data, "ts": event["ts"]}
        match source["kind"], event["event"], data.get("state") or data.get("result"):
            case "learner", "state", state if "token" in data:
                attempt = fleet.attempts.setdefault(data["token"], AttemptEvents(data["token"]))
                attempt.told[str(state)] = event
            case "learner", "result", "episodes":
                fleet.episodes += _episodes(event)
            case "demo", "result", "random":
                fleet.random_episodes += _episodes(event)
            case "actor", _, "playing":
                fleet.laptop.versions.append(data["version"])
            case "laptop", _, "pulled":
                fleet.laptop.transport = data["transport"]
            case "viewer", _, _:
                viewer, frames_of = fleet.viewer, data.get("frames", {})
                viewer.transport = data.get("transport") or viewer.transport
                viewer.live = frozenset(agent for agent, frames in frames_of.items() if frames)
                viewer.frames.update(frames_of)
    return fleet


def _episodes(event: Event) -> list[Episode]:
    returns = event["data"]["returns"]
    return [Episode(event["ts"], event["source"]["id"], float(value)) for value in returns]


class RunView:
    """A run's status record and its events, kept up to date from disk."""

    def __init__(self, run: RunPaths, clock: Clock, extra: Sequence[Path] = ()) -> None:
        self.fleet = EventSummary()
        self.status: dict[str, Any] = {}
        """Empty where no configuration can be read; ``why`` says why."""
        self._run, self._clock, self.why = run, clock, ""
        self._tails = [EventTail(folder) for folder in (run.events, *extra)]

    @property
    def steps(self) -> int:
        """Steps of all contributors in the newest version."""
        return int(self.status["steps"]["done"]) if self.status else 0

    def refresh(self) -> RunView:
        """Read what was written since the last look."""
        for tail in self._tails:
            add_events(tail.read_new(), self.fleet)
        unasked = UnknownQueue(self._clock.now(), "the dashboard does not ask the scheduler")
        summarise = partial(make_summary, self._run, unasked, ControllerPolicy(), self._clock)
        try:
            config = load_release_config(self._run.config)
            self.status = read_status(self._run, config, summarise, self._clock)
        except (ConfigError, FileError) as error:
            self.status, self.why = {}, error.message
        return self

    def renderable(self, width: int) -> RenderableType:
        """The whole picture: the run's status, the learning curve, hand-overs, laptop, viewer."""
        fleet, name, now = self.fleet, self._run.root.name, self._clock.now()
        status = (
            render_screen(name, self.status, now, width)
            if self.status
            else _told(fleet, now, self.why)
        )
        learning = Panel(_learning(fleet), title="return per episode", title_align="left")
        return Group(status, learning, _footer(fleet))


def _told(fleet: EventSummary, now: float, why: str) -> str:
    """What learners told last of their slots; ``why`` no more is known."""
    slots = [
        f"slot {one['slot']} {one['state']}: version {one.get('version', 0):.0f}, "
        f"{format_count(one.get('steps_per_second', 0.0))} steps/s, "
        f"{format_age(now - one['ts'])} ago"
        for one in fleet.heard.values()
        if "slot" in one
    ]
    return f"{why}\n" + ("\n".join(slots) or "no job was started yet")


def _learning(fleet: EventSummary) -> Text:
    if not fleet.episodes:
        return Text("no episode has ended yet", style="dim")
    means = learning_curve(fleet.episodes)
    text = Text.assemble((sparkline(means), "green"), f"  now {means[-1]:.2f}")
    text.append(f"   episodes {len(fleet.episodes):,}")
    if fleet.random_episodes:
        text.append(f"   random play {mean_return(fleet.random_episodes):.2f}", style="dim")
    return text


def learning_curve(episodes: Sequence[Episode]) -> list[float]:
    """Mean returns of equally many episodes each, in the order in which they ended."""
    values = [episode.value for episode in sorted(episodes, key=lambda episode: episode.ts)]
    size = ceil(len(values) / _CURVE_BINS)
    return [fmean(values[first : first + size]) for first in range(0, len(values), size)]


def mean_return(episodes: Sequence[Episode]) -> float:
    """Mean return; 0 of none."""
    return fmean(episode.value for episode in episodes) if episodes else 0.0


def sparkline(values: Sequence[float]) -> str:
    """One block character per value, lowest to highest."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[int((value - low) / span * (len(_BLOCKS) - 1))] for value in values)


def _footer(fleet: EventSummary) -> Text:
    gaps, versions = [passed.gap_s for passed in fleet.handovers()], fleet.laptop.versions
    average = f", {fmean(gaps):.1f} s each" if gaps else ""
    played = f"version {versions[-1]} ({len(set(versions))} played)" if versions else "none yet"
    viewer = f"{fleet.viewer.frames.total():,} frames of {len(fleet.viewer.frames)} agents"
    return Text(f"  hand-overs {len(gaps)}{average}; laptop {played}; viewer {viewer}")


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, look, draw once a second."""
    parser = argparse.ArgumentParser(prog="dashboard", description=__doc__)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/slim_run"))
    parser.add_argument("--once", action="store_true", help="print one picture and leave")
    args = parser.parse_args(argv)
    if not args.run_dir.is_dir():
        raise FileError(f"there is no run at {args.run_dir}", "name a run directory: --run-dir")
    clock, console, never = SystemClock(), Console(highlight=False), threading.Event()
    view = RunView(RunPaths(args.run_dir.resolve()), clock)
    if args.once:
        console.print(view.refresh().renderable(console.width))
        return 0
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while True:
            live.update(view.refresh().renderable(console.width))
            clock.wait(never, 1.0)


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
