"""How a laptop's folder of shared weights stands, as one record for ``status``. No torch.

Reads only, asks nobody: ``sync_weights.sh status`` asks the cluster too.
"""

from __future__ import annotations

import contextlib
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.weights.laptop.pull_push import contributors, waiting
from Daddy.weights.laptop.pulled_version import PREVIOUS, newest_verified, read_frame
from Daddy.weights.laptop.receipts import effect_of, efforts, read_all_receipts
from Daddy.weights.views.run_report import Record, refusal
from Daddy.weights.views.usage import disk


def report_laptop(root: Path, now: float) -> Record:
    """The record of what lies in ``root``; ``now`` in wall seconds. Nones: nothing pulled yet."""
    flaws: list[str] = []
    found = None
    try:
        found = newest_verified(root)
    except DaddyError as error:
        flaws.append(error.message)
    if found is not None and found.warning:
        flaws.append(found.warning)
    frame = found.frame if found else None
    receipts = read_all_receipts(root)
    return {
        "v": 1,
        "kind": "laptop",
        "folder": str(root),
        "run": frame.run if frame else "",
        "run_id": frame.run_id if frame else "",
        "workload": frame.workload if frame else "",
        "schema": frame.schema if frame else "",
        "assists": list(frame.assists) if frame else [],
        "version": frame.version if frame else None,
        "age_s": round(max(0.0, now - frame.ts), 1) if frame else None,
        "ts": frame.ts if frame else None,
        "fleet_steps": frame.fleet_steps if frame else None,
        "bytes": frame.size if frame else None,
        "verified": found is not None and not found.warning,
        "before": _before(root),
        "outbox": len(waiting(root)),
        "contributes_as": contributors(root),
        "accepted": sum(one.accepted for one in receipts),
        "refused": [refusal(one.version, one) for one in receipts if not one.accepted],
        "effect": [effect_of(root, peer) for peer in efforts(root)],
        "disk": disk(root),
        "flaws": flaws,
    }


def _before(root: Path) -> int | None:
    """The version kept as a way back."""
    with contextlib.suppress(DaddyError):
        frame = read_frame(root / "wan" / PREVIOUS)
        return None if frame is None else frame.version
    return None
