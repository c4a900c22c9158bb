"""Who took over which version, and how far its policy moved by that: from the learners' events.

The shared folder does not tell it: adopting writes nothing there but a heartbeat.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from Daddy.core.events import read_events
from Daddy.weights.views.lineage import Adopted


def read_adoptions(folder: Path) -> dict[int, tuple[Adopted, ...]]:
    """Every adoption by version, oldest first. Lines that say something else are passed over."""
    found: dict[int, list[Adopted]] = {}
    for event in read_events(folder, "learner-*.jsonl", b'"adopted"'):
        data = event.get("data")
        if isinstance(data, dict) and data.get("state") == "adopted":
            version = data.get("version")
            if isinstance(version, int):
                found.setdefault(version, []).append(_adopted(event, data))
    return {
        version: tuple(sorted(those, key=lambda one: one.ts)) for version, those in found.items()
    }


def _adopted(event: Mapping[str, Any], data: Mapping[str, Any]) -> Adopted:
    source, kl = event.get("source"), data.get("kl")
    peer = source.get("id") if isinstance(source, dict) else ""
    return Adopted(str(peer), _number(event.get("ts")) or 0.0, _number(kl))


def _number(value: object) -> float | None:
    """A finite number; None for anything else, and for one that no float holds."""
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if abs(value) <= sys.float_info.max else None
