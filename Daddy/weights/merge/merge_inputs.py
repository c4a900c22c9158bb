"""Adapter for reading: everything a merge needs, read once after the lease into one value.

The rest is pure (``make_version``), up to the effects at the end (``merger``). The same reader
serves the look that decides whether a merge is due; without news it takes one file operation for
each other process and a few more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from Daddy.core.atomic_files import JSON_LIMIT, read_bounded
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.friend_accounts import AccountFolder
from Daddy.core.name_validation import PEER
from Daddy.weights.encoding.state_arithmetic import StateDict
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.exchange_settings import ExchangeSettings
from Daddy.weights.merge.admission import Fault, make_refusal
from Daddy.weights.merge.contributions import (
    PendingOffer,
    list_box_records,
    pending_of,
    read_blob,
    read_box,
    round_robin,
)
from Daddy.weights.merge.make_version import (
    JudgedOffer,
    MergeInputs,
    PeerSnapshot,
    forget_after_versions,
    judge_contribution_file,
    judge_contribution_record,
    make_judged,
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
from Daddy.weights.store.weight_records import ContributionKey, Version
from Daddy.weights.store.weight_store import Store

INPUTS_LIMIT = 48
"""Contributions judged in one merge, so that a commit record stays small; others wait."""

LAPTOP_INPUTS_LIMIT = 16
"""Laptops' among them: the contents of their boxes never crowd out the jobs' own."""

FRIENDS_INPUTS_LIMIT = 16
"""Friends' jobs' among them: a round of four jobs of four friends."""

RELIST_S = 120.0
"""Seconds after which folders are listed again although nothing says that they changed: more than
lie between two looks on a slow network file system, where a look may be due every 20 s."""

SURE_S = 2.0
"""Seconds between two listings of a folder with one modification time until it is believed to stand
still: some file systems count whole seconds."""

BLOB_PATIENCE_S = 90.0
"""A file may be invisible for 60 s after its record on NFS; later it will not come."""


@dataclass(slots=True)
class _Listing:
    """Entries of a folder under one sign of change: when that was first seen, and last listed."""

    sign: object
    first_s: float
    at_s: float
    entries: list[Path]


class PeerReader:
    """Reads :class:`Peers` on behalf of one process, with as few file operations as news allow.

    ``mine`` is the newest heartbeat of the process itself, which need not be read back.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self.mine: Heartbeat | None = None
        self._store = store
        self._clock = clock
        self._listings: dict[Path, _Listing] = {}
        self._left: dict[Path, Heartbeat] = {}

    def read(self, head: Version) -> PeerSnapshot:
        """Everything as it stands now, beside the version ``head``."""
        processes = self._list_processes()
        pulses: list[Heartbeat] = []
        pending = self._in_boxes()
        for process in processes:
            pulse, done = self._pulse(process), head.judged(process.author)
            pulses += [] if pulse is None else [pulse]
            offered = None if pulse is None else pulse.offered
            if offered is None or offered > done:
                pending += pending_of(self._store, process, done, offered)
        pending.sort(key=lambda one: one.key)
        authors = frozenset(process.author for process in processes)
        return PeerSnapshot(tuple(pulses), tuple(pending), authors)

    def relist_processes(self, peers: Collection[str]) -> bool:
        """List these peers of our own account again; True if a process was not known.

        A successor of the release before writes no stamp: until the next listing its heartbeat, and
        with it the term that fences its predecessor, would be unknown.
        """
        known = self._listings[self._store.paths.root]
        there = {
            folder
            for peer in peers
            for folder in list_folders(self._store.paths.peers / peer, INCARNATION)
        }
        unknown = there.difference(known.entries)
        known.entries = sorted({*known.entries, *unknown})
        return bool(unknown)

    def _list_processes(self) -> list[PeerProcess]:
        """Every process's folder, listed again when its account's stamp changed."""
        boxes: list[AccountFolder | None] = [None, *self._store.friend_outboxes()]
        return [PeerProcess(folder, box) for box in boxes for folder in self._list_account(box)]

    def _list_account(self, box: AccountFolder | None) -> list[Path]:
        paths, stamp = box.paths if box else self._store.paths, b""
        with contextlib.suppress(FileNotFoundError, FileError):
            stamp = read_bounded(paths.stamp, JSON_LIMIT, box.uid if box else None)

        def incarnations() -> list[Path]:
            self._left.clear()
            return box.process_folders() if box else list(own_process_folders(self._store))

        return self._listed(paths.root, stamp, incarnations)

    def _pulse(self, process: PeerProcess) -> Heartbeat | None:
        """The heartbeat of a process; one that has left is not read again."""
        if self.mine is not None and process.author == self.mine.author and process.box is None:
            return self.mine
        known = self._left.get(process.folder) or read_heartbeat(process)
        if known is not None and known.left and known.offered is not None:
            self._left[process.folder] = known
        return known

    def _in_boxes(self) -> list[PendingOffer]:
        inbox = self._store.paths.inbox
        return [
            found
            for box in self._changed(inbox, partial(list_folders, inbox, PEER))
            for found in read_box(self._store, self._changed(box, partial(list_box_records, box)))
        ]

    def _changed(self, folder: Path, entries: Callable[[], list[Path]]) -> list[Path]:
        """Entries of ``folder``, listed again when it changed; two changes may share a tick."""
        try:
            mtime_ns = folder.lstat().st_mtime_ns
        except OSError:
            return []
        return self._listed(folder, mtime_ns, entries, SURE_S)

    def _listed(
        self, folder: Path, sign: object, entries: Callable[[], list[Path]], sure_s: float = 0.0
    ) -> list[Path]:
        """The entries of ``folder``, listed again with another ``sign``, and now and then."""
        now, found = self._clock.monotonic(), self._listings.get(folder)
        if found is None or found.sign != sign:
            found = self._listings[folder] = _Listing(sign, now, now, entries())
        elif found.at_s - found.first_s < sure_s or now - found.at_s >= RELIST_S:
            found.at_s, found.entries = now, entries()
        return found.entries


def choose_contributions(
    peers: PeerSnapshot, head: Version, refused: set[ContributionKey]
) -> list[PendingOffer]:
    """The contributions that one merge judges; those ``refused`` before come last."""
    fresh = [one for one in peers.pending if one.offer.sequence > head.judged(one.offer.author)]
    fresh.sort(key=lambda one: one.key in refused)
    jobs = [one for one in fresh if not one.is_capped]
    friends = round_robin([one for one in fresh if not one.laptop and one.uid is not None])
    laptops = [one for one in fresh if one.laptop][:LAPTOP_INPUTS_LIMIT]
    chosen = [*jobs, *friends[:FRIENDS_INPUTS_LIMIT], *laptops]
    return sorted(chosen[:INPUTS_LIMIT], key=lambda one: one.key)


def read_inputs(
    store: Store,
    settings: ExchangeSettings,
    timer: StallTimer,
    head: Version,
    peers: PeerSnapshot,
    chosen: Sequence[PendingOffer],
) -> MergeInputs:
    """The files, records and states that ``chosen`` need, beside what ``peers`` tells.

    WeightsError when no state can be read that the merge could begin from.
    """
    live = timer.live_processes(peers.heartbeats, settings.silence_s)
    base, shared = newest_state(store, head.version, settings.keep_versions - 1)
    inputs = MergeInputs(
        settings=settings,
        head=head,
        parent=store.record_hash(head.version),
        records=_records(store, settings, head, peers, chosen),
        peers=peers,
        live=frozenset(pulse.peer for pulse in live if not pulse.laptop),
        base=base.version,
        shared=shared,
    )
    if settings.rule == "polyak":
        inputs = replace(inputs, states=_states(store, inputs.records, chosen))
    return replace(inputs, opened=[_open(timer, inputs, one) for one in chosen])


def _records(
    store: Store,
    settings: ExchangeSettings,
    head: Version,
    peers: PeerSnapshot,
    chosen: Sequence[PendingOffer],
) -> dict[int, Version]:
    """The last versions, the contributions' bases, and versions by which authors are forgotten."""
    first, far = max(0, head.version - settings.keep_versions + 1), forget_after_versions(settings)
    needed = {one.offer.base_version for one in chosen}
    needed |= {at for author, (_, at) in head.consumed.items()
               if author not in peers.authors and head.version + 1 - at >= far}  # fmt: skip
    numbers = sorted(number for number in needed if number < first)
    numbers += range(first, head.version + 1)
    return {one.version: one for number in numbers for one in store.records(number, number)}


def _states(
    store: Store, records: Mapping[int, Version], chosen: Sequence[PendingOffer]
) -> dict[int, StateDict]:
    """States of the contributions' bases, as far as they are here."""
    found = {}
    for number in {one.offer.base_version for one in chosen} & records.keys():
        with contextlib.suppress(WeightsError):
            found[number] = decode(store.read_blob(records[number].state))
    return found


def _open(timer: StallTimer, inputs: MergeInputs, one: PendingOffer) -> JudgedOffer:
    """A contribution with its file, which is not opened when its record alone is refused.

    Trouble with our own view or disk is no author's fault: it is waited for, then "late".
    """
    verdict = judge_contribution_record(inputs, one)
    if not verdict.admitted:
        return make_judged(inputs, one, verdict)
    try:
        if inputs.settings.rule != "polyak" or one.offer.base_version in inputs.states:
            return judge_contribution_file(inputs, one, read_blob(one))
        trouble = "its base's state did not appear"
    except FileNotFoundError:
        trouble = "its file did not appear"
    except FileError:
        trouble = "its file could not be read"
    except WeightsError as error:
        return make_judged(inputs, one, make_refusal(error.message, Fault.VALUES))
    waited_s = timer.unchanged_s(("blob", one.key))
    reason = f"{trouble} within {waited_s:.0f} s"
    return make_judged(inputs, one, make_refusal(reason, wait=waited_s < BLOB_PATIENCE_S))
