"""What each panel of the lineage's picture shows; draws on axes that are given to it.

Jobs are cool colours, laptops warm. A panel that nobody told anything for says so.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from Daddy.core.humanize import amount
from Daddy.weights.views.lineage import JOB, Kind, Step, kind_of, peer_order
from Daddy.weights.views.lines import stamp

if TYPE_CHECKING:
    from matplotlib.axes import Axes

INK, FAINT, RED = "#1f2933", "#cbd2d9", "#c53030"
JOBS = ("#2f855a", "#2b6cb0", "#6b46c1", "#0f766e", "#4a5568", "#63b3ed", "#9ae6b4", "#b794f4")
LAPTOPS = ("#dd9f2b", "#c05621", "#b83280", "#975a16")
OTHERS = "the others"
MOST_KINDS = 6
"""Reasons that are told one by one below the refusals."""

Colours = Mapping[str, str]


def colours_of(steps: Sequence[Step]) -> dict[str, str]:
    """Peer → colour, jobs first; whoever comes after the last colour is one of the others."""
    named = sorted({peer for step in steps for peer in step.peers}, key=peer_order)
    jobs = zip((one for one in named if JOB.fullmatch(one)), JOBS, strict=False)
    laptops = zip((one for one in named if not JOB.fullmatch(one)), LAPTOPS, strict=False)
    colours = {**dict(jobs), **dict(laptops)}
    return colours if len(colours) == len(named) else {**colours, OTHERS: FAINT}


def _of(peer: str, colours: Colours) -> str:
    return peer if peer in colours else OTHERS


# -- how it grew


def growth(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """Steps of every peer, one on top of the other, over time; a tick at the foot per version."""
    told = [(step.ts, step) for step in steps if step.ts is not None and counts(step)]
    widest = max(step.versions for step in steps)
    ticks = f"every {widest} versions" if widest > 1 else "versions"
    axes.set_title(f"environment steps in the shared weights, by peer (ticks: {ticks})", loc="left")
    if len(told) < 2:  # noqa: PLR2004
        return _nothing(axes, "fewer than two versions tell their steps")
    begin = told[0][0]
    unit, seconds = _unit(told[-1][0] - begin)
    times = [(ts - begin) / seconds for ts, _ in told]
    areas = [[_sum(step.totals, peer, colours) for _, step in told] for peer in colours]
    axes.stackplot(times, areas, colors=list(colours.values()), alpha=0.85, linewidth=0)
    axes.plot(times, [0.0] * len(times), "|", color=INK, markersize=7, alpha=_faded(len(times)),
              clip_on=False)  # fmt: skip
    axes.set(xlim=(0, max(times)), xlabel=f"{unit} since {stamp(begin)}")
    axes.set_ylim(bottom=0)
    axes.yaxis.set_major_formatter(lambda value, _: amount(value))
    _plain(axes)
    return None


def _refused_by(steps: Sequence[Step], kinds: Sequence[Kind]) -> dict[tuple[str, str], list[int]]:
    """Versions that refused a peer, by the sign of the kind of reason: its number, or a plus."""
    signs = {kind.said: str(number) for number, kind in enumerate(kinds[:MOST_KINDS], 1)}
    found: dict[tuple[str, str], list[int]] = {}
    for step in steps:
        for one in step.refused:
            sign = signs.get(kind_of(one.reason), "+")
            found.setdefault((one.peer, sign), []).append(step.version)
    return found


def counts(step: Step) -> bool:
    """Whether it tells who had how many steps: a laptop's receipts do not."""
    return bool(step.totals) or step.fleet_steps == 0


def _sum(totals: Mapping[str, float], peer: str, colours: Colours) -> float:
    """What ``peer`` has; the others together where it is they."""
    return sum(value for name, value in totals.items() if _of(name, colours) == peer)


def _unit(seconds: float) -> tuple[str, float]:
    """A unit of time in which so many seconds are a handy number."""
    for name, size in (("days", 86_400.0), ("hours", 3600.0), ("minutes", 60.0)):
        if seconds >= 3 * size:
            return name, size
    return "seconds", 1.0


def _faded(count: int) -> float:
    return min(0.9, 60.0 / count)


# -- who moved it


def shares(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """A bar per version: how far each peer's progress moved it."""
    widest = max(step.versions for step in steps)
    many = f"; a bar: the mean of {widest} versions" if widest > 1 else ""
    title = f"who moved each version, and how far: 1 is a whole round's mean{many}"
    axes.set_title(title, loc="left")
    versions = [step.version for step in steps]
    thick = [0.92 * step.versions for step in steps]
    middle = [step.version - (step.versions - 1) / 2 for step in steps]
    below = [0.0] * len(steps)
    for peer, colour in colours.items():
        mine = [_sum(step.shares, peer, colours) for step in steps]
        axes.bar(middle, mine, width=thick, bottom=below, color=colour, alpha=0.85)
        below = [low + one for low, one in zip(below, mine, strict=True)]
    _marks(axes, steps)
    axes.set(
        ylim=(0, max(1.0, *below)),
        xlim=(steps[0].version - steps[0].versions + 0.5, versions[-1] + 0.5),
    )
    axes.set_ylabel("share")
    axes.locator_params(axis="x", nbins=12, integer=True)
    axes.xaxis.set_major_formatter(_time_of(steps))
    _plain(axes)


def _marks(axes: Axes, steps: Sequence[Step]) -> None:
    """Where the chain is damaged, or went on from an older version."""
    before = ""
    for step in steps:
        told = "" if step.base is None else f"continued from v{step.base}"
        told = "damaged" if step.flaw else told
        if told:
            axes.axvline(step.version, color=RED, linewidth=1, linestyle=":")
        if told != before:
            axes.text(step.version, 1.0, f" {told}", color=RED, fontsize=7, va="top")
        before = told


def _time_of(steps: Sequence[Step]) -> Callable[[float, float], str]:
    """A tick's version, and when it (or what it is folded into) was merged."""
    versions = [step.version for step in steps]

    def name(value: float, _: float) -> str:
        place = bisect_left(versions, round(value))
        step = steps[place] if place < len(steps) else None
        near = step is not None and step.version - round(value) < step.versions
        when = f"\n{stamp(step.ts)[11:]}" if near and step and step.ts is not None else ""
        return f"v{value:.0f}{when}"

    return name


# -- what did not count


def refusals(
    axes: Axes,
    steps: Sequence[Step],
    lanes: Sequence[str],
    kinds: Sequence[Kind],
    colours: Colours,
) -> None:
    """A lane per peer that was refused, a number per kind of reason, and what the numbers mean."""
    axes.set_title("refused, and why", loc="left")
    axes.tick_params(axis="x", labelbottom=False, length=0)
    if not lanes:
        return _nothing(axes, "nothing was refused")
    for (peer, sign), mine in _refused_by(steps, kinds).items():
        colour, at = colours[_of(peer, colours)], [lanes.index(peer)] * len(mine)
        axes.plot(mine, at, "o", color=colour, markersize=11, clip_on=False)
        axes.plot(mine, at, color="white", marker=f"${sign}$", markersize=5, linewidth=0,
                  markeredgewidth=0.1, clip_on=False)  # fmt: skip
    axes.set_yticks(range(len(lanes)), lanes)
    axes.set_ylim(len(lanes) - 0.4, -0.6)
    axes.set_xlabel(
        _kinds_in_words(kinds), loc="left", fontsize=8, linespacing=1.45, parse_math=False
    )
    _plain(axes)
    return None


def _kinds_in_words(kinds: Sequence[Kind]) -> str:
    told = [
        f"{place}  {kind.said}   ({kind.count} × {', '.join(kind.peers)})"
        for place, kind in enumerate(kinds[:MOST_KINDS], 1)
    ]
    more = len(kinds) - MOST_KINDS
    return "\n".join([*told, *([f"and {more} other reasons"] if more > 0 else [])])


# -- the figures of each contribution


def staleness(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """How many versions lay between the base of each contribution and its merge."""
    axes.set_title(f"staleness in versions{_largest(steps)}", loc="left")
    aside = {peer: 0.5 * place / len(colours) for place, peer in enumerate(colours)}
    points = [
        (s.version, part.staleness + aside[_of(part.peer, colours)], part.peer)
        for s in steps
        for part in s.parts
        if part.staleness is not None
    ]
    _dots(axes, points, colours, "no version tells it")
    axes.locator_params(axis="y", nbins=5, integer=True)


def norms(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """How long each delta was, and which were scaled down."""
    axes.set_title(f"norm of contributions (ring: scaled down){_largest(steps)}", loc="left")
    points = [(s.version, part.norm, part.peer) for s in steps for part in s.parts]
    if _dots(axes, points, colours, "no version tells it"):
        _logarithmic(axes)
    rings = [(s.version, part.norm) for s in steps for part in s.parts if part.clip < 1.0]
    axes.plot(*_columns(rings), "o", markersize=8, markerfacecolor="none", color=RED)


def kls(axes: Axes, steps: Sequence[Step], colours: Colours) -> None:
    """How far each learner's policy moved when it adopted."""
    axes.set_title(f"KL of adoptions (nats){_largest(steps)}", loc="left")
    points = [(s.version, one.kl, one.peer) for s in steps for one in s.adopted if one.kl]
    if _dots(axes, points, colours, "no learner told one"):
        _logarithmic(axes)


def _largest(steps: Sequence[Step]) -> str:
    widest = max(step.versions for step in steps)
    return f", the largest of {widest}" if widest > 1 else ""


def _dots(
    axes: Axes, points: Sequence[tuple[int, float | None, str]], colours: Colours, none: str
) -> bool:
    """Values over versions, each in its peer's colour; False and a word where there are none."""
    told = [(version, value, peer) for version, value, peer in points if value is not None]
    if not told:
        _nothing(axes, none)
        return False
    for peer, colour in colours.items():
        mine = [(version, value) for version, value, name in told if _of(name, colours) == peer]
        axes.plot(*_columns(mine), "o", color=colour, markersize=4, alpha=0.75, markeredgewidth=0)
    axes.locator_params(axis="x", nbins=6, integer=True)
    axes.xaxis.set_major_formatter(lambda value, _: f"v{value:.0f}")
    _plain(axes)
    return True


def _logarithmic(axes: Axes) -> None:
    """Powers of ten and what lies between them, in plain figures."""
    axes.set_yscale("log", subs=(2, 5))
    for which in (axes.yaxis.set_major_formatter, axes.yaxis.set_minor_formatter):
        which(lambda value, _: f"{value:g}")


def _columns(points: Iterable[tuple[Any, Any]]) -> tuple[list[Any], list[Any]]:
    held = list(points)
    return [one for one, _ in held], [one for _, one in held]


def _nothing(axes: Axes, said: str) -> None:
    axes.text(0.5, 0.5, said, ha="center", va="center", transform=axes.transAxes, color="#7b8794")
    axes.set_yticks([])
    axes.tick_params(axis="x", labelbottom=False, length=0)
    axes.spines[:].set_visible(False)


def _plain(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", color=FAINT, alpha=0.4, linewidth=0.6)
    axes.set_axisbelow(True)
