"""Adapter for an archive's files: one flat folder; its listing is the catalogue.

A state appears whole, under the hash of its bytes, or not at all. Nothing is locked and nothing is
replaced, so that writers on several hosts cannot spoil each other's states. A file that is damaged,
foreign or of another user is ignored, with a reason. A look costs one `stat` unless something
changed.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from threading import Lock

from Daddy.core.atomic_files import create_exclusive, read_bounded, sha256_hex, write_new
from Daddy.core.errors import FileError
from Daddy.pokemon.archive import file_names, state_format
from Daddy.pokemon.archive.file_names import MAX_MARKS, Catalogue, MarkKind, StateEntry
from Daddy.pokemon.archive.state_format import STATE_LIMIT, Compatibility, Provenance
from Daddy.pokemon.archive.state_selection import ArchiveRules, surplus_states

_CLOSE_LOOK = 128
"""One look in so many lists the folder, whatever its stamp says."""
_PASSING = (errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of a disk or of this process that say nothing of the file."""
_ABANDONED_S = 86_400.0
"""Age of an abandoned temporary file, by the file system's own clock."""


class Archive:
    """One folder as this process sees it; its environments, on whatever threads, share it."""

    def __init__(self, folder: Path, kin: Compatibility, rules: ArchiveRules) -> None:
        self.folder = folder
        self.refused: dict[str, str] = {}
        """Reason by the hash of each state that could not be loaded."""
        self._kin, self.rules = kin, rules
        self._visits = Counter[str]()
        self._seen = Catalogue(visits=self._visits)
        self._stamps: tuple[int, int] = (-1, -1)
        self._looks = 0
        self._lock = Lock()

    def list_states(self, *, closely: bool = False) -> Catalogue:
        """The states that may be loaded now; the last listing where the folder cannot be read.

        Clocks of file systems are coarse: a change is followed by a second listing, and one look in
        128 lists anyway; `closely` does too.
        """
        with self._lock:
            stamp, self._looks = self._stamp(), self._looks + 1
            if closely or self._stamps != (stamp, stamp) or self._looks % _CLOSE_LOOK == 0:
                self._stamps = (self._stamps[1], stamp)
                with contextlib.suppress(OSError):
                    listed = file_names.make_catalogue(os.listdir(self.folder))  # noqa: PTH208 - names
                    self._seen = replace(listed, visits=self._visits).without(self.refused)
            return self._seen

    def _stamp(self) -> int:
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def count_visit(self, key: str) -> None:
        """Count a try of this process that began at, or came to, a key with states."""
        if key in self._seen.by_key:
            with self._lock:
                self._visits[key] += 1

    def keep_state(self, provenance: Provenance, state: bytes) -> StateEntry:
        """Keep a state, and remove those beyond the bounds. OSError when the disk refuses."""
        data = state_format.encode_state(provenance, state)
        entry = provenance.entry(sha256_hex(data))
        create_exclusive(self.folder / entry.file_name, data, mode=0o444)
        self._remember(entry)
        for lost in surplus_states(self.list_states(closely=True), self.rules):
            self._remove(lost)
        return entry

    def _remember(self, entry: StateEntry) -> None:
        """Note the rank at which a place is known, if it is the lowest yet."""
        if self._seen.first.get(entry.place, entry.rank + 1) > entry.rank:
            with contextlib.suppress(OSError):  # somebody else's, or a full disk: the next state's
                write_new(self.folder / file_names.first_rank_name(entry.place, entry.rank), b"")

    def read_state(self, entry: StateEntry) -> tuple[Provenance, bytes]:
        """A state and its provenance; FileError when it is gone, damaged, foreign or not ours.

        This process does not offer such a state again, unless the error was of a passing kind.
        """
        try:
            return self._read(entry)
        except (FileError, OSError) as error:
            said = error.message if isinstance(error, FileError) else str(error)
            cause = error if isinstance(error, OSError) else error.__cause__
            if not (isinstance(cause, OSError) and cause.errno in _PASSING):
                self.exclude_state(entry, said)
            raise FileError(said, "another state is used") from error

    def _read(self, entry: StateEntry) -> tuple[Provenance, bytes]:
        path = self.folder / entry.file_name
        owner = path.lstat().st_uid
        if owner != os.getuid():
            raise FileError(
                f"{path} belongs to user {owner}", "a save state is a program: remove it"
            )
        data = read_bounded(path, STATE_LIMIT)
        if sha256_hex(data) != entry.sha256:
            raise FileError(f"{path} is damaged: its bytes have another hash", "remove it")
        provenance, state = state_format.decode_state(data, self._kin, str(path))
        if provenance.entry(entry.sha256) != entry:
            raise FileError(f"{path} holds another moment than its name says", "remove it")
        return provenance, state

    def exclude_state(self, entry: StateEntry, reason: str) -> None:
        """Do not offer this state again."""
        with self._lock:
            self.refused[entry.sha256] = reason
            self._seen = self._seen.without(self.refused)

    def mark_try(self, sha256: str, kind: MarkKind) -> None:
        """Count a try from a state: ``dry``, or ``gain``. Every caller's mark counts once.

        A state that was removed meanwhile gets none: the mark would never be removed.
        """
        seen = self.list_states()
        if sha256 not in seen.hashes:
            return
        counts = seen.dry if kind == "dry" else seen.gains
        for number in range(counts.get(sha256, 0) + 1, MAX_MARKS + 1):
            with contextlib.suppress(FileExistsError):  # somebody else's: the next number
                write_new(self.folder / file_names.mark_name(sha256, kind, number), b"")
                return

    def _remove(self, entry: StateEntry) -> None:
        """Remove the state first: a mark without one means nothing."""
        seen = self._seen
        self._unlink(entry.file_name)
        for number in range(1, seen.dry.get(entry.sha256, 0) + 1):
            self._unlink(file_names.mark_name(entry.sha256, "dry", number))
        for number in range(1, seen.gains.get(entry.sha256, 0) + 1):
            self._unlink(file_names.mark_name(entry.sha256, "gain", number))

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):  # another writer was faster
            (self.folder / name).unlink()

    def remove_leftovers(self) -> None:
        """Remove the rests of killed writers: temporary files of yesterday, marks without a state.

        The age is compared with a file that the same file system stamps now.
        """
        with contextlib.suppress(OSError):
            probe = self.folder / f".tmp-now-{os.getpid()}"
            create_exclusive(probe, b"")
            now = probe.stat().st_mtime
            probe.unlink()
            listed = os.listdir(self.folder)  # noqa: PTH208 - names
            known = {entry.sha256 for entry in file_names.make_catalogue(listed).entries}
            for name in listed:
                mark = file_names.parse_mark_name(name)
                stray = name.startswith(".tmp-") if mark is None else mark[0] not in known
                if stray and (self.folder / name).stat().st_mtime < now - _ABANDONED_S:
                    self._unlink(name)


def archive_folder(root: Path, kin: Compatibility) -> Path:
    """The folder of states that the same game and emulator can load."""
    return root / f"{kin.rom_sha1[:12]}-pyboy-{kin.pyboy}"


@lru_cache(maxsize=8)
def open_archive(root: Path, kin: Compatibility, rules: ArchiveRules) -> Archive:
    """This process's one view of an archive; tidied when it is first opened."""
    archive = Archive(archive_folder(root, kin), kin, rules)
    archive.remove_leftovers()
    return archive
