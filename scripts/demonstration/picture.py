"""Adapter for matplotlib: draws the report: returns, slots over time, the viewer's last frames."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from Daddy.dashboard import Episode, EventSummary, SlotAttempt, mean_return
from scripts.demonstration.summary import Versions

INK, FAINT, GREEN, AMBER, BLUE = "#1f2933", "#cbd2d9", "#2f855a", "#dd9f2b", "#2b6cb0"
_WINDOW_BINS = 48


def draw(path: Path, fleet: EventSummary, versions: Versions, viewer: Path) -> None:
    """Write the report to ``path``; ``viewer`` is the viewer's last screenshot, if there is one."""
    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    figure = plt.figure(figsize=(12, 8.6), dpi=110, layout="constrained", facecolor="white")
    grid = figure.add_gridspec(2, 4, height_ratios=(2.4, 2.6))
    begin = _begin(fleet)
    _learning(figure.add_subplot(grid[0, :]), fleet, versions, begin)
    _timeline(figure.add_subplot(grid[1, :2]), fleet, begin)
    _screen(figure.add_subplot(grid[1, 2:]), viewer)
    _title(figure, fleet, versions)
    figure.savefig(path)
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


def _learning(axes: Axes, fleet: EventSummary, versions: Versions, begin: float) -> None:
    for ts in versions.times[1:]:
        axes.axvline(ts - begin, color=BLUE, alpha=0.18, linewidth=0.8)
    for peer in sorted({episode.peer for episode in fleet.episodes}):
        own = [episode for episode in fleet.episodes if episode.peer == peer]
        axes.plot(*_smooth(own, begin), color=FAINT, linewidth=1)
    axes.plot(*_smooth(fleet.episodes, begin), color=GREEN, linewidth=2.4, label="all learners")
    if fleet.random_episodes:
        axes.axhline(
            mean_return(fleet.random_episodes), color=AMBER, linestyle="--", label="random play"
        )
    axes.plot([], [], color=BLUE, alpha=0.4, linewidth=0.8, label="a shared version")
    axes.plot([], [], color=FAINT, label="one learner")
    axes.set(xlabel="seconds since the first job", ylabel="mean return of an episode")
    axes.legend(loc="lower right", frameon=False, ncols=4)
    _plain(axes)


def _smooth(episodes: Sequence[Episode], begin: float) -> tuple[list[float], list[float]]:
    """Compute the moving mean of returns over time: (seconds, mean return)."""
    if not episodes:
        return [], []
    times = np.array([episode.ts - begin for episode in episodes])
    values = np.array([episode.value for episode in episodes])
    centres = np.linspace(times.min(), times.max(), _WINDOW_BINS)
    half = max(1e-6, (times.max() - times.min()) / _WINDOW_BINS * 1.5)
    inside = [(float(c), values[np.abs(times - c) <= half]) for c in centres]
    means = [(c, float(near.mean())) for c, near in inside if len(near)]
    return [c for c, _ in means], [value for _, value in means]


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
    end = attempt.time_of("goodbye") or max(attempt.last_seen, start)
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
