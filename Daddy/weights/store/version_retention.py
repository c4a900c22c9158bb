"""Lists versions to go back to: beyond the newest ones, some of each hour and day. No torch.

``kept.json`` holds them; every merger updates it under the merge lease. If the file is missing, it
starts again with the newest versions.
"""

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import WeightsError
from Daddy.core.settings import HISTORY_MB
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import JsonRecord, Version, parse
from Daddy.weights.store.weight_store import Store

HOUR_S, DAY_S = 3_600.0, 86_400.0
DAYS = 30
_NEWEST = 24
"""Newest versions to check beside ``kept.json``, which earlier releases did not write."""


@dataclass(frozen=True, slots=True)
class KeptState(JsonRecord):
    """A version whose state is kept, and the reason: "newest", "best", "hour" or "day"."""

    version: int
    ts: float
    state: str
    size: int
    reason: str = "newest"


@dataclass(frozen=True, slots=True)
class KeptList(JsonRecord):
    """``kept.json``: the versions that a run can go back to."""

    versions: tuple[KeptState, ...] = ()


def choose_kept(versions: Iterable[KeptState], newest: int, best: int | None) -> list[KeptState]:
    """Pure. Choose the versions to keep, each with its reason, newest first: the newest ``newest``,
    the best evaluated one, and the first of each hour for a day and of each day for 30 days before
    the newest. All but the newest take at most ``HISTORY_MB`` together, younger ones first.
    """
    by_age = sorted(versions, key=lambda item: -item.version)
    kept = [replace(item, reason="newest") for item in by_age[:newest]]
    older = by_age[newest:]
    kept += [replace(item, reason="best") for item in older if item.version == best]
    now = max((item.ts for item in by_age), default=0.0)
    first = {(span, item.ts // span): item.version for span in (HOUR_S, DAY_S) for item in by_age}
    room = HISTORY_MB * 1_000_000 - sum(item.size for item in kept[newest:])
    for item in older:
        of_hour = first[HOUR_S, item.ts // HOUR_S] == item.version and now - item.ts <= DAY_S
        of_day = first[DAY_S, item.ts // DAY_S] == item.version and now - item.ts <= DAYS * DAY_S
        if (of_hour or of_day) and item.version != best and item.size <= room:
            room -= item.size
            kept.append(replace(item, reason="hour" if of_hour else "day"))
    return sorted(kept, key=lambda item: -item.version)


def kept_entry(record: Version) -> KeptState:
    """Return a version as an entry of ``kept.json``."""
    return KeptState(record.version, record.ts, record.state, record.size)


def read_kept(store: Store) -> list[KeptState]:
    """Read ``kept.json``; return an empty list if it is missing or damaged. Raise FileError when it
    cannot be read now: the caller then removes no state.
    """
    path = store.paths.kept
    with contextlib.suppress(FileNotFoundError, WeightsError):
        return list(parse(KeptList, read_bounded(path, LIMIT), str(path)).versions)
    return []


def write_kept(store: Store, versions: Sequence[KeptState]) -> None:
    """Replace ``kept.json``. Raise OSError when the disk refuses."""
    data = KeptList(tuple(versions)).to_json_bytes()
    store.writer.replace(store.paths.kept, data, "kept")


def kept_reasons(store: Store) -> dict[int, str]:
    """Return the reason of each version in ``kept.json`` whose state exists."""
    present = (entry for entry in read_kept(store) if store.paths.blob(entry.state).exists())
    return {entry.version: entry.reason for entry in present}


def kept_numbers(store: Store, newest: int) -> set[int]:
    """Return the versions in ``kept.json`` or among the newest 24 whose state exists."""
    entries = [*read_kept(store), *map(kept_entry, store.records(newest - _NEWEST, newest))]
    return {entry.version for entry in entries if store.paths.blob(entry.state).exists()}
