"""Entry: keep a copy of a run's weights and archive in the home directory. Loads no torch.

The controller runs `python -m Daddy.weights.mirror --run-dir DIR --every 600` beside itself; a
person who has no controller says it without `--every`, by hand or in a crontab. What goes wrong is
said once, for as long as it is the same, and tried again the next time.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import DaddyError, ExitCode, FileError, run_entry
from Daddy.core.files import write_json
from Daddy.core.machine import die_with_parent
from Daddy.core.paths import mirrors_folder
from Daddy.core.stopping import set_by
from Daddy.weights.recovery.holes import find_holes
from Daddy.weights.recovery.mirroring import MirrorCard, Original, mirror
from Daddy.weights.store.durable import Hook, no_hook
from Daddy.weights.whereabouts import add_settings

MEGABYTE = 1_000_000


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="mirror",
        description="Copy a run's newest weights and the best of its archive to the home folder.",
    )
    add_settings(parser)
    parser.add_argument("--every", type=float, metavar="SECONDS", help="again and again")
    parser.add_argument(
        "--die-with-parent", type=int, nargs="?", const=0, metavar="PID", help="end when it does"
    )
    return parser


class Keeper:
    """Copies one run again and again; nothing that goes wrong ends it."""

    def __init__(
        self, original: Original, folder: Path, room: int, keep: int, clock: Clock,
        hook: Hook = no_hook,
    ) -> None:  # fmt: skip
        self._original, self._folder = original, folder
        self._room, self._keep = room, keep
        self._clock, self._hook = clock, hook
        self._card: MirrorCard | None = None
        self._said = ""

    def once(self) -> bool:
        """One pass, noted where ``status`` looks; False when it failed, and said why."""
        trouble = ""
        try:
            done = mirror(
                self._original, self._folder, self._room, self._keep, self._clock, self._hook
            )
            self._card, said = done.card or self._card, done.said
        except (OSError, DaddyError) as error:
            trouble = said = f"no copy is made: {_told(error)}"
        if said != self._said and (trouble or not self._said):
            print(said, flush=True)
        self._said = said
        self._note(trouble)
        return not trouble

    def _note(self, trouble: str) -> None:
        """Tell ``status``; a folder of the run that is gone is not made again."""
        with contextlib.suppress(OSError, DaddyError):
            if self._original.run.controller.is_dir():
                holes = find_holes(self._original.shared, self._keep)
                write_json(
                    self._original.run.mirrored,
                    {
                        "ts": round(self._clock.now(), 3),
                        "folder": str(self._folder),
                        "version": None if self._card is None else self._card.version,
                        "copied_ts": None if self._card is None else self._card.ts,
                        "trouble": trouble,
                        "holes": holes.said,
                    },
                    durable=False,
                )


def _told(error: OSError | DaddyError) -> str:
    if isinstance(error, DaddyError):
        return error.message
    return f"{error.strerror}: {error.filename}" if error.filename else str(error.strerror)


def make_keeper(args: argparse.Namespace, clock: Clock) -> Keeper | None:
    """The keeper of the configured run; None where ``mirror.minutes`` is 0."""
    from Daddy.core.config import effective_json, load, run_paths, shared_paths

    config = load(args.config, {"run_dir": args.run_dir}, os.environ, args.site)
    if not config.mirror.minutes:
        return None
    return Keeper(
        Original(run_paths(config), shared_paths(config), effective_json(config)),
        mirrors_folder(config.mirror.folder, os.environ, Path.home()),
        config.mirror.megabytes * MEGABYTE,
        config.collaboration.keep_versions,
        clock,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done or signalled, 2 usage, 3 config, 9 no copy could be made."""
    args = make_parser().parse_args(argv)
    clock = SystemClock()
    keeper = make_keeper(args, clock)
    if keeper is None:
        print("mirror.minutes is 0: no copy is wanted", flush=True)
        return ExitCode.DONE
    if args.every is None:
        if not keeper.once():
            raise FileError("no copy was made, for the reason above", "make room, and say it again")
        return ExitCode.DONE
    _go_on(keeper, args, clock)
    return ExitCode.DONE


def _go_on(keeper: Keeper, args: argparse.Namespace, clock: Clock) -> None:
    """Until a signal, or until the parent ends."""
    if args.die_with_parent is not None:
        die_with_parent(args.die_with_parent)
    stop = set_by(signal.SIGTERM, signal.SIGINT)
    while not stop.is_set():
        keeper.once()
        clock.wait(stop, args.every)


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
