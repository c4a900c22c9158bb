"""Versions to go back to: beyond the newest ones, some of each hour and day. No torch.

``kept.json`` lists them; every merger brings it up to date under the merge lease. Where the file is
missing the list begins anew with the newest versions.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import WeightsError
from Daddy.core.settings import HISTORY_MB
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import JsonRecord, Version, parse_record
from Daddy.weights.store.weight_store import Store

HOUR_S, DAY_S = 3_600.0, 86_400.0
DAYS = 30
_NEWEST = 24
"""Versions whose states are looked for beside the list: a run of earlier releases has none."""


@dataclass(frozen=True, slots=True)
class KeptVersion(JsonRecord):
    """A version whose state is kept, and the reason: "newest", "best", "hour" or "day"."""

    version: int
    ts: float
    state: str
    size: int
    reason: str = "newest"


@dataclass(frozen=True, slots=True)
class KeptList(JsonRecord):
    """``kept.json``: the versions that a run can go back to."""

    versions: tuple[KeptVersion, ...] = ()


def choose_kept(
    versions: Iterable[KeptVersion], newest: int, best: int | None
) -> list[KeptVersion]:
    """Pure: the versions to keep, each with its reason, newest first.

    The newest ``newest``, the best evaluated one, the first of each hour for a day and of each day
    for 30 days before the newest: a first one stays the first. Within ``HISTORY_MB``, younger ones
    before older ones.
    """
    by_age = sorted(versions, key=lambda one: -one.version)
    found = [replace(one, reason="newest") for one in by_age[:newest]]
    older = by_age[newest:]
    found += [replace(one, reason="best") for one in older if one.version == best]
    now = max((one.ts for one in by_age), default=0.0)
    first = {(span, one.ts // span): one.version for span in (HOUR_S, DAY_S) for one in by_age}
    room = HISTORY_MB * 1_000_000 - sum(one.size for one in found[newest:])
    for one in older:
        of_hour = first[HOUR_S, one.ts // HOUR_S] == one.version and now - one.ts <= DAY_S
        of_day = first[DAY_S, one.ts // DAY_S] == one.version and now - one.ts <= DAYS * DAY_S
        if (of_hour or of_day) and one.version != best and one.size <= room:
            room -= one.size
            found.append(replace(one, reason="hour" if of_hour else "day"))
    return sorted(found, key=lambda one: -one.version)


def kept_entry(record: Version) -> KeptVersion:
    """A version as an entry of the list."""
    return KeptVersion(record.version, record.ts, record.state, record.size)


def read_kept(store: Store) -> list[KeptVersion]:
    """The list as it stands; empty where there is none, or a damaged one.

    FileError when it cannot be read now: nothing that it may name is superfluous then.
    """
    path = store.paths.kept
    with contextlib.suppress(FileNotFoundError, WeightsError):
        return list(parse_record(KeptList, read_bounded(path, LIMIT), str(path)).versions)
    return []


def write_kept(store: Store, versions: Sequence[KeptVersion]) -> None:
    """Replace the list. OSError when the disk does not take it."""
    data = KeptList(tuple(versions)).to_json_bytes()
    store.writer.replace(store.paths.kept, data, "kept")


def kept_reasons(store: Store) -> dict[int, str]:
    """The reason of each version on the list whose state is there."""
    there = (one for one in read_kept(store) if store.paths.blob(one.state).exists())
    return {one.version: one.reason for one in there}


def kept_numbers(store: Store, newest: int) -> set[int]:
    """Versions to go back to: those on the list, and the newest, whose states are there."""
    known = [*read_kept(store), *map(kept_entry, store.records(newest - _NEWEST, newest))]
    return {one.version for one in known if store.paths.blob(one.state).exists()}
