"""What a lost run can be restored from: a copy in the home directory, what a laptop pulled, a run.

Reads only. Nothing is believed for its name: a state counts when its bytes have the hash that its
record or head promises, a record when it reads as one. No torch.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import DaddyError, WeightsError
from Daddy.core.files import read_bounded
from Daddy.core.paths import MirrorPaths, RunPaths
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import beats
from Daddy.weights.history import numbers
from Daddy.weights.laptop.pulled_version import PREVIOUS, newest_verified, read_frame
from Daddy.weights.recovery.mirroring import read_mirror
from Daddy.weights.recovery.restore_plan import Candidate
from Daddy.weights.store.records import Keyframe, RunCard, Version, is_reverted, parse
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import LIMIT

Ranges = tuple[tuple[int, int], ...]
"""First and last of versions that were taken back."""

HIGHEST = 99_000_000
"""Numbers beyond it no honest file names: their names have eight digits."""

DEPTH = 64
"""So many records back a state that verifies is looked for."""


@dataclass(frozen=True, slots=True)
class Source:
    """One folder: its shared weights and, where it is laid out like a run, all beside them."""

    root: Path
    shared: SharedPaths
    run: RunPaths | None = None

    def card(self) -> RunCard | None:
        """The run that it speaks of, also by a laptop's head alone; None where nothing says it."""
        with contextlib.suppress(DaddyError):
            return Store(self.shared).card()
        frame = _frame(self.shared.root)
        if frame is None:
            return None
        return RunCard(frame.run, frame.run_id, frame.workload, frame.schema, frame.assists)

    def records(self) -> dict[int, tuple[Version, bytes]]:
        """Every commit record that reads as one, with its bytes."""
        found = {}
        for number in numbers(self.shared):
            path = self.shared.version(number)
            with contextlib.suppress(DaddyError, OSError):
                data = read_bounded(path, LIMIT)
                record = parse(Version, data, str(path))
                if record.version == number:
                    found[number] = (record, data)
        return found

    def reverted(self) -> Ranges:
        """What the newest record that reads here, or a laptop's head, says was taken back."""
        store, told = Store(self.shared), self.rounded()
        found = () if told is None else told[0].reverted
        for number in reversed(numbers(self.shared)[-DEPTH:]):
            with contextlib.suppress(DaddyError, OSError):
                return (*store.version(number).reverted, *found)
        return found

    def candidates(self, reverted: Ranges = ()) -> Iterator[Candidate]:
        """The newest version whose state is here as it was merged, and the newest rounded one.

        None that lies in ``reverted``: nobody goes on from what was taken back.
        """
        store, where = Store(self.shared), str(self.root)
        known = [n for n in numbers(self.shared)[-DEPTH:] if not is_reverted(n, reverted)]
        for number in reversed(known):
            with contextlib.suppress(DaddyError, OSError):
                record = store.version(number)
                store.get_blob(record.state)
                yield Candidate(number, exact=True, where=where, fleet_steps=record.fleet_steps)
                break
        rounded = self.rounded()
        if rounded and not is_reverted(rounded[0].version, reverted):
            frame = rounded[0]
            yield Candidate(frame.version, False, where, frame.fleet_steps)

    def rounded(self) -> tuple[Keyframe, bytes] | None:
        """The newest bfloat16 state that verifies, and the head that speaks of it."""
        with contextlib.suppress(DaddyError, OSError):
            found = newest_verified(self.shared.root)
            return None if found is None else (found.frame, found.data)
        return None

    def highest(self) -> int:
        """The highest version that anything here names; -1: none."""
        store, wan = Store(self.shared), self.shared.wan
        own = (one.version for one in beats.pulses(store) if one.uid is None)
        named = [*numbers(self.shared), *own]
        head = store.head()
        named += [] if head is None else [head.version]
        for name in ("HEAD.json", PREVIOUS):
            with contextlib.suppress(DaddyError, OSError):
                frame = read_frame(wan / name)
                named += [] if frame is None else [frame.version]
        digits = (path.name.split("-")[1] for path in wan.glob("*-*-*"))
        named += [int(one) for one in digits if one.isdecimal()]
        return max((number for number in named if number <= HIGHEST), default=-1)


def _frame(root: Path) -> Keyframe | None:
    with contextlib.suppress(DaddyError, OSError):
        return read_frame(root / "wan" / "HEAD.json")
    return None


def source_at(path: Path) -> Source:
    """What lies at ``path``; WeightsError where it is nothing to restore from."""
    run = RunPaths(path)
    if run.shared_weights.is_dir():
        return Source(path, SharedPaths(run.shared_weights), run)
    shared = SharedPaths(path)
    if shared.merged.is_dir() or shared.wan.is_dir():
        return Source(path, shared)
    raise WeightsError(
        f"{path} holds nothing to restore from",
        "name a copy below ~/.local/share/daddy/mirrors, a folder that sync_weights.sh pulled "
        "into, or a copy of the run",
    )


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
