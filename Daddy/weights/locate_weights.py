"""Finds the shared weights of a command: a run's, a ``shared_weights`` folder, or a pulled one.

Reads only. A typed place wins; else the configuration says it, as for every other command.
"""

from __future__ import annotations

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
    """The folder, the events that tell of adoptions (None: none), whether it was pulled."""

    shared: SharedPaths
    events: Path | None
    pulled: bool


def add_location_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments that say which shared weights are meant."""
    parser.add_argument(
        "where",
        nargs="?",
        type=Path,
        metavar="WHERE",
        help="a run, a shared_weights folder, or one that was pulled (default: the config's run)",
    )
    add_config_arguments(parser)


def add_config_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags that say which run is meant."""
    parser.add_argument("--config", type=Path, help="config file (the shipped one by default)")
    parser.add_argument("--site", help="site profile in cluster/sites, such as testbed")
    parser.add_argument(
        "--run-dir", metavar="DIR", help="the run's folder, in place of the config's"
    )


def version_number(text: str) -> int:
    """The number in ``v57`` or ``57``; ArgumentTypeError for anything else."""
    found = re.fullmatch(r"v?(\d{1,8})", text)
    if found is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no version: write v57")
    return int(found[1])


def locate_from_args(args: argparse.Namespace) -> Location:
    """The shared weights meant; WeightsError when there are none, ConfigError for a config."""
    if args.where is not None:
        return locate_at(args.where.expanduser().absolute())
    from Daddy.core.load_config import load_config, run_paths, shared_paths

    config = load_config(args.config, {"run_dir": args.run_dir}, os.environ, args.site)
    return _of_run(shared_paths(config), run_paths(config))


def locate_at(path: Path) -> Location:
    """The shared weights at ``path``, or in the run that ``path`` is."""
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
    """The error for a folder without any version."""
    what = "holds no shared weights yet" if folder.is_dir() else "does not exist"
    return WeightsError(
        f"{folder} {what}",
        "name a run, its shared_weights folder, or one that sync_weights.sh pulled into; in a new "
        "run the first learner begins them",
    )
