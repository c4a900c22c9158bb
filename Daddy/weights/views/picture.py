"""Door to matplotlib: the lineage of shared weights as one picture.

From top to bottom: how the steps grew and by whom, who moved each version how far, what was refused
and why, and how stale and how long contributions were and what adopting them changed. What nobody
told is left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.figure import Figure

from Daddy.core.humanize import one_line
from Daddy.weights.views import panels
from Daddy.weights.views.lineage import Step, fold, kinds_of, peer_order
from Daddy.weights.views.panels import FAINT, INK, Colours

MOST_BARS = 160
"""Versions that each have a bar of their own; of more, neighbours share one."""


def draw(path: Path, name: str, steps: Sequence[Step]) -> None:
    """Write the PNG to ``path``. ``steps``: oldest first, at least one."""
    settings = {"font.size": 8.5, "axes.edgecolor": FAINT, "text.color": INK,
                "axes.labelcolor": INK, "xtick.color": INK, "ytick.color": INK}  # fmt: skip
    with mpl.rc_context(settings):
        figure = _figure(name, steps)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)


def _figure(name: str, steps: Sequence[Step]) -> Figure:
    colours, kinds = panels.colours_of(steps), kinds_of(steps)
    lanes = sorted({one.peer for step in steps for one in step.refused}, key=peer_order)
    folded = fold(steps, MOST_BARS)
    growing = sum(panels.counts(step) for step in steps) > 1
    figured = any(part.norm is not None for step in steps for part in step.parts)
    told = min(len(kinds), panels.MOST_KINDS + 1)
    rows = [1.7] * growing + [2.2, 0.35 + 0.2 * len(lanes) + 0.13 * told] + [1.7] * figured
    figure = plt.figure(figsize=(13, 0.8 + 0.45 * len(rows) + sum(rows)), dpi=110,
                        layout="constrained")  # fmt: skip
    grid = figure.add_gridspec(len(rows), 3, height_ratios=rows)
    if growing:
        panels.growth(figure.add_subplot(grid[0, :]), folded, colours)
    shares = figure.add_subplot(grid[int(growing), :])
    panels.shares(shares, folded, colours)
    refusals = figure.add_subplot(grid[growing + 1, :], sharex=shares)
    panels.refusals(refusals, folded, lanes, kinds, colours)
    if figured:
        for place, panel in enumerate((panels.staleness, panels.norms, panels.kls)):
            panel(figure.add_subplot(grid[-1, place]), folded, colours)
    _title(figure, name, steps)
    _legend(figure, colours)
    return figure


def _title(figure: Figure, name: str, steps: Sequence[Step]) -> None:
    refused = sum(len(step.refused) for step in steps)
    peers = len({one.peer for step in steps for one in step.parts})
    fleet = max((step.fleet_steps or 0 for step in steps), default=0)
    span = f"v{steps[0].version} to v{steps[-1].version}"
    figure.suptitle(
        f"{one_line(name, 60)}: {span} · {fleet:,} steps by {peers} peer{'s' * (peers != 1)} · "
        f"{refused:,} refused",
        fontsize=13, fontweight="bold", color=INK, parse_math=False,
    )  # fmt: skip


def _legend(figure: Figure, colours: Colours) -> None:
    patches = [mpl.patches.Patch(color=colour, label=peer) for peer, colour in colours.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=12, frameon=False)
