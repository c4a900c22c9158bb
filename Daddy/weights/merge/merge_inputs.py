"""Adapter for reading: everything a merge needs, read once after the lease into one value.

The rest is pure (``judging``), up to the effects at the end (``merger``). The same reader serves
the look that decides whether a merge is due; without news it takes one file operation for each
other process and a few more.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.errors import FileError, WeightsError
from Daddy.core.names import PEER
from Daddy.weights.merge.contributions import (
    Found,
    box_names,
    from_box,
    in_turn,
    pending_of,
    read_blob,
)
from Daddy.weights.merge.judging import File, MergeInputs, forgotten_after, judge_record_of
from Daddy.weights.settings import ExchangeSettings
from Daddy.weights.store.heartbeats import RELIST_S, Pulse, Roster, StallTimer, folders
from Daddy.weights.store.rebuild import candidates, repair
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store

INPUTS_LIMIT = 48
"""Contributions judged in one merge, so that a commit record stays small; others wait."""

LAPTOP_INPUTS_LIMIT = 16
"""Laptops' among them: the contents of their boxes never crowd out the jobs' own."""

FRIENDS_INPUTS_LIMIT = 16
"""Friends' jobs' among them: a round of four jobs of four friends."""

Key = tuple[str, str, int]


@dataclass(frozen=True, slots=True)
class Peers:
    """Heartbeats and contributions that no version has judged, as read at one moment.

    ``authors`` are the processes that have a folder.
    """

    pulses: tuple[Pulse, ...] = ()
    pending: tuple[Found, ...] = ()
    authors: frozenset[str] = frozenset()


@dataclass(slots=True)
class _Names:
    """Names in a folder with one modification time: when that was first seen, and last listed."""

    mtime_ns: int
    first_s: float
    at_s: float
    names: list[str] = field(default_factory=list)


class PeerReader:
    """Reads :class:`Peers` on behalf of one process."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.roster = Roster(store, clock)
        self._offers: dict[Path, Found] = {}
        self._boxes: dict[Path, _Names] = {}

    def read(self, head: Version) -> Peers:
        """Everything as it stands now, beside the version ``head``."""
        processes = self.roster.processes()
        found = {process: self.roster.pulse(process) for process in processes}
        pending: list[Found] = []
        for process, pulse in found.items():
            done = head.consumed.get(process.author, (0, 0))[0]
            offered = None if pulse is None else pulse.offered
            if offered is None or offered > done:
                pending += pending_of(self._store, process, done, offered)
        pending += self._in_boxes()
        return Peers(
            tuple(pulse for pulse in found.values() if pulse is not None),
            tuple(sorted(pending, key=lambda one: one.key)),
            frozenset(process.author for process in processes),
        )

    def _in_boxes(self) -> list[Found]:
        inbox = self._store.paths.inbox
        boxes = self._listed(inbox, lambda: [path.name for path in folders(inbox, PEER)])
        return [
            found
            for name in boxes
            for found in from_box(
                self._store,
                inbox / name,
                self._listed(inbox / name, lambda box=inbox / name: box_names(box)),  # type: ignore[misc]
            )
        ]

    def _listed(self, folder: Path, names: Callable[[], list[str]]) -> list[str]:
        """Names in ``folder``, listed again when it changed; two changes may share a clock tick."""
        try:
            mtime_ns = folder.lstat().st_mtime_ns
        except OSError:
            return []
        now = self._clock.monotonic()
        known = self._boxes.get(folder)
        if known is None or known.mtime_ns != mtime_ns:
            self._boxes[folder] = _Names(mtime_ns, now, now, names())
        elif known.at_s - known.first_s < SURE_S or now - known.at_s >= RELIST_S:
            self._boxes[folder] = _Names(mtime_ns, known.first_s, now, names())
        return self._boxes[folder].names


SURE_S = 2.0
"""Seconds between two listings of a folder with one modification time until it is believed to stand
still: some file systems count whole seconds."""


def choose(peers: Peers, head: Version, refused: set[Key]) -> list[Found]:
    """The contributions that one merge judges; those ``refused`` before come last."""
    done = {author: pair[0] for author, pair in head.consumed.items()}
    fresh = [one for one in peers.pending if one.offer.sequence > done.get(one.offer.author, 0)]
    fresh.sort(key=lambda one: one.key in refused)
    jobs = [one for one in fresh if not one.laptop and one.uid is None]
    friends = in_turn([one for one in fresh if not one.laptop and one.uid is not None])
    laptops = [one for one in fresh if one.laptop][:LAPTOP_INPUTS_LIMIT]
    chosen = [*jobs, *friends[:FRIENDS_INPUTS_LIMIT], *laptops]
    return sorted(chosen[:INPUTS_LIMIT], key=lambda one: one.key)


def read_inputs(
    store: Store,
    settings: ExchangeSettings,
    timer: StallTimer,
    head: Version,
    peers: Peers,
    chosen: Sequence[Found],
) -> MergeInputs:
    """The files, records and states that ``chosen`` need, beside what ``peers`` tells.

    WeightsError when no state can be read that the merge could begin from.
    """
    first = max(0, head.version - settings.keep_versions + 1)
    late = store.records(first, head.version)
    records = {one.version: one for one in late}
    far = forgotten_after(settings)
    needed = {one.offer.base_version for one in chosen}
    needed |= {at for author, (_, at) in head.consumed.items()
               if author not in peers.authors and head.version + 1 - at >= far}  # fmt: skip
    for number in sorted(number for number in needed if number < first):
        records |= {one.version: one for one in store.records(number, number)}
    live = timer.live(peers.pulses, settings.silence_s)
    base, shared = _base(store, head, settings.keep_versions - 1)
    inputs = MergeInputs(
        head=head,
        parent=store.record_hash(head.version),
        late=tuple(late),
        records=records,
        chosen=tuple(chosen),
        pulses=peers.pulses,
        live=frozenset(pulse.peer for pulse in live if not pulse.laptop),
        authors=peers.authors,
        base=base,
        shared=shared,
    )
    if settings.rule == "polyak":
        inputs = replace(inputs, states=_states(store, inputs))
    files = {one.key: _file(timer, inputs, one, settings) for one in chosen}
    return replace(inputs, files=files)


def _states(store: Store, inputs: MergeInputs) -> dict[int, bytes]:
    """States of the contributions' bases, as far as they are here."""
    found = {}
    for number in {one.offer.base_version for one in inputs.chosen} & inputs.records.keys():
        with contextlib.suppress(WeightsError):
            found[number] = store.get_blob(inputs.records[number].state)
    return found


def _base(store: Store, head: Version, keep: int) -> tuple[int, bytes]:
    """The newest state that verifies: the head's, or an older one when that is damaged."""
    error: WeightsError | None = None
    for number in candidates(store, head.version, keep):
        try:
            return number, repair(store, store.version(number))
        except WeightsError as found:
            error = error or found
    raise error or WeightsError("no version can be read", "restore the shared weights")


def _file(timer: StallTimer, inputs: MergeInputs, one: Found, settings: ExchangeSettings) -> File:
    """A contribution's file, unless its record alone is refused."""
    if not judge_record_of(inputs, one, settings).admitted:
        return File()
    trouble = ""
    if settings.rule == "polyak" and one.offer.base_version not in inputs.states:
        trouble = "its base's state did not appear"
    try:
        data = b"" if trouble else read_blob(one)
    except FileNotFoundError:
        trouble = "its file did not appear"
    except FileError:
        trouble = "its file could not be read"
    except WeightsError as error:
        return File(refusal=error.message)
    if trouble:
        return File(trouble=trouble, waited_s=timer.still_s(("blob", one.key)))
    return File(data=data)
