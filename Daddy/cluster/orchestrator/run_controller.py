"""Entry: start, watch and stop the controller that keeps a run's slots filled.

``start`` returns the shell while the controller goes on; everything else works with and without
it. Everything heavier than the parser is imported when it is needed, so that ``--help`` is at hand.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy.core.errors import run_entry

if TYPE_CHECKING:
    from Daddy.cluster.orchestrator.commands.request import Request

_WORDS = {
    "start": "fill the slots and keep them filled",
    "status": "say how the run stands (0, 20, 21 or 22)",
    "stop": "let the jobs write a checkpoint and leave",
    "logs": "show the end of what controller and jobs print",
    "attach": "stay with one slot's output from job to job",
    "plan": "say what one pass would do now, and do nothing",
    "once": "make one pass, without a daemon",
    "ensure": "start a controller if one is wanted and none is alive (for cron)",
    "clean": "show what nobody needs any more; --yes removes it",
}

_COLLECT_AT = 100_000
"""Objects; imports make no garbage, and to look for it among them takes a tenth of ``status``.

To look through all of them once more at the exit takes a fifth: there they are let lie. The daemon
stays, and collects as usual.
"""
_USUAL = gc.get_threshold()


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
    found = {word: commands.add_parser(word, help=told) for word, told in _WORDS.items()}
    for command in found.values():
        _add_settings(command)
    _add_start(found["start"])
    found["status"].add_argument("--json", action="store_true", help="as one JSON object")
    found["status"].add_argument("--watch", action="store_true", help="again and again")
    how = found["stop"].add_mutually_exclusive_group()
    how.add_argument("--drain", action="store_true", help="ask the jobs to leave (the default)")
    how.add_argument("--now", action="store_true", help="cancel the jobs instead of asking them")
    for word in ("logs", "attach"):
        found[word].add_argument("--slot", type=int, metavar="N", help="this slot alone")
    found["logs"].add_argument("-f", "--follow", action="store_true", help="go on with it")
    found["logs"].add_argument("--lines", type=_positive, default=20, help="of each file (20)")
    found["ensure"].add_argument(
        "--print-units", action="store_true", help="print a crontab line and a systemd timer"
    )
    found["clean"].add_argument("--yes", action="store_true", help="remove what is listed")
    found["clean"].add_argument(
        "--days", type=float, default=7.0, help="age from which logs and scripts count (7)"
    )
    return parser


def _add_start(start: argparse.ArgumentParser) -> None:
    start.add_argument("--dry-run", action="store_true", help="print what would be done")
    start.add_argument("--foreground", action="store_true", help="stay in this terminal")
    start.add_argument(
        "--no-daemon", action="store_true", help="leave no controller: the jobs make its passes"
    )
    start.add_argument("--ready-fd", type=int, help=argparse.SUPPRESS)
    start.add_argument("--release", type=Path, help=argparse.SUPPRESS)


def _add_settings(command: argparse.ArgumentParser) -> None:
    command.add_argument("--config", type=Path, help="config file (the shipped one by default)")
    command.add_argument("--site", help="site profile in cluster/sites, such as testbed")
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
    from Daddy.cluster.orchestrator.commands.request import Request

    overrides = {
        "slurm.partition": args.partition,
        "slurm.max_running": args.ddp_world_size,
        "controller.executor": args.executor,
        "training.cartridge": args.cartridge,
    }
    return _RUN[args.command](Request(args.config, args.site, overrides), args)


def _start(request: Request, args: argparse.Namespace) -> int:
    if args.release is not None:
        from Daddy.cluster.orchestrator.commands.serve import serve

        gc.set_threshold(*_USUAL)
        return serve(args.release, ready_fd=args.ready_fd)
    from Daddy.cluster.orchestrator.commands.start import start

    return start(
        request, dry_run=args.dry_run, foreground=args.foreground, daemon=not args.no_daemon
    )


def _status(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.status import status

    return status(request, as_json=args.json, watch=args.watch)


def _stop(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.stop import stop

    return stop(request, now=args.now)


def _logs(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.logs import logs

    return logs(request, slot=args.slot, keep_on=args.follow, last=args.lines)


def _attach(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.logs import attach

    return attach(request, slot=args.slot)


def _plan(request: Request, _args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.plan import plan

    return plan(request)


def _once(request: Request, _args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.once import once

    return once(request)


def _ensure(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.ensure import ensure, print_units

    return print_units(request) if args.print_units else ensure(request)


def _clean(request: Request, args: argparse.Namespace) -> int:
    from Daddy.cluster.orchestrator.commands.clean import clean

    return clean(request, days=args.days, yes=args.yes)


_RUN: dict[str, Callable[[Request, argparse.Namespace], int]] = {
    "start": _start,
    "status": _status,
    "stop": _stop,
    "logs": _logs,
    "attach": _attach,
    "plan": _plan,
    "once": _once,
    "ensure": _ensure,
    "clean": _clean,
}


def cli() -> None:
    """The installed command."""
    gc.set_threshold(_COLLECT_AT)
    atexit.register(gc.freeze)
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
