"""Reports the state of shared weights as one record: a run's, or a laptop's. No torch.

Reads only, and never fails for content that others wrote: damage is named under ``flaws``. A job
counts as alive by the age of its heartbeat's file on this machine's clock, because a single reading
cannot show that a counter stands still. A laptop's record needs no connection.
"""

import contextlib
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from Daddy.core.atomic_files import read_json
from Daddy.core.errors import DaddyError
from Daddy.core.friend_accounts import trust_note
from Daddy.core.humanize import printable_line
from Daddy.core.settings import KEPT_VERSIONS
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.backup import find_missing
from Daddy.weights.commit_history import read_records
from Daddy.weights.exchange_settings import SILENCE_S
from Daddy.weights.laptop.laptop_totals import peers_with_totals, summarise_effect
from Daddy.weights.laptop.pull_push import folder_usage, list_outbox, outbox_peers
from Daddy.weights.laptop.pulled_folder import newest_verified, read_all_receipts
from Daddy.weights.lineage import REFUSAL, Record, fields, peer_order
from Daddy.weights.locate_shared_weights import no_weights_error
from Daddy.weights.merge import contributions
from Daddy.weights.store import heartbeats
from Daddy.weights.store.weight_records import LaptopHead, RunCard, Version
from Daddy.weights.store.weight_store import Store

RECENT = 32
"""Newest versions from which rates and refusals are reported."""

_CARD = ("run", "run_id", "workload", "schema", "assists")
_NO_CARD = RunCard("", "", "", "")


def _newest(source: Version | LaptopHead | None, now: float) -> Record:
    """Return age, time, steps and bytes of a version as a record; each None without ``source``."""
    age = None if source is None else round(max(0.0, now - source.ts), 1)
    size = None if source is None else source.size
    return {**fields(source, "ts", "fleet_steps"), "age_s": age, "bytes": size}


@contextlib.contextmanager
def _noted(flaws: list[str]) -> Iterator[None]:
    try:
        yield
    except DaddyError as error:
        flaws.append(error.message)


# -- a run


def report_run(shared: SharedPaths, now: float) -> Record:
    """Return a run's record; ``now`` in wall seconds. Raise WeightsError without any version."""
    store = Store(shared)
    newest = store.newest()
    if newest is None:
        raise no_weights_error(shared.root)
    versions, flawed = read_records(shared, RECENT)
    head, flaws = (versions[-1] if versions else None), [*flawed.values()]
    card, verified = _NO_CARD, False
    with _noted(flaws):
        card = store.card()
    with _noted(flaws):
        verified = head is not None and bool(store.read_blob(head.state))
    if missing := find_missing(shared, min(RECENT, KEPT_VERSIONS), flawed):
        flaws.append(missing)
    return {
        "v": 1,
        "kind": "run",
        "folder": str(shared.root),
        **fields(card, *_CARD),
        "version": newest,
        "readable": head.version if head else None,
        **_newest(head, now),
        **fields(head, "rule", "merger"),
        "verified": verified,
        **_rate(versions),
        "peers": _peers(store, versions, now),
        "pending": _pending(store, head, now),
        "inbox": _inbox(store, head.size if head else 0, now),
        "friends": _friends(store),
        "refused": [
            {"version": record.version, **fields(refusal, *REFUSAL)}
            for record in versions
            for refusal in record.refused
        ],
        "reverted": [
            {"version": record.version, **fields(revert, "first", "last", "good", "reason")}
            for record in versions
            for revert in record.reverts
        ],
        "disk": folder_usage(shared.root),
        "flaws": flaws,
    }


def _rate(versions: Sequence[Version]) -> Record:
    """Return versions an hour and steps a second of ``versions``; None for fewer than two."""
    seconds = versions[-1].ts - versions[0].ts if versions else 0.0
    if seconds <= 0.0:
        return {"versions_per_hour": None, "steps_per_second": None, "rate_over_s": 0.0}
    steps = versions[-1].fleet_steps - versions[0].fleet_steps
    return {
        "versions_per_hour": round(3600.0 * (len(versions) - 1) / seconds, 2),
        "steps_per_second": round(steps / seconds, 2),
        "rate_over_s": round(seconds, 1),
    }


def _peers(store: Store, versions: Sequence[Version], now: float) -> list[Record]:
    """Return every peer that has a heartbeat or ever contributed, jobs first."""
    beats = _newest_processes(store, now)
    steps: Mapping[str, int] = versions[-1].contributors if versions else {}
    refused = Counter(refusal.peer for version in versions for refusal in version.refused)
    counted = {merged.peer: version.version for version in versions for merged in version.inputs}
    shares: dict[str, float] = defaultdict(float)
    for merged in (merged for version in versions for merged in version.inputs):
        shares[merged.peer] += merged.share
    return [
        {
            "peer": name,
            **beats.get(name, {"state": "laptop", "beat_s": None, "stands_on": None}),
            "steps": steps.get(name, 0),
            "share": round(shares[name] / max(1, len(versions)), 4),
            "counted": counted.get(name),
            "refused": refused[name],
        }
        for name in sorted({*beats, *steps, *refused}, key=peer_order)
    ]


def _newest_processes(store: Store, now: float) -> dict[str, Record]:
    """Return the newest process of each peer: state, age of its heartbeat, its base version."""
    beats = []
    for heartbeat in heartbeats.read_heartbeats(store):
        with contextlib.suppress(OSError):  # removed meanwhile
            beats.append((heartbeat.heartbeat.lstat().st_mtime, heartbeat))
    states = {}
    for written, heartbeat in sorted(beats, key=lambda beat: (int(beat[0]), beat[1].version)):
        age = round(max(0.0, now - written), 1)
        state = "left" if heartbeat.left else "lives" if age < SILENCE_S else "silent"
        states[heartbeat.peer] = {"state": state, "beat_s": age, "stands_on": heartbeat.version}
    return states


def _pending(store: Store, head: Version | None, now: float) -> list[Record]:
    pending = []
    for offer in contributions.pending_of_jobs(store, head):
        with contextlib.suppress(OSError):  # merged and removed meanwhile
            waits = round(max(0.0, now - offer.record.stat().st_mtime), 1)
            named = fields(offer.offer, "peer", "sequence", "base_version", "env_steps")
            pending.append({**named, "waits_s": waits})
    return pending


def _inbox(store: Store, state_bytes: int, now: float) -> list[Record]:
    """Return each laptop's box that is not empty, or whose key was refused a request today: number
    and bytes of contributions (no file is opened), most bytes allowed, refusals and the last one.
    """
    sizes = folder_usage(store.paths.inbox)
    limit = contributions.box_limit(contributions.largest_state(state_bytes))
    boxes = [
        {"peer": box.name, "waiting": len([*box.glob("*.json")]), "limit": limit,
         "bytes": sizes.get(box.name, {}).get("bytes", 0), **_key_note(store, box.name, now)}
        for box in contributions.laptop_boxes(store)
    ]  # fmt: skip
    return [box for box in boxes if box["waiting"] or box["bytes"] or box["refused"]]


def _key_note(store: Store, peer: str, now: float) -> Record:
    """Return the refusals that the key's command noted today (UTC)."""
    day, note = time.strftime("%Y-%m-%d", time.gmtime(now)), {}
    with contextlib.suppress(FileNotFoundError, DaddyError):
        note = read_json(store.paths.inbox / ".keys" / f"{peer}.json")
    refused = note.get("refused") if note.get("day") == day else 0
    number = refused if isinstance(refused, int) else 0
    return {"refused": number, "last": printable_line(str(note.get("last", ""))) * bool(number)}


def _friends(store: Store) -> list[Record]:
    """Return the run's friends, each with the reason if their folder cannot be read."""
    return [
        {"name": box.owner_name, "folder": str(box.paths.root), "counts_as_laptops": box.laptop,
         "trouble": box.problem() or trust_note(store.paths, box.friend)}
        for box in store.friend_outboxes()
    ]  # fmt: skip


# -- a laptop


def report_laptop(root: Path, now: float) -> Record:
    """Return a laptop folder's record; ``now`` in wall seconds. Unknown figures are None."""
    flaws: list[str] = []
    pulled = None
    with _noted(flaws):
        pulled = newest_verified(root)
    if pulled is not None and pulled.warning:
        flaws.append(pulled.warning)
    head, receipts = (pulled.head if pulled else None), read_all_receipts(root)
    return {
        "v": 1,
        "kind": "laptop",
        "folder": str(root),
        **fields(head or _NO_CARD, *_CARD),
        **fields(head, "version"),
        **_newest(head, now),
        "verified": pulled is not None and not pulled.warning,
        "outbox": len(list_outbox(root)),
        "contributes_as": outbox_peers(root),
        "accepted": sum(receipt.accepted for receipt in receipts),
        "refused": [
            fields(receipt, "version", *REFUSAL) for receipt in receipts if not receipt.accepted
        ],
        "effect": [asdict(summarise_effect(root, peer)) for peer in peers_with_totals(root)],
        "disk": folder_usage(root),
        "flaws": flaws,
    }
