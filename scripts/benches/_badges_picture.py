"""Door to matplotlib: the share of runs that have the badge over the fleet's steps, per arm."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from scripts.benches._curves import COLOURS, FAINT, INK

_TITLES = {"learner": "first learner's badge", "shared": "shared policy's badge"}


def draw(path: Path, found: Mapping[str, Sequence[Mapping[str, int | None]]], limit: int) -> None:
    """A panel for the first learner and one for the shared policy; a step up per run."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 9, "axes.edgecolor": FAINT, "text.color": INK})
    figure, row = plt.subplots(1, 2, figsize=(11, 4.2), dpi=110, layout="constrained", sharey=True)
    for axes, (what, title) in zip(row, _TITLES.items(), strict=True):
        for colour, (arm, told) in zip(COLOURS, found.items(), strict=False):
            if what == "shared" and "sharing" not in arm:
                continue
            reached = sorted(steps for one in told if (steps := one[what]) is not None)
            shares = [place / len(told) for place in range(len(reached) + 1)]
            axes.step([0, *reached, limit], [*shares, shares[-1]], where="post", color=colour,
                      linewidth=1.8, label=f"{arm} ({len(reached)} of {len(told)})")  # fmt: skip
        axes.set(title=title, xlabel="steps of all four learners", ylim=(-0.02, 1.02))
        axes.xaxis.set_major_formatter("{x:,.0f}")
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
        if axes.lines:
            axes.legend(loc="best", frameon=False)
    row[0].set_ylabel("share of runs that have it")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)
    plt.close(figure)
