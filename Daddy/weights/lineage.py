"""Pure. The lineage of shared weights: contributions, refusals and adoptions of each version.

One :class:`Step` per version, from commit records, or, on a laptop, from the receipts that came
along; as lines of text too. A figure that is not known is None, never 0.
"""

from __future__ import annotations

import dataclasses
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timezone
from typing import Any

from Daddy.core.humanize import one_line
from Daddy.core.names import FRIENDS_JOB
from Daddy.weights.store.records import Keyframe, Receipt, Revert, Version

JOB = re.compile(r"slot-\d+")

HEADER = ("version", "merged", "steps", "from, share in %", "lag", "norm", "by", "KL", "refused")
"""``lag``: versions between base and merge; ``by``: how many adopted it, and with which ``KL``."""

_RIGHT = frozenset({"steps", "by"})


@dataclass(frozen=True, slots=True)
class Part:
    """One contribution in a version. ``share``: how far it moved the weights, 0 to 1.

    ``norm``: the delta's, before it was scaled by ``clip``; ``staleness`` in versions.
    """

    peer: str
    sequence: int
    share: float
    staleness: int | None = None
    norm: float | None = None
    clip: float = 1.0
    env_steps: int | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """One that did not count. ``fault``: "late" is offered again, "values" is dropped."""

    peer: str
    sequence: int
    fault: str
    reason: str

    def __str__(self) -> str:
        """``anna/3: its norm … (dropped)``: the reason, and the future of the work."""
        after = "offered again" if self.fault == "late" else "dropped"
        return f"{self.peer}/{self.sequence}: {one_line(self.reason)} ({after})"


@dataclass(frozen=True, slots=True)
class Adopted:
    """A job that took the version over, when (wall seconds), and its policy's KL to before."""

    peer: str
    ts: float
    kl: float | None


@dataclass(frozen=True, slots=True)
class Step:
    """One version. ``ts`` in wall seconds; ``flaw``: a fault of its record.

    ``totals``: environment steps by peer, over all versions so far. ``base``: the version it was
    moved from, where that is not the one before. ``reverted``: the range it took back, and why.
    ``kept``: the reason that its state is kept ("newest", "hour", "day", "best"); empty: it is not.
    """

    version: int
    ts: float | None = None
    merger: str = ""
    fleet_steps: int | None = None
    totals: Mapping[str, int] = field(default_factory=dict)
    base: int | None = None
    parts: tuple[Part, ...] = ()
    refused: tuple[Refused, ...] = ()
    adopted: tuple[Adopted, ...] = ()
    flaw: str = ""
    reverted: str = ""
    kept: str = ""

    def to_json(self) -> dict[str, Any]:
        """The step as plain values."""
        return dataclasses.asdict(self)

    @property
    def shares(self) -> dict[str, float]:
        """Peer → its share in this version, over all its contributions."""
        total: dict[str, float] = {}
        for part in self.parts:
            total[part.peer] = total.get(part.peer, 0.0) + part.share
        return dict(sorted(total.items(), key=lambda pair: peer_order(pair[0])))

    @property
    def peers(self) -> set[str]:
        """Everybody in it."""
        found: tuple[Part | Refused | Adopted, ...] = (*self.parts, *self.refused, *self.adopted)
        return {entry.peer for entry in found}


def peer_order(peer: str) -> tuple[int, int, str]:
    """Jobs by number, then friends' jobs by friend and number, then laptops by name."""
    if JOB.fullmatch(peer):
        return (0, int(peer.removeprefix("slot-")), peer)
    return (1 if FRIENDS_JOB.fullmatch(peer) else 2, len(peer), peer)


def from_records(
    records: Iterable[Version],
    flaws: Mapping[int, str],
    adoptions: Mapping[int, tuple[Adopted, ...]],
    kept: Mapping[int, str] | None = None,
) -> list[Step]:
    """The lineage in a run: a step per record, and one per flaw without a record, in order."""
    steps = {
        record.version: Step(
            version=record.version,
            ts=record.ts,
            merger=record.merger,
            fleet_steps=record.fleet_steps,
            totals=record.contributors,
            base=record.base if record.base != max(0, record.version - 1) else None,
            parts=tuple(
                Part(i.peer, i.sequence, i.share, i.staleness, i.norm, i.clip, i.env_steps)
                for i in record.inputs
            ),
            refused=tuple(Refused(r.peer, r.sequence, r.fault, r.reason) for r in record.refused),
            adopted=adoptions.get(record.version, ()),
            flaw=flaws.get(record.version, ""),
            reverted="; ".join(map(_told_revert, record.reverts)),
            kept=(kept or {}).get(record.version, ""),
        )
        for record in records
    }
    for number, said in flaws.items():
        steps.setdefault(number, Step(number, adopted=adoptions.get(number, ()), flaw=said))
    return [steps[number] for number in sorted(steps)]


def from_receipts(frames: Iterable[Keyframe], receipts: Iterable[Receipt]) -> list[Step]:
    """As far as a laptop knows it: the versions it holds, and those that judged its work."""
    steps = {f.version: Step(f.version, ts=f.ts, fleet_steps=f.fleet_steps) for f in frames}
    for r in receipts:
        step = steps.get(r.version, Step(r.version))
        if r.accepted:
            step = dataclasses.replace(step, parts=(*step.parts, Part(r.peer, r.sequence, r.share)))
        else:
            refused = Refused(r.peer, r.sequence, r.fault, r.reason)
            step = dataclasses.replace(step, refused=(*step.refused, refused))
        steps[r.version] = step
    return [steps[number] for number in sorted(steps)]


def _told_revert(revert: Revert) -> str:
    """``took back v7 to v10, without …: v8 against v6: it plays worse: …``."""
    named = f", without {', '.join(revert.without)}" if revert.without else ""
    again = f", {revert.replayed} added again" if revert.replayed else ""
    return f"took back v{revert.first} to v{revert.last}{named}{again}: {revert.reason}"


def kind_of(reason: str) -> str:
    """A reason without its figures and names: the common part of several refusals."""
    plain = re.sub(r"'[^']*'", "…", re.sub(r"\([^)]*\)", "", one_line(reason)))
    plain = re.sub(r"\b(?:[0-9a-f]{8,64}\b)", "…", re.sub(r"\bv\d+\b", "v…", plain))
    plain = re.sub(r"(?<![\w])[-+]?\d[\d.,]*(?:e[-+]?\d+)?", "…", plain)
    return re.sub(r"\s+", " ", plain).strip()


def kinds_of(steps: Iterable[Step]) -> dict[str, Counter[str]]:
    """Kind of reason → refusals by peer, the most frequent kind first."""
    kinds: dict[str, Counter[str]] = {}
    for refused in (refused for step in steps for refused in step.refused):
        kinds.setdefault(kind_of(refused.reason), Counter())[refused.peer] += 1
    return dict(sorted(kinds.items(), key=lambda pair: (-pair[1].total(), pair[0])))


# -- text


def lines(steps: Sequence[Step]) -> list[str]:
    """A heading and a line per step, in columns; refusals, as long as they are, stand last."""
    rows = [HEADER, *(_cells(step) for step in steps)]
    whole = [row for row in rows if len(row) == len(HEADER)]
    widths = [max(len(row[place]) for row in whole) for place in range(len(HEADER) - 1)]
    return [_join(row, widths) for row in rows]


def _join(row: Sequence[str], widths: Sequence[int]) -> str:
    """Padded cells; the last one, and what stands in place of a broken record, as it is."""
    cells = [
        cell.rjust(wide) if name in _RIGHT and len(row) == len(HEADER) else cell.ljust(wide)
        for name, cell, wide in zip(HEADER, row[:-1], widths, strict=False)
    ]
    return "  ".join([*cells, row[-1]]).rstrip()


def _cells(step: Step) -> tuple[str, ...]:
    if step.flaw and not step.parts and step.ts is None:
        return (f"v{step.version}", f"passed over: {step.flaw}")
    base = "" if step.base is None else f"continued from v{step.base}"
    told = (step.reverted, *map(str, step.refused), base, step.flaw)
    return (
        f"v{step.version} {step.kept}".rstrip(),
        "-" if step.ts is None else stamp(step.ts)[5:],
        "-" if step.fleet_steps is None else f"{step.fleet_steps:,}",
        _sources(step),
        _spread((part.staleness for part in step.parts), "g"),
        _spread((part.norm for part in step.parts), ".3g"),
        str(len({adopted.peer for adopted in step.adopted})) if step.adopted else "-",
        _spread((adopted.kl for adopted in step.adopted), ".2g"),
        "; ".join(filter(None, told)),
    )


def _sources(step: Step) -> str:
    """Peers and how far they moved it; a ``*`` where a delta was scaled down first."""
    if not step.parts:
        return one_line(step.merger) if step.version == 0 else "-"
    clipped = {part.peer for part in step.parts if part.clip < 1.0}
    return ", ".join(
        f"{peer} {100 * share:.0f}{'*' * (peer in clipped)}" for peer, share in step.shares.items()
    )


def _spread(values: Iterable[float | None], form: str) -> str:
    """The least and the most of some figures, "0–2"; "-" where none is known."""
    told = [value for value in values if value is not None and math.isfinite(value)]
    if not told:
        return "-"
    least, most = format(min(told), form), format(max(told), form)
    return least if least == most else f"{least}–{most}"


def stamp(ts: float) -> str:
    """Local date and time of day."""
    there = datetime.fromtimestamp(ts, tz=timezone.utc).astimezone()
    return there.strftime("%Y-%m-%d %H:%M:%S")
