"""One pass of the mirror: the newest version that verifies and the best of the archive, copied.

A copy is laid out like a run (``MirrorPaths``), so everything that reads a run reads it. Its card
is written last: what it names is whole, whenever we die. Files are created under names that say
their content, so nothing is ever replaced but the card, and nothing is written where nothing
changed. A copy never goes back: where the run has lost what the copy holds, it stays. No torch.

Kill points: C1 to C5 of each file, then M1 before the card, M2 after it, M3 after clearing up.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError, FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex
from Daddy.core.paths import MirrorPaths, RunPaths
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights.history import numbers
from Daddy.weights.recovery.best_states import choose, hash_in
from Daddy.weights.store.durable import Durable, Hook, no_hook
from Daddy.weights.store.records import RunCard, Version, Written, is_reverted, parse
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import LIMIT

RECORDS = 8
"""Commit records that a copy holds: the newest says all totals, those before it are its past."""

MOST_STATES = 1024
"""States of the archive that a copy holds at most, whatever they weigh."""

STATE_LIMIT = 1 << 20
"""Bytes of the largest archive state that is read."""


@dataclass(frozen=True, slots=True)
class MirrorCard(Written):
    """``MIRROR.json``: of which run and version this is a whole copy. ``source`` is its folder."""

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


@dataclass(frozen=True, slots=True)
class Original:
    """What is copied: a run's folder, its shared weights, wherever they lie, its configuration."""

    run: RunPaths
    shared: SharedPaths
    config: bytes = b""


@dataclass(frozen=True, slots=True)
class Pass:
    """What one pass came to: the card of the copy, whether anything was written, one sentence."""

    card: MirrorCard | None
    wrote: bool
    said: str


def mirror(
    original: Original, folder: Path, room: int, keep: int, clock: Clock, hook: Hook = no_hook
) -> Pass:
    """Copy what is new into this run's place below ``folder``, of at most ``room`` bytes.

    ``keep``: how many versions back a state is looked for. OSError when the disk takes no more: the
    copy of before is whole then. WeightsError where nothing verifies or even the state is too
    large.
    """
    store = Store(original.shared)
    if store.newest() is None:
        return Pass(None, wrote=False, said="there is no version yet")
    card, newest = store.card(), _newest_whole(store, keep)
    _refuse_small(newest, room)
    target = place(folder, card)
    before = read_mirror(target)
    if before is not None and before.version > newest.version:
        said = f"the copy holds v{before.version}, the run v{newest.version}: it stays"
        return Pass(before, wrote=False, said=said)
    moments = _moments(original.run.archive, room - 2 * newest.size)
    after = MirrorCard(
        run=card.run,
        run_id=card.run_id,
        source=str(original.run.root),
        version=newest.version,
        state=newest.state,
        fleet_steps=newest.fleet_steps,
        states=len(moments.chosen),
        left_out=moments.left_out,
        ts=round(clock.now(), 3),
    )
    return _Copy(store, original, target, hook).bring(before, after, newest, moments.chosen)


def place(folder: Path, card: RunCard) -> MirrorPaths:
    """Where the copy of a run lies: another run of the same name has another place."""
    return MirrorPaths(folder / f"{card.run}-{card.run_id[:8]}")


def read_mirror(target: MirrorPaths) -> MirrorCard | None:
    """A copy's card; None where there is no whole copy."""
    try:
        found = parse(MirrorCard, read_bounded(target.card, LIMIT), str(target.card))
    except (FileNotFoundError, NotADirectoryError, DaddyError):
        return None
    blob, record = target.shared.blob(found.state), target.shared.version(found.version)
    return found if blob.exists() and record.exists() else None


def _refuse_small(newest: Version, room: int) -> None:
    """For a moment the next state lies beside the last one."""
    if 2 * newest.size > room:
        raise WeightsError(
            f"two states such as that of v{newest.version} take {2 * newest.size:,} bytes, a copy "
            f"may have {room:,}",
            "raise mirror.megabytes",
        )


def _newest_whole(store: Store, keep: int) -> Version:
    """The newest version whose state verifies; WeightsError where none does."""
    error: WeightsError | None = None
    reverted: Sequence[tuple[int, int]] = ()
    for number in reversed(numbers(store.paths)[-keep:]):
        try:
            record = store.version(number)
            reverted = reverted or record.reverted
            if is_reverted(number, reverted):
                continue
            store.get_blob(record.state)
            return record
        except WeightsError as found:
            error = error or found
    raise error or WeightsError("no version can be read", "restore the shared weights")


@dataclass(frozen=True, slots=True)
class _Moments:
    chosen: tuple[Path, ...]
    left_out: int


def _moments(archive: Path, room: int) -> _Moments:
    """The archive's states that fit into ``room`` bytes, as paths below it."""
    found = {path.name: path for path in _states(archive)}
    sizes = []
    for name, path in found.items():
        with contextlib.suppress(OSError):  # given up meanwhile
            sizes.append((name, path.stat().st_size))
    chosen = choose(sizes, room, MOST_STATES)
    return _Moments(tuple(found[name] for name in chosen), len(sizes) - len(chosen))


def _states(archive: Path) -> Iterator[Path]:
    with contextlib.suppress(OSError):
        for family in sorted(archive.iterdir()):
            with contextlib.suppress(OSError):
                yield from (one for one in sorted(family.iterdir()) if hash_in(one.name))


class _Copy:
    """One copy on its way from one version to the next."""

    def __init__(self, store: Store, original: Original, target: MirrorPaths, hook: Hook) -> None:
        self._store, self._original, self._target = store, original, target
        self._durable = Durable(target.shared.tmp, hook)
        self._wrote = False

    def bring(
        self,
        before: MirrorCard | None,
        after: MirrorCard,
        newest: Version,
        moments: tuple[Path, ...],
    ) -> Pass:
        """Write what is missing, then the card, then clear up what no card names."""
        target, archive = self._target, self._original.run.archive
        states = {path: target.run.archive / path.relative_to(archive) for path in moments}
        try:
            kept = self._weights(newest)
            for path, copy in states.items():
                self._state(path, copy)
        except OSError:
            self._clear(target.shared, _named_by(target, before), None)
            raise
        if changed := before is None or self._wrote or self._differs(before, after):
            self._durable.hook("M1")
            self._durable.replace(target.card, after.to_bytes(), "mirror")
            self._durable.hook("M2")
        self._clear(target.shared, kept, set(states.values()))  # of one that died here, too
        self._durable.hook("M3")
        card = after if changed else before
        return Pass(card, wrote=changed, said=f"v{after.version} lies in {target.root}")

    @staticmethod
    def _differs(before: MirrorCard, after: MirrorCard) -> bool:
        return (before.version, before.states, before.source) != (
            after.version,
            after.states,
            after.source,
        )

    def _weights(self, newest: Version) -> set[Path]:
        """Card, state, records and config; the paths of what is copied under an own name."""
        ours, theirs = self._target.shared, self._original.shared
        blob = ours.blob(newest.state)
        self._create(ours.run, lambda: read_bounded(theirs.run, LIMIT), "card")
        self._create(blob, lambda: self._store.get_blob(newest.state), "state")
        older = [number for number in numbers(theirs) if number <= newest.version]
        records = [number for number in older[-RECORDS:] if self._readable(number)]
        for number in records:
            read = partial(read_bounded, theirs.version(number), LIMIT)
            self._create(ours.version(number), read, "record")
        self._config()
        return {blob, *(ours.version(number) for number in records)}

    def _readable(self, number: int) -> bool:
        with contextlib.suppress(DaddyError):
            return self._store.version(number).version == number
        return False

    def _config(self) -> None:
        """The run's configuration, replaced when it changes."""
        path, data = self._target.run.config, self._original.config
        if not path.exists() or path.read_bytes() != data:
            self._durable.replace(path, data, "config", mode=0o600)
            self._wrote = True

    def _state(self, source: Path, copy: Path) -> None:
        """One archive state, if its bytes have the hash in its name."""
        with contextlib.suppress(FileNotFoundError, FileError):  # given up, or damaged: not copied
            if not copy.exists():
                data = read_bounded(source, STATE_LIMIT)
                if sha256_hex(data) == hash_in(source.name):
                    self._wrote |= self._durable.create(copy, data, "moment", mode=0o444)

    def _create(self, path: Path, read: Callable[[], bytes], what: str) -> None:
        if not path.exists():
            self._wrote |= self._durable.create(path, read(), what, mode=0o444)

    def _clear(self, shared: SharedPaths, kept: set[Path], moments: set[Path] | None) -> None:
        """Remove weights that are not among ``kept``, and moments not among ``moments``."""
        strays = [*shared.merged.glob("v*.json"), *shared.blobs.glob("*/*.st")]
        strays += shared.tmp.glob("*")
        gone = [path for path in strays if path not in kept]
        if moments is not None:
            states = self._target.run.archive.glob("*/*.state")
            gone += [path for path in states if path not in moments]
        for path in gone:
            with contextlib.suppress(OSError):
                path.unlink()


def _named_by(target: MirrorPaths, card: MirrorCard | None) -> set[Path]:
    """What lies there for an older card."""
    if card is None:
        return set()
    shared = target.shared
    older = (number for number in numbers(shared) if number <= card.version)
    return {shared.blob(card.state), *(shared.version(number) for number in older)}
