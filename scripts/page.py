"""Adapter for matplotlib: draws a run as one picture from its events.

``python -m scripts.page runs/NAME [--out FILE]`` writes ``page.png`` into the run's folder:
returns, entropy, KL, clipping, the critic, time shares, coverage, and milestones. It also works
while the run is going on.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import UsageError
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from Daddy.dashboard import EventSummary, add_events

INK, FAINT = "#1f2933", "#cbd2d9"
COLOURS = ("#2f855a", "#2b6cb0", "#dd9f2b", "#c05621", "#6b46c1", "#0f766e", "#9d174d", "#4a5568")
_MOST_MILESTONES = 24
_SMOOTHED = 40
"""Number of points above which a line is smoothed."""

Series = dict[str, list[tuple[float, float]]]
"""Learner → (step, value) of a metric, by step."""


class Rows:
    """All metric events of a run, by learner."""

    def __init__(self, folder: Path) -> None:
        self._rows: dict[str, list[tuple[int, dict[str, float]]]] = {}
        for event in read_events(folder):
            if event["event"] == "metric" and event["source"]["kind"] == "learner":
                rows = self._rows.setdefault(event["source"]["id"], [])
                rows.append((event["step"], event["data"]))

    def series(self, metric: str) -> Series:
        """Return one metric of every learner that logged it."""
        series = {
            peer: sorted((float(step), row[metric]) for step, row in rows if metric in row)
            for peer, rows in sorted(self._rows.items())
        }
        return {peer: points for peer, points in series.items() if points}

    def mean(self, metric: str) -> float:
        """Return the mean of a metric over all rows, 0 for none."""
        values = [row[metric] for rows in self._rows.values() for _, row in rows if metric in row]
        return float(np.mean(values)) if values else 0.0

    @property
    def learners(self) -> int:
        return len(self._rows)


def first_reached(folder: Path) -> dict[str, Mapping[str, Any]]:
    """Return milestone → the event of the learner that reached it first."""
    first: dict[str, Mapping[str, Any]] = {}
    for event in read_events(folder):
        if event["event"] == "progress" and "milestone" in event["data"]:
            name = str(event["data"]["milestone"])
            first[name] = min(first.get(name, event), event, key=lambda seen: float(seen["ts"]))
    return first


def draw(run: RunPaths, path: Path) -> None:
    """Draw `run` into the file `path`; UsageError when no learner has logged a metric."""
    rows, fleet = Rows(run.events), add_events(read_events(run.events))
    milestones = first_reached(run.events)
    if not rows.learners:
        raise UsageError(f"no learner has logged a metric in {run.events}", "name a run's folder")
    plt.rcParams.update({"font.size": 8, "axes.edgecolor": FAINT, "text.color": INK})
    figure, grid = plt.subplots(3, 3, figsize=(14, 10), dpi=100, layout="constrained")
    _lines(grid[0][0], rows.series("episode_return"), "return of an episode", smooth=True)
    _lines(grid[0][1], rows.series("steps_per_second"), "steps per second", smooth=True)
    _shares(grid[0][2], rows)
    _lines(grid[1][0], rows.series("entropy"), "entropy (nats)")
    _lines(grid[1][1], rows.series("approx_kl"), "KL of an update")
    _lines(grid[1][2], rows.series("clip_fraction"), "share of ratios clipped")
    _lines(grid[2][0], rows.series("explained_variance"), "variance explained by the critic")
    _walks(grid[2][1], rows)
    _milestones(grid[2][2], fleet, milestones)
    steps = sum(points[-1][0] for points in rows.series("steps_per_second").values())
    figure.suptitle(
        f"{run.root.name}: {steps:,.0f} steps by {rows.learners} "
        f"learner{'s' * (rows.learners > 1)} · "
        f"{len(fleet.episodes):,} episodes · {len(milestones)} milestones",
        fontsize=13,
        fontweight="bold",
    )
    figure.savefig(path)
    plt.close(figure)


def _lines(axes: Axes, series: Series, title: str, *, smooth: bool = False) -> None:
    for colour, (peer, points) in zip(COLOURS, series.items(), strict=False):
        steps, values = np.array(points).T
        if smooth and len(values) > _SMOOTHED:
            axes.plot(steps, values, color=colour, alpha=0.2, linewidth=0.6)
            width = max(3, len(values) // 25)
            values = np.convolve(values, np.ones(width) / width, mode="valid")
            steps = steps[width - 1 :]
        axes.plot(steps, values, color=colour, linewidth=1.2, label=peer)
    _plain(axes, title, "own steps")
    if 1 < len(series) <= len(COLOURS):
        axes.legend(frameon=False, fontsize=7)


def _shares(axes: Axes, rows: Rows) -> None:
    """Draw the shares of the loop's time, over all learners."""
    if not rows.series("learning_share"):
        _plain(axes, "shares of the loop's time", "share")
        axes.text(0.5, 0.5, "not logged by this release", ha="center", transform=axes.transAxes)
        return
    names = ("emulation", "inference", "learning")
    shares = {name: rows.mean(f"{name}_share") for name in names}
    shares["the rest"] = max(0.0, 1.0 - sum(shares.values()))
    left = 0.0
    for colour, (name, share) in zip((*COLOURS[:3], FAINT), shares.items(), strict=True):
        axes.barh(0, share, left=left, color=colour, height=0.5, label=f"{name} {share:.0%}")
        left += share
    _plain(axes, "shares of the loop's time", "share")
    axes.set(xlim=(0, 1), ylim=(-1, 1.4), yticks=[])
    axes.legend(loc="upper center", ncols=2, frameon=False, fontsize=7)


def _walks(axes: Axes, rows: Rows) -> None:
    _lines(axes, rows.series("coverage"), "cells stood on (solid), loop share (dotted, right)")
    series = rows.series("loop_share")
    if not series:
        axes.text(0.5, 0.5, "this workload has no places", ha="center", transform=axes.transAxes)
        return
    right = axes.twinx()
    right.set_ylim(0, 1)
    right.spines[["top"]].set_visible(False)
    for colour, points in zip(COLOURS, series.values(), strict=False):
        steps, values = np.array(points).T
        right.plot(steps, values, color=colour, linestyle=":", linewidth=0.9)


def _milestones(
    axes: Axes, fleet: EventSummary, milestones: Mapping[str, Mapping[str, Any]]
) -> None:
    """Draw the minutes from the first job's start at which each was first reached."""
    stamps = (attempt.time_of("started") for attempt in fleet.attempts.values())
    begin = min((stamp for stamp in stamps if stamp), default=0.0)
    order = sorted(milestones.items(), key=lambda item: item[1]["ts"])[-_MOST_MILESTONES:]
    for row, (_, first) in enumerate(order):
        minutes = max(0.0, (first["ts"] - begin) / 60.0) if begin else 0.0
        axes.plot([0, minutes], [row, row], color=FAINT, linewidth=1)
        mark, note = ("s", " with an assist") if first["data"].get("assists") else ("o", "")
        axes.plot(minutes, row, mark, color=COLOURS[0], markersize=4)
        axes.text(minutes, row, f"  {first['step']:,} steps{note}", va="center", fontsize=6)
    _plain(axes, "milestones: first reached", "minutes since the first job")
    axes.set_yticks(range(len(order)), [name for name, _ in order], fontsize=6)
    axes.margins(x=0.25)
    axes.set_xlim(left=0)
    axes.invert_yaxis()
    if not order:
        axes.text(0.5, 0.5, "none yet", ha="center", transform=axes.transAxes)


def _plain(axes: Axes, title: str, below: str) -> None:
    axes.set_title(title, fontsize=9)
    axes.set_xlabel(below)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    axes.set_axisbelow(True)


def main(argv: Sequence[str] | None = None) -> int:
    """Draw the picture of the named run."""
    parser = ArgumentParser(prog="scripts.page", description=__doc__)
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument(
        "--out", type=Path, metavar="FILE", help="picture to write (page.png in the run)"
    )
    args = parser.parse_args(argv)
    run = RunPaths(args.run.expanduser().resolve())
    path = args.out or run.root / "page.png"
    draw(run, path)
    print(path)
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
