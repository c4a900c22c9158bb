"""Adapter for contributions on disk, before they are judged: of jobs, friends' jobs and laptops.

A job writes records only below its own peer and incarnation; its blob lies in ``blobs/``. A
friend's jobs do the same in a folder of the friend's account, where this account writes nothing. A
laptop sends a pair of files into its own box, the ``.st`` first, the ``.json`` last; all laptops of
a friend's account into one box in the friend's folder. Name, kind, link count, size and text of a
file in a box are checked: anybody with the laptop's key wrote it.
"""

import contextlib
import heapq
import os
import re
import shutil
import stat
from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.friend_accounts import AccountFolder
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import FRIENDS_JOB, OWN, PEER, SLOT
from Daddy.weights.store.heartbeats import PeerProcess, list_folders, list_processes
from Daddy.weights.store.strict_json import INCARNATION, LIMIT
from Daddy.weights.store.weight_records import Contribution, OfferKey, Receipt, Version, parse
from Daddy.weights.store.weight_store import BLOB_LIMIT, Store

BOX_LIMIT = 64
"""Records read from one laptop's box at a time; the rest waits for the next merge."""

BOX_BYTES, BOX_FILES, BOXES = 256 << 20, 1024, 4
"""Bytes (at least four files of the largest size) and files that one box may hold; all boxes
together may hold four times the bytes. A laptop's key of this release keeps within them."""

MOST_NAMES = 4 * BOX_FILES
"""Names that are listed in a friend's box, which the friend's account bounds, or does not."""

REASON_LIMIT = 300
"""Characters of a reason in a record."""
RECEIPTS_REACH = 256
"""Newest versions of a reverted range that get receipts: laptops forget older contributions."""

_JOB_NAME = re.compile(r"(\d{6})\.json")
_BOX_NAME = re.compile(r"([0-9a-f]{8})-(\d{6})-([0-9a-f]{12})\.json")


@dataclass(frozen=True, slots=True)
class PendingOffer:
    """A contribution, the paths of its two files, and True if it counts as a laptop's. ``uid``: the
    friend's account that the files must belong to; None for files in our own folder.
    """

    offer: Contribution
    record: Path
    blob: Path
    laptop: bool
    uid: int | None = None

    @property
    def key(self) -> OfferKey:
        """Sort key: a merge adds contributions up in this order."""
        return self.offer.key

    @property
    def is_capped(self) -> bool:
        """True if the contribution's share is bounded: a laptop's, or a friend's account's."""
        return self.laptop or self.uid is not None


def is_job_name(peer: str) -> bool:
    """Return True for the name of a job, ours or a friend's; only laptops get receipts."""
    return bool(SLOT.fullmatch(peer) or FRIENDS_JOB.fullmatch(peer))


def plain_reason(text: str) -> str:
    """Return ``text`` as printable ASCII, ? for any other character, cut to 300: it may hold words
    of a device, and JSON writes a character beyond ASCII as six or twelve.
    """
    return printable_line(text, REASON_LIMIT - 1).encode("ascii", "replace").decode()


def box_name(offer: Contribution) -> str:
    """Return the file name, without ending, of a laptop's contribution in its box."""
    return f"{offer.incarnation}-{offer.sequence:06d}-{offer.blob[:12]}"


def write_contribution(store: Store, offer: Contribution) -> None:
    """Write a job's contribution record, after its blob. Raise FileError if it exists."""
    folder = store.paths.peer(offer.peer, offer.incarnation)
    path = folder / f"{offer.sequence:06d}.json"
    try:
        created = store.writer.create(path, offer.to_json_bytes(), "contribution", mode=0o444)
    except OSError:
        # The link stands, only what follows it failed (a sync of the folder). Mergers count this
        # contribution: a second one with the same progress would count its steps twice.
        if _read_offer(path) != offer:
            raise
        created = True
    if not created:
        raise FileError(
            f"{path} exists already", f"two processes write as {offer.author}: restart one"
        )


def laptop_boxes(store: Store) -> list[Path]:
    """Return the laptops' boxes: one folder per laptop below ``inbox/``."""
    return list_folders(store.paths.inbox, PEER)


def pending_of_jobs(store: Store, head: Version | None) -> list[PendingOffer]:
    """Return contributions of jobs, friends' included, that ``head`` has not judged yet."""
    return [
        offer
        for process in list_processes(store)
        for offer in pending_of(store, process, head.judged(process.author) if head else 0)
    ]


def pending_of(
    store: Store, process: PeerProcess, done: int, offered: int | None = None
) -> Iterator[PendingOffer]:
    """Yield contributions of one job's process after sequence ``done``, up to the first gap: beyond
    a gap NFS may not show an earlier record yet. ``offered``: the highest sequence that may exist.
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
    """Return (sequence, path) of the contribution records in a process's folder, by number."""
    with contextlib.suppress(FileNotFoundError):
        matches = ((_JOB_NAME.fullmatch(path.name), path) for path in folder.iterdir())
        return sorted((int(match.group(1)), path) for match, path in matches if match)
    return []


def steps_offered_by(store: Store, peer: str, since: int) -> dict[tuple[str, int], int]:
    """Return the new steps of ``peer``'s contributions by (incarnation, sequence): contributions
    still on disk, and those merged into versions after ``since`` (a version number).
    """
    steps = {}
    for folder in list_folders(store.paths.peers / peer, INCARNATION):
        for number, path in list_contributions(folder):
            offer = _read_offer(path)
            steps[folder.name, number] = offer.new_steps if offer else 0
    newest = store.newest() or 0  # read after the records: a merger commits, then removes them
    for record in store.records(max(since + 1, newest - 255), newest):
        for merged in record.inputs:
            if merged.peer == peer:
                steps[merged.incarnation, merged.sequence] = merged.new_steps
    return steps


def _read_offer(path: Path, owner: int | None = None) -> Contribution | None:
    try:
        return parse(Contribution, read_bounded(path, LIMIT, owner), str(path))
    except (FileNotFoundError, DaddyError):
        return None


def list_box_records(box: Path) -> list[Path]:
    """Return the first 64 records in a laptop's box, by name; none if it is unreadable."""
    with contextlib.suppress(OSError):  # one unreadable box must not stop the rest
        every = os.listdir(box)  # noqa: PTH208 - a box may hold a million names
        names = heapq.nsmallest(BOX_LIMIT, (name for name in every if name.endswith(".json")))
        return [box / name for name in names]
    return []


def list_friends_records(
    store: Store, account: AccountFolder, head: Version, stalled: Collection[str] = ()
) -> list[Path]:
    """Return the first 64 records in a friend's box, by name, that ``head`` has not judged and that
    have no receipt: what was judged stays there, as a merger removes nothing of a friend. Records
    that were ``stalled`` come last: they cost the account's other laptops no place.
    """
    records, box = [], account.laptop_box()
    if box is None:
        return []
    with contextlib.suppress(OSError), os.scandir(box) as entries:
        found = (_BOX_NAME.fullmatch(entry.name) for entry in islice(entries, MOST_NAMES))
        for match in filter(None, found):
            receipt = store.paths.receipts / box.name / f"{match[1]}-{match[2]}.json"
            judged = int(match[2]) <= head.judged(f"{box.name}/{match[1]}")
            if not (judged or receipt.exists()):
                records.append(match[0])
    first = heapq.nsmallest(BOX_LIMIT, ((name in stalled, name) for name in records))
    return [box / name for _, name in first]


def read_friends_box(records: Sequence[Path], uid: int) -> Iterator[PendingOffer]:
    """Yield the contributions in the ``records`` of a friend's box, whose files must belong to the
    account ``uid``; pass over a record that cannot be read or that names another peer.
    """
    for path in records:
        offer = _read_offer(path, uid)
        if offer and offer.peer == path.parent.name and box_name(offer) == path.stem:
            yield PendingOffer(offer, path, path.with_suffix(".st"), laptop=True, uid=uid)


def read_box(store: Store, records: Sequence[Path]) -> Iterator[PendingOffer]:
    """Yield the contributions in the ``records`` of a laptop's box; move invalid ones to
    quarantine. Name, kind and link count must be in order, and the record must name the box's peer.
    """
    for path in records:
        with contextlib.suppress(OSError):  # one file that cannot be read must not stop the rest
            peer = path.parent.name
            fits = _BOX_NAME.fullmatch(path.name) and not OWN.fullmatch(peer)
            offer = _read_offer(path) if fits and is_regular_file(path) else None
            if offer and offer.peer == peer and box_name(offer) == path.stem:
                yield PendingOffer(offer, path, path.with_suffix(".st"), laptop=True)
            else:
                set_box_file_aside(store, path, "inbox", LIMIT)


def set_box_file_aside(store: Store, path: Path, reason: str, most: int) -> None:
    """Move a refused file of a box to quarantine; delete it unread if it is no plain file, or has
    more than ``most`` bytes. Raise OSError.
    """
    with contextlib.suppress(FileNotFoundError):  # another merger was faster
        if is_regular_file(path) and path.lstat().st_size <= most:
            store.set_aside(path, reason, sender=path.parent.name)
        elif stat.S_ISDIR(path.lstat().st_mode):
            shutil.rmtree(path)
        else:
            path.unlink()


@dataclass(frozen=True, slots=True)
class BoxFile:
    """A file in a laptop's box; ``changed``: its ctime, which no sender can set."""

    path: Path
    size: int
    changed: float


def largest_state(size: int) -> int:
    """Pure. Return the most bytes of a contribution to a run whose states have ``size`` bytes."""
    return size + max(size // 2, 4096)


def box_limit(largest: int) -> int:
    """Pure. Return the most bytes of one box, if a contribution may have ``largest`` bytes."""
    return max(BOX_BYTES, 4 * largest)


def choose_excess(files: Sequence[BoxFile], largest: int, taken: int) -> tuple[list[BoxFile], int]:
    """Pure. Choose the files of one box that exceed a limit: too large, or the newest beyond the
    box's files and bytes, or beyond those of all boxes, of which ``taken`` are used. Return them
    and the bytes of the rest.
    """
    most = box_limit(largest)
    room, kept, excess = min(most, BOXES * most - taken), 0, []
    for number, file in enumerate(sorted(files, key=lambda file: (file.changed, file.path.name))):
        own_limit = largest if file.path.suffix not in (".json", ".claim") else LIMIT
        if number >= BOX_FILES or file.size > min(own_limit, room - kept):
            excess.append(file)
        else:
            kept += file.size
    return excess, kept


def list_box_files(box: Path) -> Iterator[BoxFile]:
    """Yield the files of a laptop's box; remove folders, as no program of ours makes any there."""
    with contextlib.suppress(OSError), os.scandir(box) as entries:
        for entry in entries:
            with contextlib.suppress(OSError):  # gone meanwhile
                if entry.is_dir(follow_symlinks=False):
                    shutil.rmtree(entry.path)
                else:
                    facts = entry.stat(follow_symlinks=False)
                    yield BoxFile(Path(entry.path), facts.st_size, facts.st_ctime)


def is_regular_file(path: Path) -> bool:
    """Return True for a regular file with one name: no symbolic or hard link, pipe or device."""
    facts = os.lstat(path)
    return stat.S_ISREG(facts.st_mode) and facts.st_nlink == 1


def read_blob(offer: PendingOffer) -> bytes:
    """Return the bytes of an offered file, not judged yet. Raise WeightsError when they are no
    plain file of the offered size. Raise FileNotFoundError while the file is not visible and
    FileError when the disk fails: a later call may succeed.
    """
    if offer.laptop and offer.uid is None and not is_regular_file(offer.blob):
        raise WeightsError(f"{offer.blob.name} is no plain file", "send a regular file")
    try:
        return read_bounded(offer.blob, min(offer.offer.size, BLOB_LIMIT), offer.uid)
    except FileError as error:
        if isinstance(error.__cause__, OSError):
            raise
        raise WeightsError(f"{offer.blob.name}: {error.message}", error.fix) from error


def write_receipts(store: Store, record: Version) -> None:
    """Write a receipt for each laptop contribution that ``record`` merged, refused or reverted.
    Receipts that exist already are left unchanged.
    """
    if all(is_job_name(peer) for peer in record.contributors) and not record.refused:
        return  # a rollback in a run without laptops: no record of its range need be read
    for receipt in [*_judged_receipts(record), *_reverted_receipts(store, record)]:
        suffix = "-reverted" if receipt.fault == "reverted" else ""  # a second receipt of one offer
        name = f"{receipt.incarnation}-{receipt.sequence:06d}{suffix}.json"
        path = store.paths.receipts / receipt.peer / name
        if not is_job_name(receipt.peer) and not path.exists():
            store.writer.create(path, receipt.to_json_bytes(), "receipt")


def _judged_receipts(record: Version) -> Iterator[Receipt]:
    for merged in record.inputs:
        reason = "scaled down: its norm is unusual" if merged.clip < 1 else ""
        yield Receipt(*merged.key, True, record.version, merged.share, "", reason)
    for refusal in record.refused:
        yield Receipt(*refusal.key, False, record.version, 0.0, refusal.fault, refusal.reason)


def _reverted_receipts(store: Store, record: Version) -> Iterator[Receipt]:
    """Yield receipts of contributions that ``record`` reverted and did not add again."""
    again = {merged.key for merged in record.replayed}
    for revert in record.reverts:
        first = max(revert.first, revert.last - RECEIPTS_REACH)
        for version in store.records(first, revert.last):
            reason = plain_reason(f"v{version.version} was taken back: {revert.reason}")
            for merged in version.inputs:
                if merged.key not in again:
                    yield Receipt(*merged.key, False, record.version, 0.0, "reverted", reason)


def round_robin(offers: Sequence[PendingOffer]) -> list[PendingOffer]:
    """Pure. Order offers: the first of each account or box, then the second of each, and so on."""
    place: Counter[int | str] = Counter()
    turns = []
    for offer in sorted(offers, key=lambda offer: (offer.offer.sequence, offer.key)):
        sender = offer.offer.peer if offer.uid is None else offer.uid
        turns.append((place[sender], offer.key, offer))
        place[sender] += 1
    return [offer for *_, offer in sorted(turns, key=lambda turn: turn[:2])]
