"""Entry: starts, watches and stops the controller that keeps a run's slots filled.

``start`` returns the shell while the controller runs on; the other commands work with and without
one. A command's module is imported when the command is used, so ``--help`` prints at once.

If this checkout or its configuration is broken, the run's own release carries out ``status``,
``stop``, ``logs``, ``attach`` and ``ensure``; so nothing of Daddy is imported at the top.
"""

import argparse
import atexit
import gc
import json
import os
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import cast

_COMMANDS = "Daddy.cluster.orchestrator.commands"
_HELP = {
    "start": "fill the slots and keep them filled",
    "status": "show the state of the run (exit code 0, 20, 21 or 22)",
    "runs": "list all your runs, with their state",
    "stop": "let the jobs, or one slot's job, write a checkpoint and exit",
    "restart": "let one slot's job write a checkpoint and exit; the next job goes on",
    "logs": "show the last lines of the controller's and the jobs' logs, or jobs that ended",
    "attach": "follow one slot's output from job to job",
    "plan": "print the actions of the controller's next pass without executing them",
    "once": "make one pass of the controller, without a daemon",
    "ensure": "start a controller if the run needs one and none is alive (for cron)",
    "clean": "list files that nothing needs any more; --yes removes them",
}
_MODULES = {"attach": "logs", "once": "ensure", "restart": "stop"}
"""Command → module, where the module has another name."""
_OF_RELEASE = ("status", "stop", "logs", "attach", "ensure")
"""Commands that the run's own release can carry out."""
_COLLECT_AT = 100_000
"""New objects before a garbage collection; imports leave no garbage to collect.

Collections during the imports take a tenth of the run time of ``status``, and the one at exit takes
a fifth, so ``cli`` freezes all objects. The daemon restores the usual threshold.
"""
_DEFAULT_THRESHOLD = gc.get_threshold()


def _parser() -> argparse.ArgumentParser:
    """Return the parser; each option has the name of a parameter of the command's function."""
    from Daddy.core.arguments import ArgumentParser, decimal_number
    from Daddy.core.log_setup import add_log_flags

    parser = ArgumentParser(
        prog="run_controller",
        description="Keeps a run training past its jobs' time limits, on Slurm or this machine.",
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    parsers = {word: commands.add_parser(word, help=text) for word, text in _HELP.items()}
    for command in parsers.values():
        _add_settings(command)
    add_log_flags(parsers["start"])
    start = parsers["start"].add_argument
    start("--dry-run", action="store_true", help="planned actions, printed, without effect")
    start("--foreground", action="store_true", help="a controller in this terminal, no daemon")
    no_daemon = "no daemon: the jobs make the controller's passes"
    start("--no-daemon", dest="daemon", action="store_false", help=no_daemon)
    start("--yes", action="store_true", help="consent to a controller that ends with this job")
    start("--ready-fd", type=int, help=argparse.SUPPRESS)
    start("--release", type=Path, help=argparse.SUPPRESS)
    status = parsers["status"].add_argument
    status("--json", dest="as_json", action="store_true", help="one JSON object, for scripts")
    status("--watch", action="store_true", help="a screen that is redrawn until Ctrl-C")
    _add_job_flags(parsers)
    units = "a crontab line and a systemd timer, printed and not installed"
    parsers["ensure"].add_argument("--print-units", action="store_true", help=units)
    clean = parsers["clean"].add_argument
    clean("--yes", action="store_true", help="removal of the listed files")
    days = "days from which logs are old (default 7)"
    clean("--days", type=decimal_number(0, 36_500), default=7.0, help=days)
    return parser


def _add_job_flags(parsers: Mapping[str, argparse.ArgumentParser]) -> None:
    """Add the options of the commands that choose a slot or job."""
    from Daddy.core.arguments import whole_number

    stop = parsers["stop"].add_mutually_exclusive_group()
    stop.add_argument("--now", action="store_true", help="immediate end: the jobs are cancelled")
    drain = "orderly end: each job writes a checkpoint and exits (default)"
    stop.add_argument("--drain", dest="now", action="store_false", default=False, help=drain)
    number = "number of one slot, whose job ends in order; it stays empty until restart or start"
    stop.add_argument("--slot", type=whole_number(0, 63), metavar="N", help=number)
    restart, number = parsers["restart"].add_argument, "number of the slot"
    restart("--slot", type=whole_number(0, 63), metavar="N", required=True, help=number)
    logs = parsers["logs"].add_argument
    chosen = parsers["logs"].add_mutually_exclusive_group()
    for add in (chosen.add_argument, parsers["attach"].add_argument):
        slot = "number of one slot (default: all; attach: the lowest that trains)"
        add("--slot", type=whole_number(0, 63), metavar="N", help=slot)
    job = "number of one job, also of an ended one"
    chosen.add_argument("--job", type=whole_number(1), metavar="N", help=job)
    for word in ("failed", "ended"):
        text = f"list of the jobs that {word}: reason, node, memory, last line of errors"
        chosen.add_argument(
            f"--{word}", dest="listed", action="store_const", const=word, default="", help=text
        )
    logs("-f", "--follow", dest="keep_on", action="store_true", help="new lines too, until Ctrl-C")
    lines = "lines of each file, or jobs of a list (default 20)"
    logs("--lines", dest="last", type=whole_number(1), default=20, help=lines)


def _add_settings(command: argparse.ArgumentParser) -> None:
    """Add the options that override a setting; ``dest`` is the setting's name."""
    from Daddy.core.arguments import whole_number

    add = command.add_argument
    add("--config", type=Path, help="configuration file (default: the shipped one)")
    add("--site", help="site profile in cluster/sites, such as testbed (default $DADDY_SITE)")
    partition = "Slurm partitions of the jobs, with commas (default: slurm.partition)"
    add("--partition", dest="slurm.partition", metavar="NAME", help=partition)
    slots = "number of slots: jobs that run at once (default: slurm.max_running)"
    add(
        "--ddp-world-size",
        dest="slurm.max_running",
        type=whole_number(1, 64),
        metavar="N",
        help=slots,
    )
    kinds, executor = ("auto", "slurm", "local"), "scheduler (default auto: slurm if sbatch exists)"
    add("--executor", dest="controller.executor", choices=kinds, help=executor)
    cartridge = "consent to play the free game instead of a ROM"
    add("--cartridge", dest="training.cartridge", action="store_const", const=True, help=cartridge)


def main(argv: Sequence[str] | None = None) -> int:
    """Parse ``argv``, call the command and return its exit code."""
    from Daddy.core.errors import ConfigError
    from Daddy.core.log_setup import LEVEL

    options = vars(_parser().parse_args(argv))
    word, release = options.pop("command"), options.pop("release", None)
    ready_fd = options.pop("ready_fd", None)
    if level := options.pop("log_level", None):
        os.environ[LEVEL] = level  # the daemon that is started inherits it
    if release is not None:
        from Daddy.cluster.orchestrator.commands.daemon import run_daemon

        gc.set_threshold(*_DEFAULT_THRESHOLD)
        return run_daemon(release, ready_fd=ready_fd)
    from Daddy.cluster.orchestrator.commands.run_selection import Request

    overrides = {name: options.pop(name) for name in [*options] if "." in name}
    request = Request(options.pop("config"), options.pop("site"), overrides)
    module = import_module(f"{_COMMANDS}.{_MODULES.get(word, word)}")
    command = cast("Callable[..., int]", getattr(module, f"run_{word}"))
    try:
        return command(request, **options)
    except ConfigError as error:
        _continue_from_release(sys.argv[1:] if argv is None else argv, error.message)
        raise


def _continue_from_release(argv: Sequence[str], why: str) -> None:
    """Replace this process by the same command of the run's release; return if there is none."""
    root = _find_run(argv, os.environ)
    release = _find_release(root)
    if release is None or not set(argv[:1]) & {*_OF_RELEASE} or _is_release(Path(__file__)):
        return
    print(f"warning: {why}\n  the run's own release {release.name} goes on", file=sys.stderr)
    kept = re.sub(r"(^|\0)--(config|site)(=|\0)[^\0]*", "", "\0".join(argv)).split("\0")
    words = ["-m", "Daddy.cluster.orchestrator.run_controller", *kept]
    environ = {name: text for name, text in os.environ.items() if not name.startswith("DADDY_")}
    sys.stdout.flush()
    os.chdir(root)  # Python imports from the working folder first
    argv = [sys.executable, *words, "--config", str(release / "config.json")]
    os.execve(argv[0], argv, {**environ, "PYTHONPATH": str(release)})  # noqa: S606 - no shell


def _find_run(argv: Sequence[str], environ: Mapping[str, str]) -> Path:
    """Return the run directory of a command line, although its configuration cannot be read."""
    given = dict(re.findall(r"--(config|site)[=\0]([^\0]*)", "\0".join(argv)))
    package = Path(__file__).resolve().parents[2]
    site = given.get("site", environ.get("DADDY_SITE", ""))
    config = given.get("config", package / "cluster" / "cluster_config.json")
    found = [environ.get("DADDY_RUN_DIR", "")]
    for file in (package.parent / "cluster" / "sites" / f"{site}.json", Path(config)):
        text = file.read_text(errors="replace") if file.is_file() else ""
        found += re.findall(r'"run_dir"\s*:\s*("(?:[^"\\\n]|\\.)*")', text)
    names = [json.loads(name) if name.startswith('"') else name for name in found if name]
    return Path(next(iter(names), "runs/slim_run")).expanduser().resolve()


def _find_release(root: Path) -> Path | None:
    """Return the folder of the release that the run's intent names, or None."""
    try:
        ident = json.loads((root / "controller" / "intent.json").read_text())["release"]
        release = root / "releases" / Path(str(ident)).name
    except (OSError, ValueError, LookupError, TypeError):
        return None
    needed = (release / "config.json", release / "Daddy/cluster/orchestrator/run_controller.py")
    return release if all(path.is_file() for path in needed) else None


def _is_release(module: Path) -> bool:
    return module.resolve().parents[4].name == "releases"


def cli() -> None:
    """Run ``main`` as the installed command; if this checkout is broken, that of the release."""
    gc.set_threshold(_COLLECT_AT)
    atexit.register(gc.freeze)
    try:
        from Daddy.core.entry_point import run_entry

        code = run_entry(main, private=True)
    except Exception as error:
        _continue_from_release(
            sys.argv[1:], f"this checkout is broken: {type(error).__name__}: {error}"
        )
        raise
    sys.exit(code)


if __name__ == "__main__":
    cli()
