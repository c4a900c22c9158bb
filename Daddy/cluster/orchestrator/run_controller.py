"""Entry: start, watch and stop the controller that keeps a run's slots filled.

``start`` returns the shell while the controller goes on; ``status`` and ``stop`` work with and
without it. Everything heavier than the parser is imported when it is needed, so that ``--help``
is at hand.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.errors import run_entry


def _positive(text: str) -> int:
    if not text.isdigit() or not int(text):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of jobs such as 4")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="run_controller",
        description="Keep training jobs alive past their wall time, on Slurm or on this machine.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    start = commands.add_parser("start", help="fill the slots and keep them filled")
    status = commands.add_parser("status", help="say how the run stands (0, 20, 21 or 22)")
    stop = commands.add_parser("stop", help="let the jobs write a checkpoint and leave")
    for command in (start, status, stop):
        _add_settings(command)
    start.add_argument("--dry-run", action="store_true", help="print what would be done")
    start.add_argument("--foreground", action="store_true", help="stay in this terminal")
    start.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    start.add_argument("--release", type=Path, help=argparse.SUPPRESS)
    status.add_argument("--json", action="store_true", help="as one JSON object")
    status.add_argument("--watch", action="store_true", help="again every few seconds")
    stop.add_argument("--now", action="store_true", help="cancel the jobs instead of asking them")
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, help="config file (the shipped one by default)")
    command.add_argument("--site", help="site profile in cluster/sites, such as sandbox")
    command.add_argument("--partition", help="Slurm partition of the jobs")
    command.add_argument(
        "--ddp-world-size", type=_positive, metavar="N", help="slots: jobs that run at once"
    )
    command.add_argument("--executor", choices=("auto", "slurm", "local"), help="where jobs run")
    command.add_argument(
        "--cartridge", action="store_true", default=None, help="play the free game, as meant"
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and hand over to the command."""
    args = _parser().parse_args(argv)
    from Daddy.cluster.orchestrator import commands

    overrides = {
        "slurm.partition": args.partition,
        "slurm.max_running": args.ddp_world_size,
        "controller.executor": args.executor,
        "training.cartridge": args.cartridge,
    }
    request = commands.Request(args.config, args.site, overrides)
    if args.command == "status":
        return commands.status(request, as_json=args.json, watch=args.watch)
    if args.command == "stop":
        return commands.stop(request, now=args.now)
    if args.release is not None:
        return commands.serve(args.release, ready_fd=args.ready_fd)
    return commands.start(request, dry_run=args.dry_run, foreground=args.foreground)


def cli() -> None:
    """The installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
