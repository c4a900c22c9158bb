"""Copies of a run where no purge comes: one periodic export, and the reading of such copies.

A copy holds the newest version that verifies, with its record, and the best states of the archive.
It is laid out like a run (``MirrorPaths``), so everything that reads a run reads it. Its card is
written last and names only what is whole. A copy never goes back: where the run has lost what it
holds, it stays.
No torch.

Kill points: C1 to C5 of each file, M1 before a copy's card, M2 after it, M3 after clearing up.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import zip_longest
from pathlib import Path

from Daddy.core.atomic_files import read_bounded, sha256_hex
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.run_paths import MirrorPaths, RunPaths
from Daddy.core.settings import KEPT_VERSIONS
from Daddy.core.shared_weights_paths import JoinedPaths, SharedPaths
from Daddy.weights.commit_history import read_records
from Daddy.weights.store.crash_safe_files import CrashSafeWriter, Hook, no_hook
from Daddy.weights.store.strict_json import LIMIT
from Daddy.weights.store.weight_records import (
    JsonRecord,
    RunCard,
    Version,
    is_reverted,
    parse_record,
)
from Daddy.weights.store.weight_store import Store, version_numbers

RESTORE = "python -m Daddy.weights.restore"
"""The command that brings back what is gone."""

ROOM = 256_000_000
"""Bytes that a run's copy takes at most: two states of the policy (16 MB), and what is left for
the archive. Homes are small."""

MOST_STATES = 1024
"""States of the archive in a copy at most, whatever they weigh."""

STATE_LIMIT = 1 << 20
"""Bytes of the largest archive state that is read."""

_STATE_NAME = re.compile(r"r(\d{3})-([0-9a-f]{16})-.*?(?:h(\d{4})-)?\d{12}-([0-9a-f]{64})\.state")

Read = Callable[[], bytes]
"""Reads the bytes of one file to copy. FileNotFoundError, FileError."""

Files = dict[Path, Read]
"""Files to write and their content, in this order."""


def find_missing(shared: SharedPaths, newest: int, told: Container[int] = ()) -> str:
    """One sentence on files that the ``newest`` versions lack; empty: none.

    It names the remedy where there is one: older records and states do not come back. ``told``:
    versions whose lost record is told elsewhere.
    """
    versions, flaws = read_records(shared, newest)
    if not versions and not flaws:
        return ""
    owners = shared.theirs if isinstance(shared, JoinedPaths) else shared
    records = sum(number not in told and not shared.version(number).exists() for number in flaws)
    states = [owners.blob(one.state).exists() for one in versions]
    said = ["RUN.json is missing"] * (not shared.run.exists())
    said += [f"{records} commit record{'s are' if records > 1 else ' is'} missing"] * bool(records)
    said += [f"{states.count(False)} of {len(states)} states are missing"] * (not all(states))
    remedy = "" if shared.run.exists() and states[-1:] == [True] else f"; {RESTORE}"
    return f"{', '.join(said)}{remedy}" if said else ""


# -- archive states


def hash_in_name(name: str) -> str | None:
    """The hash that the name of an archive's state promises; None for any other file."""
    found = _STATE_NAME.fullmatch(name)
    return None if found is None else found[4]


def archive_states(run: RunPaths) -> dict[Path, int]:
    """The archive's states: path and bytes."""
    found = {}
    for path in sorted(run.archive.glob("*/*.state")):
        with contextlib.suppress(OSError):  # given up meanwhile
            if hash_in_name(path.name):
                found[path] = path.stat().st_size
    return found


def choose_states(states: Mapping[Path, int], room: int, most: int) -> list[Path]:
    """At most ``most`` states in ``room`` bytes, best first; ``states`` maps them to their bytes.

    One of every number of milestones, the most first; then a second of each, elsewhere; and so on.
    Of two at one place the one with more HP is better.
    """
    matches = [(found, path) for path in states if (found := _STATE_NAME.fullmatch(path.name))]
    ranks: dict[str, dict[str, list[Path]]] = {}
    for found, path in sorted(matches, key=lambda match: (match[0][3] or "", match[1])):
        ranks.setdefault(found[1], {}).setdefault(found[2], []).insert(0, path)
    best_first = [_in_turn([places[key] for key in sorted(places)])
                  for _, places in sorted(ranks.items(), reverse=True)]  # fmt: skip
    chosen: list[Path] = []
    for path in _in_turn(best_first):
        if len(chosen) < most and states[path] <= room:
            chosen.append(path)
            room -= states[path]
    return chosen


def _in_turn(rows: Sequence[Sequence[Path]]) -> list[Path]:
    """The first of each row, then the second of each, and so on."""
    return [path for column in zip_longest(*rows) for path in column if path is not None]


def _read_state(path: Path) -> bytes:
    """An archive state; FileError unless its bytes have the hash in its name."""
    data = read_bounded(path, STATE_LIMIT)
    if sha256_hex(data) != hash_in_name(path.name):
        raise FileError(f"{path} does not have the hash in its name", "remove it")
    return data


def state_files(run: RunPaths, states: Iterable[Path]) -> Files:
    """These states, each below the archive of ``run``."""
    return {
        run.archive / path.parent.name / path.name: partial(_read_state, path) for path in states
    }


# -- export


@dataclass(frozen=True, slots=True)
class MirrorCard(JsonRecord):
    """``MIRROR.json``: the run and version of a whole copy. ``source`` is the run's folder."""

    run: str
    run_id: str
    source: str
    version: int
    state: str
    fleet_steps: int
    states: int
    """Archive states that were copied; ``left_out`` found no room."""
    left_out: int
    ts: float


def export_copy(
    run: RunPaths,
    shared: SharedPaths,
    config: bytes,
    folder: Path,
    clock: Clock,
    hook: Hook = no_hook,
    room: int = ROOM,
) -> tuple[MirrorCard | None, str]:
    """Copy what is new into this run's place below ``folder``, of at most ``room`` bytes.

    Returns the copy's card (None: no version yet) and one sentence. OSError: the disk takes no
    more, and the copy of before is whole. WeightsError: nothing verifies, or a state is too large.
    """
    store = Store(shared)
    if store.newest() is None:
        return None, "there is no version yet"
    card, newest = store.card(), newest_verified_version(store, KEPT_VERSIONS)
    if newest is None:
        raise WeightsError(f"no newest version in {shared.root} verifies", RESTORE)
    if 2 * newest.size > room:  # for a moment the next state lies beside the last
        raise WeightsError(
            f"two states such as that of v{newest.version} take {2 * newest.size:,} bytes, a copy "
            f"may have {room:,}",
            "switch the copy off: mirror.minutes 0",
        )
    target = MirrorPaths(folder / f"{card.run}-{card.run_id[:8]}")
    before = read_mirror_card(target)
    if before is not None and before.version > newest.version:
        return before, f"the copy holds v{before.version}, the run v{newest.version}: it stays"
    chosen = choose_states(found := archive_states(run), room - 2 * newest.size, MOST_STATES)
    after = MirrorCard(
        run=card.run,
        run_id=card.run_id,
        source=str(run.root),
        version=newest.version,
        state=newest.state,
        fleet_steps=newest.fleet_steps,
        states=len(chosen),
        left_out=len(found) - len(chosen),
        ts=round(clock.now(), 3),
    )
    files = _weights(store, newest, target.shared) | state_files(target.copied_run, chosen)
    there = _bring(target, files, config, before, after, CrashSafeWriter(target.shared.tmp, hook))
    return there, f"v{after.version} lies in {target.root}"


def newest_verified_version(
    store: Store, depth: int, reverted: Sequence[tuple[int, int]] = ()
) -> Version | None:
    """The newest of ``depth`` versions whose state verifies and that was not taken back."""
    for number in reversed(version_numbers(store.paths)[-depth:]):
        with contextlib.suppress(DaddyError, OSError):
            record = store.version(number)
            reverted = reverted or record.reverted
            if not is_reverted(number, reverted):
                store.read_blob(record.state)
                return record
    return None


def _weights(store: Store, newest: Version, copy: SharedPaths) -> Files:
    """Run card, state and record of a copy."""
    record = store.paths.version(newest.version)
    return {
        copy.run: partial(read_bounded, store.paths.run, LIMIT),
        copy.blob(newest.state): partial(store.read_blob, newest.state),
        copy.version(newest.version): partial(read_bounded, record, LIMIT),
    }


def _bring(
    target: MirrorPaths,
    files: Files,
    config: bytes,
    before: MirrorCard | None,
    after: MirrorCard,
    durable: CrashSafeWriter,
) -> MirrorCard:
    """Write the files that are missing, then the card, then remove what it does not name."""
    _clear(target.shared.tmp.glob("*"), ())  # of a pass that ended early
    if before is not None:
        _clear(target.shared.blobs.glob("*/*.st"), {target.shared.blob(before.state), *files})
    wrote = [write_copy(path, read, durable) for path, read in files.items() if not path.exists()]
    if not target.copied_run.config.exists() or target.copied_run.config.read_bytes() != config:
        durable.replace(target.copied_run.config, config, "config", mode=0o600)
        wrote.append(True)
    if before is None or any(wrote) or replace(before, ts=after.ts) != after:
        durable.hook("M1")
        durable.replace(target.card, after.to_json_bytes(), "mirror")
        durable.hook("M2")
        before = after
    for pattern in ("shared_weights/merged/v*.json", "shared_weights/blobs/*/*.st", "archive/*/*"):
        _clear(target.root.glob(pattern), files)
    durable.hook("M3")
    return before


def file_kind(path: Path) -> str:
    """Kind of a file of a copy, in words."""
    kind = {"RUN.json": "RUN.json", "config.json": "config"}.get(path.name, "commit record")
    return {".st": "state", ".state": "archive state"}.get(path.suffix, kind)


def write_copy(path: Path, read: Read, durable: CrashSafeWriter) -> bool:
    """Create one file of a copy or a restore; False when its bytes are gone or damaged."""
    kind = file_kind(path)
    with contextlib.suppress(FileNotFoundError, FileError):  # given up meanwhile, or damaged
        return durable.create(path, read(), kind, mode=0o600 if kind == "config" else 0o444)
    return False


def _clear(paths: Iterable[Path], kept: Iterable[Path]) -> None:
    for path in {*paths}.difference(kept):
        with contextlib.suppress(OSError):
            path.unlink()


def read_mirror_card(target: MirrorPaths) -> MirrorCard | None:
    """A copy's card; None where there is no whole copy."""
    try:
        found = parse_record(MirrorCard, read_bounded(target.card, LIMIT), str(target.card))
    except (FileNotFoundError, NotADirectoryError, DaddyError):
        return None
    blob, record = target.shared.blob(found.state), target.shared.version(found.version)
    return found if blob.exists() and record.exists() else None


def newest_copy(folder: Path, run: RunPaths, card: RunCard | None) -> Path | None:
    """The newest copy of this run below ``folder``: by its card, or by where it was."""
    found = []
    for path in folder.glob("*/"):
        copy = read_mirror_card(MirrorPaths(path))
        if copy and (copy.run_id == card.run_id if card else copy.source == str(run.root)):
            found.append((copy.ts, path))
    return max(found, default=(0.0, None))[1]
