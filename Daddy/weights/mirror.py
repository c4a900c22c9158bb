"""Entry: keeps a mirror of a run's weights and archive in the home directory. Loads no torch.

The controller runs `python -m Daddy.weights.mirror --run-dir DIR --every 600` beside itself;
without a controller a person runs the command without `--every`, by hand or in a crontab. With
`--every` a failed copy is tried again the next time; the same error is printed once.
"""

import argparse
import contextlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser, positive_seconds
from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import DaddyError, ExitCode, FileError
from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.log_setup import add_log_flags, log_to
from Daddy.core.run_paths import RunPaths, mirrors_folder
from Daddy.core.settings import KEPT_VERSIONS
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.core.stop_conditions import event_on_signals
from Daddy.weights.backup import RESTORE, MirrorCard, export_copy, find_missing
from Daddy.weights.evaluations import describe_worse_version
from Daddy.weights.locate_shared_weights import add_config_flags
from Daddy.weights.store.crash_safe_files import Hook, no_hook
from Daddy.weights.store.weight_store import version_numbers


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="mirror",
        description="Copy a run's newest weights and the best of its archive to the home folder.",
    )
    add_config_flags(parser)
    parser.add_argument(
        "--every",
        type=positive_seconds,
        metavar="SECONDS",
        help="seconds between copies (default: copy once)",
    )
    parser.add_argument(
        "--die-with-parent", type=int, nargs="?", const=0, metavar="PID", help="end when PID ends"
    )
    add_log_flags(parser)
    return parser


@dataclass
class RunMirror:
    """Copies one run into its mirror below ``folder`` repeatedly; no failure ends it."""

    run: RunPaths
    shared: SharedPaths
    config: bytes
    folder: Path
    clock: Clock
    hook: Hook = no_hook
    last_message: str = ""
    say: Callable[[str], None] = print

    def copy_once(self) -> bool:
        """Copy once and write the facts that ``status`` prints; return False if copying failed."""
        card, trouble = None, ""
        try:
            card, message = export_copy(
                self.run, self.shared, self.config, self.folder, self.clock, self.hook
            )
        except (OSError, DaddyError) as error:
            cause = error.message if isinstance(error, DaddyError) else error
            trouble = message = f"the mirror was not updated: {cause}"
        if message != self.last_message and (trouble or not self.last_message):
            self.say(message)
        self.last_message = message
        with contextlib.suppress(OSError, DaddyError):
            if self.run.controller.is_dir():  # no folder is made for a deleted run
                write_json(self.run.mirrored, self._note(card, trouble), durable=False)
        return not trouble

    def _note(self, card: MirrorCard | None, trouble: str) -> dict[str, Any]:
        """Return the facts to write; those unknown now are taken from the file before."""
        before: dict[str, Any] = {}
        with contextlib.suppress(OSError, DaddyError):
            before = read_json(self.run.mirrored)
        has_versions = bool(version_numbers(self.shared))
        version = card.version if card else before.get("version")
        had_version = has_versions or version is not None or bool(before.get("seen"))
        lost = f"the shared weights are gone; {RESTORE}" if had_version and not has_versions else ""
        return {
            "ts": round(self.clock.now(), 3),
            "folder": str(self.folder),
            "version": version,
            "copied_ts": card.ts if card else before.get("copied_ts"),
            "trouble": trouble,
            "holes": lost or find_missing(self.shared, KEPT_VERSIONS),
            "worse": describe_worse_version(self.shared, self.run.events),
            "seen": had_version,
        }


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done or signalled, 2 usage, 3 config, 9 no copy was made."""
    from Daddy.core.load_config import config_to_json, load_config, run_paths, shared_paths

    args, clock = make_parser().parse_args(argv), SystemClock()
    config = load_config(args.config, {"run_dir": args.run_dir}, os.environ, args.site)
    if not config.mirror.minutes:
        print("mirror.minutes is 0: no mirror is kept", flush=True)
        return ExitCode.DONE
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    run, shared = run_paths(config), shared_paths(config)
    mirror = RunMirror(run, shared, config_to_json(config), folder, clock)
    if args.every is not None:
        log_to(level=args.log_level)
        mirror.say = logging.getLogger(__name__).info
    if args.every is None and not mirror.copy_once():
        raise FileError("the mirror was not updated: see above", "mend the cause, run this again")
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    stop = event_on_signals(signal.SIGTERM, signal.SIGINT)
    while args.every is not None and not stop.is_set():
        mirror.copy_once()
        clock.wait(stop, args.every)
    return ExitCode.DONE


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
