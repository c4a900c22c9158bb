"""Copies of a run where no purge comes: one periodic export, and a restore from such copies.

A copy holds the newest version that verifies and the best states of the archive. It is laid out
like a run (``MirrorPaths``), so everything that reads a run reads it. Its card is written last and
names only what is whole. A copy never goes back: where the run has lost what it holds, it stays.

A restore goes on from the newest state that verifies anywhere. Nobody can know which versions were
made and lost: a merger that was frozen may commit the next number any day, a laptop may stand on
one that nothing here names. So a run that lost anything at its top leaps to a number ten thousand
higher. No torch.

Kill points: C1 to C5 of each file, M1 before a copy's card, M2 after it, M3 after clearing up.
"""

from __future__ import annotations

import contextlib
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.paths import MirrorPaths, RunPaths
from Daddy.core.shared_paths import JoinedPaths, SharedPaths
from Daddy.weights.history import numbers, read_records
from Daddy.weights.laptop.pulled_folder import PREVIOUS, newest_verified, read_frame
from Daddy.weights.store import heartbeats
from Daddy.weights.store.durable import Durable, Hook, no_hook
from Daddy.weights.store.records import Keyframe, RunCard, Version, Written, is_reverted, parse
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import LIMIT

RESTORE = "python -m Daddy.weights.restore"
"""The command that brings back what is gone."""

RECORDS = 8
"""Commit records in a copy: the newest says all totals, those before it are its past."""

MOST_STATES = 1024
"""States of the archive in a copy at most, whatever they weigh."""

STATE_LIMIT = 1 << 20
"""Bytes of the largest archive state that is read."""

LEAP = 10_000
"""Numbers between what was known and what follows, at least: at a version each five seconds, half a
day that nobody told of. Eight digits are room for thousands of restores."""

HIGHEST = 99_000_000
"""Numbers beyond it no honest file names: their names have eight digits."""

DEPTH = 64
"""Records that are looked at for a state that verifies, the newest first."""

_STATE_NAME = re.compile(r"r(\d{3})-([0-9a-f]{16})-.*?(?:h(\d{4})-)?\d{12}-([0-9a-f]{64})\.state")


# -- missing files


def find_missing(shared: SharedPaths, keep: int) -> str:
    """One sentence on files that the newest ``keep`` versions lack, by their names; empty: none."""
    newest = numbers(shared)[-keep:]
    if not newest:
        return ""
    flaws = read_records(shared, newest, newest[0]).flaws
    records = sum(not shared.version(flaw.version).exists() for flaw in flaws)
    said = ["RUN.json is missing"] * (not shared.run.exists())
    said += [f"{records} commit record{'s are' if records > 1 else ' is'} missing"] * bool(records)
    return _with_remedy([*said, *_missing_states(shared, newest)])


def find_missing_states(shared: SharedPaths, keep: int) -> str:
    """The same on states alone."""
    return _with_remedy(_missing_states(shared, numbers(shared)[-keep:]))


def _missing_states(shared: SharedPaths, newest: Sequence[int]) -> list[str]:
    owners = shared.theirs if isinstance(shared, JoinedPaths) else shared
    store, without = Store(shared), 0
    for number in newest:
        with contextlib.suppress(DaddyError):  # status names a damaged record
            without += not owners.blob(store.version(number).state).exists()
    many = f"{len(newest)} state{'s are' if len(newest) > 1 else ' is'}"
    return [f"{without} of {many} missing"] if without else []


def _with_remedy(said: Sequence[str]) -> str:
    return f"{', '.join(said)}; {RESTORE}" if said else ""


# -- archive states


def hash_in(name: str) -> str | None:
    """The hash that the name of an archive's state promises; None for any other file."""
    found = _STATE_NAME.fullmatch(name)
    return None if found is None else found[4]


def choose(files: Iterable[tuple[str, int]], room: int, most: int) -> list[str]:
    """Names of at most ``most`` states in ``room`` bytes, best first, of (name, bytes).

    One of every number of milestones, the most first; then a second of each, elsewhere; and so on.
    Of two at one place the one with more HP is better.
    """
    chosen: list[str] = []
    for name, size in _best_first(files):
        if len(chosen) < most and size <= room:
            chosen.append(name)
            room -= size
    return chosen


def _best_first(files: Iterable[tuple[str, int]]) -> list[tuple[str, int]]:
    ranks: dict[int, dict[str, list[tuple[int, str, int]]]] = defaultdict(lambda: defaultdict(list))
    for name, size in files:
        if found := _STATE_NAME.fullmatch(name):
            ranks[int(found[1])][found[2]].append((int(found[3] or 0), name, size))
    turns = []
    for rank, places in ranks.items():
        by_depth = sorted(
            (depth, place, name, size)
            for place, states in places.items()
            for depth, (_, name, size) in enumerate(sorted(states, reverse=True))
        )  # every place once before any place twice
        turns += [(turn, -rank, name, size) for turn, (*_, name, size) in enumerate(by_depth)]
    return [(name, size) for *_, name, size in sorted(turns)]


def read_state(path: Path) -> bytes:
    """An archive state; FileError unless its bytes have the hash in its name."""
    data = read_bounded(path, STATE_LIMIT)
    if sha256_hex(data) != hash_in(path.name):
        raise FileError(f"{path} does not have the hash in its name", "remove it")
    return data


# -- export

Read = Callable[[], bytes]
"""Reads the bytes of one file to copy. FileNotFoundError, FileError."""


@dataclass(frozen=True, slots=True)
class MirrorCard(Written):
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


def export(
    run: RunPaths,
    shared: SharedPaths,
    config: bytes,
    folder: Path,
    *,
    room: int,
    keep: int,
    clock: Clock,
    hook: Hook = no_hook,
) -> tuple[MirrorCard | None, str]:
    """Copy what is new into this run's place below ``folder``, of at most ``room`` bytes.

    Returns the copy's card (None: no version yet) and one sentence. ``keep``: versions back among
    which a state is looked for. OSError: the disk takes no more, and the copy of before is whole.
    WeightsError: nothing verifies, or a state is too large.
    """
    store = Store(shared)
    if store.newest() is None:
        return None, "there is no version yet"
    card, newest = store.card(), _newest_whole(store, keep)
    _refuse_small(newest, room)
    target = MirrorPaths(folder / f"{card.run}-{card.run_id[:8]}")
    before = read_mirror(target)
    if before is not None and before.version > newest.version:
        return before, f"the copy holds v{before.version}, the run v{newest.version}: it stays"
    found = states_of(run)
    sizes = ((name, size) for name, (_, size) in found.items())
    chosen = choose(sizes, room - 2 * newest.size, MOST_STATES)
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
    files = _weights(store, after, target.shared)
    for path in (found[name][0] for name in chosen):
        files[target.run.archive / path.parent.name / path.name] = partial(read_state, path)
    card_there = _bring(target, files, config, before, after, hook)
    return card_there, f"v{after.version} lies in {target.root}"


def _bring(
    target: MirrorPaths,
    files: Mapping[Path, Read],
    config: bytes,
    before: MirrorCard | None,
    after: MirrorCard,
    hook: Hook,
) -> MirrorCard:
    """Write the files that are missing, then the card, then remove what it does not name."""
    durable = Durable(target.shared.tmp, hook)
    _clear(target.shared.tmp.glob("*"), ())  # of a pass that ended early
    if before is not None:
        _clear(target.shared.blobs.glob("*/*.st"), {target.shared.blob(before.state), *files})
    wrote = [write_copy(path, read, durable) for path, read in files.items() if not path.exists()]
    if not target.run.config.exists() or target.run.config.read_bytes() != config:
        durable.replace(target.run.config, config, "config", mode=0o600)
        wrote.append(True)
    if before is None or any(wrote) or replace(before, ts=after.ts) != after:
        durable.hook("M1")
        durable.replace(target.card, after.to_bytes(), "mirror")
        durable.hook("M2")
        before = after
    for pattern in ("shared_weights/merged/v*.json", "shared_weights/blobs/*/*.st", "archive/*/*"):
        _clear(target.root.glob(pattern), files)
    durable.hook("M3")
    return before


def read_mirror(target: MirrorPaths) -> MirrorCard | None:
    """A copy's card; None where there is no whole copy."""
    try:
        found = parse(MirrorCard, read_bounded(target.card, LIMIT), str(target.card))
    except (FileNotFoundError, NotADirectoryError, DaddyError):
        return None
    blob, record = target.shared.blob(found.state), target.shared.version(found.version)
    return found if blob.exists() and record.exists() else None


def copies_of(folder: Path, run: RunPaths, card: RunCard | None) -> list[Path]:
    """Copies below ``folder`` of this run, newest first: by its card, or by where it was."""
    found = []
    with contextlib.suppress(FileNotFoundError, NotADirectoryError):
        for path in folder.iterdir():
            known = read_mirror(MirrorPaths(path))
            if known is None:
                continue
            ours = known.source == str(run.root) if card is None else known.run_id == card.run_id
            found += [(known.ts, path)] if ours else []
    return [path for _, path in sorted(found, reverse=True)]


def _newest_whole(store: Store, keep: int) -> Version:
    """The newest version whose state verifies and that was not taken back; WeightsError: none."""
    error: WeightsError | None = None
    reverted: Sequence[tuple[int, int]] = ()
    for number in reversed(numbers(store.paths)[-keep:]):
        try:
            record = store.version(number)
            reverted = reverted or record.reverted
            if not is_reverted(number, reverted):
                store.get_blob(record.state)
                return record
        except WeightsError as found:
            error = error or found
    raise error or WeightsError("no version can be read", "restore the shared weights")


def _refuse_small(newest: Version, room: int) -> None:
    """WeightsError unless two states fit: for a moment the next lies beside the last."""
    if 2 * newest.size > room:
        raise WeightsError(
            f"two states such as that of v{newest.version} take {2 * newest.size:,} bytes, a copy "
            f"may have {room:,}",
            "switch the copy off: mirror.minutes 0",
        )


def states_of(run: RunPaths) -> dict[str, tuple[Path, int]]:
    """The archive's states by name: path and bytes."""
    found = {}
    for path in sorted(run.archive.glob("*/*.state")):
        with contextlib.suppress(OSError):  # given up meanwhile
            if hash_in(path.name):
                found[path.name] = (path, path.stat().st_size)
    return found


def _weights(store: Store, card: MirrorCard, copy: SharedPaths) -> dict[Path, Read]:
    """Run card, state and last records of a copy: path there and the function that reads it."""
    paths = store.paths
    files: dict[Path, Read] = {
        copy.run: partial(read_bounded, paths.run, LIMIT),
        copy.blob(card.state): partial(store.get_blob, card.state),
    }
    for number in [one for one in numbers(paths) if one <= card.version][-RECORDS:]:
        with contextlib.suppress(DaddyError):  # a damaged record stays out
            store.version(number)
            files[copy.version(number)] = partial(read_bounded, paths.version(number), LIMIT)
    return files


def write_copy(path: Path, read: Read, durable: Durable) -> bool:
    """Create one file of a copy or a restore; False when its bytes are gone or damaged."""
    what = {"RUN.json": "card", "config.json": "config"}.get(path.name, "record")
    what = {".st": "state", ".state": "moment"}.get(path.suffix, what)
    mode = 0o600 if what == "config" else 0o444
    with contextlib.suppress(FileNotFoundError, FileError):  # given up meanwhile, or damaged
        return durable.create(path, read(), what, mode=mode)
    return False


def _clear(paths: Iterable[Path], kept: Iterable[Path]) -> None:
    for path in {*paths}.difference(kept):
        with contextlib.suppress(OSError):
            path.unlink()


# -- sources of a restore

Ranges = tuple[tuple[int, int], ...]
"""First and last of versions that were taken back."""

Known = dict[int, tuple[Version, bytes, str]]
"""Commit records by number, with their bytes and hash."""


@dataclass(frozen=True, slots=True)
class Source:
    """One folder: its shared weights and, where it is laid out like a run, all beside them.

    Nothing is believed for its name: a state counts when its bytes have the hash that its record
    or head promises, a record when it reads as one.
    """

    root: Path
    shared: SharedPaths
    run: RunPaths | None = None

    def card(self) -> RunCard | None:
        """The run card, or as much as a laptop's head tells; None where nothing does."""
        with contextlib.suppress(DaddyError):
            return Store(self.shared).card()
        frame = self._frame("HEAD.json")
        if frame is None:
            return None
        return RunCard(frame.run, frame.run_id, frame.workload, frame.schema, frame.assists)

    def records(self) -> Known:
        """Every commit record that reads as one."""
        found = {}
        for number in numbers(self.shared):
            path = self.shared.version(number)
            with contextlib.suppress(DaddyError, OSError):
                data = read_bounded(path, LIMIT)
                record = parse(Version, data, str(path))
                if record.version == number:
                    found[number] = (record, data, sha256_hex(data))
        return found

    def reverted(self) -> Ranges:
        """Ranges that the newest readable record, and a laptop's head, say were taken back."""
        store, rounded = Store(self.shared), self.rounded()
        found = () if rounded is None else rounded[0].reverted
        for number in reversed(numbers(self.shared)[-DEPTH:]):
            with contextlib.suppress(DaddyError, OSError):
                return (*store.version(number).reverted, *found)
        return found

    def candidates(self, reverted: Ranges) -> Iterator[Candidate]:
        """The newest version whose exact state is here, and the newest rounded one, if any.

        None that lies in ``reverted``.
        """
        store = Store(self.shared)
        for number in reversed(numbers(self.shared)[-DEPTH:]):
            with contextlib.suppress(DaddyError, OSError):
                if not is_reverted(number, reverted):
                    record = store.version(number)
                    store.get_blob(record.state)
                    yield Candidate(number, self, record.fleet_steps)
                    break
        rounded = self.rounded()
        if rounded and not is_reverted(rounded[0].version, reverted):
            yield Candidate(rounded[0].version, self, rounded[0].fleet_steps, exact=False)

    def rounded(self) -> tuple[Keyframe, bytes] | None:
        """The newest bfloat16 state that verifies, and the head that speaks of it."""
        with contextlib.suppress(DaddyError, OSError):
            found = newest_verified(self.shared.root)
            return None if found is None else (found.frame, found.data)
        return None

    def highest(self) -> int:
        """The highest version that anything here names; -1: none."""
        store = Store(self.shared)
        named = [*numbers(self.shared)]
        named += [pulse.version for pulse in heartbeats.pulses(store) if pulse.uid is None]
        heads = (store.head(), self._frame("HEAD.json"), self._frame(PREVIOUS))
        named += [head.version for head in heads if head is not None]
        digits = (path.name.split("-")[1] for path in self.shared.wan.glob("*-*-*"))
        named += [int(text) for text in digits if text.isdecimal()]
        return max((number for number in named if number <= HIGHEST), default=-1)

    def holds(self, sha: str) -> bool:
        """True if the state with this hash is here and verifies."""
        with contextlib.suppress(DaddyError, OSError):
            return bool(Store(self.shared).get_blob(sha))
        return False

    def _frame(self, name: str) -> Keyframe | None:
        with contextlib.suppress(DaddyError, OSError):
            return read_frame(self.shared.wan / name)
        return None


def source_at(path: Path) -> Source:
    """The copy, laptop's folder or run at ``path``; WeightsError where it is none of them."""
    run, shared = RunPaths(path), SharedPaths(path)
    if run.shared_weights.is_dir():
        return Source(path, SharedPaths(run.shared_weights), run)
    if shared.merged.is_dir() or shared.wan.is_dir():
        return Source(path, shared)
    raise WeightsError(
        f"{path} holds nothing to restore from",
        "name a copy below ~/.local/share/daddy/mirrors, a folder that sync_weights.sh pulled "
        "into, or a copy of the run",
    )


# -- the decision


@dataclass(frozen=True, slots=True)
class Candidate:
    """A version whose state verifies in ``source``: exact, or rounded to bfloat16."""

    version: int
    source: Source
    fleet_steps: int = 0
    exact: bool = True


@dataclass(frozen=True, slots=True)
class Decision:
    """The version to go on from, the number to go on as (None: its own), and the reason."""

    best: Candidate
    number: int | None
    reason: str


def decide(
    newest: int | None, highest: int, candidates: Iterable[Candidate], *, head: bool
) -> Decision:
    """The version to go on from, and the number to go on as.

    ``newest``: the highest commit record of the run's own folder; ``highest``: the highest number
    that anything names, here or in a source; ``head``: whether HEAD.json is there.
    """
    best = max(candidates, key=lambda candidate: (candidate.version, candidate.exact))
    if newest is None:
        why = "no commit record is left"
    elif highest > newest:
        why = f"v{highest} is known and has no commit record here"
    elif best.version < newest or not best.exact:
        why = f"the state of v{newest} is lost"
    elif not head:
        why = "HEAD.json is gone, and so is what it named, perhaps"
    else:
        return Decision(best, None, f"v{best.version} is the newest anybody knows of: it stays")
    number = (highest // LEAP + 2) * LEAP
    return Decision(best, number, f"{why}: numbers leap, for nobody to meet what is lost")


def fitting(ours: Known, theirs: Known) -> list[int]:
    """Numbers of ``theirs`` that are missing in ``ours``: each is the parent of the next higher.

    What was lost before an earlier restore is another line of descent: it stays out.
    """
    missing, parent = [], ""
    for number in sorted({*ours, *theirs}, reverse=True):
        if number not in ours:
            if parent and theirs[number][2] != parent:
                continue
            missing.append(number)
        parent = (ours if number in ours else theirs)[number][0].parent
    return missing
