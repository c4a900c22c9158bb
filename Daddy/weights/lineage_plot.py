"""Adapter for matplotlib: the lineage of shared weights as one picture.

From top to bottom: environment steps by peer over time, each peer's share in each version, refusals
and their reasons, and staleness, norm and KL of single contributions and adoptions. A panel of
which nothing is known is left out, or says so. Jobs are cool colours, laptops warm.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from Daddy.core.humanize import amount, one_line
from Daddy.weights.lineage import JOB, Step, kind_of, kinds_of, peer_order, stamp

INK, FAINT, RED = "#1f2933", "#cbd2d9", "#c53030"
JOBS = ("#2f855a", "#2b6cb0", "#6b46c1", "#0f766e", "#4a5568", "#63b3ed", "#9ae6b4", "#b794f4")
LAPTOPS = ("#dd9f2b", "#c05621", "#b83280", "#975a16")
OTHERS = "the others"
MOST_KINDS = 6
"""Reasons that are told one by one below the refusals."""

_STYLE = {"font.size": 8.5, "axes.edgecolor": FAINT, "text.color": INK, "axes.labelcolor": INK,
          "xtick.color": INK, "ytick.color": INK}  # fmt: skip
_UNITS = (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0), ("seconds", 1.0))

Colours = Mapping[str, str]
"""Peer → colour; peers that are not in it are ``OTHERS``."""


def draw(path: Path, name: str, steps: Sequence[Step]) -> None:
    """Write the PNG to ``path``. ``steps``: oldest first, at least one."""
    with mpl.rc_context(_STYLE):
        figure = _figure(name, steps)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)


def colours_of(steps: Sequence[Step]) -> dict[str, str]:
    """Peer → colour, jobs first; peers after the last colour are the others."""
    named = sorted({peer for step in steps for peer in step.peers}, key=peer_order)
    jobs = [peer for peer in named if JOB.fullmatch(peer)]
    laptops = [peer for peer in named if not JOB.fullmatch(peer)]
    colours = dict([*zip(jobs, JOBS, strict=False), *zip(laptops, LAPTOPS, strict=False)])
    return colours if len(colours) == len(named) else {**colours, OTHERS: FAINT}


def _figure(name: str, steps: Sequence[Step]) -> Figure:
    colours = colours_of(steps)
    lanes = sorted({one.peer for step in steps for one in step.refused}, key=peer_order)
    reasons = min(len(kinds_of(steps)), MOST_KINDS + 1)
    timed = [step for step in steps if step.ts is not None and (step.totals or not step.version)]
    growing = len(timed) > 1
    figured = any(part.norm is not None for step in steps for part in step.parts)
    rows = [1.7] * growing + [2.2, 0.35 + 0.2 * len(lanes) + 0.13 * reasons] + [1.7] * figured
    size = (13, 0.8 + 0.45 * len(rows) + sum(rows))
    figure = plt.figure(figsize=size, dpi=110, layout="constrained")
    grid = figure.add_gridspec(len(rows), 3, height_ratios=rows)
    if growing:
        _growth(figure.add_subplot(grid[0, :]), timed, colours)
    shares = figure.add_subplot(grid[int(growing), :])
    _shares(shares, steps, colours)
    _refusals(figure.add_subplot(grid[growing + 1, :], sharex=shares), steps, lanes, colours)
    if figured:
        _figures([figure.add_subplot(grid[-1, place]) for place in range(3)], steps, colours)
    _title(figure, name, steps)
    patches = [mpl.patches.Patch(color=colour, label=peer) for peer, colour in colours.items()]
    figure.legend(handles=patches, loc="outside lower center", ncols=12, frameon=False)
    return figure


def _title(figure: Figure, name: str, steps: Sequence[Step]) -> None:
    refused = sum(len(step.refused) for step in steps)
    peers = len({part.peer for step in steps for part in step.parts})
    fleet = max((step.fleet_steps or 0 for step in steps), default=0)
    figure.suptitle(
        f"{one_line(name, 60)}: v{steps[0].version} to v{steps[-1].version} · {fleet:,} steps by "
        f"{peers} peer{'s' * (peers != 1)} · {refused:,} refused",
        fontsize=13, fontweight="bold", color=INK, parse_math=False,
    )  # fmt: skip


def _growth(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """Steps of every peer, one on top of the other, over time; a tick at the foot per version."""
    stamps = [step.ts or 0.0 for step in steps]
    long = stamps[-1] - stamps[0]
    unit, seconds = next((u for u in _UNITS if long >= 3 * u[1]), _UNITS[-1])
    times = [(ts - stamps[0]) / seconds for ts in stamps]
    axes.set_title("environment steps in the shared weights, by peer (ticks: versions)", loc="left")
    _stack(axes, times, [step.totals for step in steps], colours)
    axes.plot(times, [0.0] * len(times), "|", color=INK, markersize=7, clip_on=False,
              alpha=min(0.9, 60.0 / len(times)))  # fmt: skip
    axes.set(xlim=(0, max(times)), xlabel=f"{unit} since {stamp(stamps[0])}")
    axes.yaxis.set_major_formatter(lambda value, _: amount(value))


def _shares(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """Each peer's share in each version; where the chain is damaged, or went on from an older."""
    title = "share of each peer in each version: 1 is a whole round's mean"
    axes.set_title(title, loc="left")
    versions = [step.version for step in steps]
    edges = [version - 0.5 for version in versions] + [versions[-1] + 0.5]
    _stack(axes, edges, [*(step.shares for step in steps), steps[-1].shares], colours, step="post")
    before = ""
    for step in steps:
        told = "" if step.base is None else f"continued from v{step.base}"
        told = "damaged" if step.flaw else told
        if told:
            axes.axvline(step.version, color=RED, linewidth=1, linestyle=":")
        if told != before:
            axes.text(step.version, 1.0, f" {told}", color=RED, fontsize=7, va="top")
        before = told
    axes.set(xlim=(edges[0], edges[-1]), ylabel="share")
    axes.set_ylim(top=max(1.0, axes.get_ylim()[1]))
    axes.locator_params(axis="x", nbins=12, integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"v{value:.0f}")


def _stack(
    axes: Axes,
    places: Sequence[float],
    values: Sequence[Mapping[str, float]],
    colours: Colours,
    **how: Any,
) -> None:
    """An area per peer, one on top of the other, of each place's values by peer."""
    areas = [
        [sum(v for name, v in at.items() if _of(name, colours) == peer) for at in values]
        for peer in colours
    ]
    if areas:
        axes.stackplot(places, areas, colors=list(colours.values()), alpha=0.85, linewidth=0, **how)
    axes.set_ylim(bottom=0)
    _plain(axes)


def _refusals(axes: Axes, steps: Sequence[Step], lanes: Sequence[str], colours: Colours) -> None:
    """A lane per peer that was refused, a number per kind of reason, and the reasons below."""
    axes.set_title("refused, and why", loc="left")
    axes.tick_params(axis="x", labelbottom=False, length=0)
    if not lanes:
        _nothing(axes, "nothing was refused")
        return
    kinds = kinds_of(steps)
    signs = {kind: str(number) for number, kind in enumerate([*kinds][:MOST_KINDS], 1)}
    found: dict[tuple[str, str], list[int]] = {}
    for step in steps:
        for one in step.refused:
            sign = signs.get(kind_of(one.reason), "+")
            found.setdefault((one.peer, sign), []).append(step.version)
    for (peer, sign), versions in found.items():
        colour, at = colours[_of(peer, colours)], [lanes.index(peer)] * len(versions)
        axes.plot(versions, at, "o", color=colour, markersize=11, clip_on=False)
        axes.plot(versions, at, color="white", marker=f"${sign}$", markersize=5, linewidth=0,
                  markeredgewidth=0.1, clip_on=False)  # fmt: skip
    told = [f"{signs[kind]}  {kind}   ({peers.total()} × {', '.join(sorted(peers))})"
            for kind, peers in kinds.items() if kind in signs]  # fmt: skip
    told += [f"and {len(kinds) - MOST_KINDS} other reasons"] * (len(kinds) > MOST_KINDS)
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlabel("\n".join(told), loc="left", fontsize=8, linespacing=1.45, parse_math=False)
    _plain(axes)


def _figures(axes: Sequence[Axes], steps: Sequence[Step], colours: Colours) -> None:
    """Staleness and norm of contributions, and KL of adoptions, over versions."""
    parts = [(step.version, part) for step in steps for part in step.parts]
    adopted = [(step.version, one) for step in steps for one in step.adopted]
    staleness = [(at, part.staleness, part.peer) for at, part in parts]
    norms = [(at, part.norm, part.peer) for at, part in parts]
    kls = [(at, one.kl or None, one.peer) for at, one in adopted]
    _dots(axes[0], "staleness in versions", staleness, colours)
    _dots(axes[1], "norm of contributions (ring: scaled down)", norms, colours, scale="log")
    rings = [(at, part.norm) for at, part in parts if part.norm and part.clip < 1.0]
    axes[1].plot([at for at, _ in rings], [norm for _, norm in rings], "o", markersize=8,
                 markerfacecolor="none", color=RED)  # fmt: skip
    _dots(axes[2], "KL of adoptions (nats)", kls, colours, scale="log")


def _dots(
    axes: Axes,
    title: str,
    points: Sequence[tuple[int, float | None, str]],
    colours: Colours,
    scale: str = "linear",
) -> None:
    """Values over versions, each in its peer's colour."""
    axes.set_title(title, loc="left")
    told = [(at, value, _of(peer, colours)) for at, value, peer in points if value is not None]
    if not told:
        _nothing(axes, "not known")
        return
    for peer, colour in colours.items():
        mine = [(at, value) for at, value, name in told if name == peer]
        axes.plot([at for at, _ in mine], [value for _, value in mine], "o", color=colour,
                  markersize=4, alpha=0.75, markeredgewidth=0)  # fmt: skip
    axes.locator_params(axis="x", nbins=6, integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"v{value:.0f}")
    axes.set_yscale(scale)
    _plain(axes)


def _of(peer: str, colours: Colours) -> str:
    return peer if peer in colours else OTHERS


def _nothing(axes: Axes, said: str) -> None:
    axes.text(0.5, 0.5, said, ha="center", va="center", transform=axes.transAxes, color="#7b8794")
    axes.set_yticks([])
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.spines[:].set_visible(False)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    axes.set_axisbelow(True)
