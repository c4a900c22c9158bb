"""Adapter for a ``shared_weights`` folder: run card, blobs, versions, heads. No torch.

A blob is named by its hash and verified on every read. A version exists once its commit record has
been created, exclusively, under the next number: of two mergers one wins, without a lock. Heads are
hints that any reader may repair. No wall clock decides anything.
"""

import contextlib
import os
import re
import stat
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from Daddy.core.atomic_files import parse_json, read_bounded, sha256_hex
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.friend_accounts import AccountFolder, account_folders
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights.store.crash_safe_files import CrashSafeWriter, Hook, no_hook
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import Head, LaptopHead, RunCard, Version, parse

BLOB_LIMIT = 1 << 30
"""Bytes of the largest blob that is read: a hundred times our policy."""

_NAME_BYTES = 200
MOST_TOLD = 4
"""Differing settings that an error message names."""
Hint = TypeVar("Hint", Head, LaptopHead)
VERSION_NAME = re.compile(r"v(\d{8})\.json")
"""A commit record's file name."""


class Store:
    """One ``shared_weights`` folder as a process sees it; ``newest`` never goes back."""

    def __init__(self, paths: SharedPaths, hook: Hook = no_hook) -> None:
        self.paths = paths
        self.writer = CrashSafeWriter(paths.tmp, hook)
        self.seen = -1
        """The highest version that this process has read of; -1: none."""
        self.alone = False
        """True if no other account takes part, as read last."""
        self._card: RunCard | None = None
        self._flaw = ""
        self._records: dict[int, tuple[Version, str]] = {}
        self.friend_outboxes()  # before the first file is written, whose mode depends on it

    # -- other accounts

    def friend_outboxes(self) -> list[AccountFolder]:
        """Return the folders of friends' jobs; none if ``peers.json`` is damaged, but then, too,
        friends exist, who must be able to read the files of this time later.
        """
        boxes, self._flaw = [], ""
        try:
            boxes = account_folders(self.paths)
        except FileError as error:
            self._flaw = str(error)
        self.alone = not boxes and not self._flaw
        self.writer.world_readable |= not self.alone
        return boxes

    def list_problems(self) -> list[str]:
        """Return the faults of friends' folders or of ``peers.json``, with remedies."""
        faults = [
            f"{box.owner_name}: {why}" for box in self.friend_outboxes() if (why := box.problem())
        ]
        return [self._flaw] if self._flaw else faults

    # -- the run card

    def open(self, own: RunCard) -> RunCard:
        """Return the run card; write ``own`` as ``RUN.json`` if there is none. Raise WeightsError
        when the folder holds weights of another policy, or weights learnt with other assists or
        settings.
        """
        from Daddy.core.agreed_settings import describe_differences  # loads all settings

        self._begin(own)
        card, root = self.card(), self.paths.root
        if set(card.assists) != set(own.assists):  # one average would mix both
            theirs, ours = (", ".join(names) or "none" for names in (card.assists, own.assists))
            raise WeightsError(
                f"{root} holds weights learnt with the assists {theirs}; this learner has {ours}",
                f"set training.assists to {theirs}, or give this run a run_dir and shared_dir of "
                "its own",
            )
        if others := describe_differences(dict(card.terms), dict(own.terms)):
            more = f" and {len(others) - MOST_TOLD} more" * (len(others) > MOST_TOLD)
            raise WeightsError(
                f"{root} holds weights of other settings: {'; '.join(others[:MOST_TOLD])}{more}",
                "use the run's own settings, or give this run a run_dir and shared_dir of its own",
            )
        if (card.workload, card.schema) != (own.workload, own.schema):
            raise WeightsError(
                f"{root} holds the weights of {card.workload!r} with schema "
                f"{card.schema[:12]}, this learner is {own.workload!r} with {own.schema[:12]}",
                "give this run a shared_dir of its own, or the policy it started with (settings "
                "training.encoder_size and lstm_size)",
            )
        return card

    def _begin(self, own: RunCard) -> None:
        if not self.paths.run.exists():
            self.writer.create(self.paths.run, own.to_json_bytes(), "card")
            self.paths.inbox.mkdir(parents=True, exist_ok=True)

    def card(self) -> RunCard:
        """Read ``RUN.json``. Raise WeightsError when it is missing or damaged."""
        if self._card is None:
            try:
                data = read_bounded(self.paths.run, LIMIT)
            except FileNotFoundError as error:
                raise WeightsError(
                    f"{self.paths.root} holds no shared weights yet", "start a learner first"
                ) from error
            self._card = parse(RunCard, data, str(self.paths.run))
        return self._card

    # -- blobs

    def put_blob(self, data: bytes, label: str) -> str:
        """Write ``data`` under its hash; return the hash. An existing file is replaced."""
        sha = sha256_hex(data)
        self.writer.replace(self.paths.blob(sha), data, label, mode=0o444)
        return sha

    def read_blob(self, sha: str) -> bytes:
        """Return the bytes with this hash. Raise WeightsError when missing or damaged."""
        path = self.paths.blob(sha)
        try:
            data = self._read_blob(path, sha)
        except FileNotFoundError as error:
            raise WeightsError(f"{path} is missing", "an older version is used") from error
        except FileError as error:
            raise WeightsError(error.message, error.fix) from error
        if sha256_hex(data) != sha:
            raise WeightsError(
                f"{path} is damaged: its {len(data)} bytes do not have the hash in its name",
                "nothing: it is skipped, and the next merge repairs it",
            )
        return data

    def _read_blob(self, path: Path, sha: str) -> bytes:
        """Read a blob; in a friend's folder, if it is missing, from the owner's folder."""
        try:
            return read_bounded(path, BLOB_LIMIT)
        except FileNotFoundError:
            if isinstance(self.paths, JoinedPaths):
                return read_bounded(self.paths.theirs.blob(sha), BLOB_LIMIT)
            raise

    def mend_blob(self, data: bytes) -> None:
        """Write ``data`` under its hash if the file is missing or damaged; a damaged one also goes
        to quarantine. It is replaced, never removed first: it may be invisible for this reader
        only.
        """
        sha = sha256_hex(data)
        path = self.paths.blob(sha)
        with contextlib.suppress(OSError, FileError):
            if sha256_hex(read_bounded(path, BLOB_LIMIT)) == sha:
                return
            os.link(path, self._evidence(path, "damaged"))
        self.writer.replace(path, data, "state", mode=0o444)

    def set_aside(self, path: Path, reason: str, sender: str = "") -> None:
        """Move a damaged or refused file into ``quarantine/``, below the folder ``reason``, with
        the name of its ``sender`` first.
        """
        with contextlib.suppress(FileNotFoundError):  # another merger was faster
            path.rename(self._evidence(path, reason, sender))

    def _evidence(self, path: Path, reason: str, sender: str = "") -> Path:
        folder = self.paths.quarantine / reason
        folder.mkdir(parents=True, exist_ok=True)
        name = os.fsdecode(os.fsencode(path.name)[-_NAME_BYTES:])  # a file system takes 255 bytes
        return folder / f"{f'{sender}.' * bool(sender)}{uuid.uuid4().hex[:8]}-{name}"

    # -- versions

    def newest(self) -> int | None:
        """Return the highest version that exists, never a lower one than before; or None. Names
        that hold no commit record are passed over.
        """
        number = max(self.seen, self._hint())
        if number < 0 or (number > self.seen and not self._holds_record(number)):
            listed = (each for each in reversed(version_numbers(self.paths)) if each > self.seen)
            number = next((each for each in listed if self._holds_record(each)), self.seen)
        if number < 0:
            return None
        following = number + 1
        while (holds := self._holds_record(following)) is not None:
            number = following if holds else number
            following += 1
        self.seen = number
        return number

    def next_number(self, newest: int) -> int:
        """Return the number of the version after ``newest``; names without a record are skipped."""
        number = newest + 1
        while self._holds_record(number) is False:
            number += 1
        return number

    def _holds_record(self, number: int) -> bool | None:
        """Return True if a version's name holds a commit record, False if it holds anything else (a
        socket, a folder, bytes that are no JSON), None if it is free. Records of a newer release,
        and those that a failing disk hides, count as records: a version was committed there.
        """
        path = self.paths.version(number)
        try:
            if not stat.S_ISREG(path.lstat().st_mode):
                return False
            with contextlib.suppress(WeightsError):
                self._record(number)
                return True
            parse_json(read_bounded(path, LIMIT), str(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        except FileError as error:
            return isinstance(error.__cause__, OSError)
        return True

    def _hint(self) -> int:
        head = self.head()
        return -1 if head is None else head.version

    def version(self, number: int) -> Version:
        """Return the commit record of a version. Raise WeightsError when missing or damaged."""
        return self._record(number)[0]

    def records(self, first: int, last: int) -> list[Version]:
        """Return the readable commit records from ``first`` to ``last``, in order. Others are
        skipped: a purge deletes records, and a restore leaves a gap.
        """
        return list(self.record_stream(last, first))

    def record_stream(self, last: int, first: int = 0) -> Iterator[Version]:
        """Yield what `records` returns, one after another: all records of a run are many."""
        for number in range(max(0, first), last + 1):
            with contextlib.suppress(WeightsError):
                yield self.version(number)

    def record_hash(self, number: int) -> str:
        """Return the SHA-256 of a version's commit record, which its child names as parent."""
        return self._record(number)[1]

    def _record(self, number: int) -> tuple[Version, str]:
        cached = self._records.get(number)
        if cached is None:
            path = self.paths.version(number)
            try:
                data = read_bounded(path, LIMIT)
            except (FileNotFoundError, FileError) as error:
                raise WeightsError(f"{path} cannot be read: {error}", "restore the run") from error
            record = parse(Version, data, str(path))
            if record.version != number:
                raise WeightsError(f"{path} is of version {record.version}", "restore the run")
            cached = record, sha256_hex(data)
            self._remember(*cached)
        return cached

    def _remember(self, record: Version, sha: str) -> None:
        """Cache the record; only the 64 newest stay in memory."""
        self._records[record.version] = (record, sha)
        for old in sorted(self._records)[:-64]:
            del self._records[old]

    def commit(self, record: Version) -> bool:
        """Create the commit record; return False when the version already exists."""
        data = record.to_json_bytes()
        if len(data) > LIMIT:
            raise WeightsError(f"a commit record of {len(data)} bytes is too long", "report this")
        created = self.writer.create(self.paths.version(record.version), data, "record", mode=0o444)
        if created:
            self._remember(record, sha256_hex(data))
        self.seen = max(self.seen, record.version)
        return created

    # -- heads

    def head(self) -> Head | None:
        """Return ``HEAD.json``, or None if it cannot be read."""
        return _read_hint(Head, self.paths.head)

    def write_head(self, number: int) -> None:
        """Point ``HEAD.json`` at ``number`` unless it names that version or a later one."""
        if self._hint() >= number:
            return
        record, sha = self._record(number)
        head = Head(
            version=number,
            record=sha,
            state=record.state,
            run_id=record.run_id,
            fleet_steps=record.fleet_steps,
            ts=record.ts,
            contributors=record.contributors,
        )
        self.writer.replace(self.paths.head, head.to_json_bytes(), "head", sync=False)

    def keyframe(self) -> LaptopHead | None:
        """Return ``wan/HEAD.json``, which laptops read, or None if it cannot be read."""
        return _read_hint(LaptopHead, self.paths.wan / "HEAD.json")


def version_numbers(paths: SharedPaths) -> list[int]:
    """Return the number of every version that has a commit record, in order."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        matches = (VERSION_NAME.fullmatch(path.name) for path in paths.merged.iterdir())
        return sorted(int(match[1]) for match in matches if match)
    return []


def _read_hint(kind: type[Hint], path: Path) -> Hint | None:
    try:
        return parse(kind, read_bounded(path, LIMIT), str(path))
    except (FileNotFoundError, FileError, WeightsError):
        return None
