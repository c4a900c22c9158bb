"""Adapter for signs of life: each process's heartbeat in a folder of its own. No torch.

A heartbeat is a counter that moves; clocks of two machines are never compared. Beside the counter a
job says up to which number it has offered (``offered``), so that a reader need not look for more. A
process that begins writes a new stamp: readers list the folders of processes when it changes, and
every ``RELIST_S`` because jobs of the release before write none. Friends' folders are only read.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from Daddy.core.clock import Clock
from Daddy.core.errors import FileError
from Daddy.core.files import JSON_LIMIT, parse_json, read_bounded, to_json
from Daddy.core.friend_accounts import Outbox
from Daddy.core.lease import Lease, end_term, read_lease
from Daddy.core.names import WRITER, new_token
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import INCARNATION

RELIST_S = 120.0
"""Seconds after which folders are listed again although nothing says that they changed: more than
lie between two looks on a slow network file system, where a look may be due every 20 s."""

LEASE_SILENCE_S = 20.0
"""A merge takes seconds; a merger silent for longer counts as gone (safety does not need it)."""


@dataclass(frozen=True, slots=True)
class Process:
    """One process's folder; ``box`` is the other account's whose it is, None: our own."""

    folder: Path
    box: Outbox | None = None

    @property
    def author(self) -> str:
        """Peer and process start, as contributions name it."""
        return f"{self.folder.parent.name}/{self.folder.name}"

    @property
    def uid(self) -> int | None:
        """The account that its files must belong to; None for our own."""
        return self.box.uid if self.box else None

    @property
    def laptop(self) -> bool:
        """Whether its contributions count as a laptop's."""
        return self.box is not None and self.box.laptop


@dataclass(frozen=True, slots=True)
class Pulse:
    """One process's heartbeat: a counter that moves, the version it stands on, whether it left.

    ``offered`` is the highest sequence that may exist; None where the process does not say. As
    read: ``path``, the ``notes`` beside, whether the process counts as a laptop, and the ``uid`` of
    its account where that is not ours.
    """

    peer: str
    incarnation: str
    counter: int
    version: int
    left: bool
    path: Path = Path()
    notes: Mapping[str, Any] = field(default_factory=dict, compare=False)
    laptop: bool = False
    uid: int | None = None
    offered: int | None = None

    @property
    def author(self) -> str:
        """Peer and process start, as contributions name it."""
        return f"{self.peer}/{self.incarnation}"


def beat(store: Store, pulse: Pulse, notes: Mapping[str, object], *, sync: bool = False) -> None:
    """Prove life in the process's own folder.

    ``sync`` where ``offered`` grows: if a power cut brought back an older heartbeat beside the
    contribution that follows, no merger would ever look for that one.
    """
    body = {
        **notes,
        "counter": pulse.counter,
        "version": pulse.version,
        "left": pulse.left,
    }
    if pulse.offered is not None:
        body["offered"] = pulse.offered
    folder = store.paths.peer(pulse.peer, pulse.incarnation)
    store.durable.replace(folder / "hb.json", to_json(body), "beat", sync=sync)


def announce(store: Store) -> None:
    """Tell readers that a process has begun; its folder is there already."""
    store.durable.replace(store.paths.stamp, new_token().encode(), "stamp", sync=False)


def pulses(store: Store) -> list[Pulse]:
    """Every readable heartbeat, those of other accounts included."""
    found = (read_pulse(process) for process in processes(store))
    return [pulse for pulse in found if pulse is not None]


def own_incarnations(store: Store) -> Iterator[Path]:
    """The folder of every process of our own account."""
    for peer in folders(store.paths.peers, WRITER):
        yield from folders(peer, INCARNATION)


def processes(store: Store) -> list[Process]:
    """Every process's folder, those of other accounts included."""
    own = [Process(folder) for folder in own_incarnations(store)]
    return own + [Process(path, box) for box in store.visible() for path in box.incarnations()]


def folders(parent: Path, form: re.Pattern[str]) -> list[Path]:
    """Folders in ``parent``, and no links to one, under a name of that form."""
    missing = contextlib.suppress(FileNotFoundError, NotADirectoryError)
    with missing, os.scandir(parent) as entries:
        return sorted(
            parent / entry.name
            for entry in entries
            if form.fullmatch(entry.name) and entry.is_dir(follow_symlinks=False)
        )
    return []


def read_pulse(process: Process) -> Pulse | None:
    """The heartbeat of a process; None when there is none that can be read."""
    path = process.folder / "hb.json"
    try:
        body = parse_json(read_bounded(path, JSON_LIMIT, process.uid), str(path))
        offered = body.get("offered")
        return Pulse(
            process.folder.parent.name,
            process.folder.name,
            int(body["counter"]),
            int(body["version"]),
            bool(body["left"]),
            path,
            body,
            laptop=process.laptop,
            uid=process.uid,
            offered=None if offered is None else int(offered),
        )
    except (FileNotFoundError, FileError, KeyError, TypeError, ValueError, OverflowError):
        return None


class StallTimer:
    """Remembers when each value was first seen: silence and age on one's own clock."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._since: dict[Hashable, tuple[Hashable, float]] = {}
        self._looked: dict[Hashable, float] = {}

    def still_s(self, key: Hashable, value: Hashable = None) -> float:
        """Seconds for which ``key`` has had ``value`` since it was first looked at; 0 at first."""
        now = self._clock.monotonic()
        known = self._since.get(key)
        if known is None or known[0] != value:
            self._since[key] = (value, now)
            return 0.0
        return now - known[1]

    def watched_s(self, key: Hashable, gap_s: float, value: Hashable = None) -> float:
        """Like :meth:`still_s`, but between two looks ``gap_s`` pass at most.

        While the file system hung no process could look, nor finish the file that it had begun.
        """
        now = self._clock.monotonic()
        missed = now - self._looked.get(key, now) - gap_s
        self._looked[key] = now
        if missed > 0 and (known := self._since.get(key)) is not None:
            self._since[key] = (known[0], known[1] + missed)
        return self.still_s(key, value)

    def claim(self, folder: Path, holder: Mapping[str, str], silence_s: float) -> Lease | None:
        """The lease in ``folder``; a holder whose beat stood still for ``silence_s`` loses it.

        The disk is not waited for: such a lease only saves work.
        """
        lease = Lease.claim(folder, holder, durable=False)
        if lease is None and (view := read_lease(folder)) is not None and view.ended is None:
            silent = self.still_s(("lease", folder), (view.term, view.beat.get("counter")))
            if silent > silence_s:
                end_term(folder, view.term, f"silent for {silent:.0f} s")
                lease = Lease.claim(folder, holder, durable=False)
        return lease

    def live(self, pulses: Iterable[Pulse], silence_s: float) -> list[Pulse]:
        """Pulses whose process has not left and whose counter moved within ``silence_s``."""
        return [
            pulse
            for pulse in pulses
            if not pulse.left
            and self.still_s((pulse.peer, pulse.incarnation), pulse.counter) < silence_s
        ]


@dataclass(frozen=True, slots=True)
class _Listed:
    stamp: bytes
    at_s: float
    folders: list[Path]


class Roster:
    """Processes and their heartbeats, with as few file operations as news allow.

    ``mine`` is the reader's own newest heartbeat, which need not be read.
    """

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self._listed: dict[Path, _Listed] = {}
        self._left: dict[Path, Pulse] = {}
        self.mine: Pulse | None = None

    def processes(self) -> list[Process]:
        """Every process's folder."""
        own = self._folders(self._store.paths, None)
        found = [Process(folder) for folder in own]
        for box in self._store.visible():
            found += [Process(folder, box) for folder in self._folders(box.paths, box)]
        return found

    def pulse(self, process: Process) -> Pulse | None:
        """The heartbeat of a process; one that has left is not read again."""
        if self.mine is not None and process.author == self.mine.author and process.box is None:
            return self.mine
        known = self._left.get(process.folder)
        if known is None:
            known = read_pulse(process)
            if known is not None and known.left and known.offered is not None:
                self._left[process.folder] = known
        return known

    def relist(self, peers: Collection[str]) -> bool:
        """List these peers of our own account again; True if a process was not known.

        A successor of the release before writes no stamp: until the next listing its heartbeat, and
        with it the term that fences its predecessor, would be unknown.
        """
        known = self._listed.get(self._store.paths.root)
        if known is None:
            return False
        there = {
            folder
            for peer in peers
            for folder in folders(self._store.paths.peers / peer, INCARNATION)
        }
        if unknown := there - set(known.folders):
            known.folders[:] = sorted({*known.folders, *unknown})
        return bool(unknown)

    def _folders(self, paths: SharedPaths, box: Outbox | None) -> list[Path]:
        stamp, now = _stamp(paths, box), self._clock.monotonic()
        known = self._listed.get(paths.root)
        if known is None or known.stamp != stamp or now - known.at_s >= RELIST_S:
            found = list(own_incarnations(self._store)) if box is None else box.incarnations()
            known = self._listed[paths.root] = _Listed(stamp, now, found)
            self._left.clear()
        return known.folders


def _stamp(paths: SharedPaths, box: Outbox | None) -> bytes:
    try:
        return read_bounded(paths.stamp, JSON_LIMIT, box.uid if box else None)
    except (FileNotFoundError, FileError):
        return b""
