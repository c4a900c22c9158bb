"""One pull and one push between a laptop's folder and the cluster's.

Pull: the small head, then the immutable files it names by the cheapest way (``route``), verified,
then the local head last; so what a reader finds under the local head is always complete, and is the
plain file whichever way it came. Push: files first, records last, and the originals leave the
outbox only afterwards. Interrupted at any point, the next one goes on; a version that was begun is
finished before a newer one is, or over a thin line none would ever arrive.
"""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.files import read_bounded, write_atomic
from Daddy.core.names import PEER
from Daddy.weights.laptops.local import PREVIOUS, read_frame, read_version
from Daddy.weights.link.carrier import Carrier
from Daddy.weights.link.fetching import bring
from Daddy.weights.link.meter import shown
from Daddy.weights.parcels import CLAIMS, MOST_SENT, make_room, parcels_in
from Daddy.weights.records.manifest import Contribution, parse
from Daddy.weights.records.notices import Keyframe
from Daddy.weights.records.strict import LIMIT
from Daddy.weights.wire.frames import LIMIT as STATE_LIMIT
from Daddy.weights.wire.route import Route, cheapest, plain

KEEP_KEYFRAMES = 3
BEGUN = "BEGUN.json"
"""The head of the version that is being fetched, in ``incoming/``."""


@dataclass(frozen=True, slots=True)
class Pulled:
    """What a pull found: the version now here, whether it is new, a remark, and how it came."""

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
    """Whether a policy can be of the sizes that a head tells: they become limits and buffers."""
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
    """What is here once an interrupted pull is finished, while its files are still offered."""
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
    """Whether the record can be read and its file is here in full."""
    try:
        offer = parse(Contribution, read_bounded(record, LIMIT), str(record))
        return record.with_suffix(".st").stat().st_size == offer.size
    except (DaddyError, FileNotFoundError):
        return False
