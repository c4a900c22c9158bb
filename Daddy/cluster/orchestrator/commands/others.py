"""The jobs of other accounts that take part in this run, as far as their heartbeats tell.

Their queue is not ours to ask: a job lives while its heartbeat's file is young by this machine's
clock. Reads only, and never fails for what others wrote.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from typing import Any

from Daddy.cluster.orchestrator.commands.verdict import SILENT_S
from Daddy.core.errors import FileError
from Daddy.core.files import JSON_LIMIT, parse_json
from Daddy.core.friend_accounts import Outbox, outboxes
from Daddy.core.shared_paths import SharedPaths

MOST_JOBS = 32
"""Lines that a screen has room for, those first that beat last."""

_MOST_VERSION = 10**9
"""More than a run can have; beyond it somebody plays with our screen."""


def others(shared: SharedPaths, head: Mapping[str, Any], now: float) -> dict[str, Any]:
    """``jobs`` by name and ``troubles`` in words; ``head`` is the hint at the newest version.

    ``now`` in wall seconds.
    """
    try:
        boxes = outboxes(shared)
    except FileError as error:
        return {"jobs": [], "troubles": [str(error)]}
    jobs = [_told(job, head) for box in boxes for job in _newest(box, now).values()]
    first = sorted(jobs, key=lambda one: one["beat_s"])[:MOST_JOBS]
    return {
        "jobs": sorted(first, key=lambda one: (one["account"], len(one["peer"]), one["peer"])),
        "troubles": [f"{box.name}: {why}" for box in boxes if (why := box.trouble())],
    }


def _newest(box: Outbox, now: float) -> dict[str, dict[str, Any]]:
    """Each job's process that beat last."""
    found: dict[str, dict[str, Any]] = {}
    for one in _beats(box, now):
        known = found.setdefault(one["peer"], one)
        found[one["peer"]] = min(known, one, key=lambda each: each["beat_s"])
    return found


def _beats(box: Outbox, now: float) -> Iterator[dict[str, Any]]:
    for folder in box.incarnations():
        path = folder / "hb.json"
        with contextlib.suppress(OSError, FileError, LookupError, TypeError, ValueError,
                                 OverflowError):  # fmt: skip
            body = parse_json(box.read(path, JSON_LIMIT), str(path))
            age = max(0.0, now - os.lstat(path).st_mtime)
            yield {
                "peer": folder.parent.name,
                "account": box.name,
                "version": min(int(body["version"]), _MOST_VERSION),
                "left": bool(body["left"]),
                "beat_s": round(age, 1),
            }


def _told(job: Mapping[str, Any], head: Mapping[str, Any]) -> dict[str, Any]:
    """With what the newest version says of it: its steps, and how far behind it stands."""
    steps, newest = head.get("contributors"), head.get("version")
    known = steps.get(job["peer"], 0) if isinstance(steps, dict) else 0
    behind = max(0, newest - job["version"]) if isinstance(newest, int) else 0
    silent = "silent" if job["beat_s"] > SILENT_S else "trains"
    state = "left" if job["left"] else silent
    return {**job, "state": state, "behind": behind, "steps": int(known)}
