"""Entry: how shared weights stand, as one screen or one JSON object. Loads no torch.

`python -m Daddy.weights.status runs/slim_run`, or the folder that a laptop pulled. Reads only; the
exit code says whether anything had to be passed over.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, run_entry
from Daddy.weights.views.pulled_report import report_laptop
from Daddy.weights.views.run_report import Record, report_run
from Daddy.weights.whereabouts import Whereabouts, add_place, find

_WIDE = 1000
"""Columns where there is no terminal: no path and no reason is broken for grep."""


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="status",
        description="How shared weights stand: newest version, peers, refusals, disk.",
    )
    add_place(parser)
    parser.add_argument("--json", action="store_true", help="as one JSON object")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 no version or something passed over, 9 files."""
    args = make_parser().parse_args(argv)
    now = SystemClock().now()
    report = read_report(find(args), now)
    sys.stdout.reconfigure(errors="replace")  # type: ignore[union-attr]
    if args.json:
        print(json.dumps(report), flush=True)
    else:
        _print(report, now)
    return int(report["exit_code"])


def read_report(place: Whereabouts, now: float) -> Record:
    """The record, with the exit code that it comes to; WeightsError when there is no version."""
    root = place.shared.root
    report = report_laptop(root, now) if place.pulled else report_run(place.shared, now)
    return {**report, "exit_code": int(ExitCode.WEIGHTS if report["flaws"] else ExitCode.DONE)}


def _print(report: Record, now: float) -> None:
    from rich.console import Console

    from Daddy.weights.views.screen import draw

    console = Console(highlight=False)
    if console.is_terminal:
        console.print(draw(report, now))
        return
    console = Console(highlight=False, width=_WIDE)
    with console.capture() as text:
        console.print(draw(report, now))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
