"""Run one soak (``scripts/soak NAME``) and show its verdict.

Exit code 1 when anything was found that must not be. `slurm` needs root for one of its nine faults,
a full disk, and about 11 minutes for each round of all; `laptops` needs root for a second user.
"""

import importlib
import json
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser, decimal_number, whole_number
from Daddy.core.entry_point import run_entry
from scripts.benches.__main__ import _machine, _show, handle_signals


def main(argv: Sequence[str] | None = None) -> int:
    """Run the named soak; Ctrl-C and TERM end it and everything it started."""
    parser = ArgumentParser(prog="scripts/soak", description=__doc__)
    parser.add_argument(
        "name", choices=("slurm", "laptops", "weights", "rollback", "stream", "watching")
    )
    parser.add_argument(
        "--minutes",
        type=decimal_number(0.01, 100_000),
        default=20.0,
        help="duration in minutes (20)",
    )
    parser.add_argument(
        "--schedules", type=whole_number(1), default=10_000, help="schedules of `weights` (10000)"
    )
    parser.add_argument(
        "--times", type=whole_number(1), default=200, help="rollbacks of `rollback` (200)"
    )
    parser.add_argument(
        "--messages", type=whole_number(1), default=1_000_000, help="messages of `stream` (1000000)"
    )
    parser.add_argument("--seed", type=whole_number(0), default=1, help="seed of the faults (1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there too")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep all evidence there")
    args = parser.parse_args(argv)
    handle_signals()
    soak = importlib.import_module(f"scripts.soaks.{args.name}")
    result = {"soak": args.name, "seed": args.seed, "machine": _machine()}
    counts = {"weights": args.schedules, "rollback": args.times, "stream": args.messages}
    if args.name in counts:
        result["figures"] = soak.run(counts[args.name], args.seed)
    else:
        result["minutes"] = args.minutes
        result["figures"] = soak.run(args.minutes, args.seed, args.keep)
    _show(result)
    if args.json:
        args.json.write_text(json.dumps(result, indent=1) + "\n")
    return 0 if not result["figures"]["broken"] else 1


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
