"""Adapter for matplotlib: draws the lineage of shared weights as one picture.

The upper plot shows each peer's share in each version, the lower plot refusals by peer. Jobs have
cool colours, laptops and friends' jobs warm ones.
"""

from collections.abc import Mapping, Sequence
from itertools import cycle
from pathlib import Path

import matplotlib as mpl

mpl.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes

from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import SLOT
from Daddy.weights.lineage import Record, peer_order, shares_of

INK, FAINT, RED = "#1f2933", "#cbd2d9", "#c53030"
JOBS = ("#2f855a", "#2b6cb0", "#6b46c1", "#0f766e", "#4a5568", "#63b3ed", "#9ae6b4", "#b794f4")
LAPTOPS = ("#dd9f2b", "#c05621", "#b83280", "#975a16")
FAULTS = {"late": "o", "values": "X", "reverted": "v"}
"""Marker of each kind of refusal."""


def draw_lineage(path: Path, name: str, steps: Sequence[Record]) -> None:
    """Draw shares and refusals by version as a PNG; ``steps``: version records, oldest first."""
    colours = colours_of(steps)
    with mpl.rc_context({"font.size": 8.5, "text.color": INK, "axes.edgecolor": FAINT}):
        figure, (shares, refusals) = plt.subplots(
            2, figsize=(13, 5.4), dpi=110, layout="constrained", sharex=True
        )
        _shares(shares, steps, colours)
        _refusals(refusals, steps, colours)
        figure.suptitle(
            f"{printable_line(name, 60)}: v{steps[0]['version']} to v{steps[-1]['version']}, "
            f"{max(step['fleet_steps'] or 0 for step in steps):,} steps, "
            f"{sum(len(step['refused']) for step in steps):,} refused",
            parse_math=False,
        )
        patches = [mpl.patches.Patch(color=colour, label=peer) for peer, colour in colours.items()]
        figure.legend(handles=patches, loc="outside lower center", ncols=12, frameon=False)
        path.parent.mkdir(parents=True, exist_ok=True)
        figure.savefig(path)
        plt.close(figure)


def colours_of(steps: Sequence[Record]) -> dict[str, str]:
    """Return a colour per peer, jobs first; with more peers than colours, colours repeat."""
    named = {entry["peer"] for step in steps for entry in (*step["parts"], *step["refused"])}
    jobs = [peer for peer in sorted(named, key=peer_order) if SLOT.fullmatch(peer)]
    laptops = [peer for peer in sorted(named, key=peer_order) if peer not in jobs]
    return dict([*zip(jobs, cycle(JOBS)), *zip(laptops, cycle(LAPTOPS))])


def _shares(axes: Axes, steps: Sequence[Record], colours: Mapping[str, str]) -> None:
    """Draw shares by version; a vertical line marks a damaged record or an older base."""
    versions = [step["version"] for step in steps]
    edges = [version - 0.5 for version in versions] + [versions[-1] + 0.5]
    shares = [shares_of(step) for step in (*steps, steps[-1])]
    areas = [[by_peer.get(peer, 0.0) for by_peer in shares] for peer in colours]
    if areas:
        axes.stackplot(edges, areas, colors=[*colours.values()], linewidth=0, step="post")
    axes.set_title("share of each peer in each version: 1 is a whole round's mean", loc="left")
    for step in steps:
        if step["flaw"] or step["base"] is not None:
            note = "damaged" if step["flaw"] else f"continued from v{step['base']}"
            axes.axvline(step["version"], color=RED, linewidth=1, linestyle=":")
            axes.text(step["version"], 1.0, f" {note}", color=RED, fontsize=7, va="top")
    axes.set(xlim=(edges[0], edges[-1]), ylabel="share")
    axes.locator_params(axis="x", nbins=12, integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"v{value:.0f}")


def _refusals(axes: Axes, steps: Sequence[Record], colours: Mapping[str, str]) -> None:
    """Draw one row per refused peer, with a marker per kind of refusal."""
    refused = [(step["version"], entry) for step in steps for entry in step["refused"]]
    lanes = sorted({entry["peer"] for _, entry in refused}, key=peer_order)
    for fault, marker in FAULTS.items():
        points = [(number, entry["peer"]) for number, entry in refused if entry["fault"] == fault]
        axes.scatter(
            [number for number, _ in points],
            [lanes.index(peer) for _, peer in points],
            c=[colours[peer] for _, peer in points],
            marker=marker,
            label=fault,
        )
    axes.set_title("refused contributions" if refused else "nothing was refused", loc="left")
    axes.set_yticks(range(len(lanes)), lanes)
    if refused:
        axes.legend(loc="upper right", frameon=False)
