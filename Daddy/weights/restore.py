"""Entry: put back what a purge took from a run's weights and archive, and let it go on.

`python -m Daddy.weights.restore [RUN] [--from COPY …] [--dry-run]`. Without `--from` it takes the
copy that the controller kept in the home directory. Nothing is done while anybody may write there.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, WeightsError, run_entry
from Daddy.core.paths import mirrors_folder
from Daddy.core.settings import Config
from Daddy.weights.recovery.restoring import Survey, carry_out, survey
from Daddy.weights.recovery.sources import Source, copies_of, source_at
from Daddy.weights.recovery.writers import now_there, writers
from Daddy.weights.whereabouts import add_settings


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="restore",
        description="Put back what a purge took from a run, and let it go on from there.",
    )
    parser.add_argument(
        "run", nargs="?", type=Path, metavar="RUN", help="the run's folder (the config's)"
    )
    parser.add_argument(
        "--from",
        dest="sources",
        action="append",
        type=Path,
        metavar="COPY",
        help="a mirror, a folder that a laptop pulled, a copy of the run; may be said again "
        "(the mirror in the home folder)",
    )
    add_settings(parser)
    parser.add_argument("--dry-run", action="store_true", help="say what would be done")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 nothing verifies, another run, or it is written to, 9."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    from Daddy.core.config import load

    folder = args.run_dir if args.run is None else str(args.run.expanduser().absolute())
    config = load(args.config, {"run_dir": folder}, os.environ, args.site)
    target = _target(config)
    found = survey(target, _sources(args, config, target), config.collaboration.keep_versions)
    if found.is_idle:
        print(f"{target.shared.root} lacks nothing: {found.decision.reason}")
        return ExitCode.DONE
    _refuse_written(target, dry_run=args.dry_run)
    return _say(found) if args.dry_run else _do(found)


def _target(config: Config) -> Source:
    from Daddy.core.config import run_paths, shared_paths

    run = run_paths(config)
    return Source(run.root, shared_paths(config), run)


def _sources(args: argparse.Namespace, config: Config, target: Source) -> list[Source]:
    """Those that were named, else the newest copy in the home directory, if there is one."""
    if args.sources:
        return [source_at(path.expanduser().absolute()) for path in args.sources]
    assert target.run is not None
    folder = mirrors_folder(config.mirror.folder, os.environ, Path.home())
    copies = copies_of(folder, target.run, target.card())
    if not copies and not target.shared.merged.is_dir():
        raise WeightsError(
            f"{target.shared.root} is gone and {folder} holds no copy of it",
            "name a copy with --from: a laptop's folder will do",
        )
    return [source_at(path) for path in copies[:1]]


def _refuse_written(target: Source, *, dry_run: bool) -> None:
    """WeightsError while anybody may write; a look leaves no file, and trusts this host's clock."""
    root = target.shared.root
    now = None if dry_run or not root.is_dir() else now_there(root)
    found = writers(target.run, target.shared, SystemClock().now() if now is None else now)
    if found:
        raise WeightsError(
            f"somebody may still write to {root}: {'; '.join(found)}",
            "say `run_controller stop`, wait until the jobs have left, then say it again",
        )


def _say(found: Survey) -> int:
    print(f"would put back into {found.target.root}:")
    print("\n".join(f"  {line}" for line in found.lines()))
    return ExitCode.DONE


def _do(found: Survey) -> int:
    lines = found.lines()
    number = carry_out(found, SystemClock())
    print(f"put back into {found.target.root}:")
    print("\n".join(f"  {line}" for line in lines))
    print(f"the run goes on from v{number}: start it again")
    return ExitCode.DONE


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
