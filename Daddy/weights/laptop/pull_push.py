"""Pulls versions from the cluster into a laptop's folder, and pushes its outbox. No torch.

A pull fetches the cluster's ``wan/HEAD.json``, then the files that it names in the smallest
encoding, verifies them, and writes the local ``wan/HEAD.json`` last: the version that it names is
always complete, and is plain safetensors whatever the encoding was. A push sends files first,
records last; then the originals leave the outbox. The next exchange resumes an interrupted one: it
finishes a started version before a newer one, as over a slow line none would ever be complete.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import shutil
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, NetworkError, WeightsError
from Daddy.weights.encoding.delta_frames import LIMIT as STATE_LIMIT
from Daddy.weights.encoding.delta_frames import unpack_delta, unpack_state
from Daddy.weights.encoding.tensor_layout import refuse_unless_half
from Daddy.weights.laptop.pulled_folder import (
    PREVIOUS,
    peers_in,
    read_exactly,
    read_laptop_head,
    read_verified,
)
from Daddy.weights.laptop.rsync_sftp import FileTransport
from Daddy.weights.laptop_attachments import CLAIMS, MOST_SENT, list_attachments, prune_published
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import Contribution, LaptopFrame, LaptopHead, parse

KEEP_KEYFRAMES = 3
UNFINISHED = "BEGUN.json"
"""File in ``incoming/`` with the head of the version that is being fetched."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """Result of a pull: the local version's head, the file fetched (None: none), a remark."""

    head: LaptopHead
    route: FetchRoute | None = None
    remark: str = ""


def pull(transport: FileTransport, local: Path, clock: Clock) -> PullResult:
    """Fetch the newest version, the claims published with it and the receipts of this folder's
    peers. Raise NetworkError when the cluster cannot be reached; WeightsError when it offers no
    version yet or the bytes do not verify (the local version stays).
    """
    head = fetch_remote_head(transport, local)
    puller = _Puller(transport, local, clock, read_local_head(local))
    puller.finish_interrupted(head)
    result = puller.pull(head)
    if result.route or not (local / "wan" / CLAIMS).exists():
        prune_published(local)
        transport.fetch_small(f"wan/{CLAIMS}", local / "wan" / CLAIMS)
    for peer in outbox_peers(local):
        if transport.remote.peer in ("", peer):
            transport.fetch_small(f"receipts/{peer}", local / "receipts" / peer)
    return result


def fetch_remote_head(transport: FileTransport, local: Path) -> LaptopHead:
    """Fetch the cluster's ``wan/HEAD.json``. Raise WeightsError if it is missing or damaged."""
    incoming = local / "incoming"
    copy = incoming / "HEAD.json"
    copy.unlink(missing_ok=True)
    exists = transport.fetch("wan/HEAD.json", incoming, 0)
    head = read_laptop_head(copy) if exists else None
    if head is None:
        raise WeightsError(
            f"{transport.remote.login} offers no version in {transport.remote.folder} yet",
            "has a learner started there? is SYNC_REMOTE_DIR the run's shared_weights folder?",
        )
    if not _has_plausible_sizes(head):
        raise WeightsError(
            f"{transport.remote.login} offers files of 0 or too many bytes", "ask the run's owner"
        )
    return head


def _has_plausible_sizes(head: LaptopHead) -> bool:
    """Return True if every file size in ``head`` is from 1 to STATE_LIMIT bytes."""
    return all(0 < size <= STATE_LIMIT for size in (head.size, *(part.size for part in head.parts)))


def read_local_head(local: Path) -> LaptopHead | None:
    """Return the head of the local version; None if the version's file is missing or damaged."""
    try:
        head = read_laptop_head(local / "wan" / "HEAD.json")
        if head is not None:
            read_verified(local, head)
    except WeightsError:
        return None
    return head


@dataclass
class _Puller:
    """Fetches versions into ``local``; ``here`` is the head of the newest version in it."""

    transport: FileTransport
    local: Path
    clock: Clock
    here: LaptopHead | None

    def finish_interrupted(self, newest: LaptopHead) -> None:
        """Finish an interrupted pull of an older version if the cluster still offers its files."""
        path, older = self.local / "incoming" / UNFINISHED, None
        with contextlib.suppress(WeightsError):
            older = read_laptop_head(path)
        if older is None or not _has_plausible_sizes(older):
            return
        if older.name == newest.name or older.run_id != newest.run_id:
            return
        local = self.here
        if local is not None and local.run_id == older.run_id and older.version <= local.version:
            return
        if self._fetch_version(older, self._cheapest(older), "finishing"):
            self._write_local_head(older)
        else:
            path.unlink(missing_ok=True)

    def pull(self, head: LaptopHead) -> PullResult:
        """Fetch the version of ``head`` if it is new; WeightsError after three failures."""
        here = self.here
        if here is not None and here.name == head.name:
            return PullResult(here)
        if here is not None and here.run_id == head.run_id and head.version < here.version:
            return PullResult(here, remark=f"the cluster's head shows v{head.version} again")
        only_plain = False
        for _ in range(3):  # the last, if an old partial file was resumed
            route = self._cheapest(head)
            if only_plain:
                route = FetchRoute(None, head.size, "frames did not verify")
            write_atomic(self.local / "incoming" / UNFINISHED, head.to_json_bytes())
            verified = self._fetch_version(head, route, "pulling")
            if verified:
                self._write_local_head(head)
                return PullResult(head, route)
            only_plain = True
            if verified is None:
                before, head = head, fetch_remote_head(self.transport, self.local)
                only_plain = head.name == before.name  # else the cluster deleted it meanwhile
        raise WeightsError(
            f"v{head.version} arrived damaged, or not at all, three times",
            "the local version is kept; pull again in a minute",
        )

    def _cheapest(self, head: LaptopHead) -> FetchRoute:
        return cheapest_route(head, "" if self.here is None else self.here.sha256)

    def _fetch_version(self, head: LaptopHead, route: FetchRoute, doing: str) -> bool | None:
        """Put the version file of ``head`` into ``wan``. Return False when it does not verify, None
        when the cluster no longer has the file of ``route``. Raise NetworkError.
        """
        incoming = self.local / "incoming"
        name = route.part.file if route.part else head.name
        with show_progress(f"{doing} v{head.version}", route.size, self.clock, incoming):
            if not self.transport.fetch(f"wan/{name}", incoming, route.size):
                return None
            try:
                data = self._decoded(head, route)
            except WeightsError:
                (incoming / head.name).unlink(missing_ok=True)
                return False
            finally:
                for leftover in incoming.glob("*.wire"):  # also of a pull interrupted long ago
                    leftover.unlink(missing_ok=True)
            write_atomic(self.local / "wan" / head.name, data)
            return True

    def _decoded(self, head: LaptopHead, route: FetchRoute) -> bytes:
        """Return the state in the fetched file; WeightsError unless ``head`` has its hash."""
        incoming, part = self.local / "incoming", route.part
        if part is None:
            return read_verified(self.local, head, incoming / head.name).data
        body = read_exactly(incoming / part.file, part.size)
        if part.base_sha256 and self.here is not None:
            data = unpack_delta(body, read_verified(self.local, self.here).data)
        else:
            limit = min(head.size, STATE_LIMIT)
            data = unpack_state(body, lambda layout: refuse_unless_half(layout, head.schema), limit)
        if (len(data), sha256_hex(data)) != (head.size, head.sha256):
            raise WeightsError(f"the frame of v{head.version} decodes wrongly", "pull again")
        return data

    def _write_local_head(self, head: LaptopHead) -> None:
        """Write ``HEAD.json``; the old one becomes ``HEAD.previous.json``; drop older files."""
        wan, keep = self.local / "wan", {head.name}
        if self.here is not None:
            write_atomic(wan / PREVIOUS, self.here.to_json_bytes())
            keep.add(self.here.name)
        write_atomic(wan / "HEAD.json", head.to_json_bytes())
        shutil.rmtree(self.local / "incoming", ignore_errors=True)  # no fetch is unfinished now
        old = sorted(wan.glob("kf-*.st"), key=lambda path: path.stat().st_mtime)
        for path in old[:-KEEP_KEYFRAMES]:
            if path.name not in keep:
                path.unlink(missing_ok=True)
        self.here = head


def outbox_peers(local: Path) -> list[str]:
    """Return the peers that have ever contributed from this folder."""
    return peers_in(local / "outbox")


def list_outbox(local: Path) -> list[Path]:
    """Return the paths of contribution records in the outbox, by peer and name."""
    boxes = [local / "outbox" / peer for peer in outbox_peers(local)]
    return [path for box in boxes for path in sorted(box.glob("*.json"))]


def push(transport: FileTransport, local: Path, clock: Clock) -> int:
    """Send complete contributions and attachments in the outbox to the run; return their number."""
    sent = 0
    for peer in outbox_peers(local):
        outbox = local / "outbox" / peer
        attachments = [path for path in list_attachments(outbox) if path.stat().st_size]
        records = [path for path in sorted(outbox.glob("*.json")) if _is_complete(path)]
        if attachments or records:
            _push_box(transport, peer, attachments, records, clock)
            sent += len(attachments) + len(records)
    return sent


def _push_box(
    transport: FileTransport, peer: str, attachments: list[Path], records: list[Path], clock: Clock
) -> None:
    """Send states, then records; move them to ``sent/``; delete sent states and old attachments."""
    blobs = [path.with_suffix(".st") for path in records]
    paths = [*attachments, *records]
    size = sum(path.stat().st_size for path in (*attachments, *blobs))
    with show_progress(f"pushing {len(paths)} contribution(s)", size, clock):
        for files in (attachments, blobs, records):
            if files:
                transport.send(files, f"inbox/{peer}")
    sent = paths[0].parent / "sent"
    sent.mkdir(exist_ok=True)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another push of this folder did it
            path.replace(sent / path.name)
    old = sorted(list_attachments(sent), key=lambda path: path.stat().st_mtime)[:-MOST_SENT]
    for path in (*blobs, *old):
        path.unlink(missing_ok=True)


def _is_complete(record: Path) -> bool:
    """Return True if the record can be read and its ``.st`` file has the size that it names."""
    try:
        offer = parse(Contribution, read_bounded(record, LIMIT), str(record))
        return record.with_suffix(".st").stat().st_size == offer.size
    except (DaddyError, FileNotFoundError):
        return False


@dataclass(frozen=True, slots=True)
class FetchRoute:
    """The file to fetch: a frame to decode (``part``) or, if ``part`` is None, the plain file,
    which every laptop understands; its size in bytes, and the reason for the choice.
    """

    part: LaptopFrame | None
    size: int
    reason: str


def cheapest_route(head: LaptopHead, held: str) -> FetchRoute:
    """Choose the smallest file from which the version of ``head`` can be made. ``held``: SHA-256 of
    the local state, from which a delta may start; empty if there is none.
    """
    fitting = [part for part in head.parts
               if part.sha256 == head.sha256 and part.base_sha256 in ("", held)]  # fmt: skip
    best = min(fitting, key=lambda part: part.size, default=None)
    if best is None or best.size >= head.size:
        return FetchRoute(None, head.size, "no frame is smaller")
    if best.base_sha256:
        return FetchRoute(best, best.size, "a delta from the local version")
    return FetchRoute(best, best.size, "whole: the local version is too old" if held else "whole")


PATIENCE_S = 60.0
"""Seconds that a transfer waits for the folder's lock; a loop tries again anyway."""
LOOK_S = 0.2
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_LEFTOVERS = ("wan/.tmp-*", "incoming/.tmp-*")


@contextlib.contextmanager
def lock_folder(local: Path, clock: Clock, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Lock the folder ``local`` while the `with` block runs; on a file system without locks do
    nothing. Raise NetworkError when another process holds the lock for ``patience_s`` seconds.
    """
    until = clock.monotonic() + patience_s
    with (local / ".turn").open("ab") as lock:
        while not _locked(lock.fileno()):
            if clock.monotonic() >= until:
                raise NetworkError(
                    f"another sync_weights.sh is at work in {local}",
                    "let it finish, or end it: one is enough",
                )
            clock.wait(threading.Event(), LOOK_S)
        for pattern in _LEFTOVERS:
            for path in local.glob(pattern):
                path.unlink(missing_ok=True)
        yield


def _locked(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


QUIET_S = 2.0
STEP_S, LOG_STEP_S = 1.0, 30.0
MEGA = 1e6


@contextlib.contextmanager
def show_progress(
    label: str, total: int, clock: Clock, growing: Path | None = None
) -> Iterator[None]:
    """Print progress to stderr while the `with` block runs; ``growing``: folder being filled."""
    stop, started, live = threading.Event(), clock.monotonic(), sys.stderr.isatty()

    def report() -> None:
        pause_s = QUIET_S
        while not clock.wait(stop, pause_s):
            pause_s = STEP_S if live else LOG_STEP_S
            amount = f"{total / MEGA:.1f} MB"
            if growing:
                arrived = min(folder_bytes(growing), total)
                amount = f"{arrived / MEGA:.1f} of {amount}, {100 * arrived // total} %"
            line = f"{label}: {amount}, {clock.monotonic() - started:.0f} s"
            print(line, end="\r" if live else "\n", file=sys.stderr, flush=True)
        if live and pause_s != QUIET_S:
            print(file=sys.stderr)

    thread = threading.Thread(target=report, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def folder_bytes(folder: Path) -> int:
    """Return the bytes of all files below ``folder``; files may appear and vanish meanwhile."""
    return sum(entry["bytes"] for entry in folder_usage(folder).values())


def folder_usage(root: Path) -> dict[str, dict[str, int]]:
    """Return bytes and files by folder below ``root``; those in ``root`` itself as "heads"."""
    usage: dict[str, dict[str, int]] = {}
    for folder, _, names in os.walk(root):
        top = [*Path(folder).relative_to(root).parts, "heads"][0]
        entry = usage.setdefault(top, {"bytes": 0, "files": 0})
        for name in names:
            with contextlib.suppress(OSError):  # removed meanwhile
                entry["bytes"] += Path(folder, name).lstat().st_size
                entry["files"] += 1
    return usage
