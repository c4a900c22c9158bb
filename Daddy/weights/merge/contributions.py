"""Adapter for contributions on disk, before they are judged: of jobs, friends' jobs and laptops.

A job writes only below its own peer and process start; its blob lies with the others. A friend's
jobs do the same in a folder of the friend's account, where nothing is written or moved. A laptop
drops a pair of files into its own box, the ``.st`` first, the ``.json`` last; nothing in a box is
trusted: not its name, kind, link count, size or text.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
import stat
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.name_validation import FRIENDS_JOB, PEER, SLOT
from Daddy.weights.store.heartbeats import PeerProcess, list_folders, list_processes
from Daddy.weights.store.strict_json import INCARNATION, LIMIT
from Daddy.weights.store.weight_records import (
    Contribution,
    ContributionKey,
    Receipt,
    Version,
    parse_record,
)
from Daddy.weights.store.weight_store import BLOB_LIMIT, Store

BOX_LIMIT = 64
"""Records read from one laptop's box at a time; the rest waits for the next look."""

REASON_LIMIT = 300
RECEIPTS_REACH = 256
"""Versions of a range taken back whose contributions get a receipt: laptops forget older ones."""

_JOB_NAME = re.compile(r"(\d{6})\.json")
_BOX_NAME = re.compile(r"([0-9a-f]{8})-(\d{6})-([0-9a-f]{12})\.json")


@dataclass(frozen=True, slots=True)
class PendingOffer:
    """A contribution, where its two files lie, and whether it counts as a laptop's.

    ``uid``: the friend's account that the files must belong to; None where they lie in our folder.
    """

    offer: Contribution
    record: Path
    blob: Path
    laptop: bool
    uid: int | None = None

    @property
    def key(self) -> ContributionKey:
        """The order in which contributions are added up."""
        return self.offer.key

    @property
    def is_capped(self) -> bool:
        """True if its share of a version is bounded: a laptop's, or of a friend's account."""
        return self.laptop or self.uid is not None


def is_job_name(peer: str) -> bool:
    """True if a name is of a job, ours or a friend's: jobs read commit records, not receipts."""
    return bool(SLOT.fullmatch(peer) or FRIENDS_JOB.fullmatch(peer))


def box_name(offer: Contribution) -> str:
    """File name, without ending, of a laptop's contribution in its box."""
    return f"{offer.incarnation}-{offer.sequence:06d}-{offer.blob[:12]}"


def write_contribution(store: Store, offer: Contribution) -> None:
    """Write a job's contribution record; its blob has been written. FileError if it exists."""
    folder = store.paths.peer(offer.peer, offer.incarnation)
    path = folder / f"{offer.sequence:06d}.json"
    if not store.writer.create(path, offer.to_json_bytes(), "contribution", mode=0o444):
        raise FileError(
            f"{path} exists already", "two processes share one incarnation: restart one"
        )


def laptop_boxes(store: Store) -> list[Path]:
    """The laptops' boxes."""
    return list_folders(store.paths.inbox, PEER)


def pending_of_jobs(store: Store, head: Version | None) -> list[PendingOffer]:
    """Contributions of jobs, friends' included, that no version up to ``head`` has judged."""
    return [
        one
        for process in list_processes(store)
        for one in pending_of(store, process, head.judged(process.author) if head else 0)
    ]


def pending_of(
    store: Store, process: PeerProcess, done: int, offered: int | None = None
) -> Iterator[PendingOffer]:
    """Contributions of one job's process after ``done``, by the numbers that come next.

    Without a gap only: an earlier one may not be visible yet on NFS. ``offered``: the highest that
    may exist.
    """
    most = done + BOX_LIMIT
    for number in range(done + 1, min(most, most if offered is None else offered) + 1):
        path = process.folder / f"{number:06d}.json"
        offer = _read_offer(path, process.uid)
        if offer is None or (offer.author, offer.sequence) != (process.author, number):
            return
        blobs = process.box.paths if process.box else store.paths
        yield PendingOffer(
            offer, path, blobs.blob(offer.blob), laptop=process.laptop, uid=process.uid
        )


def list_contributions(folder: Path) -> list[tuple[int, Path]]:
    """The contribution records in one process's folder, by number."""
    with contextlib.suppress(FileNotFoundError):
        matches = ((_JOB_NAME.fullmatch(path.name), path) for path in folder.iterdir())
        return sorted((int(match.group(1)), path) for match, path in matches if match)
    return []


def steps_offered_by(store: Store, peer: str, since: int) -> dict[tuple[str, int], int]:
    """New steps by (incarnation, sequence) that ``peer`` offered: judged after ``since``, pending.

    ``since`` is a version.
    """
    steps = {}
    for folder in list_folders(store.paths.peers / peer, INCARNATION):
        for number, path in list_contributions(folder):
            offer = _read_offer(path)
            steps[folder.name, number] = offer.new_steps if offer else 0
    newest = store.newest() or 0  # looked up last: a record goes after its version has come
    for record in store.records(max(since + 1, newest - 255), newest):
        for one in record.inputs:
            if one.peer == peer:
                steps[one.incarnation, one.sequence] = one.new_steps
    return steps


def _read_offer(path: Path, owner: int | None = None) -> Contribution | None:
    try:
        return parse_record(Contribution, read_bounded(path, LIMIT, owner), str(path))
    except (FileNotFoundError, DaddyError):
        return None


def list_box_records(box: Path) -> list[Path]:
    """The first ``BOX_LIMIT`` records in a laptop's box; none where it is closed."""
    with contextlib.suppress(OSError):  # one box that cannot be looked into must not stop the rest
        every = os.listdir(box)  # noqa: PTH208 - a flood must not become paths
        names = heapq.nsmallest(BOX_LIMIT, (name for name in every if name.endswith(".json")))
        return [box / name for name in names]
    return []


def read_box(store: Store, records: Sequence[Path]) -> Iterator[PendingOffer]:
    """A laptop's contributions among the ``records`` of its box; others are set aside.

    Name, kind and links must be in order, and the record must speak of this box's peer.
    """
    with contextlib.suppress(OSError):
        for path in records:
            peer = path.parent.name
            fits = _BOX_NAME.fullmatch(path.name) and not SLOT.fullmatch(peer)
            offer = _read_offer(path) if fits and is_regular_file(path) else None
            if offer and offer.peer == peer and box_name(offer) == path.stem:
                yield PendingOffer(offer, path, path.with_suffix(".st"), laptop=True)
            else:
                store.set_aside(path, "inbox")


def is_regular_file(path: Path) -> bool:
    """A regular file with one name: no link, no pipe, no device."""
    facts = os.lstat(path)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def read_blob(found: PendingOffer) -> bytes:
    """The offered bytes, unjudged. WeightsError when what lies there is no such file.

    FileNotFoundError while they are not visible, FileError when the disk does not give them: both
    may pass.
    """
    if found.laptop and found.uid is None and not is_regular_file(found.blob):
        raise WeightsError(f"{found.blob.name} is no plain file", "send a regular file")
    try:
        return read_bounded(found.blob, min(found.offer.size, BLOB_LIMIT), found.uid)
    except FileError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise WeightsError(f"{found.blob.name}: {error.message}", error.fix) from error


def write_receipts(store: Store, record: Version) -> None:
    """Tell laptops of their contributions that ``record`` judged or took back.

    Those that exist already were written by the merger of the version, or by the rollback.
    """
    if all(is_job_name(peer) for peer in record.contributors) and not record.refused:
        return  # a rollback in a run without laptops: no record of its range need be read
    for receipt in [*_judged(record), *_taken_back(store, record)]:
        again = "-reverted" if receipt.fault == "reverted" else ""  # it may have had another one
        name = f"{receipt.incarnation}-{receipt.sequence:06d}{again}.json"
        path = store.paths.receipts / receipt.peer / name
        if not is_job_name(receipt.peer) and not path.exists():
            store.writer.create(path, receipt.to_json_bytes(), "receipt")


def _judged(record: Version) -> Iterator[Receipt]:
    for one in record.inputs:
        said = "scaled down: its norm is unusual" if one.clip < 1 else ""
        yield Receipt(*one.key, True, record.version, one.share, "", said)
    for refusal in record.refused:
        yield Receipt(*refusal.key, False, record.version, 0.0, refusal.fault, refusal.reason)


def _taken_back(store: Store, record: Version) -> Iterator[Receipt]:
    """Receipts of the contributions that ``record`` took back and did not add again."""
    again = {one.key for one in record.replayed}
    for revert in record.reverts:
        first = max(revert.first, revert.last - RECEIPTS_REACH)
        for version in store.records(first, revert.last):
            why = f"v{version.version} was taken back: {revert.reason}"[:REASON_LIMIT]
            for one in version.inputs:
                if one.key not in again:
                    yield Receipt(*one.key, False, record.version, 0.0, "reverted", why)


def round_robin(found: Sequence[PendingOffer]) -> list[PendingOffer]:
    """Pure: the first of each account, then the second of each: whoever offers much waits."""
    place: Counter[int | None] = Counter()
    turns = []
    for one in sorted(found, key=lambda one: (one.offer.sequence, one.key)):
        turns.append((place[one.uid], one.key, one))
        place[one.uid] += 1
    return [one for *_, one in sorted(turns, key=lambda turn: turn[:2])]
