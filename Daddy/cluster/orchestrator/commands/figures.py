"""What a run did, counted: GPU-hours, versions an hour, scheduler calls today, when it is done.

The readers of files take one small file or a few names; what they count is in pure functions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.cluster.orchestrator.records import Attempt, Ledger
from Daddy.core.errors import FileError
from Daddy.core.files import read_json
from Daddy.core.paths import RunPaths
from Daddy.core.shared_paths import SharedPaths

WINDOW_S = 86_400.0
_HOUR_S = 3600.0


@dataclass(frozen=True, slots=True)
class Share:
    """Hours in which slots trained, of the hours there were, over the last ``window_s`` seconds."""

    used_h: float
    available_h: float
    window_s: float


def share_used(ledger: Ledger, slots: int, gpus: int, now: float) -> Share:
    """Pure: since the first attempt, at most a day back; a job without a GPU counts as one."""
    first = min((one.intended_ts for one in ledger.attempts), default=now)
    since = max(first, now - WINDOW_S)
    each = max(1, gpus)
    used = sum(_overlap(one, since, now) for one in ledger.attempts)
    window = max(0.0, now - since)
    return Share(each * used / _HOUR_S, each * slots * window / _HOUR_S, window)


def _overlap(attempt: Attempt, since: float, now: float) -> float:
    """Seconds of the window in which it held its slot."""
    if attempt.claimed_ts is None:
        return 0.0
    end = min(stamp for stamp in (attempt.left_ts, attempt.ended_ts, now) if stamp is not None)
    return max(0.0, end - max(attempt.claimed_ts, since))


def versions_per_hour(shared: SharedPaths, now: float) -> int | None:
    """Versions that were committed in the last hour; None before the first.

    Records are never deleted and their stamps grow, so a few of them tell.
    """
    newest = head(shared).get("version")
    if not isinstance(newest, int) or newest < 1:
        return None
    low, high = 0, newest + 1  # the first version that is not older than an hour lies between
    while high - low > 1:
        middle = (low + high) // 2
        stamp = _modified(shared.version(middle))
        if stamp is None or stamp < now - _HOUR_S:
            low = middle
        else:
            high = middle
    return newest + 1 - high


def _modified(path: Path) -> float | None:
    try:
        return path.stat().st_mtime
    except OSError:
        return None


def age_of(path: Path, now: float) -> float | None:
    """Seconds since the file was written, by the file server's clock; None where there is none."""
    stamp = _modified(path)
    return None if stamp is None else max(0.0, now - stamp)


def head(shared: SharedPaths) -> dict[str, Any]:
    """The hint at the newest version; empty where there is none."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError, FileError):
        return read_json(shared.head)
    return {}


def calls_today(run: RunPaths, day: str) -> int | None:
    """Scheduler commands that anybody ran for this run on ``day`` (YYYY-MM-DD, UTC): one line each.

    None where nobody counts (the local queue).
    """
    found = sorted(run.calls.glob(f"*-{day}.log")) if run.calls.is_dir() else []
    if not run.calls.is_dir():
        return None
    total = 0
    for path in found:
        with contextlib.suppress(OSError):
            total += path.read_bytes().count(b"\n")
    return total


def seconds_left(done: int, total: int, rates: Iterable[float]) -> float | None:
    """Pure: until ``total`` steps at the present rates; None without an end or without a rate."""
    rate = sum(rates)
    return max(0, total - done) / rate if total > 0 and rate > 0 else None


def next_leave(stamps: Sequence[float | None]) -> tuple[int, float] | None:
    """Pure: which of the slots' stamps comes first; None where none is known."""
    known = [(stamp, place) for place, stamp in enumerate(stamps) if stamp is not None]
    return (min(known)[1], min(known)[0]) if known else None
