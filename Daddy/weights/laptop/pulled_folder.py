"""Adapter for a laptop's pulled folder: newest verified version, receipts, totals. No torch.

A version is complete when its head names it and its file has the promised size and hash; the file
is read once, hashed in memory, and those bytes are used. Steps are added up in
``effect/<peer>.json`` when a laptop session ("visit") ends; contributions count by the receipts,
which only the run writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.name_validation import PEER, check_peer
from Daddy.weights.laptop_attachments import read_attachment_receipts, read_each
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import JsonRecord, LaptopHead, Receipt, parse

_PULL_AGAIN = "run sync_weights.sh pull again: it fetches only what verifies"
PREVIOUS = "HEAD.previous.json"
"""The head before the newest, for a newest file that turns out to be damaged."""


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """A version whose bytes have been verified, and the head that names it."""

    version: int
    sha256: str
    data: bytes
    head: LaptopHead
    warning: str = ""

    @property
    def label(self) -> str:
        """Version and run, for people."""
        return f"v{self.version} of run {self.head.run!r}"


def newest_verified(shared_dir: Path) -> VerifiedVersion | None:
    """Return the newest version below ``shared_dir``; None when nothing was pulled yet. If its file
    is damaged, return the version before, with a ``warning``. Raise WeightsError when neither can
    be used.
    """
    head = read_laptop_head(shared_dir / "wan" / "HEAD.json")
    if head is None:
        return None
    try:
        return read_verified(shared_dir, head)
    except WeightsError as damage:
        older = read_laptop_head(shared_dir / "wan" / PREVIOUS)
        if older is None or older.name == head.name:
            raise
        previous = read_verified(shared_dir, older)
        warning = f"{damage.message}; using v{older.version} instead"
        return VerifiedVersion(previous.version, previous.sha256, previous.data, older, warning)


def read_laptop_head(path: Path) -> LaptopHead | None:
    """Read a head, None when there is none. Raise WeightsError when it is damaged."""
    try:
        return parse(LaptopHead, read_bounded(path, LIMIT), str(path))
    except FileNotFoundError:
        return None
    except FileError as error:
        raise WeightsError(error.message, error.fix) from error


def read_verified(shared_dir: Path, head: LaptopHead, path: Path | None = None) -> VerifiedVersion:
    """Return the verified bytes that ``head`` names, read from ``path`` if given. Raise
    WeightsError when they are missing, truncated or damaged.
    """
    path = path or shared_dir / "wan" / head.name
    data = read_exactly(path, head.size)
    if sha256_hex(data) != head.sha256:
        raise WeightsError(f"{path} does not have the hash its head promises", _PULL_AGAIN)
    return VerifiedVersion(head.version, head.sha256, data, head)


def read_exactly(path: Path, size: int) -> bytes:
    """Return the bytes of a file of exactly ``size`` bytes. Raise WeightsError."""
    try:
        data = read_bounded(path, size)
    except FileNotFoundError as error:
        raise WeightsError(f"{path} is missing", _PULL_AGAIN) from error
    except FileError as error:
        raise WeightsError(error.message, _PULL_AGAIN) from error
    if len(data) != size:
        raise WeightsError(f"{path} has {len(data)} of {size} bytes", _PULL_AGAIN)
    return data


def read_all_receipts(local_dir: Path) -> list[Receipt]:
    """Return the readable receipts of every peer here, oldest version first."""
    peers = peers_in(local_dir / "receipts")
    receipts = [receipt for peer in peers for receipt in read_receipts(local_dir, peer)]
    return sorted(receipts, key=lambda receipt: receipt.version)


def peers_in(folder: Path) -> list[str]:
    """Return names in ``folder`` that can be peers'."""
    return sorted(path.name for path in folder.glob("*") if PEER.fullmatch(path.name))


def read_receipts(local_dir: Path, peer: str) -> list[Receipt]:
    """Return every readable receipt of ``peer`` that was pulled, oldest version first."""
    receipts = read_each(Receipt, local_dir / "receipts" / check_peer(peer), "*.json")
    return sorted(receipts, key=lambda receipt: (receipt.version, receipt.sequence))


@dataclass(frozen=True, slots=True)
class LaptopTotals(JsonRecord):
    """Environment steps, milestones handed in and sessions ("visits"), of one or of all."""

    steps: int = 0
    milestones: int = 0
    visits: int = 0


def add_to_totals(local: Path, peer: str, new: LaptopTotals) -> LaptopTotals:
    """Add a session to the totals of ``peer``; return them. Raise OSError on a full disk."""
    old = read_totals(local, peer)
    total = LaptopTotals(old.steps + new.steps, old.milestones + new.milestones, old.visits + 1)
    write_atomic(local / "effect" / f"{peer}.json", total.to_json_bytes())
    return total


def read_totals(local: Path, peer: str) -> LaptopTotals:
    """Return the totals so far; zeros where there are none that can be read."""
    records = read_each(LaptopTotals, local / "effect", f"{check_peer(peer)}.json")
    return records[0] if records else LaptopTotals()


def summarise_effect(local: Path, peer: str) -> dict[str, Any]:
    """Return totals and results; ``moved`` adds up shares: 1.0 is one version's movement."""
    totals = read_totals(local, peer)
    counted = [receipt for receipt in read_receipts(local, peer) if receipt.accepted]
    answers = read_attachment_receipts(local, peer)
    return {
        "peer": peer,
        "visits": totals.visits,
        "steps": totals.steps,
        "accepted": len(counted),
        "moved": round(sum(receipt.share for receipt in counted), 4),
        "milestones": totals.milestones,
        "milestones_accepted": sum(answer.accepted for answer in answers),
        "milestones_refused": sum(not answer.accepted for answer in answers),
    }


def peers_with_totals(local: Path) -> list[str]:
    """Return peers that ever ended a session here."""
    return sorted(path.stem for path in (local / "effect").glob("*.json"))


def describe_effect(effect: dict[str, Any]) -> str:
    """Return one line for the laptop's owner."""
    text = f"{effect['steps']:,} steps in {effect['visits']} visits"
    text += f", {effect['accepted']} contributions counted"
    text += f" (together {effect['moved']:.0%} of a version)" * bool(effect["accepted"])
    if effect["milestones"]:
        yes, no = effect["milestones_accepted"], effect["milestones_refused"]
        text += f", {effect['milestones']} milestones handed in ({yes} kept, {no} refused)"
    return text
