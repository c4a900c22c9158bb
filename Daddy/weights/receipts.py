"""What became of a laptop's contributions, as pulled. No torch."""

from __future__ import annotations

from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.files import read_bounded
from Daddy.core.names import check_peer
from Daddy.weights.manifest import Receipt, parse
from Daddy.weights.strict import LIMIT


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
