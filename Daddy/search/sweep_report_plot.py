"""Adapter for matplotlib: draws a sweep as one picture.

The upper plot shows score against cost with the Pareto front; of a sweep for score alone, the
score of each trial and the best so far. Below, a plot per setting shows score against its value.
Later trials are darker.
"""

import io
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib as mpl
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, StrMethodFormatter

from Daddy.core.atomic_files import write_atomic
from Daddy.search.search_space import Choices, Range, format_value
from Daddy.search.study_plan import StudyPlan, Trial
from Daddy.search.sweep_report_text import (
    Importance,
    complete_trials,
    count_states,
    pareto_front,
    short_name,
    trial_number,
)

INK, FAINT, BEST = "#1f2933", "#cbd2d9", "#c05621"
_ORDER = LinearSegmentedColormap.from_list("order", ["#bcd6ee", "#2b6cb0", "#12263f"])
_COLUMNS = 3
_LABEL_PIXELS = 26
"""Least distance of two trials on the front that both get their number."""
_DECADES = 1.5
"""Powers of ten from which a logarithmic axis names them alone; below also 2 and 5 times them."""
_CROSSES = {"pruned": "#7b8794", "failed": "#c53030"}
_SPREAD = 0.6
"""Width over which trials of one choice are spread, by their order."""


def draw_sweep(
    path: Path, title: str, plan: StudyPlan, trials: Sequence[Trial], shares: Importance
) -> None:
    """Draw a sweep with complete trials as a PNG, which replaces an older one at once."""
    settings = [*shares.get("score", sorted(plan.space))]
    rows = -(-len(settings) // _COLUMNS)
    order = ScalarMappable(Normalize(1, max(2, *map(trial_number, trials), 2)), _ORDER)
    style = {"font.size": 9, "text.color": INK, "axes.edgecolor": FAINT, "axes.labelcolor": INK}
    with mpl.rc_context(style):
        figure = Figure(figsize=(12, 5 + 2.7 * rows), dpi=110, layout="constrained")
        grid = figure.add_gridspec(1 + rows, _COLUMNS, height_ratios=(4.4, *([2.7] * rows)))
        top = figure.add_subplot(grid[0, :])
        (_draw_costs if len(plan.objectives) > 1 else _draw_scores)(top, trials, order)
        _add_legend(top, trials)
        first = None
        for place, key in enumerate(settings):
            cell = grid[1 + place // _COLUMNS, place % _COLUMNS]
            axes = figure.add_subplot(cell, sharey=first)
            first = first or axes
            _draw_setting(axes, key, plan.space[key], trials, order)
            axes.set_title(_heading(key, shares), loc="left", fontsize=9.5)
            axes.tick_params(labelleft=place % _COLUMNS == 0)
            axes.set_ylabel("score" if place % _COLUMNS == 0 else "")
        bar = figure.colorbar(order, ax=top, label="trial", pad=0.01, aspect=30)
        bar.locator = MaxNLocator(integer=True)
        bar.ax.spines["outline"].set_visible(False)
        head = f"{title}\n{count_states(trials)}"
        figure.suptitle(head, x=0.01, ha="left", fontsize=12, parse_math=False)
        data = io.BytesIO()
        figure.savefig(data, format="png")
    write_atomic(path, data.getvalue())


def _draw_costs(axes: Axes, trials: Sequence[Trial], order: ScalarMappable) -> None:
    """Draw score by cost, the front as steps, and the numbers of its trials."""
    complete, front = complete_trials(trials), pareto_front(trials)
    costs, scores = zip(*(trial.values[::-1] for trial in front), strict=True)
    axes.plot(costs, scores, color=BEST, drawstyle="steps-post", label="Pareto front", zorder=1)
    _scatter(axes, [trial.values[1] for trial in complete], complete, order)
    axes.scatter(costs, scores, s=70, facecolors="none", edgecolors=BEST, linewidths=1.4)
    axes.set(xlabel="cost (CPU seconds)", ylabel="score")
    axes.margins(x=0.03, y=0.1)
    _label(axes, front)
    _plain(axes)


def _draw_scores(axes: Axes, trials: Sequence[Trial], order: ScalarMappable) -> None:
    """Draw score by trial, and the best so far as steps."""
    complete = sorted(complete_trials(trials), key=trial_number)
    numbers = [trial_number(trial) for trial in complete]
    best = [max(trial.values[0] for trial in complete[:end]) for end in range(1, len(numbers) + 1)]
    axes.plot(numbers, best, color=BEST, drawstyle="steps-post", label="best so far", zorder=1)
    _scatter(axes, numbers, complete, order)
    axes.set(xlabel="trial", ylabel="score")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.margins(x=0.03, y=0.1)
    _label(axes, pareto_front(trials))
    _draw_crosses(axes, trials, trial_number)
    _plain(axes)


def _add_legend(axes: Axes, trials: Sequence[Trial]) -> None:
    """Explain lines and crosses above the right end of the plot."""
    for state, colour in _CROSSES.items():
        if any(trial.state == state for trial in trials):
            axes.scatter([], [], s=18, c=colour, marker="x", label=f"{state}: no score")
    axes.legend(loc="lower right", bbox_to_anchor=(1, 0.98), frameon=False, ncols=3)


def _label(axes: Axes, trials: Sequence[Trial]) -> None:
    """Write the numbers of trials beside their points, best score first, where there is room."""
    taken: list[Any] = []
    axes.autoscale_view()
    for trial in sorted(trials, key=lambda trial: -trial.values[0]):
        at = (trial.values[1] if trial.values[1:] else trial_number(trial), trial.values[0])
        place = axes.transData.transform(at)
        if all(abs(place - other).max() > _LABEL_PIXELS for other in taken):
            taken.append(place)
            text = axes.annotate(str(trial_number(trial)), at, (-5, 4), textcoords="offset points")
            text.set(color=BEST, ha="right", va="bottom", fontsize=8)


def _draw_setting(
    axes: Axes, key: str, values: Range | Choices, trials: Sequence[Trial], order: ScalarMappable
) -> None:
    """Draw score by a setting's value; trials without score are crosses on the lower edge."""
    complete = complete_trials(trials)
    _scatter(axes, [_place(trial, key, values, order) for trial in complete], complete, order)
    _draw_crosses(axes, trials, partial(_place, key=key, values=values, order=order))
    if isinstance(values, Choices):
        axes.set_xticks(range(len(values.values)), [format_value(each) for each in values.values])
        axes.set_xlim(-0.6, len(values.values) - 0.4)
    elif values.log:
        axes.set_xscale("log")
        axes.set_xlim(values.low / 1.1, values.high * 1.1)
        if values.high / values.low < 10**_DECADES:
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            axes.xaxis.set_major_formatter(StrMethodFormatter("{x:g}"))
        axes.xaxis.set_minor_formatter(NullFormatter())
    else:
        edge = (values.high - values.low) * 0.04
        axes.set_xlim(values.low - edge, values.high + edge)
        axes.xaxis.set_major_locator(MaxNLocator(6, integer=values.integer, steps=(1, 2, 5, 10)))
    _plain(axes)


def _draw_crosses(axes: Axes, trials: Sequence[Trial], place: Callable[[Trial], float]) -> None:
    """Draw trials without a score as crosses below those with one."""
    scores = [trial.values[0] for trial in complete_trials(trials)]
    height = min(scores) - 0.1 * (max(scores) - min(scores) or 1.0)
    for state, colour in _CROSSES.items():
        places = [place(trial) for trial in trials if trial.state == state]
        axes.scatter(places, [height] * len(places), s=18, c=colour, marker="x", linewidths=1.1)


def _place(trial: Trial, key: str, values: Range | Choices, order: ScalarMappable) -> float:
    """Return the horizontal place of a trial's value; trials of one choice lie side by side."""
    value = trial.settings[key]
    if isinstance(values, Range):
        return float(value)
    moved = _SPREAD * (float(order.norm(trial_number(trial))) - 0.5)
    return values.values.index(value) + moved


def _scatter(
    axes: Axes, places: Sequence[float], trials: Sequence[Trial], order: ScalarMappable
) -> None:
    numbers = [trial_number(trial) for trial in trials]
    scores = [trial.values[0] for trial in trials]
    colours: dict[str, Any] = {"c": numbers, "cmap": order.cmap, "norm": order.norm}
    axes.scatter(places, scores, s=26, edgecolors="white", linewidths=0.5, zorder=2, **colours)


def _heading(key: str, shares: Importance) -> str:
    if key not in shares.get("score", {}):
        return short_name(key)
    return f"{short_name(key)}  ({100 * shares['score'][key]:.0f} % of influence)"


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(color=FAINT, alpha=0.4, linewidth=0.6)
    axes.set_axisbelow(True)
