"""Adapter for attachments: small files that laptops send, or the run publishes, beside the weights.

The exchange does not interpret them: claims are the only kind so far. A laptop puts an attachment
into its outbox, ``push`` sends it into the laptop's box (a folder in ``inbox/``), and a job checks
it and writes a receipt. A run publishes files below ``wan/``, and ``pull`` fetches them. Name, kind
and size of every file in a box are checked.
"""

import contextlib
import heapq
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, TypeVar

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import DaddyError, FileError
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import OWN, check_peer
from Daddy.weights.merge.contributions import (
    is_regular_file,
    laptop_boxes,
    plain_reason,
    set_box_file_aside,
)
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import AttachmentReceipt, Receipt, Record, parse
from Daddy.weights.store.weight_store import Store

CLAIMS: Final = "claims"
"""Folder of published claims below ``wan/``, which other peers replay."""
MOST_BYTES: Final = 60 * 1024
"""Largest attachment or published file: small files are fetched up to 64 KiB."""
BOX_LIMIT = 8
"""Attachments of one box that are read at a time; the rest waits."""
FLOOD = 256
"""Attachments that one box may hold: more are deleted unread."""
MOST_SENT = 64
_NAME = re.compile(r"([0-9a-f]{8})-(\d{6})-([0-9a-f]{64})\.claim")
_SHOWN = re.compile(r"[0-9a-f]{64}")
_MOST_HERE = 4_096
"""Published files that a laptop keeps; beyond it all are deleted and fetched again."""


@dataclass(frozen=True, slots=True)
class Attachment:
    """Bytes in a laptop's box, not interpreted yet; `sha256` is their hash."""

    peer: str
    incarnation: str
    sequence: int
    sha256: str
    data: bytes
    path: Path


# -- a laptop's side


def queue_attachment(local: Path, peer: str, incarnation: str, sequence: int, data: bytes) -> str:
    """Write an attachment into the outbox; return its SHA-256."""
    sha = sha256_hex(data)
    name = f"{incarnation}-{sequence:06d}-{sha}.claim"
    write_atomic(local / "outbox" / check_peer(peer) / name, data)
    return sha


def list_attachments(folder: Path) -> list[Path]:
    """Return the paths of attachments (``*.claim``) in a folder."""
    return sorted(folder.glob("*.claim"))


Answer = TypeVar("Answer", Receipt, AttachmentReceipt)


def queued_hashes(local: Path, peer: str) -> set[str]:
    """Return hashes of a peer's attachments in the outbox, waiting or sent."""
    outbox = local / "outbox" / check_peer(peer)
    paths = [*list_attachments(outbox), *list_attachments(outbox / "sent")]
    return {match[3] for path in paths if (match := _NAME.fullmatch(path.name))}


def read_attachment_receipts(local: Path, peer: str) -> list[AttachmentReceipt]:
    """Return every readable receipt of a peer's attachments that was pulled."""
    return read_answers(AttachmentReceipt, local / "receipts" / check_peer(peer), "claim-*.json")


def read_answers(kind: type[Answer], folder: Path, pattern: str) -> list[Answer]:
    """Return what :func:`read_each` returns; reasons, texts of another machine, come without
    control characters.
    """
    answers = read_each(kind, folder, pattern)
    return [replace(answer, reason=printable_line(answer.reason)) for answer in answers]


def read_each(kind: type[Record], folder: Path, pattern: str) -> list[Record]:
    """Parse the readable files in ``folder`` that match ``pattern`` as ``kind``, by name."""
    records = []
    for path in sorted(folder.glob(pattern)):
        with contextlib.suppress(FileNotFoundError, DaddyError):
            records.append(parse(kind, read_bounded(path, LIMIT), str(path)))
    return records


def list_published(local: Path) -> dict[str, Path]:
    """Return the files that the run published and this laptop pulled, by the hash in their name."""
    paths = sorted((local / "wan" / CLAIMS).glob("*.json"))
    return {path.stem: path for path in paths if _SHOWN.fullmatch(path.stem)}


def read_published(path: Path) -> bytes | None:
    """Return the bytes of a published file; None when they do not have its name's hash."""
    with contextlib.suppress(OSError, FileError):
        data = read_bounded(path, MOST_BYTES)
        return data if sha256_hex(data) == path.stem else None
    return None


def prune_published(local: Path) -> None:
    """Delete all pulled published files if more than 4,096; the next pull fetches current ones."""
    paths = list(list_published(local).values())
    for path in paths if len(paths) > _MOST_HERE else ():
        path.unlink(missing_ok=True)


# -- the run's side


def pending_attachments(store: Store) -> dict[str, list[Attachment]]:
    """Return up to 8 attachments of each laptop, by peer; set malformed ones aside."""
    found = {box.name: list(_from_box(store, box)) for box in laptop_boxes(store)}
    return {peer: attachments for peer, attachments in found.items() if attachments}


def _from_box(store: Store, box: Path) -> Iterator[Attachment]:
    with contextlib.suppress(OSError):  # one unreadable box must not stop the rest
        names = [name for name in os.listdir(box) if name.endswith(".claim")]  # noqa: PTH208 - flood
        first = heapq.nsmallest(FLOOD, names)
        for name in set(names).difference(first):
            _drop(box / name)
        for name in first[:BOX_LIMIT]:
            attachment = _read(box, name)
            if attachment is None:
                with contextlib.suppress(OSError):
                    set_box_file_aside(store, box / name, "parcel", MOST_BYTES)
            elif _answer(store, attachment).exists():
                _drop(attachment.path)
            else:
                yield attachment


def _read(box: Path, name: str) -> Attachment | None:
    """Return the attachment if name, kind of file, size and hash are in order; None otherwise."""
    match, path = _NAME.fullmatch(name), box / name
    try:
        if match is None or OWN.fullmatch(box.name) or not is_regular_file(path):
            return None
        data = read_bounded(path, MOST_BYTES)
    except (FileError, OSError):
        return None
    if sha256_hex(data) != match[3]:
        return None
    return Attachment(box.name, match[1], int(match[2]), match[3], data, path)


def _answer(store: Store, attachment: Attachment) -> Path:
    name = f"claim-{attachment.incarnation}-{attachment.sequence:06d}.json"
    return store.paths.receipts / attachment.peer / name


def answer_attachment(store: Store, attachment: Attachment, reason: str, *, accepted: bool) -> None:
    """Write a receipt for an attachment, and remove it from its box."""
    receipt = AttachmentReceipt(
        peer=attachment.peer,
        incarnation=attachment.incarnation,
        sequence=attachment.sequence,
        sha256=attachment.sha256,
        accepted=accepted,
        reason=plain_reason(reason),
    )
    store.writer.create(_answer(store, attachment), receipt.to_json_bytes(), "receipt")
    _drop(attachment.path)


def _drop(path: Path) -> None:
    """Remove a file from a box; if that fails, the receipt prevents a second check."""
    with contextlib.suppress(OSError):
        path.unlink()


def publish_attachments(store: Store, files: Mapping[str, bytes]) -> int:
    """Publish exactly these files (by hash), delete others; return the number of new ones."""
    folder, new = store.paths.wan / CLAIMS, 0
    for sha, data in files.items():
        path = folder / f"{sha}.json"
        if not path.exists():
            new += store.writer.create(path, data, "shown", mode=0o444)
    for path in folder.glob("*"):
        if path.stem not in files:
            path.unlink(missing_ok=True)
    return new
