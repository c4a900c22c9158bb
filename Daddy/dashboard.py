"""Entry: a live look at one run in the terminal, read from its run directory alone.

``python -m Daddy.dashboard --run-dir runs/slim_run``; ``--once`` prints one picture and leaves.
It needs no controller, no scheduler and no network, and changes nothing.
"""

from __future__ import annotations

import argparse
import threading
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, FileError, run_entry
from Daddy.core.events import EventTail
from Daddy.core.files import read_json
from Daddy.core.friend_accounts import view
from Daddy.core.humanize import format_duration
from Daddy.core.paths import RunPaths
from Daddy.core.shared_paths import SharedPaths


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


_BLOCKS = "▁▂▃▄▅▆▇█"
_CURVE_BINS = 48
_STALE_S = 30.0
"""Silence after which a running attempt is shown as lost."""


@dataclass(slots=True)
class RunView:
    """Everything the picture shows, kept up to date from disk."""

    run: RunPaths
    extra: tuple[Path, ...] = ()
    fleet: Fleet = field(default_factory=Fleet)
    head: dict[str, Any] = field(default_factory=dict)
    _tails: list[EventTail] = field(default_factory=list)

    def refresh(self) -> RunView:
        """Read what was written since the last look."""
        if not self._tails:
            self._tails = [EventTail(folder) for folder in (self.run.events, *self.extra)]
        for tail in self._tails:
            fold(tail.new(), self.fleet)
        self.head = _head(view(SharedPaths(self.run.shared_weights)))
        return self


def _head(shared: SharedPaths) -> dict[str, Any]:
    try:
        return read_json(shared.head)
    except (FileNotFoundError, DaddyError):
        return {}


def render(view: RunView, now: float) -> RenderableType:
    """The whole picture: slots, learning curve, weights, laptop and viewer."""
    return Group(
        Panel(_slots(view.fleet, now), title=f"run {view.run.root.name}", title_align="left"),
        Panel(_learning(view.fleet), title="return per episode", title_align="left"),
        _footer(view),
    )


def _slots(fleet: Fleet, now: float) -> Table:
    table = Table(box=None, expand=True, pad_edge=False)
    for title in ("slot", "job", "attempt", "state", "wall", "checkpoint", "steps/s", "version"):
        table.add_column(title, justify="left" if title in ("state", "wall") else "right")
    slots = sorted({one.slot for one in fleet.attempts.values() if one.slot is not None})
    for slot in slots:
        attempts = fleet.in_slot(slot)
        table.add_row(*_slot_row(fleet, slot, attempts, now))
    if not slots:
        table.add_row("", "", "", "waiting for the first job", "", "", "", "")
    return table


def _slot_row(fleet: Fleet, slot: int, attempts: list[Attempt], now: float) -> list[RenderableType]:
    newest = attempts[-1]
    metrics = fleet.metrics.get(f"slot-{slot}", {})
    speed = f"{metrics.get('steps_per_second', 0):,.0f}" if newest.running else ""
    checkpoint = max(one.checkpoint_step for one in attempts)
    return [
        str(slot),
        newest.job_id,
        str(len(attempts)),
        _state(newest, metrics, now),
        _wall(newest, now),
        f"{checkpoint:,}",
        speed,
        str(fleet.adopted.get(f"slot-{slot}", "")),
    ]


def _state(attempt: Attempt, metrics: dict[str, float], now: float) -> Text:
    if attempt.goodbye is not None:
        return Text(f"handing over ({attempt.reason})", style="yellow")
    if attempt.first_update is None:
        return Text("starting", style="cyan")
    if now - max(attempt.last_seen, metrics.get("ts", 0.0)) > _STALE_S:
        return Text("silent", style="red")
    return Text("training", style="green")


def _wall(attempt: Attempt, now: float) -> RenderableType:
    if attempt.deadline is None or attempt.claimed is None or not attempt.running:
        return Text("")
    total = max(1.0, attempt.deadline - attempt.claimed)
    return ProgressBar(total=total, completed=min(total, now - attempt.claimed), width=16)


def _learning(fleet: Fleet) -> RenderableType:
    if not fleet.episodes:
        return Text("no episode has ended yet", style="dim")
    bins = binned(fleet.episodes, _CURVE_BINS)
    curve = Text(sparkline(bins), style="green")
    text = Text(f"  now {bins[-1]:.2f}   episodes {len(fleet.episodes):,}")
    if fleet.random_episodes:
        text.append(f"   random play {mean(fleet.random_episodes):.2f}", style="dim")
    return curve + text


def binned(episodes: Sequence[Episode], bins: int) -> list[float]:
    """Mean return in equal stretches of time; an empty stretch repeats the one before."""
    first = min(one.ts for one in episodes)
    width = max(1e-9, max(one.ts for one in episodes) - first) / bins
    sums, counts = [0.0] * bins, [0] * bins
    for one in episodes:
        place = min(bins - 1, int((one.ts - first) / width))
        sums[place] += one.value
        counts[place] += 1
    means: list[float] = []
    for total, count in zip(sums, counts, strict=True):
        means.append(total / count if count else (means[-1] if means else 0.0))
    return means


def mean(episodes: Sequence[Episode]) -> float:
    """Mean return; 0 of none."""
    return sum(one.value for one in episodes) / len(episodes) if episodes else 0.0


def sparkline(values: Sequence[float]) -> str:
    """One block character per value, lowest to highest."""
    low, high = min(values), max(values)
    span = (high - low) or 1.0
    return "".join(_BLOCKS[int((value - low) / span * (len(_BLOCKS) - 1))] for value in values)


def _footer(view: RunView) -> Table:
    fleet, head = view.fleet, view.head
    gaps = [one.gap_s for one in fleet.handovers()]
    table = Table(box=None, expand=True, show_header=False, pad_edge=True)
    shared = ", ".join(sorted(head.get("contributors", {}))) or "nobody yet"
    table.add_row(
        f"[b]weights[/b] version {head.get('version', '–')} from {shared}",
        f"[b]fleet steps[/b] {head.get('fleet_steps', 0):,}",
    )
    played = f"version {fleet.laptop.versions[-1]}" if fleet.laptop.versions else "no version yet"
    table.add_row(
        f"[b]laptop[/b] {played} ({len(set(fleet.laptop.versions))} played)",
        f"[b]viewer[/b] {fleet.viewer.total:,} frames of {len(fleet.viewer.frames)} agents",
    )
    average = f", {sum(gaps) / len(gaps):.1f} s each" if gaps else ""
    table.add_row(f"[b]hand-overs[/b] {len(gaps)}{average}", "")
    return table


def watch(view: RunView, clock: Clock, stop: threading.Event, console: Console) -> None:
    """Redraw once a second until ``stop`` is set."""
    with Live(console=console, refresh_per_second=4, transient=False) as live:
        while not clock.wait(stop, 1.0):
            live.update(render(view.refresh(), clock.now()))


def main(argv: Sequence[str] | None = None) -> int:
    """Parse, look, draw."""
    parser = argparse.ArgumentParser(prog="dashboard", description=__doc__)
    parser.add_argument("--run-dir", type=Path, default=Path("runs/slim_run"))
    parser.add_argument("--once", action="store_true", help="print one picture and leave")
    args = parser.parse_args(argv)
    if not args.run_dir.is_dir():
        raise FileError(f"there is no run at {args.run_dir}", "name a run directory: --run-dir")
    view, clock = RunView(RunPaths(args.run_dir.resolve())), SystemClock()
    if args.once:
        now = clock.now()
        Console().print(render(view.refresh(), now))
        Console().print(f"as of {format_duration(now % 86400)} UTC", style="dim")
        return 0
    watch(view, clock, threading.Event(), Console())
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
