"""Entry: go back to an older version of a run's weights.

`python -m Daddy.weights.rollback v40 runs/slim_run --reason "it forgot the way"` commits a new
version with the state of v40 and takes back all versions between. Jobs and laptops may go on
meanwhile: they take it over like any other, and what was learnt on the versions between is refused.
"""

from __future__ import annotations

import argparse
import os
import sys
import warnings
from collections.abc import Sequence

from Daddy.core.clock import SystemClock
from Daddy.core.errors import ExitCode, UsageError, WeightsError, run_entry
from Daddy.core.shared_paths import JoinedPaths
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store
from Daddy.weights.whereabouts import Whereabouts, add_place, find, version_number


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="rollback",
        description="Commit a new version with the state of vN and revert all versions after vN. "
        "`python -m Daddy.weights.log` marks the versions that are kept.",
    )
    parser.add_argument("version", type=version_number, metavar="vN", help="version to go back to")
    add_place(parser)
    parser.add_argument(
        "--reason",
        default="a person went back",
        metavar="TEXT",
        help="reason shown to contributors",
    )
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Codes: 0 done, 2 usage, 3 config, 6 a version that cannot be gone back to, 9 files."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    store = Store(_own_folder(find(args)).shared)
    _check(store, args.version)
    from Daddy.weights.reverting import roll_back

    made = roll_back(store, args.version, args.reason, SystemClock())
    revert = made.reverts[0]
    print(f"v{made.version} has the state of v{args.version}")
    print(f"v{revert.first} to v{revert.last} are taken back: {revert.reason}")
    return ExitCode.DONE


def _own_folder(place: Whereabouts) -> Whereabouts:
    """The same place; WeightsError where another account or machine decides on its versions."""
    root = place.shared.root
    if place.pulled:
        raise WeightsError(f"{root} is a copy that was pulled", "go back on the cluster")
    if isinstance(place.shared, JoinedPaths):
        raise WeightsError(
            f"{root} takes part in the run of {place.shared.theirs.root}",
            "only the owner of that run goes back",
        )
    owner = root.stat().st_uid
    if owner != os.getuid():
        raise WeightsError(f"{root} belongs to the account {owner}", "only its owner goes back")
    return place


def _check(store: Store, number: int) -> Version:
    """The version to go back to; UsageError or WeightsError where there is no way back to it."""
    newest = store.newest()
    if newest is None:
        raise WeightsError(f"{store.paths.root} holds no version yet", "start a learner first")
    if number > newest:
        raise WeightsError(
            f"{store.paths.root} has no v{number}, its newest is v{newest}",
            "python -m Daddy.weights.log lists its versions",
        )
    if number == newest:
        raise UsageError(f"v{number} is the newest version already", "name an older one")
    record = store.version(number)
    if record.run_id != store.card().run_id:
        raise WeightsError(
            f"v{number} is of run {record.run_id}, {store.paths.root} is of {store.card().run_id}",
            "name a version of this run",
        )
    if not store.paths.blob(record.state).exists():
        raise WeightsError(
            f"the state of v{number} is not kept any more",
            "python -m Daddy.weights.log marks the versions that are kept",
        )
    return record


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
