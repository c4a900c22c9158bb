"""Pure: how many jobs of one person a site lets run and wait, from what Slurm's tools print.

A limit can sit in the user's association, in the account's, in the QOS a job gets and in that of
the partition; it can count jobs or GPUs and CPUs. The smallest wins. Formats: sacctmgr(1),
scontrol(1), Slurm 22.05.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

ASSOCIATION = (
    "Account", "User", "Partition", "QOS", "DefaultQOS",
    "MaxJobs", "MaxSubmit", "GrpJobs", "GrpSubmit", "GrpTRES",
)  # fmt: skip
QUALITY = (
    "Name", "Flags", "MaxJobsPU", "MaxSubmitPU", "MaxTRESPU",
    "MaxJobsPA", "MaxSubmitPA", "GrpJobs", "GrpSubmit", "GrpTRES",
)  # fmt: skip
_RUN = ("MaxJobs", "GrpJobs", "MaxJobsPU", "MaxJobsPA")
_SUBMIT = ("MaxSubmit", "GrpSubmit", "MaxSubmitPU", "MaxSubmitPA")
_TRES = ("MaxTRESPU", "GrpTRES")

Row = Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Needs:
    """What one job of ours takes of what may be counted."""

    gpus: int = 0
    cpus: int = 1


@dataclass(frozen=True, slots=True)
class Limit:
    """One limit and where it stands."""

    jobs: int
    name: str


def parse_rows(text: str, names: tuple[str, ...]) -> tuple[Row, ...]:
    """``--noheader --parsable2`` lines with these columns; others are passed over."""
    lines = (line.split("|") for line in text.splitlines())
    return tuple(dict(zip(names, line, strict=True)) for line in lines if len(line) == len(names))


def parse_config(text: str) -> dict[str, str]:
    """``scontrol show config`` as names and values."""
    pairs = (line.partition("=") for line in text.splitlines())
    return {name.strip(): value.strip() for name, given, value in pairs if given}


def partition_quality(text: str) -> str:
    """The QOS of a partition, from ``scontrol --oneliner show partition``; empty for none."""
    match = re.search(r"\bQoS=(\S+)", text)
    return match[1] if match and match[1] != "N/A" else ""


def running_limits(rows: Iterable[Row], where: str, needs: Needs) -> list[Limit]:
    """Limits of what runs at once."""
    found = [limit for row in rows for limit in _counts(row, _RUN, where)]
    for row in rows:
        for name in _TRES:
            found += [
                Limit(most // each, f"{name} {kind} of {where}")
                for kind, most, each in _resources(row.get(name, ""), needs)
            ]
    return found


def submit_limits(rows: Iterable[Row], where: str) -> list[Limit]:
    """Limits of what runs and waits."""
    return [limit for row in rows for limit in _counts(row, _SUBMIT, where)]


def _counts(row: Row, names: tuple[str, ...], where: str) -> list[Limit]:
    cells = ((name, row.get(name, "")) for name in names)
    return [Limit(int(cell), f"{name} of {where}") for name, cell in cells if cell.isdigit()]


def _resources(text: str, needs: Needs) -> list[tuple[str, int, int]]:
    """(what, how much of it, how much a job takes) of ``cpu=32,gres/gpu=4``."""
    each = {"cpu": needs.cpus, "gres/gpu": needs.gpus, "node": 1}
    pairs = (part.partition("=") for part in text.split(","))
    return [
        (kind, int(most), each[kind])
        for kind, _, most in pairs
        if most.isdigit() and each.get(kind)
    ]


def smallest(limits: Iterable[Limit]) -> Limit | None:
    """The limit that is met first."""
    return min(limits, key=lambda limit: limit.jobs, default=None)
