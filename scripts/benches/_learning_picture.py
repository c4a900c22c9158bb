"""Door to matplotlib: milestones over steps, a panel per part, a band of 95 % per arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from Daddy.core.intervals import t_point
from scripts.benches._curves import COLOURS, FAINT, INK
from scripts.benches._learning_table import Result

_POINTS = 200
_COLUMNS = 2


def draw(path: Path, panels: Mapping[str, Mapping[str, Sequence[Result]]]) -> None:
    """Mean over the seeds and where it lies in 95 of 100 cases; a dot where a run was done."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    rows = -(-len(panels) // _COLUMNS)
    size = (6 * min(_COLUMNS, len(panels)), 4.2 * rows)
    figure, grid = plt.subplots(
        rows, -(-len(panels) // rows), figsize=size, dpi=110, layout="constrained", squeeze=False
    )
    for axes in grid.flat[len(panels) :]:
        axes.set_visible(False)
    for axes, (title, arms) in zip(grid.flat, panels.items(), strict=False):
        for colour, (name, results) in zip(COLOURS, arms.items(), strict=False):
            _draw_arm(axes, colour, name, results)
        axes.set(title=title, xlabel="environment steps", ylabel="milestones reached")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.legend(loc="best", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)


def _draw_arm(axes: Any, colour: str, name: str, results: Sequence[Result]) -> None:
    steps = np.linspace(0, max(one.limit for one in results), _POINTS)
    middle, margin = band(results, steps)
    axes.plot(steps, middle, color=colour, linewidth=1.6, label=f"{name} ({len(results)})")
    low, high = np.maximum(0, middle - margin), middle + margin
    axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    for one in results:
        if one.reached is not None:
            axes.plot(one.reached, len(one.firsts), "o", color=colour, markersize=4)


def band(
    results: Sequence[Result], steps: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean milestones of the runs at each of `steps`, and half the 95 % interval (0 of one run).

    A run that has ended keeps what it had.
    """
    firsts = [np.sort(list(one.firsts.values())) for one in results]
    reached = np.array([np.searchsorted(some, steps, side="right") for some in firsts], float)
    if len(results) == 1:
        return reached[0], np.zeros_like(steps)
    margin = t_point(len(results) - 1) * reached.std(axis=0, ddof=1) / np.sqrt(len(results))
    return reached.mean(axis=0), margin
