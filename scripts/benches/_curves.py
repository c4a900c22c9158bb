"""Learning curves of several contenders: their shape, and a picture of them (matplotlib)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
from numpy.typing import NDArray

from scripts.benches._intervals import spread

COLOURS = ("#2f855a", "#2b6cb0", "#dd9f2b", "#c05621", "#6b46c1")
INK, FAINT = "#1f2933", "#cbd2d9"
_POINTS = 200


@dataclass(frozen=True)
class Curve:
    """One run: at which step which episode ended, when it was solved, what it was worth after."""

    seed: int
    steps: list[int]
    returns: list[float]
    solved_at: int | None
    played: int
    wall_s: float
    judged: float


def figures(curves: Sequence[Curve], goal: float) -> dict[str, object]:
    """What a table says of several seeds. Of one that was not solved, what it took is a bound."""
    solved = [one for one in curves if one.solved_at is not None]
    costs = [float(one.solved_at or one.played) for one in curves]
    return {
        "goal": goal,
        "solved": f"{len(solved)} of {len(curves)}",
        "steps_to_solve": [one.solved_at for one in curves],
        "steps_median": median(one.solved_at or 0 for one in solved) if solved else None,
        "steps_mean": spread(costs, bound=len(solved) < len(curves)),
        "wall_s": [one.wall_s for one in curves],
        "wall_s_mean": spread([one.wall_s for one in curves], bound=len(solved) < len(curves)),
        "wall_s_median": median(one.wall_s for one in curves),
        "steps_per_s": round(sum(c.played for c in curves) / sum(c.wall_s for c in curves)),
        "last_100_training": [round(float(np.mean(one.returns[-100:])), 1) for one in curves],
        "fresh_100_greedy": [one.judged for one in curves],
    }


def smooth(curve: Curve, window: int = 100) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Steps, and the mean of the last `window` episodes that had ended by then."""
    total = np.concatenate([[0.0], np.cumsum(curve.returns)])
    ends = np.arange(1, len(curve.returns) + 1)
    begins = np.maximum(0, ends - window)
    means = (total[ends] - total[begins]) / (ends - begins)
    kept = np.unique(np.linspace(0, len(means) - 1, _POINTS).astype(int)) if len(means) else ends
    return np.asarray(curve.steps, np.int64)[kept], means[kept]


def draw(
    path: Path, panels: Mapping[str, Mapping[str, Sequence[Curve]]], goals: Sequence[float]
) -> None:
    """A panel per task, a colour per contender, a thin line per seed; a dot where it was solved."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    figure, rows = plt.subplots(
        1, len(panels), figsize=(12, 4.6), dpi=110, layout="constrained", squeeze=False
    )
    for axes, (title, contenders), goal in zip(rows[0], panels.items(), goals, strict=True):
        for colour, (name, curves) in zip(COLOURS, contenders.items(), strict=False):
            for number, curve in enumerate(curves):
                label = name if number == 0 else None
                axes.plot(*smooth(curve), color=colour, alpha=0.75, linewidth=1.1, label=label)
                if curve.solved_at is not None:
                    mean = np.mean(curve.returns[-100:])
                    axes.plot(curve.solved_at, mean, "o", color=colour, markersize=4)
        axes.axhline(goal, color=INK, linestyle="--", linewidth=0.8)
        axes.set(title=title, xlabel="environment steps", ylabel="mean of the last 100 episodes")
        axes.set_ylim(0, 510)
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
        if contenders:
            axes.legend(loc="center right", frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
