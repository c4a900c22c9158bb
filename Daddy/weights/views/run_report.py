"""How a run's shared weights stand, as one record for ``status`` and scripts. No torch.

Reads only, and never fails for what others wrote: what is damaged is named under ``flaws``. Whether
a job lives is judged by the age of its heartbeat's file on this machine's clock: a single look
cannot watch a counter stand still.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Sequence
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.core.friend_accounts import trust_note
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import beats, offers
from Daddy.weights.backup import find_missing_states
from Daddy.weights.beats import Pulse
from Daddy.weights.history import read_records
from Daddy.weights.store.records import Receipt, Refusal, Version
from Daddy.weights.store.store import Store
from Daddy.weights.views.lineage import peer_order
from Daddy.weights.views.usage import disk, size_of
from Daddy.weights.weighting import SILENCE_S
from Daddy.weights.whereabouts import nothing_in

RECENT = 32
"""Versions that count as of late, for the rate and the refusals."""

KEPT = 8
"""Versions whose states are looked for: as many as `collaboration.keep_versions` has unless set."""

Record = dict[str, Any]


def report_run(shared: SharedPaths, now: float) -> Record:
    """The record; ``now`` in wall seconds. WeightsError when there is no version at all."""
    store = Store(shared)
    newest = store.newest()
    if newest is None:
        raise nothing_in(shared.root)
    first = max(0, newest - RECENT + 1)
    records = read_records(shared, _existing(store, first, newest), first)
    flaws = [flaw.said for flaw in records.flaws]
    head = records.versions[-1] if records.versions else None
    verified = head is not None and _verifies(store, head, flaws)
    flaws += [missing] if (missing := find_missing_states(shared, KEPT)) else []
    return {
        "v": 1,
        "kind": "run",
        "folder": str(shared.root),
        **_card(store, flaws),
        "version": newest,
        **_newest(head, now),
        "verified": verified,
        **_rate(records.versions),
        "peers": _peers(store, records.versions, now),
        "pending": _pending(store, head, now),
        "inbox": _inbox(store),
        "friends": _friends(store),
        "refused": _refused(records.versions),
        "reverted": [_reverted(one) for one in records.versions if one.reverts],
        "disk": disk(shared.root),
        "flaws": flaws,
    }


def _existing(store: Store, first: int, newest: int) -> list[int]:
    return [one for one in range(first, newest + 1) if store.paths.version(one).exists()]


def _card(store: Store, flaws: list[str]) -> Record:
    try:
        card = store.card()
    except DaddyError as error:
        flaws.append(error.message)
        return {"run": "", "run_id": "", "workload": "", "schema": "", "assists": []}
    return {
        "run": card.run,
        "run_id": card.run_id,
        "workload": card.workload,
        "schema": card.schema,
        "assists": list(card.assists),
    }


def _newest(head: Version | None, now: float) -> Record:
    """What the newest readable record says; Nones where none can be read."""
    return {
        "readable": None if head is None else head.version,
        "age_s": None if head is None else round(max(0.0, now - head.ts), 1),
        "ts": None if head is None else head.ts,
        "fleet_steps": None if head is None else head.fleet_steps,
        "bytes": None if head is None else head.size,
        "rule": None if head is None else head.rule,
        "merger": None if head is None else head.merger,
    }


def _verifies(store: Store, head: Version, flaws: list[str]) -> bool:
    """Whether the newest state's bytes have the hash that its record names."""
    try:
        store.get_blob(head.state)
    except DaddyError as error:
        flaws.append(error.message)
        return False
    return True


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
    steps = versions[-1].contributors if versions else {}
    refused = {one.peer for version in versions for one in version.refused}
    names = sorted({*last, *steps, *refused}, key=peer_order)
    return [_peer(name, last.get(name), steps.get(name, 0), versions, now) for name in names]


def _last_beats(store: Store) -> dict[str, tuple[Pulse, float]]:
    """Each peer's newest process, and when it beat last (wall seconds)."""
    last: dict[str, tuple[Pulse, float]] = {}
    for pulse in sorted(beats.pulses(store), key=lambda one: one.version):
        with contextlib.suppress(OSError):  # swept away since
            beaten = pulse.path.lstat().st_mtime
            if pulse.peer not in last or int(beaten) >= int(last[pulse.peer][1]):
                last[pulse.peer] = (pulse, beaten)
    return last


def _peer(
    name: str,
    beat: tuple[Pulse, float] | None,
    steps: int,
    versions: Sequence[Version],
    now: float,
) -> Record:
    pulse, age = (beat[0], max(0.0, now - beat[1])) if beat else (None, None)
    state = "laptop" if pulse is None or age is None else _state(pulse, age)
    share = sum(one.share for version in versions for one in version.inputs if one.peer == name)
    counted = [one.version for one in versions if any(part.peer == name for part in one.inputs)]
    return {
        "peer": name,
        "state": state,
        "beat_s": None if age is None else round(age, 1),
        "stands_on": None if pulse is None else pulse.version,
        "steps": steps,
        "share": round(share / max(1, len(versions)), 4),
        "counted": counted[-1] if counted else None,
        "refused": sum(o.peer == name for version in versions for o in version.refused),
    }


def _state(pulse: Pulse, age: float) -> str:
    if pulse.left:
        return "left"
    return "lives" if age < SILENCE_S else "silent"


def _pending(store: Store, head: Version | None, now: float) -> list[Record]:
    consumed = {} if head is None else {author: one[0] for author, one in head.consumed.items()}
    found = []
    for one in offers.pending_of_jobs(store, consumed):
        with contextlib.suppress(OSError):  # merged and cleared away since
            found.append({
                "peer": one.offer.peer,
                "sequence": one.offer.sequence,
                "base_version": one.offer.base_version,
                "env_steps": one.offer.env_steps,
                "waits_s": round(max(0.0, now - one.record.stat().st_mtime), 1),
            })  # fmt: skip
    return found


def _inbox(store: Store) -> list[Record]:
    """What waits in each laptop's box; nothing in it is opened."""
    found = []
    for box in offers.boxes(store):
        with contextlib.suppress(OSError):  # a box that cannot be looked into says nothing
            files = [entry for entry in os.scandir(box) if entry.name.endswith(".json")]
            if files:
                found.append({"peer": box.name, "waiting": len(files), "bytes": size_of(box)[0]})
    return found


def _friends(store: Store) -> list[Record]:
    """Other accounts that take part, and why nothing can be seen of one."""
    return [
        {"name": box.name, "folder": str(box.paths.root), "counts_as_laptops": box.laptop,
         "trouble": box.trouble() or trust_note(store.paths, box.friend)}
        for box in store.visible()
    ]  # fmt: skip


def _refused(versions: Sequence[Version]) -> list[Record]:
    return [refusal(version.version, one) for version in versions for one in version.refused]


def _reverted(record: Version) -> Record:
    """What this version took back, and why."""
    revert = record.reverts[0]
    return {
        "version": record.version,
        "first": revert.first,
        "last": revert.last,
        "good": revert.good,
        "reason": revert.reason,
    }


def refusal(version: int, one: Refusal | Receipt) -> Record:
    """A refusal as the record has it."""
    return {
        "version": version,
        "peer": one.peer,
        "sequence": one.sequence,
        "fault": one.fault,
        "reason": one.reason,
    }
