"""Entry: the lineage of a run's weights: one line per version, or one picture. Loads no torch.

`python -m Daddy.weights.log runs/slim_run`. Reads only: commit records, and the learners' events
for who adopted what. Works while the run goes on, on a read-only copy, on what a laptop pulled, and
on a damaged folder, of which it names what it passes over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError, ExitCode, UsageError, run_entry
from Daddy.core.events import read_events
from Daddy.weights.history import numbers, read_records
from Daddy.weights.laptop.pulled_folder import PREVIOUS, read_all_receipts, read_frame
from Daddy.weights.lineage import Adopted, Step, from_receipts, from_records, lines
from Daddy.weights.store.kept_versions import kept_reasons
from Daddy.weights.store.records import Keyframe
from Daddy.weights.store.store import Store
from Daddy.weights.whereabouts import Whereabouts, add_place, find, nothing_in


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="log", description="The versions of shared weights: one line each, newest last."
    )
    add_place(parser)
    flag = parser.add_argument
    flag("--limit", type=_count, default=0, metavar="N", help="the newest N alone (all)")
    how = parser.add_mutually_exclusive_group()
    how.add_argument("--json", action="store_true", help="one JSON object per version and line")
    how.add_argument("--picture", type=Path, metavar="FILE", help="draw them as a PNG instead")
    return parser


def _count(text: str) -> int:
    number = int(text) if text.isdigit() else 0
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 1 on")
    return number


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 no version or something passed over, 9 files."""
    args = make_parser().parse_args(argv)
    if args.picture is not None and args.picture.suffix.lower() != ".png":
        raise UsageError(f"{args.picture} is no name of a PNG", "write --picture lineage.png")
    place = find(args)
    steps = read_lineage(place, args.limit)
    if args.picture is not None:
        _draw(args.picture, place, steps)
    else:
        _print(steps, as_json=args.json)
    flaws = [step.flaw for step in steps if step.flaw]
    for flaw in flaws:
        print(f"warning: {flaw}", file=sys.stderr)
    return int(ExitCode.WEIGHTS if flaws else ExitCode.DONE)


def read_lineage(place: Whereabouts, limit: int = 0) -> list[Step]:
    """The newest ``limit`` versions (0: all), oldest first; WeightsError when there is none."""
    steps = _from_laptop(place) if place.pulled else _from_run(place, limit)
    if not steps:
        raise nothing_in(place.shared.root)
    return steps[-limit:]


def _from_run(place: Whereabouts, limit: int) -> list[Step]:
    found = numbers(place.shared)[-limit:]
    records = read_records(place.shared, found, found[0] if limit and found else 0)
    flaws: dict[int, str] = {}
    for flaw in records.flaws:
        flaws.setdefault(flaw.version, flaw.said)
    adoptions = read_adoptions(place.events) if place.events else {}
    return from_records(records.versions, flaws, adoptions, kept_reasons(Store(place.shared)))


def read_adoptions(folder: Path) -> dict[int, tuple[Adopted, ...]]:
    """Every adoption by version, oldest first, from the learners' events: only they tell it.

    Lines that say something else are passed over.
    """
    found: dict[int, list[Adopted]] = {}
    for event in read_events(folder, "learner-*.jsonl", b'"adopted"'):
        data = event.get("data")
        if isinstance(data, dict) and data.get("state") == "adopted":
            version = data.get("version")
            if isinstance(version, int):
                found.setdefault(version, []).append(_adopted(event, data))
    return {
        version: tuple(sorted(those, key=lambda one: one.ts)) for version, those in found.items()
    }


def _adopted(event: Mapping[str, Any], data: Mapping[str, Any]) -> Adopted:
    source = event.get("source")
    peer = source.get("id") if isinstance(source, dict) else ""
    return Adopted(str(peer), _number(event.get("ts")) or 0.0, _number(data.get("kl")))


def _number(value: object) -> float | None:
    """A finite number; None for anything else, and for one that no float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None


def _from_laptop(place: Whereabouts) -> list[Step]:
    root = place.shared.root
    frames = (_frame(root / "wan" / name) for name in (PREVIOUS, "HEAD.json"))
    return from_receipts([one for one in frames if one is not None], read_all_receipts(root))


def _frame(path: Path) -> Keyframe | None:
    try:
        return read_frame(path)
    except DaddyError as error:
        print(f"warning: {error.message}", file=sys.stderr)
        return None


def _print(steps: Sequence[Step], *, as_json: bool) -> None:
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    told = [json.dumps(step.to_json()) for step in steps] if as_json else lines(steps)
    print("\n".join(told), flush=True)


def _draw(path: Path, place: Whereabouts, steps: Sequence[Step]) -> None:
    from Daddy.weights.lineage_plot import draw

    draw(path, _run_name(place), steps)
    print(path)


def _run_name(place: Whereabouts) -> str:
    """The run's name; the folder's where nothing says it."""
    with contextlib.suppress(DaddyError):
        if not place.pulled:
            return Store(place.shared).card().run
        if (frame := read_frame(place.shared.root / "wan" / "HEAD.json")) is not None:
            return frame.run
    return place.shared.root.name


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
