"""Adapter for matplotlib: draws the report: returns, slots over time, the viewer's last frames."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from Daddy.core.confidence_intervals import mean_interval
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import Episode, EventSummary, SlotAttempt
from scripts.demonstration.summary import Versions
from scripts.page import COLOURS, FAINT, INK, first_reached

GREEN, BLUE, AMBER = COLOURS[:3]
_WINDOW_BINS = 48


def draw(run: RunPaths, fleet: EventSummary, versions: Versions) -> None:
    """Write the report of ``run``, with the viewer's last screenshot if there is one."""
    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    figure = plt.figure(figsize=(12, 8.6), dpi=110, layout="constrained", facecolor="white")
    grid = figure.add_gridspec(2, 4, height_ratios=(2.8, 2.4))
    begin = _begin(fleet)
    curve = figure.add_subplot(grid[0, :])
    _learning(curve, fleet, begin)
    _milestones(curve, first_reached(run.events), begin)
    _timeline(figure.add_subplot(grid[1, :2]), fleet, begin)
    _screen(figure.add_subplot(grid[1, 2:]), run.root / "viewer.png")
    _title(figure, fleet, versions)
    figure.savefig(run.report)
    plt.close(figure)


def _begin(fleet: EventSummary) -> float:
    stamps = (attempt.time_of("started") for attempt in fleet.attempts.values())
    return min((stamp for stamp in stamps if stamp is not None), default=0.0)


def _title(figure: Figure, fleet: EventSummary, versions: Versions) -> None:
    figure.suptitle(
        f"{versions.fleet_steps:,} steps by {len(versions.contributors)} learners · "
        f"{versions.committed} shared versions · {len(fleet.handovers())} hand-overs · "
        f"{fleet.viewer.frames.total():,} frames shown",
        fontsize=13,
        fontweight="bold",
        color=INK,
    )


def _learning(axes: Axes, fleet: EventSummary, begin: float) -> None:
    """Draw mean returns over time: all learners with a 95 % interval, each one, random play."""
    peers = sorted({episode.peer for episode in fleet.episodes})
    for peer, colour in zip(peers, COLOURS[1:], strict=False):
        own = [episode for episode in fleet.episodes if episode.peer == peer]
        seconds, means, _, _ = _smooth(own, begin)
        axes.plot(seconds, means, color=colour, linewidth=0.9, alpha=0.7, label=peer)
    seconds, means, low, high = _smooth(fleet.episodes, begin)
    axes.plot(seconds, means, color=GREEN, linewidth=2.4, label="all learners, 95 % interval")
    axes.fill_between(seconds, low, high, color=GREEN, alpha=0.15, linewidth=0)
    if fleet.random_episodes:
        mean, *ends = mean_interval([episode.value for episode in fleet.random_episodes])
        axes.axhspan(*ends, color=AMBER, alpha=0.15, linewidth=0)
        axes.axhline(mean, color=AMBER, linestyle="--", label=f"random play ({mean:.1f})")
    axes.set(xlabel="seconds since the first job", ylabel="mean return of an episode")
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), frameon=False, ncols=6)
    _plain(axes)


def _smooth(episodes: Sequence[Episode], begin: float) -> tuple[list[float], ...]:
    """Compute the moving mean of returns: seconds, mean, and both ends of its 95 % interval."""
    if not episodes:
        return [], [], [], []
    times = np.array([episode.ts - begin for episode in episodes])
    values = np.array([episode.value for episode in episodes])
    half = max(1e-6, (times.max() - times.min()) / _WINDOW_BINS * 1.5)
    points = []
    for centre in np.linspace(times.min(), times.max(), _WINDOW_BINS):
        near = values[np.abs(times - centre) <= half].tolist()
        if len(near) > 1:
            points.append((float(centre), *mean_interval(near)))
    return tuple(list(column) for column in zip(*points, strict=True)) or ([], [], [], [])


def _milestones(axes: Axes, milestones: Mapping[str, Mapping[str, Any]], begin: float) -> None:
    """Mark the first time that any learner reached each milestone; close ones share a label."""
    width = axes.get_xlim()[1] * 0.02
    groups: list[tuple[float, list[str]]] = []
    for name, event in sorted(milestones.items(), key=lambda item: float(item[1]["ts"])):
        at = max(0.0, event["ts"] - begin)
        axes.axvline(at, color=BLUE, alpha=0.35, linewidth=0.8)
        if not groups or at - groups[-1][0] > width:
            groups.append((at, []))
        groups[-1][1].append(name)
    place: dict[str, Any] = {
        "rotation": 90,
        "ha": "left",
        "va": "top",
        "transform": axes.get_xaxis_transform(),
    }
    for at, names in groups:
        axes.text(at, 0.98, " " + ", ".join(names), fontsize=7, color=BLUE, **place)


def _timeline(axes: Axes, fleet: EventSummary, begin: float) -> None:
    attempts = fleet.attempts.values()
    slots = sorted({attempt.slot for attempt in attempts if attempt.slot is not None})
    for slot in slots:
        for number, attempt in enumerate(fleet.in_slot(slot)):
            _bar(axes, slot, number, attempt, begin)
    for passed in fleet.handovers():
        axes.plot(passed.at - begin, passed.slot, marker="|", color=INK, markersize=16)
    axes.set(xlabel="seconds since the first job")
    axes.set_title("slots and their jobs (amber: starting, |: hand-over)")
    axes.set_yticks(slots, [f"slot {slot}" for slot in slots])
    axes.invert_yaxis()
    _plain(axes)


def _bar(axes: Axes, slot: int, number: int, attempt: SlotAttempt, begin: float) -> None:
    start = attempt.time_of("started") or attempt.time_of("claimed") or begin
    seen = (float(event["ts"]) for event in attempt.events.values())
    end = attempt.time_of("goodbye") or max([*seen, start])
    ready = min(attempt.time_of("first_update") or end, end)
    colour = GREEN if number % 2 == 0 else BLUE
    axes.barh(slot, ready - start, left=start - begin, height=0.55, color=AMBER, alpha=0.8)
    axes.barh(slot, end - ready, left=ready - begin, height=0.55, color=colour, alpha=0.75)
    middle = (start + end) / 2 - begin
    axes.text(middle, slot, attempt.job_id, ha="center", va="center", color="white", fontsize=8)


def _screen(axes: Axes, viewer: Path) -> None:
    """Draw the viewer's last screenshot: the featured agents' newest frames."""
    axes.set_title("the featured agents, as the viewer showed them last")
    axes.set_axis_off()
    if viewer.exists():
        axes.imshow(plt.imread(viewer), interpolation="antialiased")


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    axes.set_axisbelow(True)
