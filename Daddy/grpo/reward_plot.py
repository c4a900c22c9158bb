"""Adapter for matplotlib: draws the rewards of trainings by step as one picture."""

import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from Daddy.core.atomic_files import write_atomic

INK, FAINT, BLUE, GREEN = "#1f2933", "#cbd2d9", "#2b6cb0", "#2f855a"
WINDOW = 8
"""Steps of the moving mean."""

Rows = Sequence[Mapping[str, Any]]


def draw_rewards(path: Path, title: str, trainings: Sequence[Rows]) -> None:
    """Draw mean reward and fully correct share by step as a PNG, a pale line per training.

    The strong line is the mean over trainings and the last `WINDOW` steps.
    """
    style = {"font.size": 9, "text.color": INK, "axes.edgecolor": FAINT, "axes.labelcolor": INK}
    with mpl.rc_context(style):
        figure = Figure(figsize=(9, 5.4), dpi=110, layout="constrained")
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        _draw(upper, "reward", trainings, BLUE)
        _draw(lower, "fully_correct", trainings, GREEN)
        upper.set(ylabel="mean reward", ylim=(min(upper.get_ylim()[0], 0), 1))
        lower.set(xlabel="step", ylabel="fully correct", ylim=(0, 1))
        lower.yaxis.set_major_formatter(PercentFormatter(1))
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
        data = io.BytesIO()
        figure.savefig(data, format="png")
    write_atomic(path, data.getvalue())


def _draw(axes: Axes, key: str, trainings: Sequence[Rows], colour: str) -> None:
    by_step: dict[int, list[float]] = {}
    for rows in trainings:
        known = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
        axes.plot(*zip(*known, strict=True), color=colour, alpha=0.3, linewidth=0.9)
        for step, value in known:
            by_step.setdefault(step, []).append(value)
    steps = sorted(by_step)
    means = [sum(by_step[step]) / len(by_step[step]) for step in steps]
    smooth = [
        sum(means[max(0, end - WINDOW) : end]) / min(end, WINDOW)
        for end in range(1, len(means) + 1)
    ]
    axes.plot(steps, smooth, color=colour, linewidth=2.2)
    if steps:
        axes.annotate(
            f"{smooth[-1]:.2f}", (steps[-1], smooth[-1]), (4, 0), textcoords="offset points"
        )
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, alpha=0.4, linewidth=0.6)
