"""Adapter for signs of life: each process's heartbeat in a folder of its own. No torch.

A heartbeat is a counter that moves; clocks of two machines are never compared. Beside the counter a
job says up to which number it has offered (``offered``), so that a reader need not look for more. A
process that begins writes a new stamp: readers list the folders of processes when it changes.
Friends' folders are only read.
"""

from __future__ import annotations

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
"""A merge takes seconds; a merger silent for longer counts as gone (safety does not need it)."""


@dataclass(frozen=True, slots=True)
class PeerProcess:
    """One process's folder; ``box`` is the other account's whose it is, None: our own."""

    folder: Path
    box: AccountFolder | None = None

    @property
    def peer(self) -> str:
        """The job's name."""
        return self.folder.parent.name

    @property
    def incarnation(self) -> str:
        """The process start."""
        return self.folder.name

    @property
    def author(self) -> str:
        """Peer and process start, as contributions name it."""
        return f"{self.peer}/{self.incarnation}"

    @property
    def uid(self) -> int | None:
        """The account that its files must belong to; None for our own."""
        return self.box.uid if self.box else None

    @property
    def laptop(self) -> bool:
        """True if its contributions count as a laptop's."""
        return self.box is not None and self.box.laptop

    @property
    def heartbeat(self) -> Path:
        """The file that proves life."""
        return self.folder / "hb.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class Heartbeat(PeerProcess):
    """A process's heartbeat: a counter that moves, the version it stands on, whether it left.

    ``offered`` is the highest sequence that may exist; None where the process does not say.
    ``notes`` stand beside.
    """

    counter: int
    version: int
    left: bool
    offered: int | None = None
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)


def write_heartbeat(store: Store, pulse: Heartbeat, *, sync: bool = False) -> None:
    """Prove life in the process's own folder.

    ``sync`` where ``offered`` grows: if a power cut brought back an older heartbeat beside the
    contribution that follows, no merger would ever look for that one.
    """
    counted = {"counter": pulse.counter, "version": pulse.version, "left": pulse.left}
    offered = {} if pulse.offered is None else {"offered": pulse.offered}
    body = canonical_json({**pulse.notes, **counted, **offered})
    store.writer.replace(pulse.heartbeat, body, "beat", sync=sync)


def write_stamp(store: Store) -> None:
    """Tell readers that a process has begun; its folder is there already."""
    store.writer.replace(store.paths.stamp, new_token().encode(), "stamp", sync=False)


def read_heartbeats(store: Store) -> list[Heartbeat]:
    """Every readable heartbeat, those of other accounts included."""
    found = (read_heartbeat(process) for process in list_processes(store))
    return [pulse for pulse in found if pulse is not None]


def own_process_folders(store: Store) -> Iterator[Path]:
    """The folder of every process of our own account."""
    for peer in list_folders(store.paths.peers, WRITER):
        yield from list_folders(peer, INCARNATION)


def list_processes(store: Store) -> list[PeerProcess]:
    """Every process's folder, those of other accounts included."""
    own = [PeerProcess(folder) for folder in own_process_folders(store)]
    return own + [
        PeerProcess(path, box) for box in store.friend_outboxes() for path in box.process_folders()
    ]


def list_folders(parent: Path, form: re.Pattern[str]) -> list[Path]:
    """Folders in ``parent``, and no links to one, under a name of that form."""
    missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    with missing, os.scandir(parent) as entries:
        return sorted(
            parent / entry.name
            for entry in entries
            if form.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    return []


def read_heartbeat(process: PeerProcess) -> Heartbeat | None:
    """The heartbeat of a process; None when there is none that can be read."""
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
    """Remembers when each value was first seen: silence and age on one's own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._seen: dict[Hashable, tuple[Hashable, float, float]] = {}

    def unchanged_s(
        self, key: Hashable, value: Hashable = None, most_between_s: float = math.inf
    ) -> float:
        """Seconds for which ``key`` has had ``value`` since it was first looked at; 0 at first.

        Of the time between two looks ``most_between_s`` count at most: while the file system hung
        no process could look, nor finish the file that it had begun.
        """
        now = self._clock.monotonic()
        known, since, looked = self._seen.get(key, (value, now, now))
        since = since + max(0.0, now - looked - most_between_s) if known == value else now
        self._seen[key] = (value, since, now)
        return now - since

    def claim(self, folder: Path, holder: Mapping[str, str], silence_s: float) -> Lease | None:
        """The lease in ``folder``; a holder whose beat stood still for ``silence_s`` loses it.

        The disk is not waited for: such a lease only saves work.
        """
        lease = Lease.acquire(folder, holder, durable=False)
        if lease is None and (view := read_lease(folder)) is not None and view.ended is None:
            silent = self.unchanged_s(("lease", folder), (view.term, view.beat.get("counter")))
            if silent > silence_s:
                end_term(folder, view.term, f"silent for {silent:.0f} s")
                lease = Lease.acquire(folder, holder, durable=False)
        return lease

    def live_processes(
        self, read_heartbeats: Iterable[Heartbeat], silence_s: float
    ) -> list[Heartbeat]:
        """Pulses whose process has not left and whose counter moved within ``silence_s``."""
        return [
            pulse
            for pulse in read_heartbeats
            if not pulse.left and self.unchanged_s(pulse.author, pulse.counter) < silence_s
        ]
