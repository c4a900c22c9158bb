"""Entry: prints the lineage of a run's weights: one line per version, or one picture. No torch.

`python -m Daddy.weights.log runs/slim_run`. Reads only: commit records, and the adoptions in
learners' events. Works on a live run, a read-only copy, a pulled folder, and a damaged one, whose
unreadable records it names.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode, UsageError
from Daddy.core.event_log import read_events
from Daddy.core.terminal import output_width
from Daddy.weights.commit_history import read_records
from Daddy.weights.laptop.pulled_folder import PREVIOUS, read_all_receipts, read_laptop_head
from Daddy.weights.lineage import Record, from_receipts, from_records, to_lines
from Daddy.weights.locate_shared_weights import Location, add_location, locate, no_weights_error
from Daddy.weights.store.version_retention import kept_reasons
from Daddy.weights.store.weight_records import LaptopHead
from Daddy.weights.store.weight_store import Store


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="log", description="The versions of shared weights: one line each, newest last."
    )
    add_location(parser)
    parser.add_argument(
        "--limit",
        type=whole_number(1),
        default=0,
        metavar="N",
        help="newest versions to show (default all)",
    )
    output = parser.add_mutually_exclusive_group()
    output.add_argument("--json", action="store_true", help="print versions as JSON, one per line")
    output.add_argument("--picture", type=Path, metavar="FILE", help="PNG file to draw versions in")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 no version or damage, 9 files."""
    args = make_parser().parse_args(argv)
    if args.picture is not None and args.picture.suffix.lower() != ".png":
        raise UsageError(f"{args.picture} is no name of a PNG", "write --picture lineage.png")
    place = locate(args)
    steps = read_lineage(place, args.limit)
    if args.picture is not None:
        from Daddy.weights.lineage_plot import draw_lineage

        root = place.shared.root
        name = root.parent.name if root.name == "shared_weights" else root.name
        draw_lineage(args.picture, name, steps)
        print(args.picture)
    else:
        lines = map(json.dumps, steps) if args.json else to_lines(steps, output_width())
        print("\n".join(lines), flush=True)
    flaws = [step["flaw"] for step in steps if step["flaw"]]
    for flaw in flaws:
        print(f"warning: {flaw}", file=sys.stderr)
    return int(ExitCode.WEIGHTS if flaws else ExitCode.DONE)


def read_lineage(place: Location, limit: int = 0) -> list[Record]:
    """Return the newest ``limit`` versions (0: all), oldest first; WeightsError for none."""
    root = place.shared.root
    if place.pulled:
        heads = filter(None, (_read_head(root / "wan" / name) for name in (PREVIOUS, "HEAD.json")))
        steps = from_receipts(heads, read_all_receipts(root))
    else:
        adoptions = read_adoptions(place.events) if place.events else {}
        kept = kept_reasons(Store(place.shared))
        steps = from_records(*read_records(place.shared, limit), adoptions, kept)
    if not steps:
        raise no_weights_error(root)
    return steps[-limit:]


def _read_head(path: Path) -> LaptopHead | None:
    try:
        return read_laptop_head(path)
    except DaddyError as error:
        print(f"warning: {error.message}", file=sys.stderr)
        return None


def read_adoptions(folder: Path) -> dict[int, list[Record]]:
    """Return every adoption by version, oldest first; skip other events of learners."""
    adoptions: dict[int, list[Record]] = {}
    for event in read_events(folder, "learner-*.jsonl", b'"adopted"'):
        data, source = event.get("data"), event.get("source")
        if not isinstance(data, dict) or data.get("state") != "adopted":
            continue
        if isinstance(version := data.get("version"), int):
            peer = str(source.get("id")) if isinstance(source, dict) else ""
            ts, kl = _number(event.get("ts")) or 0.0, _number(data.get("kl"))
            adoptions.setdefault(version, []).append({"peer": peer, "ts": ts, "kl": kl})
    return {version: sorted(rows, key=lambda row: row["ts"]) for version, rows in adoptions.items()}


def _number(value: object) -> float | None:
    """Return ``value`` as a float; None if it is no number or larger than any float."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


if __name__ == "__main__":
    sys.exit(run_entry(main))
