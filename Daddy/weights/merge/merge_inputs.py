"""Adapter for reading: collects everything that a merge needs, once, after the lease is taken.

``compute_version`` then computes without files, and ``merger`` writes the result. `PeerReader` also
serves the check for a due merge: if nothing changed, that check costs one file operation per
process and a few more.
"""

import contextlib
import os
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from Daddy.core.atomic_files import JSON_LIMIT, read_bounded
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.friend_accounts import AccountFolder
from Daddy.core.name_validation import PEER
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.admission import Fault, make_refusal
from Daddy.weights.merge.averaging_shares import laptop_lag
from Daddy.weights.merge.compute_version import (
    JudgedOffer,
    MergeInputs,
    Peers,
    forget_after_versions,
    judge_contribution_file,
    judge_contribution_record,
    last_judged,
    make_judged,
)
from Daddy.weights.merge.contributions import (
    MOST_NAMES,
    PendingOffer,
    list_box_records,
    list_friends_records,
    pending_of,
    read_blob,
    read_box,
    read_friends_box,
    round_robin,
)
from Daddy.weights.store.heartbeats import (
    Heartbeat,
    PeerProcess,
    StallTimer,
    list_folders,
    own_process_folders,
    read_heartbeat,
)
from Daddy.weights.store.rebuild_version import newest_state
from Daddy.weights.store.strict_json import INCARNATION
from Daddy.weights.store.weight_records import OfferKey, Version
from Daddy.weights.store.weight_store import Store

INPUTS_LIMIT = 48
"""Contributions judged in one merge, so that a commit record stays small; others wait."""

LAPTOP_INPUTS_LIMIT = 16
"""Contributions of laptops among them, so that full boxes do not displace the jobs'."""

FRIENDS_INPUTS_LIMIT = 16
"""Contributions of friends' jobs among them: a round of four jobs of four friends."""

BASES_LIMIT = 256
"""Newest versions in which the bytes of laptops' and friends' contributions are looked up."""

RELIST_S = 120.0
"""Seconds after which a folder is listed again although no stamp or time changed. Longer than the
20 s between two due checks on a slow network file system."""

SURE_S = 2.0
"""Seconds for which a folder's modification time must stay the same before a listing is reused:
some file systems count whole seconds."""

BLOB_PATIENCE_S = 90.0
"""Seconds to wait for a file: NFS may hide it for 60 s after its record; later it will not come."""


@dataclass(slots=True)
class _Listing:
    """Entries of a folder for one change mark; times of its first and last listing (s)."""

    mark: object
    first_s: float
    at_s: float
    entries: list[Path]


class PeerReader:
    """Reads a :class:`Peers` for one process, with few file operations. ``mine`` is the newest
    heartbeat of this process, which is not read from disk.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.mine: Heartbeat | None = None
        self._store = store
        self._clock = clock
        self._listings: dict[Path, _Listing] = {}
        self._left: dict[Path, Heartbeat] = {}
        self._stalled: dict[Path, set[str]] = {}
        """Names of records in a friend's box that were unreadable, or without their file."""

    def read_peers(self, head: Version) -> Peers:
        """Read heartbeats, and contributions that the version ``head`` has not judged."""
        accounts = self._store.friend_outboxes()
        processes = self._list_processes(accounts)
        heartbeats: list[Heartbeat] = []
        pending = self._read_boxes()
        if not isinstance(self._store.paths, JoinedPaths):  # the owner's jobs alone merge
            pending += self._read_friends_boxes(accounts, head)
        for process in processes:
            heartbeat, judged = self._heartbeat(process), head.judged(process.author)
            heartbeats += [] if heartbeat is None else [heartbeat]
            offered = None if heartbeat is None else heartbeat.offered
            if offered is None or offered > judged:
                pending += pending_of(self._store, process, judged, offered)
        pending.sort(key=lambda offer: offer.key)
        authors = frozenset(process.author for process in processes)
        return Peers(tuple(heartbeats), tuple(pending), authors)

    def relist(self, peers: Collection[str]) -> bool:
        """List the processes of these peers again; return True if a new one was found.

        A process of the previous release writes no stamp. Until its folder is listed, its heartbeat
        is unread, and so is the lease term in it that refuses offers of its predecessor.
        """
        listing = self._listings[self._store.paths.root]
        present = {
            folder
            for peer in peers
            for folder in list_folders(self._store.paths.peers / peer, INCARNATION)
        }
        added = present.difference(listing.entries)
        listing.entries = sorted({*listing.entries, *added})
        return bool(added)

    def _list_processes(self, accounts: Sequence[AccountFolder]) -> list[PeerProcess]:
        """Return every process's folder; list an account's again if its stamp changed."""
        boxes: list[AccountFolder | None] = [None, *accounts]
        return [PeerProcess(folder, box) for box in boxes for folder in self._list_account(box)]

    def _list_account(self, box: AccountFolder | None) -> list[Path]:
        paths, stamp = box.paths if box else self._store.paths, b""
        with contextlib.suppress(FileNotFoundError, FileError):
            stamp = read_bounded(paths.stamp, JSON_LIMIT, box.uid if box else None)

        def incarnations() -> list[Path]:
            self._left.clear()
            return box.process_folders() if box else list(own_process_folders(self._store))

        return self._listed(paths.root, stamp, incarnations)

    def _heartbeat(self, process: PeerProcess) -> Heartbeat | None:
        """Return the heartbeat of a process; after a process has left, read it only once."""
        if self.mine is not None and process.author == self.mine.author and process.box is None:
            return self.mine
        heartbeat = self._left.get(process.folder) or read_heartbeat(process)
        if heartbeat is not None and heartbeat.left and heartbeat.offered is not None:
            self._left[process.folder] = heartbeat
        return heartbeat

    def _read_boxes(self) -> list[PendingOffer]:
        inbox = self._store.paths.inbox
        return [
            offer
            for box in self._changed(inbox, partial(list_folders, inbox, PEER))
            for offer in read_box(self._store, self._changed(box, partial(list_box_records, box)))
        ]

    def _read_friends_boxes(
        self, accounts: Sequence[AccountFolder], head: Version
    ) -> Iterator[PendingOffer]:
        """Yield contributions of friends' laptops; list a box again for each version, as those that
        were judged stay there.
        """
        for account in accounts:
            box = account.paths.inbox / account.friend
            stalled = self._stalled.setdefault(box, set())
            entries = partial(list_friends_records, self._store, account, head, stalled)
            records = self._changed(box, entries, head.version)
            offers = list(read_friends_box(records, account.uid))
            ready = {offer.record.name for offer in offers if os.path.lexists(offer.blob)}
            if len(stalled) > MOST_NAMES:
                stalled.clear()
            stalled.update(path.name for path in records)
            stalled -= ready
            yield from offers

    def _changed(
        self, folder: Path, entries: Callable[[], list[Path]], version: int = 0
    ) -> list[Path]:
        """Return ``entries()`` of ``folder``; call again if its modification time or ``version``
        changed.
        """
        try:
            mtime_ns = folder.lstat().st_mtime_ns
        except OSError:
            return []
        return self._listed(folder, (mtime_ns, version), entries, SURE_S)

    def _listed(
        self, folder: Path, mark: object, entries: Callable[[], list[Path]], sure_s: float = 0.0
    ) -> list[Path]:
        """Return ``entries()`` of ``folder``; call again when ``mark`` changed or is old."""
        now, listing = self._clock.monotonic(), self._listings.get(folder)
        if listing is None or listing.mark != mark:
            listing = self._listings[folder] = _Listing(mark, now, now, entries())
        elif listing.at_s - listing.first_s < sure_s or now - listing.at_s >= RELIST_S:
            listing.at_s, listing.entries = now, entries()
        return listing.entries


def choose_offers(peers: Peers, head: Version, refused: set[OfferKey]) -> list[PendingOffer]:
    """Choose the offers that one merge judges: each account's and laptop's in turn. Those
    ``refused`` before, or whose file is not there, come last: they cost nobody else a place.
    """
    judged = {author: sequence for author, (sequence, _) in head.consumed.items()}
    fresh = [offer for offer in peers.pending if offer.key[2] > judged.get(offer.offer.author, 0)]
    jobs = [offer for offer in fresh if not offer.is_capped]
    others = round_robin([offer for offer in fresh if offer.is_capped])
    others.sort(key=lambda offer: offer.key in refused or not os.path.lexists(offer.blob))
    friends = [offer for offer in others if not offer.laptop][:FRIENDS_INPUTS_LIMIT]
    laptops = [offer for offer in others if offer.laptop][:LAPTOP_INPUTS_LIMIT]
    chosen = [*jobs, *friends, *laptops]
    return sorted(chosen[:INPUTS_LIMIT], key=lambda offer: offer.key)


def read_inputs(
    store: Store,
    settings: ExchangeSettings,
    timer: StallTimer,
    head: Version,
    peers: Peers,
    chosen: Sequence[PendingOffer],
) -> MergeInputs:
    """Read the files, records and states that the ``chosen`` contributions need. Raise WeightsError
    when no state can be read from which the merge could start.
    """
    live = timer.live_processes(peers.heartbeats, settings.silence_s)
    base, shared = newest_state(store, head.version, settings.keep_versions - 1)
    inputs = MergeInputs(
        settings=settings,
        head=head,
        number=store.next_number(head.version),
        parent=store.record_hash(head.version),
        peers=peers,
        records=_records(store, settings, head, peers, chosen),
        live=frozenset(pulse.peer for pulse in live if not pulse.laptop),
        base=base.version,
        shared=shared,
    )
    if settings.rule == "polyak":
        inputs = replace(inputs, states=_states(store, inputs.records, chosen))
    return replace(inputs, opened=[_open(timer, inputs, offer) for offer in chosen])


def _records(
    store: Store,
    settings: ExchangeSettings,
    head: Version,
    peers: Peers,
    chosen: Sequence[PendingOffer],
) -> dict[int, Version]:
    """Return records by number: last versions, offers' bases, last merges of gone authors. For
    laptops and friends also their last merges, with the version before, and all possible bases.
    """
    first, far = max(0, head.version - settings.keep_versions + 1), forget_after_versions(settings)
    needed = {offer.offer.base_version for offer in chosen}
    needed |= {version for author, (_, version) in head.consumed.items()
               if author not in peers.authors and head.version + 1 - version >= far}  # fmt: skip
    lasts = {last_judged(head, offer.offer.peer) for offer in chosen if offer.is_capped} - {0}
    needed |= lasts | {last - 1 for last in lasts}
    if any(offer.is_capped for offer in chosen):
        needed |= set(_possible_bases(store, head, settings.laptop_max_staleness))
    numbers = sorted(number for number in needed if number < first)
    numbers += range(first, head.version + 1)
    read = (record for number in numbers for record in store.records(number, number))
    return {record.version: record for record in read}


def _possible_bases(store: Store, head: Version, max_staleness: int) -> Iterator[int]:
    """Yield the versions, newest first, on which a laptop's contribution may still be based."""
    for number in range(head.version, max(-1, head.version - BASES_LIMIT), -1):
        for record in store.records(number, number):
            if laptop_lag(head.version - number, head.ts - record.ts) > max_staleness:
                return
            yield number


def _states(
    store: Store, records: Mapping[int, Version], chosen: Sequence[PendingOffer]
) -> dict[int, StateDict]:
    states = {}
    for number in {offer.offer.base_version for offer in chosen} & records.keys():
        with contextlib.suppress(WeightsError):
            states[number] = decode(store.read_blob(records[number].state))
    return states


def _open(timer: StallTimer, inputs: MergeInputs, offer: PendingOffer) -> JudgedOffer:
    """Judge a contribution's record, then its file, which is read only if the record passes.

    If our own disk or file system does not show the file, its author is not at fault: the merger
    waits ``BLOB_PATIENCE_S`` for the file, then refuses the contribution as "late".
    """
    verdict = judge_contribution_record(inputs, offer)
    if not verdict.admitted:
        return make_judged(inputs, offer, verdict)
    try:
        if inputs.settings.rule != "polyak" or offer.offer.base_version in inputs.states:
            return judge_contribution_file(inputs, offer, read_blob(offer))
        trouble = "its base's state did not appear"
    except FileNotFoundError:
        trouble = "its file did not appear"
    except FileError:
        trouble = "its file could not be read"
    except WeightsError as error:
        return make_judged(inputs, offer, make_refusal(error.message, Fault.VALUES))
    waited_s = timer.unchanged_s(("blob", offer.key))
    reason = f"{trouble} within {waited_s:.0f} s"
    return make_judged(inputs, offer, make_refusal(reason, wait=waited_s < BLOB_PATIENCE_S))
