"""Small things that travel beside the weights and mean nothing to them: bytes of a known kind.

A laptop puts a parcel into its outbox, ``push`` carries it into its box, and whoever knows the kind
judges it and writes a receipt. A run shows things of a kind below ``wan/``, and ``pull`` brings
them. Owns names and bounds; nothing in a box is trusted: not its name, kind of file or size.
"""

from __future__ import annotations

import contextlib
import heapq
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import DaddyError, FileError
from Daddy.core.name_validation import SLOT, check_peer
from Daddy.weights.merge.contributions import is_regular_file, laptop_boxes
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import AttachmentReceipt, Record, parse_record
from Daddy.weights.store.weight_store import Store

CLAIMS: Final = "claims"
"""Milestones of the game, to be played again."""
MOST_BYTES: Final = 60 * 1024
"""Of a parcel, and of a thing shown: what fetches small files takes 64 KiB."""
BOX_LIMIT = 8
"""Parcels of one box that are looked at; the rest waits."""
FLOOD = 256
"""Parcels that may lie in one box: more are thrown away unseen."""
MOST_SENT = 64
_NAME = re.compile(r"([0-9a-f]{8})-(\d{6})-([0-9a-f]{64})\.claim")
_SHOWN = re.compile(r"[0-9a-f]{64}")
_MOST_HERE = 4_096
"""Things shown that a laptop keeps; then it begins anew, and fetches what is shown now."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes in a box, unjudged; `sha256` is theirs."""

    peer: str
    incarnation: str
    sequence: int
    sha256: str
    data: bytes
    path: Path


# -- a laptop's side


def queue_attachment(local: Path, peer: str, incarnation: str, sequence: int, data: bytes) -> str:
    """Put a parcel into the outbox; returns its hash."""
    sha = sha256_hex(data)
    name = f"{incarnation}-{sequence:06d}-{sha}.claim"
    write_atomic(local / "outbox" / check_peer(peer) / name, data)
    return sha


def list_attachments(folder: Path) -> list[Path]:
    """Files that travel alone."""
    return sorted(folder.glob("*.claim"))


def queued_hashes(local: Path, peer: str) -> set[str]:
    """Hashes of a peer's parcels, whether they wait to be pushed or were."""
    outbox = local / "outbox" / check_peer(peer)
    paths = [*list_attachments(outbox), *list_attachments(outbox / "sent")]
    return {found[3] for path in paths if (found := _NAME.fullmatch(path.name))}


def read_attachment_receipts(local: Path, peer: str) -> list[AttachmentReceipt]:
    """Every readable answer to a peer's parcels that was pulled."""
    return read_matching_records(
        AttachmentReceipt, local / "receipts" / check_peer(peer), "claim-*.json"
    )


def read_matching_records(kind: type[Record], folder: Path, pattern: str) -> list[Record]:
    """The readable records of that kind in a folder, by name."""
    found = []
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(FileNotFoundError, DaddyError):
            found.append(parse_record(kind, read_bounded(path, LIMIT), str(path)))
    return found


def list_published(local: Path) -> dict[str, Path]:
    """Things that the run shows, as pulled: each file by the hash in its name."""
    paths = sorted((local / "wan" / CLAIMS).glob("*.json"))
    return {path.stem: path for path in paths if _SHOWN.fullmatch(path.stem)}


def read_published(path: Path) -> bytes | None:
    """The bytes of a thing shown; None when they are not those that its name promises."""
    with contextlib.suppress(OSError, FileError):
        data = read_bounded(path, MOST_BYTES)
        return data if sha256_hex(data) == path.stem else None
    return None


def prune_published(local: Path) -> None:
    """Throw away what was shown once too much of it has come; what is shown now comes again."""
    paths = list(list_published(local).values())
    for path in paths if len(paths) > _MOST_HERE else ():
        path.unlink(missing_ok=True)


# -- the run's side


def pending_attachments(store: Store) -> dict[str, list[Attachment]]:
    """Parcels in the laptops' boxes, the first of each, by peer; what is none is set aside."""
    return {
        box.name: found for box in laptop_boxes(store) if (found := list(_from_box(store, box)))
    }


def _from_box(store: Store, box: Path) -> Iterator[Attachment]:
    with contextlib.suppress(OSError):  # one box that cannot be looked into must not stop the rest
        names = [name for name in os.listdir(box) if name.endswith(".claim")]  # noqa: PTH208 - flood
        kept = heapq.nsmallest(FLOOD, names)
        for name in set(names).difference(kept):
            _drop(box / name)
        for name in kept[:BOX_LIMIT]:
            parcel = _read(box, name)
            if parcel is None:
                with contextlib.suppress(OSError):
                    store.set_aside(box / name, "parcel")
            elif _answer(store, parcel).exists():
                _drop(parcel.path)
            else:
                yield parcel


def _read(box: Path, name: str) -> Attachment | None:
    """The parcel when name, kind of file, size and hash are in order."""
    found, path = _NAME.fullmatch(name), box / name
    try:
        if found is None or SLOT.fullmatch(box.name) or not is_regular_file(path):
            return None
        data = read_bounded(path, MOST_BYTES)
    except (FileError, OSError):
        return None
    if sha256_hex(data) != found[3]:
        return None
    return Attachment(box.name, found[1], int(found[2]), found[3], data, path)


def _answer(store: Store, parcel: Attachment) -> Path:
    name = f"claim-{parcel.incarnation}-{parcel.sequence:06d}.json"
    return store.paths.receipts / parcel.peer / name


def answer_attachment(store: Store, parcel: Attachment, reason: str, *, accepted: bool) -> None:
    """Tell the laptop what became of its parcel, and take that out of its box."""
    receipt = AttachmentReceipt(
        peer=parcel.peer,
        incarnation=parcel.incarnation,
        sequence=parcel.sequence,
        sha256=parcel.sha256,
        accepted=accepted,
        reason=reason[:300],
    )
    store.writer.create(_answer(store, parcel), receipt.to_json_bytes(), "receipt")
    _drop(parcel.path)


def _drop(path: Path) -> None:
    """Take a file out of a box; an answered one that cannot be stays, and is not judged again."""
    with contextlib.suppress(OSError):
        path.unlink()


def publish_attachments(store: Store, things: Mapping[str, bytes]) -> int:
    """Show exactly these, by hash, to the laptops; returns how many are new. OSError."""
    folder, new = store.paths.wan / CLAIMS, 0
    for sha, data in things.items():
        path = folder / f"{sha}.json"
        if not path.exists():
            new += store.writer.create(path, data, "shown", mode=0o444)
    for path in folder.glob("*"):
        if path.stem not in things:
            path.unlink(missing_ok=True)
    return new
