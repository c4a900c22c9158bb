"""Pure: the lineage as lines of text, one per version, in columns that line up."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from Daddy.core.humanize import one_line
from Daddy.weights.views.lineage import Refused, Step, spread

HEADER = ("version", "merged", "steps", "from, share in %", "lag", "norm", "by", "KL", "refused")
"""``lag``: versions between base and merge; ``by``: how many adopted it, and with which ``KL``."""

_RIGHT = frozenset({"steps", "by"})


def lines(steps: Sequence[Step]) -> list[str]:
    """A heading and a line per step, as long as it is: what was refused stands last."""
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
    told = [step.reverted] if step.reverted else []
    told += [*map(tell_refused, step.refused)]
    told += [f"continued from v{step.base}"] if step.base is not None else []
    told += [step.flaw] if step.flaw else []
    return (
        f"v{step.version}",
        "-" if step.ts is None else stamp(step.ts)[5:],
        "-" if step.fleet_steps is None else f"{step.fleet_steps:,}",
        _sources(step),
        spread(part.staleness for part in step.parts),
        spread((part.norm for part in step.parts), ".3g"),
        str(len({one.peer for one in step.adopted})) if step.adopted else "-",
        spread(step.kls, ".2g"),
        "; ".join(told),
    )


def _sources(step: Step) -> str:
    """Who moved it how far; a ``*`` where a delta was scaled down first."""
    if not step.parts:
        return one_line(step.merger) if step.version == 0 else "-"
    clipped = {part.peer for part in step.parts if part.clip < 1.0}
    return ", ".join(
        f"{peer} {100 * share:.0f}{'*' * (peer in clipped)}" for peer, share in step.shares.items()
    )


def tell_refused(one: Refused) -> str:
    """``anna/3: its norm … (dropped)``: which, why, and what becomes of the work."""
    after = "offered again" if one.fault == "late" else "dropped"
    return f"{one.peer}/{one.sequence}: {one_line(one.reason)} ({after})"


def stamp(ts: float) -> str:
    """Local date and time of day."""
    there = datetime.fromtimestamp(ts, tz=timezone.utc).astimezone()
    return there.strftime("%Y-%m-%d %H:%M:%S")
