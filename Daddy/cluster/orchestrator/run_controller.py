"""Entry: start, watch and stop the controller that keeps a run's slots filled.

``start`` returns the shell while the controller goes on; everything else works with and without
it. A command is imported when it is asked for, so that ``--help`` is at hand.
"""

from __future__ import annotations

import argparse
import atexit
import gc
import os
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

from Daddy.core.errors import run_entry
from Daddy.core.log_setup import LEVEL, add_log_flags

_COMMANDS = "Daddy.cluster.orchestrator.commands"
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
_BESIDE = {"attach": "logs", "once": "ensure"}
"""Commands that stand in the module of another one."""
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
    """Options are called as the parameters of the command's function."""
    parser = argparse.ArgumentParser(
        prog="run_controller",
        description="Keep training jobs alive past their wall time, on Slurm or on this machine.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    found = {word: commands.add_parser(word, help=told) for word, told in _WORDS.items()}
    for command in found.values():
        _add_settings(command)
    add_log_flags(found["start"])
    start = found["start"].add_argument
    start("--dry-run", action="store_true", help="print what would be done")
    start("--foreground", action="store_true", help="stay in this terminal")
    alone = "leave no controller: the jobs make its passes"
    start("--no-daemon", dest="daemon", action="store_false", help=alone)
    start("--ready-fd", type=int, help=argparse.SUPPRESS)
    start("--release", type=Path, help=argparse.SUPPRESS)
    status = found["status"].add_argument
    status("--json", dest="as_json", action="store_true", help="one JSON object, for scripts")
    status("--watch", action="store_true", help="a screen that stays, until Ctrl-C")
    stop = found["stop"].add_mutually_exclusive_group()
    stop.add_argument("--now", action="store_true", help="cancel the jobs instead of asking them")
    drain = "ask the jobs to leave (the default)"
    stop.add_argument("--drain", dest="now", action="store_false", default=False, help=drain)
    for word in ("logs", "attach"):
        found[word].add_argument("--slot", type=int, metavar="N", help="this slot alone")
    logs = found["logs"].add_argument
    logs("-f", "--follow", dest="keep_on", action="store_true", help="new lines too, until Ctrl-C")
    logs("--lines", dest="last", type=_positive, default=20, help="lines of each file (20)")
    lines = "print a crontab line and a systemd timer"
    found["ensure"].add_argument("--print-units", action="store_true", help=lines)
    clean = found["clean"].add_argument
    clean("--yes", action="store_true", help="remove what is listed")
    clean("--days", type=float, default=7.0, help="age from which logs and scripts count (7)")
    return parser


def _add_settings(command: argparse.ArgumentParser) -> None:
    """An option that overrides a setting has the setting's name."""
    add = command.add_argument
    add("--config", type=Path, help="config file (the shipped one by default)")
    add("--site", help="site profile in cluster/sites, such as testbed")
    partition = "Slurm partition of the jobs"
    add("--partition", dest="slurm.partition", metavar="NAME", help=partition)
    slots = "slots: jobs that run at once"
    add("--ddp-world-size", dest="slurm.max_running", type=_positive, metavar="N", help=slots)
    where = ("auto", "slurm", "local")
    add("--executor", dest="controller.executor", choices=where, help="where jobs run")
    played = "play the free game, as meant"
    add("--cartridge", dest="training.cartridge", action="store_const", const=True, help=played)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse and hand over to the command."""
    options = vars(_parser().parse_args(argv))
    word, release = options.pop("command"), options.pop("release", None)
    ready_fd = options.pop("ready_fd", None)
    if level := options.pop("log_level", None):
        os.environ[LEVEL] = level  # the daemon that is started inherits it
    if release is not None:
        from Daddy.cluster.orchestrator.commands.daemon import run_daemon

        gc.set_threshold(*_USUAL)
        return run_daemon(release, ready_fd=ready_fd)
    from Daddy.cluster.orchestrator.commands.run_selection import Request

    overrides = {name: options.pop(name) for name in [*options] if "." in name}
    request = Request(options.pop("config"), options.pop("site"), overrides)
    module = import_module(f"{_COMMANDS}.{_BESIDE.get(word, word)}")
    return cast("Callable[..., int]", getattr(module, f"run_{word}"))(request, **options)


def cli() -> None:
    """The installed command."""
    gc.set_threshold(_COLLECT_AT)
    atexit.register(gc.freeze)
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
