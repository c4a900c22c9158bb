"""Adapter for mirrors: copies of a run outside the file system that the site purges. No torch.

A mirror holds the newest version that verifies, with its commit record, and the best save states of
the archive. It is laid out like a run (``MirrorPaths``), so every reader of a run reads it too.
``MIRROR.json`` is written last and names only complete files. A mirror newer than the run stays as
it is. Tests kill the process at C1 to C5 of each file, at M1 before ``MIRROR.json``, M2 after it,
M3 after old files are removed.
"""

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
from Daddy.weights.store.weight_records import JsonRecord, RunCard, Version, is_reverted, parse
from Daddy.weights.store.weight_store import Store, version_numbers

RESTORE = "python -m Daddy.weights.restore"
"""Command that brings back lost files."""

ROOM = 256_000_000
"""Largest size of a run's copy in bytes: two states of the policy (16 MB), the rest for the
archive. Home directories are small."""

MOST_STATES = 1024
"""Most archive states in a copy, whatever their size."""

STATE_LIMIT = 1 << 20
"""Bytes of the largest archive state that is read."""

_STATE_NAME = re.compile(r"r(\d{3})-([0-9a-f]{16})-.*?(?:h(\d{4})-)?\d{12}-([0-9a-f]{64})\.state")

Read = Callable[[], bytes]
"""Reads the bytes of one file to copy. FileNotFoundError, FileError."""

Files = dict[Path, Read]
"""Files to write and the reader of their content, in this order."""


def find_missing(shared: SharedPaths, newest: int, reported: Container[int] = ()) -> str:
    """Return one sentence on files that the ``newest`` versions lack (``RUN.json``, commit records,
    states), with the restore command if that can bring them back; empty if none is missing.
    ``reported``: versions whose lost record is reported elsewhere.
    """
    versions, flaws = read_records(shared, newest)
    if not versions and not flaws:
        return ""
    owners = shared.theirs if isinstance(shared, JoinedPaths) else shared
    lost = (not shared.version(number).exists() for number in flaws if number not in reported)
    records = sum(lost)
    states = [owners.blob(record.state).exists() for record in versions]
    parts = ["RUN.json is missing"] * (not shared.run.exists())
    parts += [f"{records} commit record{'s are' if records > 1 else ' is'} missing"] * bool(records)
    parts += [f"{states.count(False)} of {len(states)} states are missing"] * (not all(states))
    remedy = "" if shared.run.exists() and states[-1:] == [True] else f"; {RESTORE}"
    return f"{', '.join(parts)}{remedy}" if parts else ""


# -- archive states


def hash_in_name(name: str) -> str | None:
    """Return the hash in the name of an archive state; None for any other file."""
    match = _STATE_NAME.fullmatch(name)
    return None if match is None else match[4]


def archive_states(run: RunPaths) -> dict[Path, int]:
    """Return the path and size in bytes of every save state in the archive of ``run``."""
    sizes = {}
    for path in sorted(run.archive.glob("*/*.state")):
        with contextlib.suppress(OSError):  # removed meanwhile
            if hash_in_name(path.name):
                sizes[path] = path.stat().st_size
    return sizes


def choose_states(states: Mapping[Path, int], room: int, most: int) -> list[Path]:
    """Choose at most ``most`` save states that fit ``room`` bytes, best first; ``states`` gives
    their bytes. First one per number of milestones, the highest number first; then a second one
    each, at another place of the game; and so on. At one place the state with more HP comes first.
    """
    matches = [(match, path) for path in states if (match := _STATE_NAME.fullmatch(path.name))]
    ranks: dict[str, dict[str, list[Path]]] = {}
    for match, path in sorted(matches, key=lambda pair: (pair[0][3] or "", pair[1])):
        ranks.setdefault(match[1], {}).setdefault(match[2], []).insert(0, path)
    best_first = [
        _in_turn([places[key] for key in sorted(places)])
        for _, places in sorted(ranks.items(), reverse=True)
    ]
    chosen: list[Path] = []
    for path in _in_turn(best_first):
        if len(chosen) < most and states[path] <= room:
            chosen.append(path)
            room -= states[path]
    return chosen


def _in_turn(rows: Sequence[Sequence[Path]]) -> list[Path]:
    """Return the first of each row, then the second of each, and so on."""
    return [path for column in zip_longest(*rows) for path in column if path is not None]


def _read_state(path: Path) -> bytes:
    """Read a save state of the archive. Raise FileError unless it has the hash in its name."""
    data = read_bounded(path, STATE_LIMIT)
    if sha256_hex(data) != hash_in_name(path.name):
        raise FileError(f"{path} does not have the hash in its name", "remove that file")
    return data


def state_files(run: RunPaths, states: Iterable[Path]) -> Files:
    """Return each state's path in the archive of ``run`` with a function that reads it."""
    return {
        run.archive / path.parent.name / path.name: partial(_read_state, path) for path in states
    }


# -- export


@dataclass(frozen=True, slots=True)
class MirrorCard(JsonRecord):
    """``MIRROR.json``: the run and version of a complete mirror. ``source`` is the run's folder."""

    run: str
    run_id: str
    source: str
    version: int
    state: str
    fleet_steps: int
    states: int
    """Archive states that were copied; ``left_out``: states that did not fit."""
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
    """Copy new files of a run into its mirror below ``folder``, within ``room`` bytes; return the
    mirror's card (None before the first version) and a message. Raise OSError on a full disk;
    WeightsError when no version verifies or a state is too large. The old mirror stays complete.
    """
    store = Store(shared)
    if store.newest() is None:
        return None, "there is no version yet"
    card, newest = store.card(), newest_verified_version(store, KEPT_VERSIONS)
    if newest is None:
        raise WeightsError(f"none of the newest versions in {shared.root} verifies", RESTORE)
    if 2 * newest.size > room:  # old and new state exist together while copying
        raise WeightsError(
            f"two v{newest.version} states: {2 * newest.size:,} bytes, a mirror may have {room:,}",
            "switch the mirror off: set mirror.minutes to 0",
        )
    target = MirrorPaths(folder / f"{card.run}-{card.run_id[:8]}")
    before = read_mirror_card(target)
    if before is not None and before.version > newest.version:
        return before, f"the copy holds v{before.version}, the run v{newest.version}: it stays"
    chosen = choose_states(states := archive_states(run), room - 2 * newest.size, MOST_STATES)
    after = MirrorCard(
        run=card.run,
        run_id=card.run_id,
        source=str(run.root),
        ts=round(clock.now(), 3),
        version=newest.version,
        state=newest.state,
        fleet_steps=newest.fleet_steps,
        states=len(chosen),
        left_out=len(states) - len(chosen),
    )
    files = _weights(store, newest, target.shared) | state_files(target.copied_run, chosen)
    writer = CrashSafeWriter(target.shared.tmp, hook)
    written = _write_files(target, files, config, before, after, writer)
    return written, f"v{after.version} lies in {target.root}"


def newest_verified_version(
    store: Store, depth: int, reverted: Sequence[tuple[int, int]] = ()
) -> Version | None:
    """Return the newest of ``depth`` versions that verifies and is not reverted, or None."""
    for number in reversed(version_numbers(store.paths)[-depth:]):
        with contextlib.suppress(DaddyError, OSError):
            record = store.version(number)
            reverted = reverted or record.reverted
            if not is_reverted(number, reverted):
                store.read_blob(record.state)
                return record
    return None


def _weights(store: Store, newest: Version, copy: SharedPaths) -> Files:
    """Return ``RUN.json``, state and commit record of ``newest`` as files to put into ``copy``."""
    record = store.paths.version(newest.version)
    return {
        copy.run: partial(read_bounded, store.paths.run, LIMIT),
        copy.blob(newest.state): partial(store.read_blob, newest.state),
        copy.version(newest.version): partial(read_bounded, record, LIMIT),
    }


def _write_files(
    target: MirrorPaths,
    files: Files,
    config: bytes,
    before: MirrorCard | None,
    after: MirrorCard,
    writer: CrashSafeWriter,
) -> MirrorCard:
    """Write missing files, then ``MIRROR.json`` if anything changed; remove all other files."""
    _remove(target.shared.tmp.glob("*"), ())  # of an interrupted copy
    if before is not None:
        _remove(target.shared.blobs.glob("*/*.st"), {target.shared.blob(before.state), *files})
    wrote = [write_copy(path, read, writer) for path, read in files.items() if not path.exists()]
    if not target.copied_run.config.exists() or target.copied_run.config.read_bytes() != config:
        writer.replace(target.copied_run.config, config, "config", mode=0o600)
        wrote.append(True)
    if before is None or any(wrote) or replace(before, ts=after.ts) != after:
        writer.hook("M1")
        writer.replace(target.card, after.to_json_bytes(), "mirror")
        writer.hook("M2")
        before = after
    target.root.chmod(0o700)  # a release before made it readable for others
    for pattern in ("shared_weights/merged/v*.json", "shared_weights/blobs/*/*.st", "archive/*/*"):
        _remove(target.root.glob(pattern), files)
    writer.hook("M3")
    return before


def file_kind(path: Path) -> str:
    """Return the kind of a file in a mirror, such as "archive state"."""
    kind = {"RUN.json": "RUN.json", "config.json": "config"}.get(path.name, "commit record")
    return {".st": "state", ".state": "archive state"}.get(path.suffix, kind)


def write_copy(path: Path, read: Read, writer: CrashSafeWriter) -> bool:
    """Create ``path`` with the bytes of ``read``; return False if that fails or ``path`` exists."""
    kind = file_kind(path)
    with contextlib.suppress(FileNotFoundError, FileError):  # removed meanwhile, or damaged
        return writer.create(path, read(), kind, mode=0o600 if kind == "config" else 0o444)
    return False


def _remove(paths: Iterable[Path], kept: Iterable[Path]) -> None:
    for path in {*paths}.difference(kept):
        with contextlib.suppress(OSError):
            path.unlink()


def read_mirror_card(target: MirrorPaths) -> MirrorCard | None:
    """Return the mirror's card; None if there is none, or if a file that it names is missing."""
    try:
        card = parse(MirrorCard, read_bounded(target.card, LIMIT), str(target.card))
    except (FileNotFoundError, NotADirectoryError, DaddyError):
        return None
    blob, record = target.shared.blob(card.state), target.shared.version(card.version)
    return card if blob.exists() and record.exists() else None


def newest_copy(folder: Path, run: RunPaths, card: RunCard | None) -> Path | None:
    """Return the newest mirror of this run below ``folder``, by its card or source folder."""
    copies = []
    for path in folder.glob("*/"):
        copy = read_mirror_card(MirrorPaths(path))
        if copy and (copy.run_id == card.run_id if card else copy.source == str(run.root)):
            copies.append((copy.ts, path))
    return max(copies, default=(0.0, None))[1]
