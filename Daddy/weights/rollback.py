"""Entry: go back to an older version of a run's weights.

`python -m Daddy.weights.rollback v40 runs/slim_run --reason "it forgot the way"` commits a new
version with the state of v40 and takes back all versions between. Jobs and laptops may go on
meanwhile: a learner on a version of the range drops its progress and takes the new one, and a
contribution based in the range is refused (``admission``).
"""

from __future__ import annotations

import argparse
import os
import sys
import threading
import warnings
from collections.abc import Sequence

from Daddy.core.clock import Clock, SystemClock
from Daddy.core.errors import ExitCode, UsageError, WeightsError, run_entry
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.weights.locate_weights import (
    Location,
    add_location_arguments,
    locate_from_args,
    version_number,
)
from Daddy.weights.merge import contributions
from Daddy.weights.store.heartbeats import LEASE_SILENCE_S, StallTimer
from Daddy.weights.store.weight_records import KEPT_RANGES, Revert, Version
from Daddy.weights.store.weight_store import Store

MOST_WAIT_S = 120.0
_LOOK_S = 0.05


def make_parser() -> argparse.ArgumentParser:
    """The command line."""
    parser = argparse.ArgumentParser(
        prog="rollback",
        description="Commit a new version with the state of vN and revert all versions after vN. "
        "`python -m Daddy.weights.log` marks the versions that are kept.",
    )
    parser.add_argument("version", type=version_number, metavar="vN", help="version to go back to")
    add_location_arguments(parser)
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
    place = locate_from_args(args)
    _refuse_foreign(place)
    store = Store(place.shared)
    _refuse_unfit(store, args.version)
    made = roll_back(store, args.version, args.reason, SystemClock())
    revert = made.reverts[0]
    print(f"v{made.version} has the state of v{args.version}")
    print(f"v{revert.first} to v{revert.last} are taken back: {revert.reason}")
    return ExitCode.DONE


def _refuse_foreign(place: Location) -> None:
    """WeightsError where another account or machine decides on the versions."""
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


def _refuse_unfit(store: Store, number: int) -> None:
    """UsageError or WeightsError where there is no way back to a version."""
    root, newest, card = store.paths.root, store.newest(), store.card()
    if newest is None or number > newest:
        raise WeightsError(
            f"{root} has no v{number}, its newest is v{newest}",
            "python -m Daddy.weights.log lists its versions",
        )
    if number == newest:
        raise UsageError(f"v{number} is the newest version already", "name an older one")
    record = store.version(number)
    if record.run_id != card.run_id:
        raise WeightsError(
            f"v{number} is of run {record.run_id}, {root} is of {card.run_id}",
            "name a version of this run",
        )
    if not store.paths.blob(record.state).exists():
        raise WeightsError(
            f"the state of v{number} is not kept any more",
            "python -m Daddy.weights.log marks the versions that are kept",
        )


# -- the version that goes back


def roll_back(store: Store, number: int, reason: str, clock: Clock) -> Version:
    """Commit a version with the state of ``number``; other mergers may run meanwhile.

    WeightsError when the state cannot be read, or the merge lease is not free within two minutes.
    """
    watch, until = StallTimer(clock), clock.monotonic() + MOST_WAIT_S
    while clock.monotonic() < until:
        lease = watch.claim(store.paths.lease, {"merger": "rollback"}, LEASE_SILENCE_S)
        if lease is None:
            clock.wait(threading.Event(), _LOOK_S)
            continue
        try:
            if (made := _commit(store, number, reason, clock)) is not None:
                return made
        finally:
            lease.release("done")
    raise WeightsError(f"another peer has been merging for {MOST_WAIT_S:.0f} s", "try again")


def _commit(store: Store, number: int, reason: str, clock: Clock) -> Version | None:
    """The version that follows the newest; None when a merger has committed it first.

    Under the lease no merger clears old states away. The state is put back after the commit all the
    same: it was an old one until then, and a merger that lost the lease in a pause may have removed
    it. The next merger or reader repeats the rest if this process dies.
    """
    from Daddy.weights.encoding.state_codec import decode, encode
    from Daddy.weights.store.laptop_delivery import offer_to_laptops
    from Daddy.weights.store.rebuild_version import read_or_rebuild

    newest, good = store.newest(), store.version(number)
    assert newest is not None
    head, state = store.version(newest), read_or_rebuild(store, good)
    made = head.next_record(
        version=newest + 1,
        parent=store.record_hash(newest),
        base=number,
        state=good.state,
        size=good.size,
        reverts=(Revert(number + 1, newest, newest, number, reason[: contributions.REASON_LIMIT]),),
        reverted=merge_ranges(head.reverted, (number + 1, newest)),
        merger="rollback",
        ts=round(clock.now(), 3),
    )
    if not store.commit(made):
        return None
    store.mend_blob(state)
    store.write_head(made.version)
    if (offered := store.keyframe()) is not None:
        half = encode(decode(state, made.schema), half=True)
        offer_to_laptops(store, made.version, half, offered.terms, offered.release)
    contributions.write_receipts(store, made)
    return made


def merge_ranges(
    ranges: Sequence[tuple[int, int]], new: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Pure: the ranges with a ``new`` last one, which takes in those that lie inside it."""
    apart = tuple(one for one in ranges if not (new[0] <= one[0] and one[1] <= new[1]))
    return (*apart, new)[-KEPT_RANGES:]


def cli() -> None:
    """Installed command."""
    sys.exit(run_entry(main))


if __name__ == "__main__":
    cli()
