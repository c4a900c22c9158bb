"""Removal of contribution records once judged, blobs that no kept version needs, and stray files.

Records go before the blobs they name. Commit records stay for ever. Never removed: the newest
``keep`` states, the inputs and base of each, pending contributions, the base of any live peer, and
the states of ``kept.json`` (``version_retention``).
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from pathlib import Path

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.weights.evaluations import best_evaluated
from Daddy.weights.merge import contributions
from Daddy.weights.merge.contributions import PendingOffer
from Daddy.weights.merge.make_version import PeerSnapshot
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.version_retention import (
    KeptVersion,
    choose_kept,
    kept_entry,
    read_kept,
    write_kept,
)
from Daddy.weights.store.weight_records import Version, is_reverted
from Daddy.weights.store.weight_store import Store

ORPHAN_S = 3600.0
"""Seconds for which a file that nothing refers to is watched before it goes."""

SWEEP_S = 600.0
"""Seconds between two listings of every blob."""

GAP_S = 2 * SWEEP_S
"""A longer pause between two looks counts as this much of the hour."""

KEEP_TERMS = 8
KEEP_RECEIPTS = 64
KEEP_EVIDENCE = 64


class Sweeper:
    """Housekeeping of one merger."""

    def __init__(self, store: Store, keep: int, timer: StallTimer, reader: PeerReader) -> None:
        self._store = store
        self._keep = keep
        self._timer = timer
        self._reader = reader
        self._sweeps = 0
        self._kept: list[KeptVersion] | None = None
        self._best: tuple[list[str], int | None] = ([], None)

    def clean_after_merge(
        self, record: Version, judged: Sequence[PendingOffer], peers: PeerSnapshot
    ) -> None:
        """Remove what ``record`` made superfluous; ``peers`` as they were read for it."""
        refused = {one.key for one in record.refused}
        for one in judged:
            self._drop_offer(one, refused=one.key in refused)
        for one in peers.pending:  # a laptop's that arrived again after it was judged
            if one.laptop and one.offer.sequence <= record.judged(one.offer.author):
                self._drop_offer(one, refused=False)
        try:
            gone = self._keep_history(record)
            needed = self.needed_blobs(record, peers)
        except FileError:
            return  # the list cannot be read now: nothing goes that it may name
        leaving = record.version - self._keep
        for number in sorted({leaving - 1, leaving, *gone}):  # the one before was its base
            self._drop_blobs(number, needed)
        if self._timer.unchanged_s("sweep", self._sweeps) >= SWEEP_S:
            self._sweeps += 1
            self.sweep(record)
        self.sweep_incarnations(peers)

    def sweep(self, record: Version) -> None:
        """Once in ``SWEEP_S``: list everything, for what merges left behind that died."""
        paths, needed = self._store.paths, self.needed_blobs(record, self._reader.read(record))
        for number in range(record.version - 2 * self._keep, record.version - self._keep + 1):
            self._drop_blobs(number, needed)
        self._forget_lost()
        terms = paths.lease.glob("term-*.json")
        by_number = sorted(terms, key=lambda path: (len(path.name.split(".")[0]), path.name))
        _remove(by_number[: -2 * KEEP_TERMS])
        for box in _folders(paths.receipts):
            for form in ("????????-??????.json", "claim-*.json"):
                _remove(sorted(box.glob(form))[:-KEEP_RECEIPTS])
        for evidence in _folders(paths.quarantine):
            _remove(sorted(evidence.iterdir())[:-KEEP_EVIDENCE])
        self.sweep_orphans(needed)

    def _keep_history(self, record: Version) -> set[int]:
        """Bring ``kept.json`` up to date; the versions that are on it no more."""
        if isinstance(self._store.paths, JoinedPaths):
            return set()  # the owner's jobs keep the states
        before = read_kept(self._store)
        newest = self._store.records(record.version - self._keep + 1, record.version)
        known = {one.version: one for one in (*before, *map(kept_entry, newest))}
        good = [one for one in known.values() if not is_reverted(one.version, record.reverted)]
        self._kept = choose_kept(good, self._keep, self._best_evaluated())
        with contextlib.suppress(OSError):  # a full disk: the next merge writes it
            write_kept(self._store, self._kept)
        return {one.version for one in before} - {one.version for one in self._kept}

    def _forget_lost(self) -> None:
        """Take versions off the list whose states are gone: they hold the place of others."""
        with contextlib.suppress(OSError, FileError):
            kept = read_kept(self._store)
            there = [one for one in kept if self._store.paths.blob(one.state).exists()]
            if there != kept:
                write_kept(self._store, there)

    def _best_evaluated(self) -> int | None:
        """The version that evaluations show best; they are read when there is another one."""
        names = sorted(path.name for path in self._store.paths.evaluations.glob("*.json"))
        if names != self._best[0]:
            self._best = (names, best_evaluated(self._store.paths))
        return self._best[1]

    def needed_blobs(self, record: Version, peers: PeerSnapshot) -> set[str]:
        """Hashes of every blob that must stay when ``record`` is the newest version."""
        keep = {offer.offer.blob for offer in peers.pending}
        for kept in self._store.records(record.version - self._keep + 1, record.version):
            keep |= self._sources(kept)
        keep |= {one.state for one in self._kept or read_kept(self._store)}
        for pulse in peers.heartbeats:
            if not pulse.left and 0 <= record.version - pulse.version <= 64 * self._keep:
                with contextlib.suppress(WeightsError):
                    keep.add(self._store.version(pulse.version).state)
        return keep

    def _sources(self, record: Version) -> set[str]:
        """A version's own blobs, and the states from which they make it again."""
        bases = {record.base}
        if record.rule == "polyak":  # averages absolute weights: base + delta
            bases |= {one.base_version for one in record.inputs}
        older = (one for number in bases for one in self._store.records(number, number))
        return blobs_of(record) | {one.state for one in older}

    def _drop_offer(self, one: PendingOffer, *, refused: bool) -> None:
        """Remove a contribution; one in a box that is not ours stays, and is not judged again."""
        if one.uid is not None:
            return  # a friend's jobs clear their own folder away
        with contextlib.suppress(OSError):
            if one.laptop and refused:
                self._store.set_aside(one.blob, "refused")
                self._store.set_aside(one.record, "refused")
                return
            one.record.unlink(missing_ok=True)
            if one.laptop:
                one.blob.unlink(missing_ok=True)

    def _drop_blobs(self, number: int, needed: set[str]) -> None:
        for record in self._store.records(number, number):
            for sha in blobs_of(record) - needed:
                self._store.paths.blob(sha).unlink(missing_ok=True)

    def sweep_orphans(self, needed: set[str]) -> list[Path]:
        """Remove blobs and temporary files that nothing has referred to for an hour."""
        blobs = (path for folder in _folders(self._store.paths.blobs) for path in folder.iterdir())
        strays = [path for path in blobs if path.stem not in needed]
        strays += list(self._store.paths.tmp.iterdir())
        for box in contributions.laptop_boxes(self._store):
            with contextlib.suppress(OSError):  # not every box can be looked into
                here = list(box.iterdir())
                named = {path.stem for path in here if path.suffix == ".json"}
                strays += [path for path in here if path.stem not in named]
        gone = [path for path in strays if self._timer.unchanged_s(path, None, GAP_S) >= ORPHAN_S]
        _remove(gone)
        return gone

    def sweep_incarnations(self, peers: PeerSnapshot) -> None:
        """Remove the folders of processes that are gone and have nothing pending."""
        for pulse in (one for one in peers.heartbeats if one.uid is None):
            silent = self._timer.unchanged_s(pulse.folder, pulse.counter, GAP_S)
            if silent >= ORPHAN_S and not contributions.list_contributions(pulse.folder):
                # By name: a process that wakes up may offer something meanwhile.
                _remove([*pulse.folder.glob("eval-*.json"), pulse.heartbeat])
                with contextlib.suppress(OSError):
                    pulse.folder.rmdir()


def blobs_of(record: Version) -> set[str]:
    """The state of a version and the contributions in it."""
    return {record.state} | {one.blob for one in (*record.replayed, *record.inputs)}


def _folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []


def _remove(paths: Iterable[Path]) -> None:
    """Remove files; a folder that a laptop sent, and what may not be removed, is left."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
