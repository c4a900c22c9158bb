"""Pure: what of a run nobody needs any more, from a listing of its files and what is still in use.

Never among it: what a reader needs (events, shared weights, the ledger), a release that something
runs or could fall back to, the newest checkpoints, the output of jobs that live.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

DAY_S = 86_400.0
_TEMP_S = 3600.0
"""Age at which an unfinished file was left by a crash."""
_LOG = re.compile(r"logs/slurm-(\d+)\.(?:out|err)")
_SCRIPT = re.compile(r"scripts/attempt-(\d+)\.sbatch")
_RELEASE = re.compile(r"releases/([^/.][^/]*)")
_CHECKPOINT = re.compile(r"slots/(\d+)/checkpoints/(t\d{6}-s\d{12})\.(?:json|safetensors)")
_BROKEN = re.compile(r"slots/\d+/checkpoints/.*\.broken")
_ENDED_JOB = re.compile(r"queue/ended/[^/]+")
_TEMP = re.compile(r"(?:.*/)?\.(?:tmp|probe)-[^/]*")


@dataclass(frozen=True, slots=True)
class Thing:
    """A file, or a folder that goes as a whole: path in the run directory, bytes, wall seconds."""

    path: str
    size: int
    changed_ts: float


@dataclass(frozen=True, slots=True)
class InUse:
    """What must stay."""

    releases: frozenset[str]
    jobs: frozenset[str]
    attempts: frozenset[str]
    keep_checkpoints: int


@dataclass(frozen=True, slots=True)
class Leftover:
    """One thing that may go, and why."""

    thing: Thing
    why: str


def leftovers(things: Iterable[Thing], use: InUse, now: float, days: float) -> tuple[Leftover, ...]:
    """What may go, in the order of the listing."""
    listed = list(things)
    surplus = _surplus(listed, use)
    found = ((thing, _why(thing, use, now, days * DAY_S, surplus)) for thing in listed)
    return tuple(Leftover(thing, why) for thing, why in found if why)


def _why(thing: Thing, use: InUse, now: float, old_s: float, surplus: set[str]) -> str:
    """Why it may go; empty when it stays."""
    age = now - thing.changed_ts
    if thing.path in surplus:
        return f"more than the newest {use.keep_checkpoints} checkpoints of its slot"
    for form, used, after_s, why in (
        (_TEMP, frozenset(), _TEMP_S, "left by a crash"),
        (_RELEASE, use.releases, _TEMP_S, "a release that nothing runs"),
        (_LOG, use.jobs, old_s, "output of an ended job"),
        (_SCRIPT, use.attempts, old_s, "script of an ended attempt"),
        (_BROKEN, frozenset(), old_s, "a damaged checkpoint, set aside"),
        (_ENDED_JOB, frozenset(), old_s, "an ended job of the local queue"),
    ):
        match = form.fullmatch(thing.path)
        if match is not None:
            named = match[1] if match.re.groups else ""
            return why if named not in used and age > after_s else ""
    return ""


def _surplus(things: list[Thing], use: InUse) -> set[str]:
    """Checkpoints beyond the newest of each slot; a slot that is no more keeps as many."""
    by_slot: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for thing in things:
        if match := _CHECKPOINT.fullmatch(thing.path):
            by_slot[match[1]][match[2]].append(thing.path)
    return {path for names in by_slot.values() for path in _older(names, use.keep_checkpoints)}


def _older(names: dict[str, list[str]], keep: int) -> Iterator[str]:
    """Only whole checkpoints count as kept: one without its manifest does not exist."""
    whole = [name for name in sorted(names) if any(path.endswith(".json") for path in names[name])]
    oldest_kept = whole[-keep] if len(whole) >= keep else ""
    for name, paths in names.items():
        if name < oldest_kept:
            yield from paths
