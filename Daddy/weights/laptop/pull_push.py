"""One pull and one push between a laptop's folder and the cluster's.

Pull: the small head, then the immutable files it names by the cheapest route, verified, then the
local head last; so what a reader finds under the local head is always complete, and is the plain
file whichever way it came. Push: files first, records last, and the originals leave the outbox only
afterwards. Interrupted at any point, the next one goes on; a version that was begun is finished
before a newer one is, or over a thin line none would ever arrive. No torch.
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
from Daddy.weights.attachments import CLAIMS, MOST_SENT, list_attachments, prune_published
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
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import Contribution, LaptopFrame, LaptopHead, parse_record

KEEP_KEYFRAMES = 3
UNFINISHED = "BEGUN.json"
"""The head of the version that is being fetched, in ``incoming/``."""


@dataclass(frozen=True, slots=True)
class PullResult:
    """Result of a pull: the version now here, its route if it is new, a remark."""

    frame: LaptopHead
    route: FetchRoute | None = None
    remark: str = ""


def pull(carrier: FileTransport, local: Path, clock: Clock) -> PullResult:
    """Bring the newest version, the milestones shown with it and our receipts here.

    NetworkError when the cluster cannot be reached; WeightsError when it offers no version yet or
    what arrived does not verify (the version that was here stays).
    """
    frame = fetch_remote_head(carrier, local)
    puller = _Puller(carrier, local, clock, read_local_head(local))
    puller.finish_interrupted(frame)
    found = puller.pull(frame)
    if found.route or not (local / "wan" / CLAIMS).exists():
        prune_published(local)
        carrier.fetch_small(f"wan/{CLAIMS}", local / "wan" / CLAIMS)
    for peer in outbox_peers(local):
        carrier.fetch_small(f"receipts/{peer}", local / "receipts" / peer)
    return found


def fetch_remote_head(carrier: FileTransport, local: Path) -> LaptopHead:
    """The head that the cluster offers; WeightsError when there is none yet or it is damaged."""
    incoming = local / "incoming"
    copy = incoming / "HEAD.json"
    copy.unlink(missing_ok=True)
    there = carrier.fetch("wan/HEAD.json", incoming, 0)
    frame = read_laptop_head(copy) if there else None
    if frame is None:
        raise WeightsError(
            f"{carrier.remote.login} offers no version in {carrier.remote.folder} yet",
            "has a learner started there? is SYNC_REMOTE_DIR the run's shared_weights folder?",
        )
    if not _believable(frame):
        promised = f"{carrier.remote.login} promises files of absurd sizes"
        raise WeightsError(promised, "ask the run's owner")
    return frame


def _believable(frame: LaptopHead) -> bool:
    """True if a policy can be of the sizes that a head tells: they become limits and buffers."""
    return all(0 < size <= STATE_LIMIT for size in (frame.size, *(p.size for p in frame.parts)))


def read_local_head(local: Path) -> LaptopHead | None:
    """The head of what is here, if its file verifies."""
    try:
        frame = read_laptop_head(local / "wan" / "HEAD.json")
        if frame is not None:
            read_verified(local, frame)
    except WeightsError:
        return None
    return frame


@dataclass
class _Puller:
    """Brings versions into ``local``; ``here`` is the head of the newest that is there."""

    carrier: FileTransport
    local: Path
    clock: Clock
    here: LaptopHead | None

    def finish_interrupted(self, frame: LaptopHead) -> None:
        """Finish an interrupted pull of an older version while its files are still offered."""
        path, begun = self.local / "incoming" / UNFINISHED, None
        with contextlib.suppress(WeightsError):
            begun = read_laptop_head(path)
        if begun is None or not _believable(begun):
            return
        if begun.name == frame.name or begun.run_id != frame.run_id:
            return
        here = self.here
        if here is not None and here.run_id == begun.run_id and begun.version <= here.version:
            return
        if self._bring(begun, self._cheapest(begun), "finishing"):
            self._point_at(begun)
        else:
            path.unlink(missing_ok=True)

    def pull(self, frame: LaptopHead) -> PullResult:
        """Bring the version of ``frame``; WeightsError when it never verifies."""
        here = self.here
        if here is not None and here.name == frame.name:
            return PullResult(here)
        if here is not None and here.run_id == frame.run_id and frame.version < here.version:
            return PullResult(here, remark=f"the cluster's head shows v{frame.version} again")
        plainly = False
        for _ in range(3):  # the last for a stale leftover of an interrupted transfer
            route = self._cheapest(frame)
            if plainly:
                route = FetchRoute(None, frame.size, "frames did not verify")
            write_atomic(self.local / "incoming" / UNFINISHED, frame.to_json_bytes())
            found = self._bring(frame, route, "pulling")
            if found:
                self._point_at(frame)
                return PullResult(frame, route)
            plainly = True
            if found is None:
                before, frame = frame, fetch_remote_head(self.carrier, self.local)
                plainly = frame.name == before.name  # else it was cleaned away while we looked
        raise WeightsError(
            f"v{frame.version} arrived damaged, or not at all, three times",
            "what is here is kept; pull again in a minute",
        )

    def _cheapest(self, frame: LaptopHead) -> FetchRoute:
        return cheapest_route(frame, "" if self.here is None else self.here.sha256)

    def _bring(self, frame: LaptopHead, route: FetchRoute, doing: str) -> bool | None:
        """Put the file of ``frame`` into ``wan``.

        False when what arrived does not verify, None when a file is no longer there. NetworkError.
        """
        incoming = self.local / "incoming"
        name = route.part.file if route.part else frame.name
        with report_progress(f"{doing} v{frame.version}", route.size, self.clock, incoming):
            if not self.carrier.fetch(f"wan/{name}", incoming, route.size):
                return None
            try:
                data = self._decoded(frame, route)
            except WeightsError:
                (incoming / frame.name).unlink(missing_ok=True)
                return False
            finally:
                for left in incoming.glob("*.wire"):  # also of a pull interrupted long ago
                    left.unlink(missing_ok=True)
            write_atomic(self.local / "wan" / frame.name, data)
            return True

    def _decoded(self, frame: LaptopHead, route: FetchRoute) -> bytes:
        """The state in what arrived; WeightsError unless ``frame`` promises it."""
        incoming, part = self.local / "incoming", route.part
        if part is None:
            return read_verified(self.local, frame, incoming / frame.name).data
        body = read_exactly(incoming / part.file, part.size)
        if part.base_sha256 and self.here is not None:
            data = unpack_delta(body, read_verified(self.local, self.here).data)
        else:
            limit = min(frame.size, STATE_LIMIT)
            data = unpack_state(
                body, lambda layout: refuse_unless_half(layout, frame.schema), limit
            )
        if (len(data), sha256_hex(data)) != (frame.size, frame.sha256):
            raise WeightsError(f"v{frame.version} does not come out of its frame", "pull again")
        return data

    def _point_at(self, frame: LaptopHead) -> None:
        """Write the local head, last; the one before stays as a way back. Older files go."""
        wan, keep = self.local / "wan", {frame.name}
        if self.here is not None:
            write_atomic(wan / PREVIOUS, self.here.to_json_bytes())
            keep.add(self.here.name)
        write_atomic(wan / "HEAD.json", frame.to_json_bytes())
        shutil.rmtree(self.local / "incoming", ignore_errors=True)  # nothing is begun any more
        old = sorted(wan.glob("kf-*.st"), key=lambda path: path.stat().st_mtime)
        for path in old[:-KEEP_KEYFRAMES]:
            if path.name not in keep:
                path.unlink(missing_ok=True)
        self.here = frame


def outbox_peers(local: Path) -> list[str]:
    """Peers that have ever contributed from this folder."""
    return peers_in(local / "outbox")


def list_outbox(local: Path) -> list[Path]:
    """Records of contributions in the outbox, oldest name first."""
    boxes = [local / "outbox" / peer for peer in outbox_peers(local)]
    return [path for box in boxes for path in sorted(box.glob("*.json"))]


def push(carrier: FileTransport, local: Path, clock: Clock) -> int:
    """Hand in every complete contribution and parcel of the outbox; returns how many."""
    sent = 0
    for peer in outbox_peers(local):
        outbox = local / "outbox" / peer
        parcels = [path for path in list_attachments(outbox) if path.stat().st_size]
        records = [path for path in sorted(outbox.glob("*.json")) if _whole(path)]
        if parcels or records:
            _push_box(carrier, peer, parcels, records, clock)
            sent += len(parcels) + len(records)
    return sent


def _push_box(
    carrier: FileTransport, peer: str, parcels: list[Path], records: list[Path], clock: Clock
) -> None:
    """Each record after the file that it names; of the parcels that were sent the last are kept."""
    blobs = [path.with_suffix(".st") for path in records]
    paths = [*parcels, *records]
    size = sum(path.stat().st_size for path in (*parcels, *blobs))
    with report_progress(f"pushing {len(paths)} contribution(s)", size, clock):
        for files in (parcels, blobs, records):
            if files:
                carrier.send(files, f"inbox/{peer}")
    sent = paths[0].parent / "sent"
    sent.mkdir(exist_ok=True)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another of our pushes was faster
            path.replace(sent / path.name)
    old = sorted(list_attachments(sent), key=lambda path: path.stat().st_mtime)[:-MOST_SENT]
    for path in (*blobs, *old):
        path.unlink(missing_ok=True)


def _whole(record: Path) -> bool:
    """True if the record can be read and its file is here in full."""
    try:
        offer = parse_record(Contribution, read_bounded(record, LIMIT), str(record))
        return record.with_suffix(".st").stat().st_size == offer.size
    except (DaddyError, FileNotFoundError):
        return False


@dataclass(frozen=True, slots=True)
class FetchRoute:
    """The frame to decode, the bytes to fetch, and the reason.

    Without a frame it is the plain file, which every laptop understands.
    """

    part: LaptopFrame | None
    size: int
    reason: str


def cheapest_route(frame: LaptopHead, held: str) -> FetchRoute:
    """The fewest bytes to the version of ``frame`` for whoever holds the state with hash ``held``.

    ``held`` is empty where there is none. Nobody offers chains of steps: one frame leads there.
    """
    fitting = [part for part in frame.parts
               if part.sha256 == frame.sha256 and part.base_sha256 in ("", held)]  # fmt: skip
    best = min(fitting, key=lambda part: part.size, default=None)
    if best is None or best.size >= frame.size:
        return FetchRoute(None, frame.size, "nothing smaller leads there")
    if best.base_sha256:
        return FetchRoute(best, best.size, "a step from what is here")
    return FetchRoute(best, best.size, "whole: what is here is too far away" if held else "whole")


PATIENCE_S = 60.0
"""How long a transfer waits for its turn; a loop comes back anyway."""
LOOK_S = 0.2
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_LEFT_OVER = ("wan/.tmp-*", "incoming/.tmp-*")


@contextlib.contextmanager
def lock_folder(local: Path, clock: Clock, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the folder ``local``; NetworkError when another process holds it for too long.

    On a disk that knows no locks nobody waits.
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
        for pattern in _LEFT_OVER:
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
def report_progress(
    label: str, total: int, clock: Clock, arriving: Path | None = None
) -> Iterator[None]:
    """Show progress of the body on stderr; ``arriving`` is the folder that grows, if it is here."""
    stop, begun, live = threading.Event(), clock.monotonic(), sys.stderr.isatty()

    def tell() -> None:
        pause_s = QUIET_S
        while not clock.wait(stop, pause_s):
            pause_s = STEP_S if live else LOG_STEP_S
            amount = f"{total / MEGA:.1f} MB"
            if arriving:
                done = min(folder_bytes(arriving), total)
                amount = f"{done / MEGA:.1f} of {amount}, {100 * done // total} %"
            line = f"{label}: {amount}, {clock.monotonic() - begun:.0f} s"
            print(line, end="\r" if live else "\n", file=sys.stderr, flush=True)
        if live and pause_s != QUIET_S:
            print(file=sys.stderr)

    thread = threading.Thread(target=tell, name="progress", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``; files may come and go meanwhile."""
    return sum(entry["bytes"] for entry in folder_usage(folder).values())


def folder_usage(root: Path) -> dict[str, dict[str, int]]:
    """Folder below ``root`` → its bytes and files; files in ``root`` itself count as heads."""
    found: dict[str, dict[str, int]] = {}
    for folder, _, names in os.walk(root):
        top = [*Path(folder).relative_to(root).parts, "heads"][0]
        entry = found.setdefault(top, {"bytes": 0, "files": 0})
        for name in names:
            with contextlib.suppress(OSError):  # removed meanwhile
                entry["bytes"] += Path(folder, name).lstat().st_size
                entry["files"] += 1
    return found
