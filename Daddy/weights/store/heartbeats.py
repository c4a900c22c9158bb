"""Adapter for heartbeats: each process's counter in a folder of its own. No torch.

A process is alive while its counter moves; clocks of two machines are never compared. A heartbeat
also holds the last sequence that the job has offered (``offered``), so that a reader need not look
for later ones. A process that starts writes a new stamp: readers list the folders of processes when
the stamp changes. Friends' folders are only read.
"""

import contextlib
import math
import os
import re
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import JSON_LIMIT, canonical_json, parse_json, read_bounded
from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.friend_accounts import AccountFolder
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.name_validation import WRITER, new_token
from Daddy.weights.store.strict_json import INCARNATION
from Daddy.weights.store.weight_store import Store

LEASE_SILENCE_S = 20.0
"""Seconds without a heartbeat after which a merger loses its lease: a merge takes seconds, and
safety does not need the lease."""


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """One process's folder; ``box``: the friend's outbox that holds it, None in our own folder."""

    folder: Path
    box: AccountFolder | None = None

    @property
    def peer(self) -> str:
        """Name of the job or laptop."""
        return self.folder.parent.name

    @property
    def incarnation(self) -> str:
        """Name of the process start, eight hexadecimal digits."""
        return self.folder.name

    @property
    def author(self) -> str:
        """Peer and incarnation, as contributions name their author."""
        return f"{self.peer}/{self.incarnation}"

    @property
    def uid(self) -> int | None:
        """Account that the process's files must belong to; None for our own."""
        return self.box.uid if self.box else None

    @property
    def laptop(self) -> bool:
        """True if the process's contributions count as a laptop's."""
        return self.box is not None and self.box.laptop

    @property
    def heartbeat(self) -> Path:
        """Path of the heartbeat file."""
        return self.folder / "hb.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(PeerProcess):
    """A process's heartbeat: its counter, the version it has adopted, True if it left. ``offered``
    is the highest sequence that may exist, None if the process does not write it; ``notes`` are the
    file's other keys.
    """

    counter: int
    version: int
    left: bool
    offered: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)


def write_heartbeat(store: Store, heartbeat: Heartbeat, *, sync: bool = False) -> None:
    """Write a heartbeat into the process's own folder. Set ``sync`` when ``offered`` grew: if a
    power cut brought back an older heartbeat beside a newer contribution, no merger would look for
    that contribution.
    """
    counted = {"counter": heartbeat.counter, "version": heartbeat.version, "left": heartbeat.left}
    offered = {} if heartbeat.offered is None else {"offered": heartbeat.offered}
    body = canonical_json({**heartbeat.notes, **counted, **offered})
    store.writer.replace(heartbeat.heartbeat, body, "beat", sync=sync)


def write_stamp(store: Store) -> None:
    """Write a new stamp; readers then list the folders of processes again and find a new one."""
    store.writer.replace(store.paths.stamp, new_token().encode(), "stamp", sync=False)


def read_heartbeats(store: Store) -> list[Heartbeat]:
    """Return every readable heartbeat, of this account's and of friends' processes."""
    read = (read_heartbeat(process) for process in list_processes(store))
    return [heartbeat for heartbeat in read if heartbeat is not None]


def own_process_folders(store: Store) -> Iterator[Path]:
    """Yield the folder of every process of this account."""
    for peer in list_folders(store.paths.peers, WRITER):
        yield from list_folders(peer, INCARNATION)


def list_processes(store: Store) -> list[PeerProcess]:
    """Return every process's folder, of this account and of friends."""
    own = [PeerProcess(folder) for folder in own_process_folders(store)]
    boxes = store.friend_outboxes()
    return own + [PeerProcess(path, box) for box in boxes for path in box.process_folders()]


def list_folders(parent: Path, form: re.Pattern[str]) -> list[Path]:
    """Return folders in ``parent``, links excepted, whose names match ``form``."""
    missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    with missing, os.scandir(parent) as entries:
        return sorted(
            parent / entry.name
            for entry in entries
            if form.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    return []


def read_heartbeat(process: PeerProcess) -> Heartbeat | None:
    """Read the heartbeat of a process; None if its file is missing or damaged."""
    path = process.heartbeat
    try:
        body = parse_json(read_bounded(path, JSON_LIMIT, process.uid), str(path))
        offered = body.get("offered")
        return Heartbeat(
            process.folder,
            process.box,
            counter=int(body["counter"]),
            version=int(body["version"]),
            left=bool(body["left"]),
            offered=None if offered is None else int(offered),
            notes=body,
        )
    except (FileNotFoundError, FileError, KeyError, TypeError, ValueError, OverflowError):
        return None


class StallTimer:
    """Measures, on this process's own clock, the seconds for which values stay unchanged."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[Hashable, tuple[Hashable, float, float]] = {}

    def unchanged_s(
        self, key: Hashable, value: Hashable = None, most_between_s: float = math.inf
    ) -> float:
        """Return the seconds for which ``key`` has had ``value``; 0 at the first call. Of the time
        between two calls ``most_between_s`` count at most: while the file system hung, no other
        process could change its value either.
        """
        now = self._clock.monotonic()
        before, since, called = self._seen.get(key, (value, now, now))
        since = since + max(0.0, now - called - most_between_s) if before == value else now
        self._seen[key] = (value, since, now)
        return now - since

    def claim_lease(
        self, folder: Path, holder: Mapping[str, str], silence_s: float
    ) -> Lease | None:
        """Take the lease in ``folder`` (None while held); end a holder whose beat stood still for
        ``silence_s``. The lease file is not synced to disk: a lost lease only costs work.
        """
        lease = Lease.acquire(folder, holder, durable=False)
        if lease is None and (view := read_lease(folder)) is not None and view.ended is None:
            silent = self.unchanged_s(("lease", folder), (view.term, view.beat.get("counter")))
            if silent > silence_s:
                end_term(folder, view.term, f"silent for {silent:.0f} s")
                lease = Lease.acquire(folder, holder, durable=False)
        return lease

    def live_processes(self, beats: Iterable[Heartbeat], silence_s: float) -> list[Heartbeat]:
        """Return heartbeats that moved within ``silence_s`` and whose process has not left."""
        return [
            beat
            for beat in beats
            if not beat.left and self.unchanged_s(beat.author, beat.counter) < silence_s
        ]
