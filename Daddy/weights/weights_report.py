"""The state of shared weights as one record, for ``status`` and scripts: a run's, or a laptop's.

Reads only, and never fails for what others wrote: what is damaged is named under ``flaws``. A job
lives by the age of its heartbeat's file on this machine's clock: a single look cannot watch a
counter stand still. A laptop's record asks nobody. No torch.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.core.friend_accounts import trust_note
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.backup import find_missing_states
from Daddy.weights.history import read_records
from Daddy.weights.laptop.pull_push import contributors, waiting
from Daddy.weights.laptop.pulled_folder import (
    PREVIOUS,
    effect_of,
    efforts,
    newest_verified,
    read_all_receipts,
    read_frame,
)
from Daddy.weights.lineage import peer_order
from Daddy.weights.merge import contributions
from Daddy.weights.settings import SILENCE_S
from Daddy.weights.store import heartbeats
from Daddy.weights.store.heartbeats import Pulse
from Daddy.weights.store.records import Keyframe, Receipt, Refusal, RunCard, Version
from Daddy.weights.store.store import Store
from Daddy.weights.whereabouts import nothing_in

RECENT = 32
"""Versions that count as of late, for the rate and the refusals."""

KEPT = 8
"""Versions whose states are looked for: as many as `collaboration.keep_versions` has unless set."""

Record = dict[str, Any]

_CARD = ("run", "run_id", "workload", "schema", "assists")
_NOBODY = RunCard("", "", "", "")


def _fields(source: object, *names: str) -> Record:
    """Attributes of ``source`` by name, tuples as lists; None of each where there is no source."""
    found = {name: getattr(source, name, None) for name in names}
    return {name: list(v) if isinstance(v, tuple) else v for name, v in found.items()}


def _newest(source: Version | Keyframe | None, now: float) -> Record:
    """Age, time, steps and bytes of the newest version that can be read; Nones: of none."""
    age = None if source is None else round(max(0.0, now - source.ts), 1)
    return {
        **_fields(source, "ts", "fleet_steps"),
        "age_s": age,
        "bytes": getattr(source, "size", None),
    }


def _refusal(version: int, one: Refusal | Receipt) -> Record:
    return {"version": version, **_fields(one, "peer", "sequence", "fault", "reason")}


# -- a run


def report_run(shared: SharedPaths, now: float) -> Record:
    """The record; ``now`` in wall seconds. WeightsError when there is no version at all."""
    store = Store(shared)
    newest = store.newest()
    if newest is None:
        raise nothing_in(shared.root)
    first = max(0, newest - RECENT + 1)
    there = [n for n in range(first, newest + 1) if shared.version(n).exists()]
    records = read_records(shared, there, first)
    flaws = [flaw.said for flaw in records.flaws]
    head = records.versions[-1] if records.versions else None
    card, verified = _NOBODY, False
    with _noted(flaws):
        card = store.card()
    with _noted(flaws):
        verified = head is not None and bool(store.get_blob(head.state))
    if missing := find_missing_states(shared, KEPT):
        flaws.append(missing)
    return {
        "v": 1,
        "kind": "run",
        "folder": str(shared.root),
        **_fields(card, *_CARD),
        "version": newest,
        "readable": None if head is None else head.version,
        **_newest(head, now),
        **_fields(head, "rule", "merger"),
        "verified": verified,
        **_rate(records.versions),
        "peers": _peers(store, records.versions, now),
        "pending": _pending(store, head, now),
        "inbox": _inbox(store),
        "friends": _friends(store),
        "refused": [_refusal(r.version, one) for r in records.versions for one in r.refused],
        "reverted": [
            {"version": r.version, **_fields(r.reverts[0], "first", "last", "good", "reason")}
            for r in records.versions
            if r.reverts
        ],
        "disk": disk(shared.root),
        "flaws": flaws,
    }


@contextlib.contextmanager
def _noted(flaws: list[str]) -> Iterator[None]:
    """Note an error of the body among the flaws."""
    try:
        yield
    except DaddyError as error:
        flaws.append(error.message)


def _rate(versions: Sequence[Version]) -> Record:
    """Versions an hour and steps a second over the recent versions; None of fewer than two."""
    seconds = versions[-1].ts - versions[0].ts if versions else 0.0
    if seconds <= 0.0:
        return {"versions_per_hour": None, "steps_per_second": None, "rate_over_s": 0.0}
    steps = versions[-1].fleet_steps - versions[0].fleet_steps
    number = versions[-1].version - versions[0].version
    return {
        "versions_per_hour": round(3600.0 * number / seconds, 2),
        "steps_per_second": round(steps / seconds, 2),
        "rate_over_s": round(seconds, 1),
    }


def _peers(store: Store, versions: Sequence[Version], now: float) -> list[Record]:
    """Everybody who has a heartbeat or ever contributed, jobs first."""
    last = _last_beats(store)
    steps: Mapping[str, int] = versions[-1].contributors if versions else {}
    refused = [one.peer for version in versions for one in version.refused]
    inputs = [(version.version, one) for version in versions for one in version.inputs]
    return [
        {
            "peer": name,
            **_beat(last.get(name), now),
            "steps": steps.get(name, 0),
            "share": round(
                sum(one.share for _, one in inputs if one.peer == name) / max(1, len(versions)), 4
            ),
            "counted": max((n for n, one in inputs if one.peer == name), default=None),
            "refused": refused.count(name),
        }
        for name in sorted({*last, *steps, *refused}, key=peer_order)
    ]


def _last_beats(store: Store) -> dict[str, tuple[Pulse, float]]:
    """Each peer's newest process, and when it beat last (wall seconds)."""
    last: dict[str, tuple[Pulse, float]] = {}
    for pulse in sorted(heartbeats.pulses(store), key=lambda one: one.version):
        with contextlib.suppress(OSError):  # swept away since
            beaten = pulse.heartbeat.lstat().st_mtime
            if pulse.peer not in last or int(beaten) >= int(last[pulse.peer][1]):
                last[pulse.peer] = (pulse, beaten)
    return last


def _beat(beat: tuple[Pulse, float] | None, now: float) -> Record:
    if beat is None:
        return {"state": "laptop", "beat_s": None, "stands_on": None}
    pulse, age = beat[0], max(0.0, now - beat[1])
    state = "left" if pulse.left else "lives" if age < SILENCE_S else "silent"
    return {"state": state, "beat_s": round(age, 1), "stands_on": pulse.version}


def _pending(store: Store, head: Version | None, now: float) -> list[Record]:
    found = []
    for one in contributions.pending_of_jobs(store, head):
        with contextlib.suppress(OSError):  # merged and cleared away since
            waits = round(max(0.0, now - one.record.stat().st_mtime), 1)
            named = _fields(one.offer, "peer", "sequence", "base_version", "env_steps")
            found.append({**named, "waits_s": waits})
    return found


def _inbox(store: Store) -> list[Record]:
    """Contributions in each laptop's box; none is opened."""
    found = []
    for box in contributions.boxes(store):
        with contextlib.suppress(OSError):  # a box that cannot be looked into says nothing
            count = sum(entry.name.endswith(".json") for entry in os.scandir(box))
            if count:
                found.append({"peer": box.name, "waiting": count, "bytes": size_of(box)[0]})
    return found


def _friends(store: Store) -> list[Record]:
    """Other accounts that take part, and why nothing can be seen of one."""
    return [
        {"name": box.name, "folder": str(box.paths.root), "counts_as_laptops": box.laptop,
         "trouble": box.trouble() or trust_note(store.paths, box.friend)}
        for box in store.visible()
    ]  # fmt: skip


# -- a laptop


def report_laptop(root: Path, now: float) -> Record:
    """The record of what lies in ``root``; ``now`` in wall seconds. Nones: nothing pulled yet."""
    flaws: list[str] = []
    found = before = None
    with _noted(flaws):
        found = newest_verified(root)
    if found is not None and found.warning:
        flaws.append(found.warning)
    frame = found.frame if found else None
    with contextlib.suppress(DaddyError):
        before = read_frame(root / "wan" / PREVIOUS)
    receipts = read_all_receipts(root)
    return {
        "v": 1,
        "kind": "laptop",
        "folder": str(root),
        **_fields(frame or _NOBODY, *_CARD),
        **_fields(frame, "version"),
        **_newest(frame, now),
        "verified": found is not None and not found.warning,
        "before": None if before is None else before.version,
        "outbox": len(waiting(root)),
        "contributes_as": contributors(root),
        "accepted": sum(one.accepted for one in receipts),
        "refused": [_refusal(one.version, one) for one in receipts if not one.accepted],
        "effect": [effect_of(root, peer) for peer in efforts(root)],
        "disk": disk(root),
        "flaws": flaws,
    }


# -- disk


def disk(root: Path) -> dict[str, dict[str, int]]:
    """Folder below ``root`` → its bytes and files; files in ``root`` itself count as heads."""
    found: dict[str, dict[str, int]] = {}
    with contextlib.suppress(OSError):
        for entry in sorted(os.scandir(root), key=lambda one: one.name):
            if entry.is_dir(follow_symlinks=False):
                name, (size, files) = entry.name, size_of(Path(entry.path))
            else:
                name, size, files = "heads", _size(entry), 1
            kept = found.setdefault(name, {"bytes": 0, "files": 0})
            kept["bytes"] += size
            kept["files"] += files
    return found


def size_of(folder: Path) -> tuple[int, int]:
    """Bytes and files of everything below ``folder`` that can be seen; links are not followed."""
    sizes = list(_sizes(folder))
    return sum(sizes), len(sizes)


def _sizes(folder: Path) -> Iterator[int]:
    with contextlib.suppress(OSError):
        for entry in os.scandir(folder):
            if entry.is_dir(follow_symlinks=False):
                yield from _sizes(Path(entry.path))
            else:
                yield _size(entry)


def _size(entry: os.DirEntry[str]) -> int:
    try:
        return entry.stat(follow_symlinks=False).st_size
    except OSError:
        return 0
