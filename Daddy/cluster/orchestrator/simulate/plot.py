"""Adapter for matplotlib: the slots' month of a few policies side by side, as one picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from Daddy.cluster.orchestrator.simulate.incidents import Incidents
from Daddy.cluster.orchestrator.simulate.scenario import DAY_S, Scenario
from Daddy.cluster.orchestrator.simulate.site import Job

_INK, _FAINT, _TRAINS, _WASTED = "#1f2933", "#e4e7eb", "#2f855a", "#c05621"
_THICK = 0.78


def draw(
    path: Path,
    title: str,
    scenario: Scenario,
    incidents: Incidents,
    months: Mapping[str, tuple[float, Sequence[Job]]],
) -> None:
    """Write a PNG. ``months``: policy → (share used, its jobs)."""
    plt.rcParams.update({"font.size": 9, "text.color": _INK, "axes.edgecolor": _FAINT})
    height = 0.9 + 1.15 * len(months)
    figure, every = plt.subplots(
        len(months), 1, figsize=(13, height), sharex=True, layout="constrained", squeeze=False
    )
    for axes, (name, (used, jobs)) in zip(every[:, 0], months.items(), strict=True):
        _slots(axes, jobs, scenario.cap, scenario.days)
        _shade(axes, incidents)
        axes.set_title(f"{name}: {100 * used:.1f} %", loc="left", fontsize=10, fontweight="bold")
    every[-1, 0].set_xlabel("day")
    handles, labels = every[0, 0].get_legend_handles_labels()
    once = dict(zip(labels, handles, strict=True))
    figure.legend(once.values(), once.keys(), loc="outside lower center", ncols=5, frameon=False)
    figure.suptitle(title, fontsize=12, fontweight="bold")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def _slots(axes: Axes, jobs: Sequence[Job], cap: int, days: float) -> None:
    """Each slot's row: empty, trained, and held without training."""
    for slot in range(cap):
        mine = [job for job in jobs if job.track == slot]
        axes.broken_barh([(0, days)], (slot - _THICK / 2, _THICK), color=_FAINT)
        held = [(job.started / DAY_S, (job.ended - job.started) / DAY_S) for job in mine]
        axes.broken_barh(
            held, (slot - _THICK / 2, _THICK), color=_WASTED, label="held, not training"
        )
        trained = [
            (job.trains_from / DAY_S, job.kept_s / DAY_S)
            for job in mine
            if job.trains_from is not None
        ]
        axes.broken_barh(trained, (slot - _THICK / 2, _THICK), color=_TRAINS, label="trains")
    axes.set(xlim=(0, days), ylim=(cap - 0.5, -0.5), yticks=range(cap), ylabel="slot")
    axes.tick_params(length=0)


def _shade(axes: Axes, incidents: Incidents) -> None:
    for label, colour, windows in (
        ("slurmctld away", "#2b6cb0", incidents.outages),
        ("broken code", "#b83280", incidents.deploys),
        ("black-hole node", "#6b46c1", incidents.black_holes),
    ):
        for begin, end in windows:
            axes.axvspan(
                begin / DAY_S, end / DAY_S, color=colour, alpha=0.28, label=label, zorder=3
            )
