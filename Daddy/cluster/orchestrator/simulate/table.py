"""Pure: from months to figures: means with their 95 % intervals, as text and as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import mean, stdev

from Daddy.cluster.orchestrator.simulate.jobs import Month
from Daddy.cluster.orchestrator.simulate.rows import NO_DAEMON, OURS, POLICIES, Row

_Z = 1.959964
_HEADS = {
    OURS: "ours",
    NO_DAEMON: "no daemon",
    "seed_gang": "seed gang",
    "seed_per_slot": "seed/slot",
    "self_requeue": "requeue",
    "singleton": "singleton",
    "array": "array",
}
_TITLE = """\
GPU-hours that trained, in percent of what the running cap allows: mean over {seeds} seeds of
{days:g} days, ± 95 %"""
_FOOT = """\
idle: our allocated hours that did not train; calls, sbatch: our Slurm commands a day and the
submissions among them. What is assumed, and from where: docs/simulator.md"""
_COLUMN = 14
_FIRST = 10


@dataclass(frozen=True, slots=True)
class Share:
    """A mean share and its 95 % interval over seeds."""

    used: float
    low: float
    high: float

    def __str__(self) -> str:
        half = max(self.high - self.used, self.used - self.low)
        return f"{100 * self.used:.2f} ±{100 * half:.2f}"


@dataclass(frozen=True, slots=True)
class Cell:
    """All months of one policy in one row."""

    months: tuple[Month, ...]

    @property
    def share(self) -> Share:
        return interval([one.used for one in self.months])

    @property
    def idle(self) -> float:
        return mean(one.idle for one in self.months)

    @property
    def commands(self) -> float:
        return mean(one.commands for one in self.months)

    @property
    def submissions(self) -> float:
        return mean(one.submissions for one in self.months)


Results = Mapping[Row, Mapping[str, Cell]]


def student(freedom: int) -> float:
    """The 97.5 % point of Student's t, by Cornish and Fisher's expansion (A&S 26.7.5)."""
    z, n = _Z, freedom
    return (
        z
        + (z**3 + z) / (4 * n)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3)
        + (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92_160 * n**4)
    )


def interval(shares: Sequence[float]) -> Share:
    """Mean and 95 % interval; a single month says nothing about others."""
    middle, count = mean(shares), len(shares)
    if count < 2:  # noqa: PLR2004 - no spread without two
        return Share(middle, 0.0, 1.0)
    half = student(count - 1) * stdev(shares) / math.sqrt(count)
    return Share(middle, max(0.0, middle - half), min(1.0, middle + half))


def to_text(results: Results, days: float, seeds: int) -> str:
    """The table for people."""
    columns = [one for one in _HEADS if any(one in cells for cells in results.values())]
    heads = "".join(f"{_HEADS[one]:>{_COLUMN}}" for one in columns)
    lines = [_TITLE.format(seeds=seeds, days=days), ""]
    lines.append(f"{'':{_FIRST}}{heads}{'idle':>8}{'calls':>8}{'sbatch':>8}")
    group = ""
    for row, cells in results.items():
        if row.group != group:
            group = row.group
            lines.append(group)
        lines.append(_line(row.workload, cells, columns))
    return "\n".join([*lines, "", _FOOT])


def _line(workload: str, cells: Mapping[str, Cell], columns: Sequence[str]) -> str:
    shares = (str(cells[one].share) if one in cells else "" for one in columns)
    ours = cells[OURS]
    last = f"{100 * ours.idle:>7.2f}%{ours.commands:>8.0f}{ours.submissions:>8.1f}"
    return f"  {workload:{_FIRST - 2}}" + "".join(f"{one:>{_COLUMN}}" for one in shares) + last


def to_json(results: Results, days: float, seeds: int) -> dict[str, object]:
    """The main rows for machines: shares of the GPU-hours allowed."""
    workloads = {
        row.workload: {name: _share(cells[name]) for name in POLICIES}
        for row, cells in results.items()
    }
    return {"days": days if days % 1 else int(days), "seeds": seeds, "workloads": workloads}


def _share(cell: Cell) -> dict[str, float]:
    share = cell.share
    facts = {"used": share.used, "low": share.low, "high": share.high}
    return {name: round(value, 6) for name, value in facts.items()}
