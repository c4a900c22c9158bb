"""Door to matplotlib for the bench `sharing`: what learners earn, and every other arm against
sharing; below them, where it was played, the grid world: who has found the reward, what was seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from scripts.benches import _sharing_arms as arms
from scripts.benches._curves import COLOURS, FAINT, INK
from scripts.benches._sharing_arms import Arm
from scripts.benches._sharing_figures import all_succeeded, band, ratio
from scripts.benches._sharing_table import GREATEST, Found, worth
from scripts.benches._sharing_world import POLE

_CURVES = (arms.SHARED, arms.ALONE, arms.BIG, arms.EIGHT, arms.LAPTOPS)
_DOORS = (arms.DOORS_SHARED, arms.DOORS_ALONE)
_BANDS = (arms.SHARED, arms.ALONE)


def draw(path: Path, found: Found) -> None:
    """A row of panels for each world that was played."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    rows = [arm for arm in found.arms if arm is not arms.SHARED and arm.world is POLE]
    doors = [arm for arm in _DOORS if arm in found.arms]
    heights = [max(4.6, 1.4 + 0.27 * len(rows))] * bool(rows) + [4.0] * bool(doors)
    figure, panels = plt.subplots(
        len(heights) or 1, 2, figsize=(12, sum(heights) or 4), dpi=110, layout="constrained",
        width_ratios=(1.15, 1), height_ratios=heights or None, squeeze=False,
    )  # fmt: skip
    if rows:
        _draw_curves(panels[0][0], [arm for arm in _CURVES if arm in found.arms], found)
        _draw_ratios(panels[0][1], rows, found)
    if doors:
        _draw_found(panels[-1][0], doors, found)
        _draw_seen(panels[-1][1], doors, found)
    for axes in panels.flat:
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path)
    plt.close(figure)


def _draw_curves(axes: Any, shown: Sequence[Arm], found: Found) -> None:
    for colour, arm in zip(COLOURS, shown, strict=False):
        (results,) = found.of(arm)
        if not results:
            continue
        middle, low, high = band([[fmean(row) for row in one["each"]] for one in results])
        steps = [(number + 1) * arms.steps_of_a_round() for number in range(len(middle))]
        axes.plot(steps, middle, color=colour, linewidth=1.8, label=f"{arm.name} ({len(results)})")
        if arm in _BANDS:  # more of them hide one another
            axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set(
        title="What learners' own weights earn (interquartile mean, 95 %)",
        xlabel="environment steps of each job",
        ylabel="mean return on frozen starts",
        ylim=(0, GREATEST + 10),
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    if axes.lines:
        axes.legend(loc="lower right", frameon=False)


def _draw_ratios(axes: Any, rows: Sequence[Arm], found: Found) -> None:
    """Each arm's area over that of four that share: right of the line is better."""
    names = list[str]()
    for arm in rows:
        clean, other = found.of(arms.SHARED, arm)
        if not clean:
            continue
        one = ratio([worth(result) for result in other], [worth(result) for result in clean])
        place, colour = len(names), COLOURS[3] if "gate off" in arm.name else COLOURS[1]
        axes.plot((one["low"], one["high"]), (place, place), color=colour, linewidth=2.2)
        axes.plot(one["ratio"], place, "o", color=colour, markersize=5)
        names.append(f"{arm.name}  {one['ratio']:.2f}")
    axes.axvline(1.0, color=INK, linestyle="--", linewidth=0.8)
    axes.set_yticks(range(len(names)), names)
    axes.set_ylim(max(1, len(names)) - 0.5, -0.5)
    axes.set(
        title="Area under the curve, against four that share",
        xlabel="worse ←  ratio, 95 % interval  → better",
    )
    axes.grid(axis="x", color=FAINT, alpha=0.4, linewidth=0.6)


def _draw_found(axes: Any, shown: Sequence[Arm], found: Found) -> None:
    """The share of crews all of whose learners have come to the goal; where half have, it is told.

    A crew that never did stays below, so what the curve does not reach was not reached.
    """
    for colour, arm in zip(COLOURS, shown, strict=False):
        (results,) = found.of(arm)
        if not results:
            continue
        last = arm.rounds(found.quick)
        whole = [all_succeeded(one["each"]) for one in results]
        shares = [fmean(one <= number for one in whole) for number in range(last + 1)]
        steps = [number * arms.steps_of_a_round() for number in range(last + 1)]
        axes.step(steps, shares, where="post", color=colour, linewidth=1.8)
    axes.axhline(0.5, color=INK, linestyle="--", linewidth=0.8)
    axes.annotate("half of the crews", (0, 0.515), fontsize=8)
    axes.set(
        title="Keys and doors: crews whose four learners all find the goal",
        xlabel="environment steps of each job",
        ylabel="share of crews (each a seed)",
        ylim=(0, 1.02),
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")


def _draw_seen(axes: Any, shown: Sequence[Arm], found: Found) -> None:
    """What each learner has been in of all the states that there are."""
    for colour, arm in zip(COLOURS, shown, strict=False):
        (results,) = found.of(arm)
        if not results:
            continue
        middle, low, high = band([[fmean(row) for row in one["seen"]] for one in results])
        steps = [(number + 1) * arms.steps_of_a_round() for number in range(len(middle))]
        axes.plot(steps, middle, color=colour, linewidth=1.8, label=f"{arm.name} ({len(results)})")
        axes.fill_between(steps, low, high, color=colour, alpha=0.18, linewidth=0)
    axes.set(
        title="Keys and doors: states that a learner was ever in (95 %)",
        xlabel="environment steps of each job",
        ylabel="share of all states",
        ylim=(0, 1.02),
    )
    axes.xaxis.set_major_formatter("{x:,.0f}")
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    if axes.lines:
        axes.legend(loc="lower right", frameon=False)
