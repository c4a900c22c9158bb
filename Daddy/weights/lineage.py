"""Pure. Lists contributions, refusals and adoptions (learners that took it) of each version.

One record per version, as ``log --json`` prints it (``docs/formats.md``), from commit records or,
on a laptop, from the receipts that were pulled; as lines of text too. An unknown figure is None,
never 0.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import Any

from Daddy.core.humanize import kept_columns, printable_line
from Daddy.core.name_validation import FRIENDS_JOB, SLOT
from Daddy.weights.store.weight_records import LaptopHead, Receipt, Version

Record = dict[str, Any]

HEADER = ("version", "merged", "steps", "from, share in %", "lag", "norm", "by", "KL", "refused")
"""``lag``: versions between base and merge; ``by``: adopters; ``KL``: divergence at adoption."""

_ALIGNMENT = "<<><<<><<"
_EXPENDABLE = ("by", "KL", "norm", "lag", "merged", "from, share in %")

CONTRIBUTION = ("peer", "sequence", "share", "staleness", "norm", "clip", "env_steps")
REFUSAL = ("peer", "sequence", "fault", "reason")


def fields(source: object, *names: str) -> Record:
    """Return attributes of ``source`` by name, tuples as lists; None for missing ones."""
    data = {name: getattr(source, name, None) for name in names}
    return {name: list(item) if isinstance(item, tuple) else item for name, item in data.items()}


def peer_order(peer: str) -> tuple[int, int, str]:
    """Return a sort key: jobs by number, friends' jobs by friend and number, laptops by name."""
    kind = 0 if SLOT.fullmatch(peer) else 1 if FRIENDS_JOB.fullmatch(peer) else 2
    return (kind, len(peer), peer)


# -- one record per version


def from_records(
    records: Iterable[Version],
    flaws: Mapping[int, str],
    adoptions: Mapping[int, list[Record]],
    kept: Mapping[int, str] | None = None,
) -> list[Record]:
    """Return one record per version, oldest first; ``flaws``: messages by version."""
    steps = {record.version: _step_of(record) for record in records}
    for number, flaw in flaws.items():
        steps.setdefault(number, _blank(number))["flaw"] = flaw
    for number, step in steps.items():
        step["adopted"] = adoptions.get(number, [])
        step["kept"] = (kept or {}).get(number, "")
    return [steps[number] for number in sorted(steps)]


def from_receipts(heads: Iterable[LaptopHead], receipts: Iterable[Receipt]) -> list[Record]:
    """Return one record per version that a laptop holds or that judged its contributions."""
    steps = {head.version: _blank(head.version, head) for head in heads}
    for receipt in receipts:
        step = steps.setdefault(receipt.version, _blank(receipt.version))
        if receipt.accepted:
            step["parts"].append(fields(receipt, *CONTRIBUTION))
        else:
            step["refused"].append(fields(receipt, *REFUSAL))
    return [steps[number] for number in sorted(steps)]


def _blank(number: int, source: Version | LaptopHead | None = None) -> Record:
    """Return a record of a version without contributions; time and steps from ``source``."""
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
        "parts": [fields(merged, *CONTRIBUTION) for merged in record.inputs],
        "refused": [fields(refusal, *REFUSAL) for refusal in record.refused],
        "reverted": "; ".join(
            f"took back v{revert.first} to v{revert.last}: {revert.reason}"
            for revert in record.reverts
        ),
    }


def shares_of(step: Record) -> dict[str, float]:
    """Return each peer's share in a version, summed over its contributions."""
    total: dict[str, float] = defaultdict(float)
    for part in step["parts"]:
        total[part["peer"]] += part["share"]
    return dict(sorted(total.items(), key=lambda pair: peer_order(pair[0])))


# -- text


def to_lines(steps: Sequence[Record], width: int) -> list[str]:
    """Return a heading and a line per version, in columns; refusals stand at the end of a line.

    Columns that ``width`` letters cannot hold are left out; only refusals may be longer.
    """
    rows = [HEADER, *map(_cells, steps)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    kept = kept_columns(HEADER, widths, width, _EXPENDABLE)
    columns = "  ".join(f"{{:{_ALIGNMENT[place]}{widths[place]}}}" for place in kept)
    return [columns.format(*(row[place] for place in kept)).rstrip() for row in rows]


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
        str(len({adoption["peer"] for adoption in step["adopted"]}) or "-"),
        _spread(step["adopted"], "kl", ".2g"),
        "; ".join(filter(None, notes)),
    )


def refusal_text(refusal: Record) -> str:
    """Return text as ``anna/3: its norm … (dropped)``: reason, and "offered again" or "dropped"."""
    after = "offered again" if refusal["fault"] == "late" else "dropped"
    return f"{refusal['peer']}/{refusal['sequence']}: {printable_line(refusal['reason'])} ({after})"


def _sources(step: Record) -> str:
    """Return peers with their shares in percent; ``*`` marks a delta that was scaled down."""
    if not step["parts"]:
        return printable_line(step["merger"]) if step["version"] == 0 and step["merger"] else "-"
    clipped = {part["peer"] for part in step["parts"] if (part["clip"] or 1.0) < 1.0}
    return ", ".join(
        f"{peer} {100 * share:.0f}{'*' * (peer in clipped)}"
        for peer, share in shares_of(step).items()
    )


def _spread(rows: Iterable[Record], name: str, form: str) -> str:
    """Return the smallest and largest value of a figure, "0–2"; "-" if none is known."""
    values = [row[name] for row in rows if row[name] is not None and math.isfinite(row[name])]
    if not values:
        return "-"
    least, most = format(min(values), form), format(max(values), form)
    return least if least == most else f"{least}–{most}"
