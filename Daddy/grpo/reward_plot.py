"""Adapter for matplotlib: draws the rewards of trainings by step as one picture."""

import contextlib
import io
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator, PercentFormatter

from Daddy.core.atomic_files import write_atomic
from Daddy.grpo.grpo_settings import Rows

INK, FAINT = "#1f2933", "#cbd2d9"
COLOURS = ("#2b6cb0", "#2f855a", "#c05621", "#6b46c1")
WINDOW = 8
"""Steps of the moving mean; less in a short training."""


def draw_rewards(path: Path, title: str, trainings: Sequence[Rows]) -> None:
    """Draw mean reward and fully correct share by step as a PNG, a pale line per training.

    The strong line is the mean over trainings and the last `WINDOW` steps.
    """
    with _opened(path, title, ("mean reward", "fully correct"), "step") as (upper, lower):
        _draw(upper, "reward", trainings, COLOURS[0])
        _draw(lower, "fully_correct", trainings, COLOURS[1])
        _show_unit_range(upper)
        lower.set(ylim=(0, 1))
        lower.yaxis.set_major_formatter(PercentFormatter(1))


def draw_reward_and_turns(path: Path, title: str, groups: Mapping[str, Sequence[Rows]]) -> None:
    """Draw mean reward and turns per episode by batch, each group with its colour and last mean."""
    with _opened(path, title, ("mean reward", "turns per episode"), "batch") as (upper, lower):
        for number, (label, trainings) in enumerate(groups.items()):
            colour = COLOURS[number % len(COLOURS)]
            _draw(upper, "reward", trainings, colour, label)
            _draw(lower, "turns", trainings, colour, label)
        _show_unit_range(upper)
        lower.set(ylim=(0, None))
        for axes in (upper, lower):  # above the curves
            columns = min(len(groups), 3)
            axes.legend(frameon=False, loc="lower left", bbox_to_anchor=(0, 1), ncols=columns)


def _show_unit_range(axes: Axes) -> None:
    """Show rewards from 0 to 1, and those beyond."""
    low, high = axes.get_ylim()
    axes.set(ylim=(min(low, 0), max(high, 1)))


@contextlib.contextmanager
def _opened(
    path: Path, title: str, labels: tuple[str, str], below: str
) -> Iterator[tuple[Axes, Axes]]:
    """Give two panels to draw on, and write them."""
    style = {"font.size": 9, "text.color": INK, "axes.edgecolor": FAINT, "axes.labelcolor": INK}
    with mpl.rc_context(style):
        figure = Figure(figsize=(9, 5.4), dpi=110, layout="constrained")
        upper, lower = figure.subplots(2, sharex=True, height_ratios=(3, 2))
        for axes, label in zip((upper, lower), labels, strict=True):
            axes.set(ylabel=label)
            axes.spines[["top", "right"]].set_visible(False)
            axes.grid(color=FAINT, alpha=0.4, linewidth=0.6)
        lower.set(xlabel=below)
        lower.xaxis.set_major_locator(MaxNLocator(integer=True))
        yield upper, lower
        figure.suptitle(title, x=0.01, ha="left", fontsize=12, parse_math=False)
        data = io.BytesIO()
        figure.savefig(data, format="png")
    write_atomic(path, data.getvalue())


def _draw(
    axes: Axes, key: str, trainings: Sequence[Rows], colour: str, label: str | None = None
) -> None:
    by_step: dict[int, list[float]] = {}
    for rows in trainings:
        known = [(row["step"], row[key]) for row in rows if row.get(key) is not None]
        axes.plot(*zip(*known, strict=True), color=colour, alpha=0.3, linewidth=0.9)
        for step, value in known:
            by_step.setdefault(step, []).append(value)
    steps = sorted(by_step)
    means = [sum(by_step[step]) / len(by_step[step]) for step in steps]
    window = min(WINDOW, max(1, len(steps) // 5))
    smooth = [
        sum(means[max(0, end - window) : end]) / min(end, window)
        for end in range(1, len(means) + 1)
    ]
    last = f"{smooth[-1]:.2f}" if steps else "none yet"
    axes.plot(steps, smooth, color=colour, linewidth=2.2, label=label and f"{label}: {last}")
    if steps and label is None:
        axes.annotate(last, (steps[-1], smooth[-1]), (4, 0), textcoords="offset points")
