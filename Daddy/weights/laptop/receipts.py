"""What became of a laptop's contributions, and what its owner did for the run. No torch.

Steps are added up in ``effect/<peer>.json`` when a visit ends; what counted is read from
the receipts, which only the run writes.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.core.files import read_bounded, write_atomic
from Daddy.core.names import PEER, check_peer
from Daddy.weights.parcels import read_parcel_receipts
from Daddy.weights.store.records import Receipt, Written, parse
from Daddy.weights.store.strict_json import LIMIT


def read_all_receipts(local_dir: Path) -> list[Receipt]:
    """The readable receipts of every peer that ever got one here, oldest version first."""
    with contextlib.suppress(FileNotFoundError):
        peers = [path.name for path in (local_dir / "receipts").iterdir()]
        named = sorted(peer for peer in peers if PEER.fullmatch(peer))
        found = [one for peer in named for one in read_receipts(local_dir, peer)]
        return sorted(found, key=lambda one: one.version)
    return []


def read_receipts(local_dir: Path, peer: str) -> list[Receipt]:
    """Every readable receipt of ``peer`` that was pulled, oldest version first."""
    found = []
    for path in (local_dir / "receipts" / check_peer(peer)).glob("*.json"):
        receipt = _read_receipt(path)
        if receipt is not None:
            found.append(receipt)
    return sorted(found, key=lambda one: (one.version, one.sequence))


def _read_receipt(path: Path) -> Receipt | None:
    try:
        return parse(Receipt, read_bounded(path, LIMIT), str(path))
    except (FileNotFoundError, DaddyError):
        return None


@dataclass(frozen=True, slots=True)
class Effort(Written):
    """Of one visit, or of all: environment steps, milestones handed in."""

    steps: int = 0
    milestones: int = 0
    visits: int = 0


def add_visit(local: Path, peer: str, one: Effort) -> Effort:
    """The new totals of ``peer``, with this visit's; OSError when the disk refuses."""
    before = read_effort(local, peer)
    total = Effort(
        before.steps + one.steps,
        before.milestones + one.milestones,
        before.visits + 1,
    )
    write_atomic(_path(local, peer), total.to_bytes())
    return total


def read_effort(local: Path, peer: str) -> Effort:
    """The totals so far; zeros where there are none that can be read."""
    with contextlib.suppress(FileNotFoundError, DaddyError):
        path = _path(local, peer)
        return parse(Effort, read_bounded(path, LIMIT), str(path))
    return Effort()


def effect_of(local: Path, peer: str) -> dict[str, Any]:
    """Effort and what became of it; ``moved`` adds up shares: 1.0 is a whole version's movement."""
    effort = read_effort(local, peer)
    counted = [one for one in read_receipts(local, peer) if one.accepted]
    answers = read_parcel_receipts(local, peer)
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


def efforts(local: Path) -> list[str]:
    """Peers that ever ended a visit here."""
    return sorted(path.stem for path in (local / "effect").glob("*.json"))


def told(effect: dict[str, Any]) -> str:
    """One line for the owner."""
    said = f"{effect['steps']:,} steps in {effect['visits']} visits"
    said += f", {effect['accepted']} contributions counted"
    said += f" (together {effect['moved']:.0%} of a version)" * bool(effect["accepted"])
    if effect["milestones"]:
        kept, no = effect["milestones_accepted"], effect["milestones_refused"]
        said += f", {effect['milestones']} milestones handed in ({kept} kept, {no} refused)"
    return said


def _path(local: Path, peer: str) -> Path:
    return local / "effect" / f"{check_peer(peer)}.json"
