"""What became of a laptop's contributions, as pulled. No torch."""

from __future__ import annotations

import contextlib
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.files import read_bounded
from Daddy.core.names import PEER, check_peer
from Daddy.weights.records.manifest import parse
from Daddy.weights.records.notices import Receipt
from Daddy.weights.records.strict import LIMIT


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
