"""Pure: what ``sinfo`` says of the partitions, held against what a job will ask for."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.errors import SchedulerError
from Daddy.core.humanize import format_duration, parse_duration
from Daddy.core.settings import Slurm

FORMAT = "%R|%a|%l|%N"
"""Partition, whether it is up, its time limit, and a node of it: one line for each node."""
_BOOTED = re.compile(r"\bBootTime=(\d+)\b")
_SAME_BOOT_S = 5.0


@dataclass(frozen=True, slots=True)
class Partition:
    """One partition; ``limit_s`` None: without an end."""

    name: str
    up: bool
    limit_s: int | None
    node: str
    """One of its nodes."""


def parse_partitions(text: str) -> tuple[Partition, ...]:
    """``sinfo --noheader --all --Node --format=FORMAT`` as records; other lines are passed over."""
    found: dict[str, Partition] = {}
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|")]
        if len(words) == 4 and words[0]:  # noqa: PLR2004 - the fields of FORMAT
            made = Partition(words[0], words[1] == "up", _limit(words[2]), words[3])
            found.setdefault(words[0], made)
    return tuple(found.values())


def booted_with(text: str, booted_ts: float) -> bool:
    """Whether a node (``scontrol show node``, times in seconds) booted when this host did: then it
    *is* this host, and nothing has to be shared with it.
    """
    match = _BOOTED.search(text)
    return match is not None and abs(int(match[1]) - booted_ts) <= _SAME_BOOT_S


def _limit(text: str) -> int | None:
    try:
        return parse_duration(text)
    except ValueError:
        return None  # infinite, n/a


def partition_findings(slurm: Slurm, known: Sequence[Partition]) -> list[SchedulerError]:
    """Why a job of ours could never start in its partition; nothing is said where none is known."""
    if not known:
        return []
    ours = next((one for one in known if one.name == slurm.partition), None)
    if ours is None:
        return [_unknown(slurm.partition, [one.name for one in known])]
    found = []
    if not ours.up:
        found.append(
            SchedulerError(
                f"partition {ours.name} is not up: no job starts there",
                "ask sinfo which one is, and set slurm.partition",
            )
        )
    wanted = parse_duration(slurm.time_limit)
    if ours.limit_s is not None and wanted > ours.limit_s:
        found.append(
            SchedulerError(
                f"slurm.time_limit {slurm.time_limit} is over the "
                f"{format_duration(ours.limit_s)} that partition {ours.name} allows",
                f"set slurm.time_limit to {format_duration(ours.limit_s)}: jobs hand over",
            )
        )
    return found


def _unknown(name: str, names: Sequence[str]) -> SchedulerError:
    near = difflib.get_close_matches(name, names, n=1, cutoff=0.0)
    listed = ", ".join(sorted(names)[:20])
    return SchedulerError(
        f"there is no partition {name} here; there are: {listed}",
        f"set slurm.partition or say --partition {near[0]}",
    )
