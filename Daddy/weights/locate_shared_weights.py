"""Finds the shared weights that a command names: in a run, a ``shared_weights`` or a pulled folder.

Reads only. A path that was typed is used; without one, the run of the configuration.
"""

import argparse
import os
import re
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import WeightsError
from Daddy.core.friend_accounts import resolve_joined
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths


@dataclass(frozen=True, slots=True)
class Location:
    """Paths of shared weights, the run's events or None, and True if a laptop pulled them."""

    shared: SharedPaths
    events: Path | None
    pulled: bool


def add_location(parser: argparse.ArgumentParser) -> None:
    """Add the arguments WHERE, --config, --site and --run-dir, which name shared weights."""
    parser.add_argument(
        "where",
        nargs="?",
        type=Path,
        metavar="WHERE",
        help="run folder, shared_weights folder or pulled folder (default: the config's run)",
    )
    add_config_flags(parser)


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """Add the flags --config, --site and --run-dir, which name a run."""
    parser.add_argument("--config", type=Path, help="config file (default: the shipped one)")
    parser.add_argument("--site", help="site profile in cluster/sites, such as testbed")
    parser.add_argument("--run-dir", metavar="DIR", help="the run's folder (default: the config's)")


def version_number(text: str) -> int:
    """Parse ``v57`` or ``57``. Raise ArgumentTypeError for anything else."""
    match = re.fullmatch(r"v?(\d{1,8})", text)
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version: write v57")
    return int(match[1])


def locate(args: argparse.Namespace) -> Location:
    """Return the shared weights that the arguments name. Raise WeightsError or ConfigError."""
    if args.where is not None:
        return locate_at(args.where.expanduser().absolute())
    from Daddy.core.load_config import load_config, run_paths, shared_paths

    config = load_config(args.config, {"run_dir": args.run_dir}, os.environ, args.site)
    return _of_run(shared_paths(config), run_paths(config))


def locate_at(path: Path) -> Location:
    """Return the shared weights at ``path``, or in the run at ``path``."""
    run = RunPaths(path)
    if run.shared_weights.is_dir():
        return _of_run(resolve_joined(SharedPaths(run.shared_weights)), run)
    if run.config.is_file():
        from Daddy.core.load_config import load_release_config, shared_paths

        return _of_run(shared_paths(load_release_config(run.config)), run)
    return _of_run(resolve_joined(SharedPaths(path)), RunPaths(path.parent))


def _of_run(shared: SharedPaths, run: RunPaths) -> Location:
    events = run.events if run.events.is_dir() else None
    if shared.merged.is_dir() or shared.run.exists():
        return Location(shared, events, pulled=False)
    if any((shared.root / name).exists() for name in ("wan", "outbox", "receipts")):
        return Location(shared, None, pulled=True)
    raise no_weights_error(shared.root)


def no_weights_error(folder: Path) -> WeightsError:
    """Return the error for a folder without any version."""
    state = "holds no shared weights yet" if folder.is_dir() else "does not exist"
    return WeightsError(
        f"{folder} {state}",
        "name a run, its shared_weights folder, or one that sync_weights.sh pulled into; in a new "
        "run the first learner writes version 0",
    )
