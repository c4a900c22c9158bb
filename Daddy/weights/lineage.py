"""Pure. The lineage of shared weights: contributions, refusals and adoptions of each version.

One record per version, as ``log --json`` prints it (``docs/formats.md``), from commit records or,
on a laptop, from the receipts that came along; as lines of text too. A figure that is not known is
None, never 0.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import FRIENDS_JOB, SLOT
from Daddy.weights.store.weight_records import LaptopHead, Receipt, Version

Record = dict[str, Any]

HEADER = ("version", "merged", "steps", "from, share in %", "lag", "norm", "by", "KL", "refused")
"""``lag``: versions between base and merge; ``by``: how many adopted it, and with which ``KL``."""

_ALIGNMENT = "<<><<<><<"

CONTRIBUTION = ("peer", "sequence", "share", "staleness", "norm", "clip", "env_steps")
REFUSAL = ("peer", "sequence", "fault", "reason")


def fields(source: object, *names: str) -> Record:
    """Attributes of ``source`` by name, tuples as lists; None for those that it does not have."""
    found = {name: getattr(source, name, None) for name in names}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def peer_order(peer: str) -> tuple[int, int, str]:
    """Jobs by number, then friends' jobs by friend and number, then laptops by name."""
    kind = 0 if SLOT.fullmatch(peer) else 1 if FRIENDS_JOB.fullmatch(peer) else 2
    return (kind, len(peer), peer)


# -- one record per version


def from_records(
    records: Iterable[Version],
    flaws: Mapping[int, str],
    adoptions: Mapping[int, list[Record]],
    kept: Mapping[int, str] | None = None,
) -> list[Record]:
    """The lineage in a run: each commit record, and each flaw without one, oldest first."""
    steps = {record.version: _step_of(record) for record in records}
    for number, flaw in flaws.items():
        steps.setdefault(number, _blank(number))["flaw"] = flaw
    for number, step in steps.items():
        step["adopted"] = adoptions.get(number, [])
        step["kept"] = (kept or {}).get(number, "")
    return [steps[number] for number in sorted(steps)]


def from_receipts(frames: Iterable[LaptopHead], receipts: Iterable[Receipt]) -> list[Record]:
    """The lineage on a laptop: the versions it holds, and those that judged its work."""
    steps = {frame.version: _blank(frame.version, frame) for frame in frames}
    for receipt in receipts:
        step = steps.setdefault(receipt.version, _blank(receipt.version))
        if receipt.accepted:
            step["parts"].append(fields(receipt, *CONTRIBUTION))
        else:
            step["refused"].append(fields(receipt, *REFUSAL))
    return [steps[number] for number in sorted(steps)]


def _blank(number: int, source: Version | LaptopHead | None = None) -> Record:
    """A version of which only time and steps are known, if there is a ``source``."""
    return {
        "version": number,
        "ts": source.ts if source else None,
        "merger": "",
        "fleet_steps": source.fleet_steps if source else None,
        "totals": {},
        "base": None,
        **{name: [] for name in ("parts", "refused", "adopted")},
        **dict.fromkeys(("flaw", "reverted", "kept"), ""),
    }


def _step_of(record: Version) -> Record:
    return {
        **_blank(record.version, record),
        "merger": record.merger,
        "totals": record.contributors,
        "base": record.base if record.base != max(0, record.version - 1) else None,
        "parts": [fields(one, *CONTRIBUTION) for one in record.inputs],
        "refused": [fields(one, *REFUSAL) for one in record.refused],
        "reverted": "; ".join(
            f"took back v{one.first} to v{one.last}: {one.reason}" for one in record.reverts
        ),
    }


def shares_of(step: Record) -> dict[str, float]:
    """Peer → its share in this version, over all its contributions."""
    total: dict[str, float] = defaultdict(float)
    for part in step["parts"]:
        total[part["peer"]] += part["share"]
    return dict(sorted(total.items(), key=lambda pair: peer_order(pair[0])))


# -- text


def to_lines(steps: Sequence[Record]) -> list[str]:
    """A heading and a line per version, in columns; refusals, as long as they are, stand last."""
    rows = [HEADER, *map(_cells, steps)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    columns = [f"{{:{align}{width}}}" for align, width in zip(_ALIGNMENT, widths, strict=True)]
    return ["  ".join(columns).format(*row).rstrip() for row in rows]


def _cells(step: Record) -> tuple[str, ...]:
    unread = step["flaw"] and step["ts"] is None
    notes = (
        step["reverted"],
        *map(refusal_text, step["refused"]),
        "" if step["base"] is None else f"continued from v{step['base']}",
        f"passed over: {step['flaw']}" if unread else step["flaw"],
    )
    return (
        f"v{step['version']} {step['kept']}".rstrip(),
        "-"
        if step["ts"] is None
        else f"{datetime.fromtimestamp(step['ts'], timezone.utc).astimezone():%m-%d %H:%M:%S}",
        "-" if step["fleet_steps"] is None else f"{step['fleet_steps']:,}",
        _sources(step),
        _spread(step["parts"], "staleness", "g"),
        _spread(step["parts"], "norm", ".3g"),
        str(len({one["peer"] for one in step["adopted"]}) or "-"),
        _spread(step["adopted"], "kl", ".2g"),
        "; ".join(filter(None, notes)),
    )


def refusal_text(refusal: Record) -> str:
    """``anna/3: its norm … (dropped)``: the reason, and the future of the work."""
    after = "offered again" if refusal["fault"] == "late" else "dropped"
    return f"{refusal['peer']}/{refusal['sequence']}: {printable_line(refusal['reason'])} ({after})"


def _sources(step: Record) -> str:
    """Peers and how far they moved it; a ``*`` where a delta was scaled down first."""
    if not step["parts"]:
        return printable_line(step["merger"]) if step["version"] == 0 and step["merger"] else "-"
    clipped = {part["peer"] for part in step["parts"] if (part["clip"] or 1.0) < 1.0}
    return ", ".join(
        f"{peer} {100 * share:.0f}{'*' * (peer in clipped)}"
        for peer, share in shares_of(step).items()
    )


def _spread(rows: Iterable[Record], name: str, form: str) -> str:
    """The least and the most of a figure, "0–2"; "-" where none is known."""
    known = [row[name] for row in rows if row[name] is not None and math.isfinite(row[name])]
    if not known:
        return "-"
    least, most = format(min(known), form), format(max(known), form)
    return least if least == most else f"{least}–{most}"
