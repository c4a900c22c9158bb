"""Reads a laptop's pulled folder: newest verified version, receipts, totals of visits. No torch.

A version is complete when its head names it and its file has the promised size and hash; the file
is read once, hashed in memory, and those bytes are used. Steps are added up in
``effect/<peer>.json`` when a visit ends; contributions count by the receipts, which only the run
writes.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_bounded, sha256_hex, write_atomic
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.name_validation import PEER, check_peer
from Daddy.weights.attachments import read_attachment_receipts, read_matching_records
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import JsonRecord, LaptopHead, Receipt, parse_record

_PULL_AGAIN = "run sync_weights.sh pull again: it fetches only what verifies"
PREVIOUS = "HEAD.previous.json"
"""The head before the newest: what is used when the newest file turns out to be damaged."""


@dataclass(frozen=True, slots=True)
class VerifiedVersion:
    """A version whose bytes have been checked, and where they come from."""

    version: int
    sha256: str
    data: bytes
    frame: LaptopHead
    warning: str = ""

    @property
    def label(self) -> str:
        """Version and run, for people."""
        return f"v{self.version} of run {self.frame.run!r}"


def newest_verified(shared_dir: Path) -> VerifiedVersion | None:
    """The newest version below ``shared_dir``; None when nothing was pulled yet.

    A damaged newest version falls back to the one before, with a ``warning``; WeightsError when
    neither can be used.
    """
    frame = read_laptop_head(shared_dir / "wan" / "HEAD.json")
    if frame is None:
        return None
    try:
        return read_verified(shared_dir, frame)
    except WeightsError as damage:
        older = read_laptop_head(shared_dir / "wan" / PREVIOUS)
        if older is None or older.name == frame.name:
            raise
        found = read_verified(shared_dir, older)
        said = f"{damage.message}; using v{older.version} instead"
        return VerifiedVersion(found.version, found.sha256, found.data, older, said)


def read_laptop_head(path: Path) -> LaptopHead | None:
    """A head, None when there is none; WeightsError when it is damaged."""
    try:
        return parse_record(LaptopHead, read_bounded(path, LIMIT), str(path))
    except FileNotFoundError:
        return None
    except FileError as error:
        raise WeightsError(error.message, error.fix) from error


def read_verified(shared_dir: Path, frame: LaptopHead, path: Path | None = None) -> VerifiedVersion:
    """The bytes that ``frame`` names (or those in ``path``), verified.

    WeightsError when missing, truncated or damaged.
    """
    path = path or shared_dir / "wan" / frame.name
    data = read_exactly(path, frame.size)
    if sha256_hex(data) != frame.sha256:
        raise WeightsError(f"{path} does not have the hash its head promises", _PULL_AGAIN)
    return VerifiedVersion(frame.version, frame.sha256, data, frame)


def read_exactly(path: Path, size: int) -> bytes:
    """The bytes of a file of just this size; WeightsError."""
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
    """The readable receipts of every peer that ever got one here, oldest version first."""
    peers = peers_in(local_dir / "receipts")
    found = [receipt for peer in peers for receipt in read_receipts(local_dir, peer)]
    return sorted(found, key=lambda receipt: receipt.version)


def peers_in(folder: Path) -> list[str]:
    """Names in ``folder`` that can be peers'."""
    return sorted(path.name for path in folder.glob("*") if PEER.fullmatch(path.name))


def read_receipts(local_dir: Path, peer: str) -> list[Receipt]:
    """Every readable receipt of ``peer`` that was pulled, oldest version first."""
    found = read_matching_records(Receipt, local_dir / "receipts" / check_peer(peer), "*.json")
    return sorted(found, key=lambda one: (one.version, one.sequence))


@dataclass(frozen=True, slots=True)
class LaptopTotals(JsonRecord):
    """Of one visit, or of all: environment steps, milestones handed in."""

    steps: int = 0
    milestones: int = 0
    visits: int = 0


def add_to_totals(local: Path, peer: str, one: LaptopTotals) -> LaptopTotals:
    """The new totals of ``peer``, with this visit's; OSError when the disk refuses."""
    before = read_totals(local, peer)
    total = LaptopTotals(
        before.steps + one.steps, before.milestones + one.milestones, before.visits + 1
    )
    write_atomic(local / "effect" / f"{peer}.json", total.to_json_bytes())
    return total


def read_totals(local: Path, peer: str) -> LaptopTotals:
    """The totals so far; zeros where there are none that can be read."""
    found = read_matching_records(LaptopTotals, local / "effect", f"{check_peer(peer)}.json")
    return found[0] if found else LaptopTotals()


def summarise_effect(local: Path, peer: str) -> dict[str, Any]:
    """Effort and what became of it; ``moved`` adds up shares: 1.0 is a whole version's movement."""
    effort = read_totals(local, peer)
    counted = [one for one in read_receipts(local, peer) if one.accepted]
    answers = read_attachment_receipts(local, peer)
    return {
        "peer": peer,
        "visits": effort.visits,
        "steps": effort.steps,
        "accepted": len(counted),
        "moved": round(sum(one.share for one in counted), 4),
        "milestones": effort.milestones,
        "milestones_accepted": sum(one.accepted for one in answers),
        "milestones_refused": sum(not one.accepted for one in answers),
    }


def peers_with_totals(local: Path) -> list[str]:
    """Peers that ever ended a visit here."""
    return sorted(path.stem for path in (local / "effect").glob("*.json"))


def describe_effect(effect: dict[str, Any]) -> str:
    """One line for the owner."""
    said = f"{effect['steps']:,} steps in {effect['visits']} visits"
    said += f", {effect['accepted']} contributions counted"
    said += f" (together {effect['moved']:.0%} of a version)" * bool(effect["accepted"])
    if effect["milestones"]:
        kept, no = effect["milestones_accepted"], effect["milestones_refused"]
        said += f", {effect['milestones']} milestones handed in ({kept} kept, {no} refused)"
    return said
