"""Removes contribution records once judged, blobs that no kept version needs, and stray files.

Records are removed before the blobs they name. Commit records stay for ever. Never removed: the
newest ``keep`` states, the inputs and base of each, pending contributions, the base of any live
peer, and the states of the versions in ``kept.json`` (``version_retention``).
"""

import contextlib
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.shared_weights_paths import JoinedPaths
from Daddy.weights.evaluations import best_evaluated
from Daddy.weights.merge import contributions
from Daddy.weights.merge.compute_version import Peers
from Daddy.weights.merge.contributions import BoxFile, PendingOffer, set_box_file_aside
from Daddy.weights.merge.merge_inputs import PeerReader
from Daddy.weights.store import version_retention
from Daddy.weights.store.heartbeats import StallTimer
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.version_retention import KeptState, read_kept, write_kept
from Daddy.weights.store.weight_records import Version, is_reverted
from Daddy.weights.store.weight_store import Store

ORPHAN_S = 3600.0
"""Seconds for which a file without a reference is watched before it is removed."""

SWEEP_S = 600.0
"""Seconds between two listings of every blob."""

GAP_S = 2 * SWEEP_S
"""Most seconds of a pause between two sweeps that count towards ``ORPHAN_S``."""

KEEP_TERMS = 8
KEEP_RECEIPTS = contributions.BOX_FILES // 2
"""Newest receipts of one laptop: as many as contributions fit into a box, because those of friends
stay in theirs after they were judged."""
KEEP_EVIDENCE = 64
EVIDENCE_BYTES, SENDER_BYTES = 64 << 20, 16 << 20
"""Files and bytes that each folder of quarantine/ may hold, and bytes of one laptop among them; the
newest stay."""
BOXES_S = 60.0
"""Seconds between two looks at the bytes of all boxes."""


class Sweeper:
    """Removes files that are no longer needed, on behalf of one merger."""

    def __init__(self, store: Store, keep: int, timer: StallTimer, reader: PeerReader) -> None:
        self._store = store
        self._keep = keep
        self._timer = timer
        self._reader = reader
        self._sweeps = 0
        self._looks = 0
        self._size = 0
        self._kept: list[KeptState] | None = None
        self._best: tuple[list[str], int | None] = ([], None)

    def after_merge(self, record: Version, judged: Sequence[PendingOffer], peers: Peers) -> None:
        """Remove files not needed since ``record``; ``peers`` are those read for its merge."""
        self._size = record.size
        refused = {refusal.key for refusal in record.refused}
        for offer in judged:
            self._drop_offer(offer, refused=offer.key in refused)
        for offer in peers.pending:  # of a laptop that sent it again after it was judged
            if offer.laptop and offer.offer.sequence <= record.judged(offer.offer.author):
                self._drop_offer(offer, refused=False)
        try:
            gone = self._keep_history(record)
            needed = self.needed_blobs(record, peers)
        except FileError:
            return  # kept.json cannot be read now: no state that it may name is removed
        leaving = record.version - self._keep
        for number in sorted({leaving - 1, leaving, *gone}):  # the version before was its base
            self._drop_blobs(number, needed)
        from_boxes = any(offer.laptop and offer.uid is None for offer in judged)
        if from_boxes or self._timer.unchanged_s("boxes", self._looks) >= BOXES_S:
            self._looks += 1
            self.bound_laptops(record)
        if self._timer.unchanged_s("sweep", self._sweeps) >= SWEEP_S:
            self._sweeps += 1
            self.sweep(record)
        self.sweep_incarnations(peers)

    def sweep(self, record: Version) -> None:
        """Remove files of crashed mergers and old terms, receipts and quarantined files."""
        paths = self._store.paths
        needed = self.needed_blobs(record, self._reader.read_peers(record))
        for number in range(record.version - 2 * self._keep, record.version - self._keep + 1):
            self._drop_blobs(number, needed)
        self._forget_lost()
        terms = paths.lease.glob("term-*.json")
        by_number = sorted(terms, key=lambda path: (len(path.name.split(".")[0]), path.name))
        _remove(by_number[: -2 * KEEP_TERMS])
        for box in _folders(paths.receipts):
            files = sorted(contributions.list_box_files(box), key=lambda file: file.changed)
            for form in ("????????-??????.json", "claim-*.json"):
                _remove([file.path for file in files if file.path.match(form)][:-KEEP_RECEIPTS])
        self.sweep_orphans(needed)

    def bound_laptops(self, record: Version) -> None:
        """Remove unread what exceeds the limits of boxes and of quarantine."""
        largest, taken = contributions.largest_state(record.size), 0
        for box in contributions.laptop_boxes(self._store):
            files = list(contributions.list_box_files(box))
            excess, kept = contributions.choose_excess(files, largest, taken)
            _remove(file.path for file in excess)
            taken += kept
        for folder in _folders(self._store.paths.quarantine):
            _remove(choose_old_evidence(list(contributions.list_box_files(folder))))

    def _keep_history(self, record: Version) -> set[int]:
        """Bring ``kept.json`` up to date; return the versions that are not in it any more."""
        if isinstance(self._store.paths, JoinedPaths):
            return set()  # the owner's jobs keep the states
        before = read_kept(self._store)
        newest = self._store.records(record.version - self._keep + 1, record.version)
        by_version = {
            kept.version: kept for kept in (*before, *map(version_retention.kept_entry, newest))
        }
        good = [
            kept for kept in by_version.values() if not is_reverted(kept.version, record.reverted)
        ]
        self._kept = version_retention.choose_kept(good, self._keep, self._best_evaluated())
        with contextlib.suppress(OSError):  # a full disk: the next merge writes it
            write_kept(self._store, self._kept)
        return {kept.version for kept in before} - {kept.version for kept in self._kept}

    def _forget_lost(self) -> None:
        """Remove versions without a blob from ``kept.json``; other versions are kept instead."""
        with contextlib.suppress(OSError, FileError):
            kept = read_kept(self._store)
            present = [entry for entry in kept if self._store.paths.blob(entry.state).exists()]
            if present != kept:
                write_kept(self._store, present)

    def _best_evaluated(self) -> int | None:
        """Return the best evaluated version; read evaluations only if their names changed."""
        names = sorted(path.name for path in self._store.paths.evaluations.glob("*.json"))
        if names != self._best[0]:
            self._best = (names, best_evaluated(self._store.paths))
        return self._best[1]

    def needed_blobs(self, record: Version, peers: Peers) -> set[str]:
        """Return hashes of every blob that must stay when ``record`` is the newest version."""
        keep = {offer.offer.blob for offer in peers.pending}
        for kept in self._store.records(record.version - self._keep + 1, record.version):
            keep |= self._sources(kept)
        keep |= {entry.state for entry in self._kept or read_kept(self._store)}
        for pulse in peers.heartbeats:
            if not pulse.left and 0 <= record.version - pulse.version <= 64 * self._keep:
                with contextlib.suppress(WeightsError):
                    keep.add(self._store.version(pulse.version).state)
        return keep

    def _sources(self, record: Version) -> set[str]:
        """Return hashes of a version's own blobs and of the states from which to rebuild it."""
        bases = {record.base}
        if record.rule == "polyak":  # averages absolute weights: base + delta
            bases |= {record_of.base_version for record_of in record.inputs}
        older = (record_of for number in bases for record_of in self._store.records(number, number))
        return blobs_of(record) | {record_of.state for record_of in older}

    def _drop_offer(self, offer: PendingOffer, *, refused: bool) -> None:
        """Remove a contribution; leave a friend's, move a laptop's refused one to quarantine."""
        if offer.uid is not None:
            return  # a friend's jobs remove their own files
        with contextlib.suppress(OSError):
            if offer.laptop and refused:
                most = contributions.largest_state(self._size)
                set_box_file_aside(self._store, offer.record, "refused", LIMIT)
                set_box_file_aside(self._store, offer.blob, "refused", most)
                return
            offer.record.unlink(missing_ok=True)
            if offer.laptop:
                offer.blob.unlink(missing_ok=True)

    def _drop_blobs(self, number: int, needed: set[str]) -> None:
        for record in self._store.records(number, number):
            for sha in blobs_of(record) - needed:
                self._store.paths.blob(sha).unlink(missing_ok=True)

    def sweep_orphans(self, needed: set[str]) -> list[Path]:
        """Remove blobs and temporary files that nothing named for an hour; return the paths."""
        blobs = (path for folder in _folders(self._store.paths.blobs) for path in folder.iterdir())
        strays = [path for path in blobs if path.stem not in needed]
        strays += list(self._store.paths.tmp.iterdir())
        for box in contributions.laptop_boxes(self._store):
            with contextlib.suppress(OSError):  # not every box can be listed
                here = list(box.iterdir())
                named = {path.stem for path in here if path.suffix == ".json"}
                strays += [path for path in here if path.stem not in named]
        gone = [path for path in strays if self._timer.unchanged_s(path, None, GAP_S) >= ORPHAN_S]
        _remove(gone)
        return gone

    def sweep_incarnations(self, peers: Peers) -> None:
        """Remove folders of processes silent for an hour that have no contribution left."""
        for process in (heartbeat for heartbeat in peers.heartbeats if heartbeat.uid is None):
            silent = self._timer.unchanged_s(process.folder, process.counter, GAP_S)
            if silent >= ORPHAN_S and not contributions.list_contributions(process.folder):
                # File by file: if the process wakes up and offers something, rmdir fails.
                _remove([*process.folder.glob("eval-*.json"), process.heartbeat])
                with contextlib.suppress(OSError):
                    process.folder.rmdir()


def blobs_of(record: Version) -> set[str]:
    """Return the hashes of a version's state and of the contributions in it."""
    return {record.state} | {merged.blob for merged in (*record.replayed, *record.inputs)}


def choose_old_evidence(files: Sequence[BoxFile]) -> list[Path]:
    """Pure. Choose the files of one quarantine folder that exceed a limit, the oldest of them."""
    old, total, by_sender = [], 0, Counter[str]()
    newest_first = sorted(files, key=lambda file: (file.changed, file.path.name), reverse=True)
    for number, file in enumerate(newest_first):
        sender = file.path.name.partition(".")[0] if file.path.name.count(".") > 1 else ""
        by_sender[sender] += file.size
        total += file.size
        over = total > EVIDENCE_BYTES or (sender and by_sender[sender] > SENDER_BYTES)
        if number >= KEEP_EVIDENCE or over:
            old.append(file.path)
    return old


def _folders(parent: Path) -> list[Path]:
    return [path for path in parent.iterdir() if path.is_dir()] if parent.is_dir() else []


def _remove(paths: Iterable[Path]) -> None:
    """Remove files; skip folders and files that this account may not remove."""
    for path in paths:
        with contextlib.suppress(OSError):
            path.unlink(missing_ok=True)
