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
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, NetworkError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic
from Daddy.core.names import PEER
from Daddy.weights.encoding.delta_frames import LIMIT as STATE_LIMIT
from Daddy.weights.encoding.delta_frames import unpack, unpack_step
from Daddy.weights.encoding.tensor_layout import refuse_unless_half
from Daddy.weights.laptop.pulled_folder import PREVIOUS, read_frame, read_version
from Daddy.weights.laptop.transport import Carrier
from Daddy.weights.parcels import CLAIMS, MOST_SENT, make_room, parcels_in
from Daddy.weights.store.records import Contribution, Keyframe, Part, parse
from Daddy.weights.store.strict_json import LIMIT

KEEP_KEYFRAMES = 3
BEGUN = "BEGUN.json"
"""The head of the version that is being fetched, in ``incoming/``."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """Result of a pull: the version now here, new or not, a remark, and its route."""

    frame: Keyframe
    new: bool
    remark: str = ""
    route: Route | None = None


def pull(carrier: Carrier, local: Path, clock: Clock) -> Pulled:
    """Bring the newest version, the milestones shown with it and our receipts here.

    NetworkError when the cluster cannot be reached; WeightsError when it offers no version yet or
    what arrived does not verify (the version that was here stays).
    """
    frame = remote_frame(carrier, local)
    here = _finish_begun(carrier, local, frame, local_frame(local), clock)
    found = _pull_version(carrier, local, frame, here, clock)
    if found.new or not (local / "wan" / CLAIMS).exists():
        make_room(local)
        carrier.fetch_small(f"wan/{CLAIMS}", local / "wan" / CLAIMS)
    for peer in contributors(local):
        carrier.fetch_small(f"receipts/{peer}", local / "receipts" / peer)
    return found


def remote_frame(carrier: Carrier, local: Path) -> Keyframe:
    """The head that the cluster offers; WeightsError when there is none yet or it is damaged."""
    incoming = local / "incoming"
    copy = incoming / "HEAD.json"
    copy.unlink(missing_ok=True)
    there = carrier.fetch("wan/HEAD.json", incoming, 0)
    frame = read_frame(copy) if there else None
    if frame is None:
        raise WeightsError(
            f"{carrier.login} offers no version in {carrier.folder} yet",
            "has a learner started there? is SYNC_REMOTE_DIR the run's shared_weights folder?",
        )
    if not _believable(frame):
        raise WeightsError(f"{carrier.login} promises files of absurd sizes", "ask the run's owner")
    return frame


def _believable(frame: Keyframe) -> bool:
    """True if a policy can be of the sizes that a head tells: they become limits and buffers."""
    return all(0 < size <= STATE_LIMIT for size in (frame.size, *(p.size for p in frame.parts)))


def local_frame(local: Path) -> Keyframe | None:
    """The head of what is here, if its file verifies."""
    try:
        frame = read_frame(local / "wan" / "HEAD.json")
        if frame is not None:
            read_version(local, frame)
    except WeightsError:
        return None
    return frame


def _finish_begun(
    carrier: Carrier, local: Path, frame: Keyframe, here: Keyframe | None, clock: Clock
) -> Keyframe | None:
    """The version here once an interrupted pull is finished, while its files are still offered."""
    begun = _begun(local)
    if begun is None or begun.name == frame.name or begun.run_id != frame.run_id:
        return here
    if here is not None and here.run_id == begun.run_id and begun.version <= here.version:
        return here
    route = cheapest(begun, here.sha256 if here is not None else "")
    with shown(f"finishing v{begun.version}", route.size, clock, local / "incoming"):
        found = bring(carrier, local, begun, route, here)
    if not found:
        (local / "incoming" / BEGUN).unlink(missing_ok=True)
        return here
    _point_at(local, begun, here)
    return begun


def _begun(local: Path) -> Keyframe | None:
    try:
        begun = read_frame(local / "incoming" / BEGUN)
    except WeightsError:
        return None
    return begun if begun is not None and _believable(begun) else None


def _pull_version(
    carrier: Carrier, local: Path, frame: Keyframe, here: Keyframe | None, clock: Clock
) -> Pulled:
    if here is not None and here.name == frame.name:
        return Pulled(here, new=False)
    if here is not None and here.run_id == frame.run_id and frame.version < here.version:
        return Pulled(here, new=False, remark=f"the cluster's head shows v{frame.version} again")
    held, plainly = here.sha256 if here is not None else "", False
    for _ in range(3):  # the last for a stale leftover of an interrupted transfer
        route = plain(frame, "frames did not verify") if plainly else cheapest(frame, held)
        write_atomic(local / "incoming" / BEGUN, frame.to_bytes())
        with shown(f"pulling v{frame.version}", route.size, clock, local / "incoming"):
            found = bring(carrier, local, frame, route, here)
        if found is None:
            before, frame = frame, remote_frame(carrier, local)
            plainly = frame.name == before.name  # else it was cleaned away while we looked
        elif found:
            _point_at(local, frame, here)
            return Pulled(frame, new=True, route=route)
        else:
            plainly = True
    raise WeightsError(
        f"v{frame.version} arrived damaged, or not at all, three times",
        "what is here is kept; pull again in a minute",
    )


def _point_at(local: Path, frame: Keyframe, here: Keyframe | None) -> None:
    """The local head, last; the one before stays as a way back. Older files go."""
    wan = local / "wan"
    if here is not None:
        write_atomic(wan / PREVIOUS, here.to_bytes())
    write_atomic(wan / "HEAD.json", frame.to_bytes())
    shutil.rmtree(local / "incoming", ignore_errors=True)  # nothing is begun any more
    keep = {frame.name, *([here.name] if here else [])}
    for old in sorted(wan.glob("kf-*.st"), key=lambda path: path.stat().st_mtime)[:-KEEP_KEYFRAMES]:
        if old.name not in keep:
            old.unlink(missing_ok=True)


def contributors(local: Path) -> list[str]:
    """Peers that have ever contributed from this folder."""
    with contextlib.suppress(FileNotFoundError):
        return sorted(
            path.name for path in (local / "outbox").iterdir() if PEER.fullmatch(path.name)
        )
    return []


def waiting(local: Path) -> list[Path]:
    """Records of contributions in the outbox, oldest name first."""
    return [
        path
        for peer in contributors(local)
        for path in sorted((local / "outbox" / peer).glob("*.json"))
    ]


def push(carrier: Carrier, local: Path, clock: Clock) -> int:
    """Hand in every complete contribution and parcel of the outbox; returns how many."""
    sent = 0
    for peer in contributors(local):
        sent += _push_parcels(carrier, local, peer)
        pairs = [path for path in sorted((local / "outbox" / peer).glob("*.json")) if _whole(path)]
        if pairs:
            _push_box(carrier, peer, pairs, clock)
            sent += len(pairs)
    return sent


def _push_box(carrier: Carrier, peer: str, records: Sequence[Path], clock: Clock) -> None:
    blobs = [path.with_suffix(".st") for path in records]
    size = sum(path.stat().st_size for path in blobs)
    with shown(f"pushing {len(records)} contribution(s)", size, clock):
        carrier.send(blobs, f"inbox/{peer}")
        carrier.send(records, f"inbox/{peer}")
    for record in records:
        keep = record.parent / "sent"
        keep.mkdir(exist_ok=True)
        with contextlib.suppress(FileNotFoundError):  # another of our pushes was faster
            record.replace(keep / record.name)
        record.with_suffix(".st").unlink(missing_ok=True)


def _push_parcels(carrier: Carrier, local: Path, peer: str) -> int:
    """They are small and need no record beside them; the last that were sent are kept."""
    outbox = local / "outbox" / peer
    paths = [path for path in parcels_in(outbox) if path.stat().st_size]
    if not paths:
        return 0
    carrier.send(paths, f"inbox/{peer}")
    (outbox / "sent").mkdir(exist_ok=True)
    for path in paths:
        with contextlib.suppress(FileNotFoundError):  # another of our pushes was faster
            path.replace(outbox / "sent" / path.name)
    old = sorted(parcels_in(outbox / "sent"), key=lambda path: path.stat().st_mtime)
    for path in old[:-MOST_SENT]:
        path.unlink(missing_ok=True)
    return len(paths)


def _whole(record: Path) -> bool:
    """True if the record can be read and its file is here in full."""
    try:
        offer = parse(Contribution, read_bounded(record, LIMIT), str(record))
        return record.with_suffix(".st").stat().st_size == offer.size
    except (DaddyError, FileNotFoundError):
        return False


def bring(
    carrier: Carrier, local: Path, frame: Keyframe, route: Route, here: Keyframe | None
) -> bool | None:
    """Put ``frame``'s file into ``local/wan``; ``here`` is the version that was pulled before.

    False when what arrived does not verify, None when a file is no longer there. NetworkError.
    """
    incoming = local / "incoming"
    if not route.parts:
        if not carrier.fetch(f"wan/{frame.name}", incoming, frame.size):
            return None
        return _arrived(local, frame)
    there = all(carrier.fetch(f"wan/{one.file}", incoming, one.size) for one in route.parts)
    try:
        if there:
            write_atomic(local / "wan" / frame.name, _decoded(local, frame, route, here))
    except WeightsError:
        return False
    finally:
        for left in incoming.glob("*.wire"):  # also of a pull that was interrupted long ago
            left.unlink(missing_ok=True)
    return True if there else None


def _decoded(local: Path, frame: Keyframe, route: Route, here: Keyframe | None) -> bytes:
    """The state that the route's frames give; WeightsError unless ``frame`` promises it."""
    data = b""
    if here is not None and route.parts[0].base_sha256 == here.sha256:
        data = read_version(local, here).data
    for part in route.parts:
        data = _opened(_read(local / "incoming" / part.file, part), part, frame, data)
    if (len(data), sha256_hex(data)) != (frame.size, frame.sha256):
        raise WeightsError(f"v{frame.version} does not come out of its frames", "pull again")
    return data


def _opened(data: bytes, part: Part, frame: Keyframe, base: bytes) -> bytes:
    if part.base_sha256:
        return unpack_step(data, base)
    limit = min(frame.size, STATE_LIMIT)
    return unpack(data, lambda layout: refuse_unless_half(layout, frame.schema), limit)


def _read(path: Path, part: Part) -> bytes:
    try:
        data = read_bounded(path, part.size)
    except (FileNotFoundError, FileError) as error:
        raise WeightsError(f"{path} cannot be read: {error}", "pull again") from error
    if len(data) != part.size:
        raise WeightsError(f"{path} has {len(data)} of {part.size} bytes", "pull again")
    return data


def _arrived(local: Path, frame: Keyframe) -> bool:
    """Move the plain file into place if it verifies; remove it otherwise."""
    arrived, place = local / "incoming" / frame.name, local / "wan" / frame.name
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        read_version(local, frame, arrived)
    except WeightsError:
        arrived.unlink(missing_ok=True)
        return False
    with arrived.open("rb") as stream:
        os.fsync(stream.fileno())
    arrived.replace(place)
    return True


@dataclass(frozen=True, slots=True)
class Route:
    """Frames in the order in which they are decoded, their bytes together, and why these.

    Without frames the plain file is fetched.
    """

    parts: tuple[Part, ...]
    size: int
    reason: str


def cheapest(frame: Keyframe, held: str) -> Route:
    """The fewest bytes to the version of ``frame`` for whoever holds the state with hash ``held``.

    ``held`` is empty where there is none. Ways of equal size: the first found, the plain file last.
    """
    best: dict[str, tuple[Part, ...]] = {held: (), "": ()}
    for part in sorted(frame.parts, key=lambda one: (one.version, bool(one.base_sha256))):
        if part.base_sha256 in best:
            way = (*best[part.base_sha256], part)
            known = best.get(part.sha256)
            if known is None or _size(way) < _size(known):
                best[part.sha256] = way
    way = best.get(frame.sha256, ())
    if not way or _size(way) >= frame.size:
        return plain(frame, "nothing smaller leads there")
    if way[0].base_sha256:
        return Route(way, _size(way), f"{len(way)} step(s) from what is here")
    return Route(way, _size(way), "whole: what is here is too far away" if held else "whole")


def plain(frame: Keyframe, reason: str) -> Route:
    """The file that every laptop understands."""
    return Route((), frame.size, reason)


def _size(way: tuple[Part, ...]) -> int:
    return sum(part.size for part in way)


PATIENCE_S = 60.0
"""How long a transfer waits for its turn; a loop comes back anyway."""
LOOK_S = 0.2
_NO_LOCKS = (errno.ENOLCK, errno.EOPNOTSUPP, errno.ENOSYS)
_LEFT_OVER = ("wan/.tmp-*", "incoming/.tmp-*")


@contextlib.contextmanager
def turn(local: Path, clock: Clock, patience_s: float = PATIENCE_S) -> Iterator[None]:
    """Hold the folder ``local``; NetworkError when another process holds it for too long.

    On a disk that knows no locks nobody waits.
    """
    descriptor = os.open(local / ".turn", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        _await(descriptor, local, clock, clock.monotonic() + patience_s)
        _clear(local)
        yield
    finally:
        os.close(descriptor)


def _await(descriptor: int, local: Path, clock: Clock, until: float) -> None:
    never = threading.Event()
    while not _taken(descriptor):
        if clock.monotonic() >= until:
            raise NetworkError(
                f"another sync_weights.sh is at work in {local}",
                "let it finish, or end it: one is enough",
            )
        clock.wait(never, LOOK_S)


def _taken(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno not in _NO_LOCKS:
            raise
    return True


def _clear(local: Path) -> None:
    for pattern in _LEFT_OVER:
        for path in local.glob(pattern):
            path.unlink(missing_ok=True)


QUIET_S = 2.0
STEP_S, LOG_STEP_S = 1.0, 30.0
MEGA = 1e6


@contextlib.contextmanager
def shown(label: str, total: int, clock: Clock, arriving: Path | None = None) -> Iterator[None]:
    """Show progress of the body on stderr; ``arriving`` is the folder that grows, if it is here."""
    stop = threading.Event()
    step_s = STEP_S if sys.stderr.isatty() else LOG_STEP_S

    def tell() -> None:
        begun = clock.monotonic()
        if clock.wait(stop, QUIET_S):
            return
        while True:
            done = folder_bytes(arriving) if arriving else None
            _print(label, done, total, clock.monotonic() - begun)
            if clock.wait(stop, step_s):
                break
        if sys.stderr.isatty():
            print(file=sys.stderr)

    thread = threading.Thread(target=tell, name="meter", daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _print(label: str, done: int | None, total: int, seconds: float) -> None:
    amount = f"{total / MEGA:.1f} MB"
    if done is not None:
        amount = f"{min(done, total) / MEGA:.1f} of {amount}, {100 * min(done, total) // total} %"
    end = "\r" if sys.stderr.isatty() else "\n"
    print(f"{label}: {amount}, {seconds:.0f} s", end=end, file=sys.stderr, flush=True)


def folder_bytes(folder: Path) -> int:
    """Bytes of all files below ``folder``; files may come and go meanwhile."""
    total = 0
    for root, _, names in os.walk(folder):  # passes over a folder that vanishes, as rglob does not
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(f"{root}/{name}").st_size
    return total
