"""Adapter for an archive's files: states in one flat folder; their names are the catalogue.

A state is written under the hash of its bytes, and becomes visible only when it is complete. Files
are never locked or replaced, so that writers on several hosts cannot damage each other's states. A
damaged file, another game's and another user's are ignored, with a reason. `list_states` costs one
`stat` unless the folder changed.
"""

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
from Daddy.pokemon.archive.archive_decisions import ArchiveRules, surplus_states
from Daddy.pokemon.archive.file_names import MAX_MARKS, Catalogue, MarkKind, StateEntry
from Daddy.pokemon.archive.state_format import STATE_LIMIT, Compatibility, Provenance

_FORCED_LISTING = 128
"""Every 128th call of `list_states` reads the folder even if its mtime is unchanged."""
_TRANSIENT = (errno.ESTALE, errno.ETIMEDOUT, errno.EMFILE, errno.ENFILE, errno.ENOMEM)
"""Errors of the disk or of this process, after which the same file may be readable again."""
_ABANDONED_S = 86_400.0
"""Age in seconds at which a temporary file counts as abandoned, by the file system's clock."""


class Archive:
    """Reads and writes one folder of states; all environments of a process share one `Archive`."""

    def __init__(self, folder: Path, compatibility: Compatibility, rules: ArchiveRules) -> None:
        self.folder = folder
        self.refused: dict[str, str] = {}
        """Reason by the hash of each state that could not be loaded."""
        self._compatibility, self.rules = compatibility, rules
        self._visits = Counter[str]()
        self._catalogue = Catalogue(visits=self._visits)
        self._mtimes: tuple[int, int] = (-1, -1)
        self._calls = 0
        self._lock = Lock()

    def list_states(self, *, force: bool = False) -> Catalogue:
        """Return the catalogue of loadable states; the last one if the folder cannot be read.

        An mtime is coarse: two changes may have the same one. So a changed mtime causes two
        listings, and every 128th call lists in any case; `force` does too.
        """
        with self._lock:
            mtime, self._calls = self._mtime(), self._calls + 1
            if force or self._mtimes != (mtime, mtime) or self._calls % _FORCED_LISTING == 0:
                self._mtimes = (self._mtimes[1], mtime)
                with contextlib.suppress(OSError):
                    listed = file_names.make_catalogue(os.listdir(self.folder))  # noqa: PTH208 - names
                    self._catalogue = replace(listed, visits=self._visits).without(self.refused)
            return self._catalogue

    def _mtime(self) -> int:
        try:
            return self.folder.stat().st_mtime_ns
        except OSError:
            return 0

    def count_visit(self, key: str) -> None:
        """Count a visit of `key` by this process, if the archive has states of that key."""
        if key in self._catalogue.by_key:
            with self._lock:
                self._visits[key] += 1

    def keep_state(self, provenance: Provenance, state: bytes) -> StateEntry:
        """Write a state, remove states beyond the limits, and return the new entry. OSError."""
        data = state_format.encode_state(provenance, state)
        entry = provenance.entry(sha256_hex(data))
        create_exclusive(self.folder / entry.file_name, data, mode=0o444)
        self._remember(entry)
        for surplus in surplus_states(self.list_states(force=True), self.rules):
            self._remove(surplus)
        return entry

    def _remember(self, entry: StateEntry) -> None:
        """Write the name of place and rank as a file, if the rank is the place's lowest yet."""
        if self._catalogue.first.get(entry.place, entry.rank + 1) > entry.rank:
            with contextlib.suppress(OSError):  # another writer's file, or a full disk
                write_new(self.folder / file_names.first_rank_name(entry.place, entry.rank), b"")

    def read_state(self, entry: StateEntry) -> tuple[Provenance, bytes]:
        """Read a state and its provenance; FileError if it is missing, damaged or another game's.

        This process excludes such a state from its listings, unless the error was transient.
        """
        try:
            return self._read(entry)
        except (FileError, OSError) as error:
            reason = error.message if isinstance(error, FileError) else str(error)
            cause = error if isinstance(error, OSError) else error.__cause__
            if not (isinstance(cause, OSError) and cause.errno in _TRANSIENT):
                self.exclude_state(entry, reason)
            raise FileError(reason, "another state is used") from error

    def _read(self, entry: StateEntry) -> tuple[Provenance, bytes]:
        path = self.folder / entry.file_name
        owner = path.lstat().st_uid
        if owner != os.getuid():
            raise FileError(
                f"{path} belongs to user {owner}", "a save state can run code: remove the file"
            )
        data = read_bounded(path, STATE_LIMIT)
        if sha256_hex(data) != entry.sha256:
            raise FileError(f"{path} is damaged: its bytes have another hash", "remove it")
        provenance, state = state_format.decode_state(data, self._compatibility, str(path))
        if provenance.entry(entry.sha256) != entry:
            raise FileError(f"{path} holds another state than its name says", "remove it")
        return provenance, state

    def exclude_state(self, entry: StateEntry, reason: str) -> None:
        """Exclude this state from this process's listings from now on."""
        with self._lock:
            self.refused[entry.sha256] = reason
            self._catalogue = self._catalogue.without(self.refused)

    def mark_try(self, sha256: str, kind: MarkKind) -> None:
        """Record the result of a try from a state, ``dry`` or ``gain``, as an empty file.

        Each call creates one file more. A state that was removed meanwhile gets no mark, because
        nothing would ever remove it.
        """
        catalogue = self.list_states()
        if sha256 not in catalogue.hashes:
            return
        counts = catalogue.dry if kind == "dry" else catalogue.gains
        for number in range(counts.get(sha256, 0) + 1, MAX_MARKS + 1):
            with contextlib.suppress(FileExistsError):  # another writer took it: the next number
                write_new(self.folder / file_names.mark_name(sha256, kind, number), b"")
                return

    def _remove(self, entry: StateEntry) -> None:
        """Remove a state's file, then its marks; marks without a state are ignored."""
        catalogue = self._catalogue
        self._unlink(entry.file_name)
        for number in range(1, catalogue.dry.get(entry.sha256, 0) + 1):
            self._unlink(file_names.mark_name(entry.sha256, "dry", number))
        for number in range(1, catalogue.gains.get(entry.sha256, 0) + 1):
            self._unlink(file_names.mark_name(entry.sha256, "gain", number))

    def _unlink(self, name: str) -> None:
        with contextlib.suppress(OSError):  # another writer removed it first
            (self.folder / name).unlink()

    def remove_leftovers(self) -> None:
        """Remove temporary files and marks without a state that are older than a day.

        The present time is the mtime of a new file, as the file system's clock may differ.
        """
        with contextlib.suppress(OSError):
            probe = self.folder / f".tmp-now-{os.getpid()}"
            create_exclusive(probe, b"")
            now = probe.stat().st_mtime
            probe.unlink()
            listed = os.listdir(self.folder)  # noqa: PTH208 - names
            hashes = {entry.sha256 for entry in file_names.make_catalogue(listed).entries}
            for name in listed:
                mark = file_names.parse_mark_name(name)
                stray = name.startswith(".tmp-") if mark is None else mark[0] not in hashes
                if stray and (self.folder / name).stat().st_mtime < now - _ABANDONED_S:
                    self._unlink(name)


def archive_folder(root: Path, compatibility: Compatibility) -> Path:
    """Return the folder of the states that this game and this emulator can load."""
    return root / f"{compatibility.rom_sha1[:12]}-pyboy-{compatibility.pyboy}"


@lru_cache(maxsize=8)
def open_archive(root: Path, compatibility: Compatibility, rules: ArchiveRules) -> Archive:
    """Return this process's `Archive` in `root`; the first call removes leftover files."""
    archive = Archive(archive_folder(root, compatibility), compatibility, rules)
    archive.remove_leftovers()
    return archive
