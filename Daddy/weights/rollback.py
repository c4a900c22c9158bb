"""Entry: goes back to an older version of a run's weights.

`python -m Daddy.weights.rollback v40 runs/slim_run --reason "it forgot the way"` commits a new
version with the state of v40 and reverts all versions between. Jobs and laptops may continue
meanwhile: a learner on a reverted version drops its progress and takes the new one, and a
contribution based on a reverted version is refused (``admission``). `--recount` commits a version
with the newest state and corrected step counts: releases before believed each laptop's number.
"""

import argparse
import os
import sys
import threading
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from Daddy.core.arguments import ArgumentParser
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, UsageError, WeightsError
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.weights.locate_shared_weights import Location, add_location, locate, version_number
from Daddy.weights.merge import contributions
from Daddy.weights.merge.contributions import REASON_LIMIT
from Daddy.weights.merge.step_counts import recount, total_of
from Daddy.weights.store.heartbeats import LEASE_SILENCE_S, StallTimer
from Daddy.weights.store.weight_records import KEPT_RANGES, Revert, Version
from Daddy.weights.store.weight_store import Store

MOST_WAIT_S = 120.0
_LOOK_S = 0.05
_TOLD = 5_000
"""Records between two lines of progress: one or two seconds."""


def make_parser() -> argparse.ArgumentParser:
    """Return the argument parser."""
    parser = ArgumentParser(
        prog="rollback",
        description="Commit a new version with the state of vN and revert all versions after vN. "
        "`python -m Daddy.weights.log` marks the versions that are kept.",
    )
    parser.add_argument(
        "version", nargs="?", type=_version_or_path, metavar="vN", help="version to go back to"
    )
    add_location(parser)
    parser.add_argument(
        "--reason",
        default="a person went back",
        metavar="TEXT",
        help="reason shown to contributors (default 'a person went back')",
    )
    parser.add_argument(
        "--recount",
        action="store_true",
        help="instead of going back, count the steps of laptops and friends again, within bounds",
    )
    return parser


def _version_or_path(text: str) -> int | Path:
    """Parse vN, or the folder that stands first after ``--recount``."""
    try:
        return version_number(text)
    except argparse.ArgumentTypeError:
        if os.sep in text or Path(text).is_dir():
            return Path(text)
        raise


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command. Codes: 0 done, 2 usage, 3 config, 6 version unusable, 9 files."""
    args = make_parser().parse_args(argv)
    warnings.filterwarnings("ignore", "The pynvml package", FutureWarning)  # torch's, not ours
    if args.recount and isinstance(args.version, Path):
        args.version, args.where = None, args.where or args.version
    if args.recount == (args.version is not None) or isinstance(args.version, Path):
        raise UsageError(f"{args.version or 'no version'} was given", "name vN, or --recount alone")
    place = locate(args)
    _refuse_foreign(place)
    store = Store(place.shared)
    if args.recount:
        return _recount(store)
    _refuse_unfit(store, args.version)
    made = roll_back(store, args.version, args.reason, SystemClock())
    revert = made.reverts[0]
    print(f"v{made.version} has the state of v{args.version}")
    print(f"v{revert.first} to v{revert.last} are taken back: {revert.reason}")
    return ExitCode.DONE


def _recount(store: Store) -> ExitCode:
    """Recount the steps of a run and print each change."""
    newest = store.newest()
    assert newest is not None
    before, made = store.version(newest), recount_steps(store, SystemClock())
    for peer, steps in sorted(made.contributors.items()):
        if steps != (claimed := before.contributors.get(peer, steps)):
            print(f"{peer}: {claimed:,} steps were believed, {steps:,} count")
    print(f"v{made.version} counts {made.fleet_steps:,} steps, v{newest} {before.fleet_steps:,}")
    print("the state is unchanged; if these steps had ended the run: run_controller start")
    return ExitCode.DONE


def _with_progress(records: Iterator[Version], number: int) -> Iterator[Version]:
    """Yield ``records``; tell a person how far it is, every ``_TOLD`` of them."""
    for place, record in enumerate(records):
        if place and place % _TOLD == 0:
            print(f"read {place:,} of {number:,} records", file=sys.stderr)
        yield record


def _refuse_foreign(place: Location) -> None:
    """Raise WeightsError if another account or machine owns the versions at ``place``."""
    root = place.shared.root
    if place.pulled:
        raise WeightsError(f"{root} is a pulled folder", "roll back on the cluster")
    if isinstance(place.shared, JoinedPaths):
        raise WeightsError(
            f"{root} takes part in the run of {place.shared.theirs.root}",
            "only the owner of that run can roll back",
        )
    owner = root.stat().st_uid
    if owner != os.getuid():
        raise WeightsError(f"{root} belongs to the account {owner}", "only its owner can roll back")


def _refuse_unfit(store: Store, number: int) -> None:
    """Raise UsageError or WeightsError unless version ``number`` is old and its state exists."""
    root, newest, card = store.paths.root, store.newest(), store.card()
    if newest is None or number > newest:
        raise WeightsError(
            f"{root} has no v{number}, its newest version is v{newest}",
            "python -m Daddy.weights.log lists its versions",
        )
    if number == newest:
        raise UsageError(f"v{number} is the newest version already", "name an older version")
    record = store.version(number)
    if record.run_id != card.run_id:
        raise WeightsError(
            f"v{number} is of run {record.run_id}, {root} is of {card.run_id}",
            "name a version of this run",
        )
    if not store.paths.blob(record.state).exists():
        raise WeightsError(
            f"the state of v{number} was deleted",
            "python -m Daddy.weights.log marks the versions that are kept",
        )


# -- the new version


def roll_back(store: Store, number: int, reason: str, clock: Clock) -> Version:
    """Commit a version with the state of ``number``; jobs may merge meanwhile. Raise WeightsError
    when the state cannot be read, or when no commit succeeds within two minutes.
    """

    def revert(head: Version) -> Version:
        back = Revert(number + 1, head.version, head.version, number, reason[:REASON_LIMIT])
        ranges = merge_ranges(head.reverted, (number + 1, head.version))
        return head.next_record(base=number, reverts=(back,), reverted=ranges, merger="rollback")

    return _commit_next(store, revert, clock)


def recount_steps(store: Store, clock: Clock) -> Version:
    """Commit a version with the newest state and recounted steps (``step_counts``); jobs may merge
    meanwhile. Raise WeightsError as `roll_back` does.
    """

    def count(head: Version) -> Version:
        records = _with_progress(store.record_stream(head.version), head.version + 1)
        totals = recount(head.contributors, records)
        counts = {"contributors": totals, "fleet_steps": total_of(totals)}
        return head.next_record(base=head.version, merger="recount", **counts)

    return _commit_next(store, count, clock)


def _commit_next(store: Store, make: Callable[[Version], Version], clock: Clock) -> Version:
    """Commit the record that ``make`` returns for the newest, under the merge lease."""
    watch, until = StallTimer(clock), clock.monotonic() + MOST_WAIT_S
    while clock.monotonic() < until:
        lease = watch.claim_lease(store.paths.lease, {"merger": "rollback"}, LEASE_SILENCE_S)
        if lease is None:
            clock.wait(threading.Event(), _LOOK_S)
            continue
        try:
            if (record := _commit(store, make, clock)) is not None:
                return record
        finally:
            lease.release("done")
    raise WeightsError(f"other peers were merging for {MOST_WAIT_S:.0f} s", "type it again")


def _commit(store: Store, make: Callable[[Version], Version], clock: Clock) -> Version | None:
    """Commit the version that follows the newest; return None if a merger did so first.

    1. Under the merge lease no other merger removes old states. 2. A merger that lost the lease in
    a pause may still remove this old state until the commit. 3. So the state is written again after
    the commit. If this process dies, the next merger or reader writes the head and receipts.
    """
    from Daddy.weights.encoding.state_codec import decode, encode
    from Daddy.weights.store.laptop_downloads import offer_version
    from Daddy.weights.store.rebuild_version import read_or_rebuild

    newest = store.newest()
    assert newest is not None
    record = make(store.version(newest))
    target = store.version(record.base)
    state = read_or_rebuild(store, target)
    record = replace(
        record,
        version=store.next_number(newest),
        parent=store.record_hash(newest),
        state=target.state,
        size=target.size,
        ts=round(clock.now(), 3),
    )
    if not store.commit(record):
        return None
    store.mend_blob(state)
    store.write_head(record.version)
    if (offered := store.keyframe()) is not None:
        half = encode(decode(state, record.schema), half=True)
        offer_version(store, record.version, half, offered.terms, offered.release)
    contributions.write_receipts(store, record)
    return record


def merge_ranges(
    ranges: Sequence[tuple[int, int]], new: tuple[int, int]
) -> tuple[tuple[int, int], ...]:
    """Pure. Return ``ranges`` without those inside ``new``, then ``new``; the newest 64."""
    apart = tuple(old for old in ranges if not (new[0] <= old[0] and old[1] <= new[1]))
    return (*apart, new)[-KEPT_RANGES:]


if __name__ == "__main__":
    sys.exit(run_entry(main, private=True))
