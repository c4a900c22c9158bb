"""Watches while jobs are handed over: a real Slurm, the viewer's window and a real `ssh -R`.

Two agents are pinned, one in each of two slots. The viewer's events must show that a pin is back on
screen after every hand-over of its slot, and the operating system that relay, streamers and viewer
do not grow.
"""

import re
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core import host_and_processes
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import Handover, add_events
from scripts.demonstration.stage import Stage, fresh_run

SITE, PORT = "demo-slurm", 9999
PINS = ("slot-1/0", "slot-2/1")
BACK_S = 30.0
"""Seconds after a hand-over within which a pin must be back; a successor first starts emulators."""
LOOK_EVERY_S, SETTLED_S = 5.0, 60.0
GROWTH_MB = 5.0
_ROLE = re.compile(r"Daddy\.streaming\.(relay|streamer|tunnel_server)\b")
Samples = list[tuple[float, float]]
"""Seconds since a process was first seen, and its resident memory in MB."""


@dataclass
class Memory:
    """The memory of every process of the stream, by role and process."""

    samples: dict[tuple[str, int], Samples] = field(default_factory=lambda: defaultdict(list))
    _since: dict[tuple[str, int], float] = field(default_factory=dict)

    def add_sample(self, run: RunPaths, viewer: int, now: float) -> None:
        """Take one sample of each process that belongs to the run."""
        for role, pid in _processes(run, viewer):
            begun = self._since.setdefault((role, pid), now)
            if used := host_and_processes.resident_bytes(pid):
                self.samples[role, pid].append((now - begun, used / 1e6))

    def growth(self) -> dict[str, float]:
        """Return the largest growth of a process of each role in MB, once it had settled."""
        most: dict[str, float] = {}
        for (role, _), samples in self.samples.items():
            grown = growth(samples, SETTLED_S if role != "streamer" else LOOK_EVERY_S)
            most[role] = round(max(most.get(role, grown), grown), 2)
        return most


def growth(samples: Samples, settled_s: float) -> float:
    """Return the growth from the first five samples after ``settled_s`` to the last five, in MB."""
    used = [mb for since, mb in samples if since >= settled_s]
    return statistics.median(used[-5:]) - statistics.median(used[:5]) if used else 0.0


def _processes(run: RunPaths, viewer: int) -> Iterator[tuple[str, int]]:
    for pid, words in host_and_processes.command_lines().items():
        match = _ROLE.search(words)
        if match and (pid == viewer or str(run.root) in words):
            yield ("viewer" if pid == viewer else match[1]), pid


def run(minutes: float, seed: int, keep: Path | None) -> dict[str, Any]:
    """Watch for ``minutes`` and return the figures; ``seed`` is unused, as the cluster is real."""
    del seed
    with (
        fresh_run(keep, SITE) as (_, paths),
        Stage(paths, SITE, slurm=True, headless=False) as stage,
    ):
        return _watch(stage, minutes * 60.0)


def _watch(stage: Stage, seconds: float) -> dict[str, Any]:
    stage.start_login_node()
    pins = [word for pin in PINS for word in ("--pin", pin)]
    stage.start_viewer(PORT, *pins, "--top-k", "4", SDL_VIDEODRIVER="dummy")
    stage.open_tunnel(PORT)
    stage.start_controller(PORT)
    memory, begun = Memory(), time.monotonic()
    while (passed := time.monotonic() - begun) < seconds:
        memory.add_sample(stage.run, stage.viewer.pid, passed)
        handovers = len(_handovers(stage.run))
        state = f"{passed:.0f} s of {seconds:.0f}, {handovers} hand-overs, {memory.growth()}"
        print(f"  {state}", file=sys.stderr, flush=True)
        time.sleep(LOOK_EVERY_S)
    stage.end_viewer()
    stage.stop_controller()
    return _figures(stage.run, memory)


def _handovers(run: RunPaths) -> list[Handover]:
    return add_events(read_events(run.events)).handovers()


def _figures(run: RunPaths, memory: Memory) -> dict[str, Any]:
    shown = [
        (float(event["ts"]), event["data"])
        for event in read_events(run.events, "viewer-*.jsonl")
        if event["event"] == "metric"
    ]
    last = shown[-1][0] if shown else 0.0
    passed = [handover for handover in _handovers(run) if handover.at + BACK_S < last]
    back = {pin: returns(pin, passed, shown) for pin in PINS}
    grown = memory.growth()
    broken = [f"{pin} did not come back" for pin, waits in back.items() if None in waits]
    broken += [f"{pin}: no job of its slot ended" for pin, waits in back.items() if not waits]
    broken += [f"{role} grew by {mb} MB" for role, mb in grown.items() if mb > GROWTH_MB]
    unseen = {"relay", "streamer", "viewer"} - grown.keys()
    broken += [f"no {role} was seen" for role in sorted(unseen)]
    return {
        "frames": shown[-1][1]["frames_total"] if shown else 0,
        "transport": shown[-1][1]["transport"] if shown else "",
        "handovers": len(passed),
        "back_after_s": back,
        "grown_mb": grown,
        "processes": {role: sum(name == role for name, _ in memory.samples) for role in grown},
        "broken": broken,
    }


def returns(
    pin: str, passed: Sequence[Handover], shown: Sequence[tuple[float, Mapping[str, Any]]]
) -> list[float | None]:
    """Return, for each hand-over of the pin's slot, seconds until new frames; None: too late."""
    slot = int(pin.removeprefix("slot-").partition("/")[0])
    fresh = [ts for ts, data in shown if data["frames"].get(pin, 0)]
    return [
        next((round(ts - over.at, 1) for ts in fresh if 0 <= ts - over.at <= BACK_S), None)
        for over in passed
        if over.slot == slot
    ]
