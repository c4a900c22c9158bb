"""Entry: simulates a month in a Slurm queue under our controller and five other policies.

Prints a table, and on request writes the results as JSON.
"""

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, decimal_number, whole_number
from Daddy.core.atomic_files import write_atomic
from Daddy.core.clock import SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import FileError, UsageError
from Daddy.core.terminal import output_width
from scripts.simulator.run_simulations import (
    format_table,
    results_to_json,
    run_rows,
)
from scripts.simulator.scenario import (
    WORKLOADS,
    Workload,
    main_rows,
    read_export,
    variant_rows,
)

_DAYS, _SEEDS = 30.0, 20
_QUICK_DAYS, _QUICK_SEEDS = 10.0, 4


def _parser() -> argparse.ArgumentParser:
    parser = ArgumentParser(
        prog="python -m Daddy.cluster.orchestrator.simulate",
        description="Simulates a month in a Slurm queue under our controller and five others.",
    )
    add = parser.add_argument
    add("--days", type=decimal_number(1, 366), help=f"simulated days (default {_DAYS:g})")
    add("--seeds", type=whole_number(1, 1000), help=f"random months per policy (default {_SEEDS})")
    add(
        "--quick",
        action="store_true",
        help=f"only the main rows, with {_QUICK_DAYS:g} days and {_QUICK_SEEDS} seeds",
    )
    add("--json", type=Path, metavar="FILE", help="JSON file for the main rows")
    add(
        "--sacct",
        type=Path,
        metavar="FILE",
        help="waits of your own site, from: sacct -P -X -o Submit,Eligible,Start,End,State",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Simulate, print the table and write the JSON file; return 0."""
    options = _parser().parse_args(argv)
    days = options.days or (_QUICK_DAYS if options.quick else _DAYS)
    seeds = options.seeds or (_QUICK_SEEDS if options.quick else _SEEDS)
    workloads = [_read_workload(options.sacct)] if options.sacct else list(WORKLOADS.values())
    if options.json is not None and not options.json.resolve().parent.is_dir():
        folder = options.json.parent
        raise FileError(f"there is no folder {folder}", f"make {folder}, or change --json")
    first = main_rows(workloads, days)
    rows = first if options.quick else [*first, *variant_rows(workloads, days)]
    results = run_rows(rows, seeds, SystemClock())
    print(format_table(results, days, seeds, output_width()))
    if options.json is not None:
        record = results_to_json({row: results[row] for row in first}, days, seeds)
        write_atomic(options.json, (json.dumps(record, indent=1) + "\n").encode())
    return 0


def _read_workload(path: Path) -> Workload:
    try:
        return read_export(path.read_text(encoding="utf-8", errors="replace"))
    except ValueError as error:
        raise UsageError(
            f"{path} is no usable export: {error}",
            "export it with: sacct -P -X -S now-90days -o Submit,Eligible,Start,End,State",
        ) from error


if __name__ == "__main__":
    sys.exit(run_entry(main))
