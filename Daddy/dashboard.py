"""Entry: shows a run live in the terminal: its status, learning curve, laptop and viewer.

``python -m Daddy.dashboard --run-dir runs/slim_run``; ``--once`` prints the screen once and exits.
The dashboard reads only the run directory: it needs no controller and calls no scheduler.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from math import ceil
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.panel import Panel
from rich.text import Text

from Daddy.cluster.orchestrator.commands.plan import make_summary
from Daddy.cluster.orchestrator.commands.status import read_status
from Daddy.cluster.orchestrator.commands.status_screen import render_screen
from Daddy.cluster.orchestrator.control_parameters import ControllerPolicy
from Daddy.cluster.orchestrator.controller_types import UnknownQueue
from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ConfigError, FileError
from Daddy.core.event_log import EventTail
from Daddy.core.humanize import format_age, format_count
from Daddy.core.load_config import load_release_config
from Daddy.core.run_paths import RunPaths
from Daddy.core.terminal import Screen, can_redraw, print_screen, show_screens

Event = Mapping[str, Any]

_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_BINS = 48


@dataclass(slots=True)
class SlotAttempt:
    """Holds the last event of each state (started, claimed, …) that one attempt reported."""

    events: dict[str, Event] = field(default_factory=dict)

    def time_of(self, state: str) -> float | None:
        """Return the wall time of the attempt's last event with this state, or None."""
        return float(self.events[state]["ts"]) if state in self.events else None

    def facts_of(self, state: str) -> Mapping[str, Any]:
        """Return the data of the attempt's last event with this state; {} without one."""
        return self.events[state]["data"] if state in self.events else {}

    @property
    def slot(self) -> int | None:
        """The slot that the attempt claimed, or None."""
        return self.facts_of("claimed").get("slot")

    @property
    def job_id(self) -> str:
        ids = (self.facts_of(state).get("job_id") for state in self.events)
        return str(next(filter(None, ids), ""))


@dataclass(frozen=True, slots=True)
class Episode:
    """Holds a finished episode: its end in wall seconds, its learner, its sum of rewards."""

    ts: float
    peer: str
    value: float


@dataclass(frozen=True, slots=True)
class Handover:
    """Holds a hand-over of a slot: ``gap_s`` from the old attempt's exit to the new one's start."""

    slot: int
    at: float
    gap_s: float


@dataclass(slots=True)
class Laptop:
    """Holds the versions that a laptop played, and the transport by which it pulled them."""

    versions: list[int] = field(default_factory=list)
    transport: str = ""


@dataclass(slots=True)
class Viewer:
    """Counts the frames that the viewer showed of each agent; `transport` carried the frames."""

    frames: Counter[str] = field(default_factory=Counter)
    live: frozenset[str] = frozenset()
    """Agents with new frames in the last report."""
    transport: str = ""


@dataclass(slots=True)
class EventSummary:
    """Holds a summary of all events of a run."""

    attempts: dict[str, SlotAttempt] = field(default_factory=dict)
    latest: dict[str, Event] = field(default_factory=dict)
    """Learner → its newest data, key by key."""
    episodes: list[Episode] = field(default_factory=list)
    random_episodes: list[Episode] = field(default_factory=list)
    laptop: Laptop = field(default_factory=Laptop)
    viewer: Viewer = field(default_factory=Viewer)

    def in_slot(self, slot: int) -> list[SlotAttempt]:
        """Return the attempts that held ``slot``, oldest first."""
        attempts = [attempt for attempt in self.attempts.values() if attempt.slot == slot]
        return sorted(attempts, key=lambda attempt: attempt.time_of("claimed") or 0.0)

    def handovers(self) -> list[Handover]:
        """List the hand-overs from attempts that wrote their last event, oldest first."""
        slots = {attempt.slot for attempt in self.attempts.values() if attempt.slot is not None}
        handovers = [
            Handover(slot, began, max(0.0, began - left))
            for slot in slots
            for old, new in pairwise(self.in_slot(slot))
            if (left := old.time_of("goodbye")) is not None
            and (began := new.time_of("started")) is not None
        ]
        return sorted(handovers, key=lambda handover: handover.at)


def add_events(events: Iterable[Event], fleet: EventSummary | None = None) -> EventSummary:
    """Add events to the summary ``fleet`` (default: an empty one) and return the summary."""
    fleet = fleet or EventSummary()
    for event in events:
        data, source = event["data"], event["source"]
        if source["kind"] == "learner" and event["event"] in ("state", "metric"):
            latest = {} if data.get("state") == "claimed" else fleet.latest.get(source["id"], {})
            fleet.latest[source["id"]] = {**latest, **data, "ts": event["ts"]}
        match source["kind"], event["event"], data.get("state") or data.get("result"):
            case "learner", "state", state if "token" in data:
                attempt = fleet.attempts.setdefault(data["token"], SlotAttempt())
                attempt.events[str(state)] = event
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
    """Holds the status record and the events of a run, and draws them."""

    def __init__(self, run: RunPaths, clock: Clock, extra: Sequence[Path] = ()) -> None:
        self.fleet = EventSummary()
        self.status: dict[str, Any] = {}
        """Empty where no configuration can be read; ``why`` has the reason."""
        self._run, self._clock, self.why = run, clock, ""
        self._tails = [EventTail(folder) for folder in (run.events, *extra)]

    @property
    def steps(self) -> int:
        """Environment steps of all contributors in the newest version."""
        return int(self.status["steps"]["done"]) if self.status else 0

    def refresh(self) -> RunView:
        """Read the new events and the present status from disk; return this view."""
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
        """Return the whole screen: status, learning curve, hand-overs, laptop and viewer."""
        fleet, name, now = self.fleet, self._run.root.name, self._clock.now()
        if self.status:
            status: RenderableType = render_screen(name, self.status, now, width)
        else:
            status = Text(_latest_slots(fleet, now, self.why))
        learning = Panel(
            _learning(fleet), title="return per episode", title_align="left", expand=False
        )
        return Group(status, learning, _footer(fleet))


def _latest_slots(fleet: EventSummary, now: float, why: str) -> str:
    """Return the text ``why`` (the reason for no status), then each slot's newest data."""
    slots = [
        f"slot {facts['slot']} {facts['state']}: version {facts.get('version', 0):.0f}, "
        f"{format_count(facts.get('steps_per_second', 0.0))} steps/s, "
        f"{format_age(now - facts['ts'])} ago"
        for facts in fleet.latest.values()
        if "slot" in facts
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
    """Return mean returns of at most 48 equal groups of episodes, in the order of their ends."""
    values = [episode.value for episode in sorted(episodes, key=lambda episode: episode.ts)]
    size = ceil(len(values) / _CURVE_BINS)
    return [fmean(values[first : first + size]) for first in range(0, len(values), size)]


def mean_return(episodes: Sequence[Episode]) -> float:
    """Return the mean of the episodes' returns, 0 without episodes."""
    return fmean(episode.value for episode in episodes) if episodes else 0.0


def sparkline(values: Sequence[float]) -> str:
    """Draw one block character per value: the lowest value lowest, the highest one highest."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[int((value - low) / span * (len(_BLOCKS) - 1))] for value in values)


def _footer(fleet: EventSummary) -> Padding:
    gaps, versions = [handover.gap_s for handover in fleet.handovers()], fleet.laptop.versions
    average = f", {fmean(gaps):.1f} s each" if gaps else ""
    played = f"version {versions[-1]} ({len(set(versions))} played)" if versions else "none yet"
    viewer = f"{fleet.viewer.frames.total():,} frames of {len(fleet.viewer.frames)} agents"
    text = Text(f"hand-overs {len(gaps)}{average}; laptop {played}; viewer {viewer}")
    return Padding(text, (0, 0, 0, 2), expand=False)


def main(argv: Sequence[str] | None = None) -> int:
    """Print the status screen once if --once is given; otherwise redraw it once a second."""
    parser = ArgumentParser(prog="dashboard", description=__doc__)
    flag, folder = parser.add_argument, Path("runs/slim_run")
    flag("--run-dir", type=Path, default=folder, help=f"run directory ({folder})")
    flag("--once", action="store_true", help="print the screen once and exit")
    args = parser.parse_args(argv)
    if not args.run_dir.is_dir():
        raise FileError(f"there is no run at {args.run_dir}", "name a run directory: --run-dir")
    clock = SystemClock()
    view = RunView(RunPaths(args.run_dir.resolve()), clock)
    if args.once:
        print_screen(view.refresh().renderable)
    else:
        show_screens(_screens(view, clock))
    return 0


def _screens(view: RunView, clock: Clock) -> Iterator[Screen]:
    """Yield the run's screen without end: each second, or every 10 s where it is printed anew."""
    never, pause_s = threading.Event(), 1.0 if can_redraw() else 10.0
    while True:
        yield view.refresh().renderable
        clock.wait(never, pause_s)


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
