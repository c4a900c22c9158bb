"""Pure: from what a run goes on after a purge, and under which number.

Nobody can know which versions were made and lost: a merger that was frozen may commit the next
number any day, a laptop may stand on one that nothing here names. So a run that lost anything at
its top leaps: it goes on ten thousand numbers higher, where nobody has written or will.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from Daddy.weights.store.records import Conduct, Version

LEAP = 10_000
"""Numbers between what was known and what follows, at least: at a version each five seconds, half a
day that nobody told of. Eight digits are room for thousands of restores."""

UNTOLD = "untold"
"""Under this name stand steps of which only a laptop's copy tells, not whose they were."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version whose state verifies: ``exact`` as it was merged, else rounded to bfloat16."""

    version: int
    exact: bool
    where: str
    fleet_steps: int = 0


@dataclass(frozen=True, slots=True)
class Facts:
    """What is known. ``newest``: the highest commit record that the run's own folder still has.

    ``highest``: the highest number that anything names, here or in a source; -1: none.
    """

    newest: int | None
    highest: int
    head: bool
    candidates: tuple[Candidate, ...]


@dataclass(frozen=True, slots=True)
class Decision:
    """The version to go on from, the number to go on as (None: as it is), and why."""

    best: Candidate | None
    number: int | None
    reason: str


def decide(facts: Facts) -> Decision:
    """From what to go on, and as which number."""
    best = max(facts.candidates, key=lambda one: (one.version, one.exact), default=None)
    if best is None:
        return Decision(None, None, "no state verifies, neither here nor in a source")
    if why := _lost(facts, best):
        number = (facts.highest // LEAP + 2) * LEAP
        return Decision(best, number, f"{why}: numbers leap, for nobody to meet what is lost")
    return Decision(best, None, f"v{best.version} is the newest anybody knows of: it stays")


def _lost(facts: Facts, best: Candidate) -> str:
    """What is lost at the top; "" where the newest version is whole, or can be made so."""
    if facts.newest is None:
        return "no commit record is left"
    if facts.highest > facts.newest:
        return f"v{facts.highest} is known and has no commit record here"
    if best.version < facts.newest or not best.exact:
        return f"the state of v{facts.newest} is lost"
    return "" if facts.head else "HEAD.json is gone, and so is what it named, perhaps"


def next_version(
    decision: Decision, parent: tuple[Version, str] | None, blank: Version, ts: float
) -> Version:
    """The commit record under which the run goes on.

    ``parent`` is the newest record known and its hash: its totals and what it judged go on, so that
    nothing counts twice. ``blank`` says the rest, and the state.
    """
    best, number = decision.best, decision.number
    assert best is not None
    assert number is not None
    known, sha = parent or (None, "")
    totals = dict(known.contributors) if known else {}
    if (more := best.fleet_steps - sum(totals.values())) > 0:
        totals[UNTOLD] = totals.get(UNTOLD, 0) + more
    return replace(
        blank,
        version=number,
        parent=sha,
        base=best.version if known and best.version <= known.version else _number(known, number),
        rule=known.rule if known else blank.rule,
        denominator=known.denominator if known else 0.0,
        consumed=dict(known.consumed) if known else {},
        contributors=totals,
        norms=known.norms if known else (),
        fleet_steps=sum(totals.values()),
        merger=f"restore of v{best.version}",
        ts=ts,
        restored=True,
        conduct=_shifted(known, number),
        reverted=known.reverted if known else (),
    )


def _shifted(known: Version | None, number: int) -> tuple[Conduct, ...]:
    """Jobs in trouble stay so for as many versions as before the leap."""
    if known is None:
        return ()
    return tuple(
        replace(one, until=number + max(0, one.until - known.version)) for one in known.conduct
    )


def _number(known: Version | None, otherwise: int) -> int:
    return otherwise if known is None else known.version


def fitting(
    records: Mapping[int, tuple[Version, str]], found: Iterable[tuple[Version, str]]
) -> list[int]:
    """Numbers of ``found`` that belong among ``records`` (by number, with hashes) and are missing.

    What was lost before an earlier restore is another line of descent: it stays out.
    """
    known, missing = dict(records), []
    for record, sha in sorted(found, key=lambda one: one[0].version):
        number = record.version
        if number in known or not _is_joined(known, record, sha):
            continue
        known[number] = (record, sha)
        missing.append(number)
    return missing


def _is_joined(known: Mapping[int, tuple[Version, str]], record: Version, sha: str) -> bool:
    before, after = known.get(record.version - 1), known.get(record.version + 1)
    if before is not None and not record.restored and record.parent != before[1]:
        return False
    if after is not None and not after[0].restored and after[0].parent != sha:
        return False
    by_hash = {one_sha: number for number, (_, one_sha) in known.items()}
    leaps = (one for one, _ in known.values() if one.restored and one.version > record.version)
    return all(record.version <= by_hash.get(one.parent, one.base) for one in leaps)
