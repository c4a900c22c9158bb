"""What a purge took out of shared weights: states and records that should be there and are not.

Looks at names alone, so that it costs a handful of ``stat`` calls; no torch. A purge takes single
files, the longest untouched first, out of the middle of a tree: a run goes on without most of them
and is told what it could get back.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace

from Daddy.core.errors import DaddyError
from Daddy.core.shared_paths import JoinedPaths, SharedPaths
from Daddy.weights.history import numbers, read_records
from Daddy.weights.store.store import Store

RESTORE = "python -m Daddy.weights.restore"
"""What a person says to get back what is gone."""


@dataclass(frozen=True, slots=True)
class Holes:
    """Numbers of versions that lack their state, of how many; those that lack their record."""

    states: tuple[int, ...] = ()
    wanted: int = 0
    records: tuple[int, ...] = ()
    card: bool = False
    gone: bool = False
    """Nothing is left at all."""

    @property
    def said(self) -> str:
        """One sentence; "" where nothing is missing."""
        if self.gone:
            return f"the shared weights are gone; {RESTORE}"
        parts = []
        if self.card:
            parts.append("RUN.json is missing")
        if self.records:
            parts.append(f"{_count(len(self.records), 'commit record')} missing")
        if self.states:
            parts.append(f"{len(self.states)} of {_count(self.wanted, 'state')} missing")
        return f"{', '.join(parts)}; {RESTORE}" if parts else ""


def _count(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'} {'is' if number == 1 else 'are'}"


def find_holes(shared: SharedPaths, keep: int) -> Holes:
    """What the newest ``keep`` versions lack, by the records that are there."""
    there = numbers(shared)
    if not there:
        return Holes(gone=not shared.run.exists())
    owners = shared.theirs if isinstance(shared, JoinedPaths) else shared
    kept = there[-keep:]
    store, without = Store(shared), []
    for number in kept:
        with contextlib.suppress(DaddyError):  # a damaged record is the report's business
            if not owners.blob(store.version(number).state).exists():
                without.append(number)
    return Holes(
        states=tuple(without),
        wanted=len(kept),
        records=tuple(_missing(shared, kept)),
        card=not shared.run.exists(),
    )


def states_said(holes: Holes) -> list[str]:
    """The missing states as a flaw of a report that names records and card itself."""
    alone = replace(holes, records=(), card=False, gone=False)
    return [alone.said] if alone.said else []


def _missing(shared: SharedPaths, kept: list[int]) -> list[int]:
    """Numbers between two records of which the later does not follow on the earlier."""
    found = read_records(shared, kept, kept[0])
    return [flaw.version for flaw in found.flaws if not shared.version(flaw.version).exists()]
