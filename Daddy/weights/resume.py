"""Going on after a restart: what the checkpoint's book-keeping means against today's versions.

Progress after the last offer lives only in the checkpoint. It is carried over unless the process
that wrote it went on to offer it, or its base is too old to be of use.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.arithmetic import StateDict, add, copy, difference
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.merge import contributions
from Daddy.weights.peer_progress import Adoption, Key, Progress, fate_of
from Daddy.weights.store.records import Version
from Daddy.weights.store.store import Store

FORMAT = 1

ANCESTORS = 16
"""Older processes of a peer that are remembered: none that long ago has anything pending."""

OFFERED_ALREADY = "what came after the checkpoint was offered already"


@dataclass(frozen=True, slots=True)
class Note:
    """The book-keeping that travels in a checkpoint."""

    run_id: str
    incarnation: str
    version: int
    sequence: int
    unmerged: Mapping[int, str]
    env_steps: int
    counted_steps: int
    optimizer_steps: int
    held_back: str = ""
    """Hash of the part of the last adoption that a learner of the release before did not take."""
    contained: int = 0
    before: Mapping[str, int] = field(default_factory=dict)
    inherited: Mapping[Key, str] = field(default_factory=dict)

    @property
    def known(self) -> dict[str, int]:
        """Up to which sequence each process of the peer is contained in the totals."""
        return {**self.before, self.incarnation: self.sequence}

    @property
    def offered(self) -> dict[Key, str]:
        """Blobs of what was offered and not judged, by this process or those before it."""
        return {
            **self.inherited,
            **{(self.incarnation, n): sha for n, sha in self.unmerged.items()},
        }

    def to_bytes(self) -> bytes:
        """JSON with a format number."""
        before = [[name, last] for name, last in self.before.items()]  # their order counts
        inherited = [[*key, sha] for key, sha in self.inherited.items()]
        body = {**asdict(self), "format": FORMAT, "before": before, "inherited": inherited}
        return json.dumps(body, sort_keys=True).encode()


def take_note(progress: Progress, run_id: str, incarnation: str) -> Note:
    """What a successor needs besides the weights."""
    return Note(
        run_id=run_id,
        incarnation=incarnation,
        version=progress.base.version,
        sequence=progress.sequence,
        unmerged=dict(progress.blobs),
        env_steps=progress.env_steps,
        counted_steps=progress.counted_steps,
        optimizer_steps=progress.optimizer_steps,
        contained=progress.contained,
        before=progress.before,
        inherited=progress.inherited,
    )


def read_note(data: bytes) -> Note | None:
    """The note in a checkpoint; None when it is not one of ours (a learner that was on its own)."""
    try:
        body = json.loads(data)
        return Note(
            run_id=str(body["run_id"]),
            incarnation=str(body["incarnation"]),
            version=int(body["version"]),
            sequence=int(body["sequence"]),
            unmerged={int(number): str(sha) for number, sha in body["unmerged"].items()},
            env_steps=int(body["env_steps"]),
            counted_steps=int(body["counted_steps"]),
            optimizer_steps=int(body["optimizer_steps"]),
            held_back=str(body.get("held_back", "")),
            contained=int(body.get("contained", 0)),
            before={str(name): int(last) for name, last in body.get("before", [])},
            inherited={(str(a), int(n)): str(sha) for a, n, sha in body.get("inherited", [])},
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def resume(
    store: Store, progress: Progress, newest: Version, own: StateDict, note: Note, peer: str,
    max_staleness: int,
) -> Adoption:  # fmt: skip
    """Weights to go on with: the checkpoint's (``own``) rebased on ``newest``, or ``newest``.

    ``progress`` stands on ``newest`` and is brought up to date.
    """
    progress.env_steps, progress.optimizer_steps = note.env_steps, note.optimizer_steps
    later = _offered_later(store, peer, note)
    progress.counted_steps = note.counted_steps + sum(later.values())
    try:
        _check(store, newest, note, peer, max_staleness)
        if later:
            raise WeightsError(OFFERED_ALREADY)
        base = store.version(note.version)
        old = decode(store.get_blob(base.state), base.schema)
        offered = {k: decode(store.get_blob(sha), base.schema) for k, sha in note.offered.items()}
        beside = [decode(store.get_blob(note.held_back), base.schema)] if note.held_back else []
    except WeightsError as error:
        reason = f"took v{newest.version}: {error.message}"
        return Adoption(newest.version, copy(progress.base.weights), reason)
    progress.inherited = {
        (incarnation, number): sha
        for (incarnation, number), sha in note.offered.items()
        if number > newest.judged(f"{peer}/{incarnation}")
    }
    waiting = [offered[key] for key in progress.inherited]
    # Absolute offers: the last one since the last rebase holds the rest.
    last = offered.get((note.incarnation, note.contained))
    each = [*offered.values(), *beside] if not progress.absolute else [last] if last else beside
    anchor = add(old, *each)
    if newest.version == note.version and len(waiting) == len(offered) and not beside:
        progress.anchor = anchor
        return Adoption(newest.version, own, f"resumed on v{newest.version}")
    since = difference(own, anchor)
    progress.anchor = add(progress.base.weights, *([] if progress.absolute else waiting))
    reason = f"resumed from v{note.version}, rebased on v{newest.version}"
    return Adoption(newest.version, add(progress.anchor, since), reason)


def _check(store: Store, newest: Version, note: Note, peer: str, max_staleness: int) -> None:
    """WeightsError with the reason for which the checkpoint's progress is not carried over."""
    if note.run_id != newest.run_id:
        raise WeightsError("the checkpoint belongs to another folder of shared weights")
    if newest.version < note.version:
        raise WeightsError(f"the checkpoint stood on v{note.version}, which is gone")
    if (lag := newest.version - note.version) > max_staleness:
        raise WeightsError(f"the checkpoint's base is {lag} versions old")
    fate = fate_of(store, peer, note.incarnation, note.version, newest)
    for number in note.unmerged:
        if fate.refused.get(number, ("",))[0] == "reverted":
            raise WeightsError(f"contribution {number} was taken back")
    if fate.fallen:
        raise WeightsError(fate.fallen)
    if fate.judged > note.sequence:
        raise WeightsError(OFFERED_ALREADY)


def _offered_later(store: Store, peer: str, note: Note) -> dict[Key, int]:
    """New steps of what the peer offered after the checkpoint, by whichever of its processes.

    So that steps which are played again after a crash, or after several, are not counted twice.
    """
    offered, known = contributions.offered_by(store, peer, note.version), note.known
    return {key: steps for key, steps in offered.items() if key[1] > known.get(key[0], 0)}


def ancestry(store: Store, peer: str, note: Note | None, newest: int) -> dict[str, int]:
    """Up to which sequence each older process of the peer is contained in what begins now."""
    known = {} if note is None else note.known
    since = newest if note is None else note.version
    for incarnation, number in sorted(contributions.offered_by(store, peer, since)):
        known[incarnation] = max(number, known.get(incarnation, 0))
    return dict(list(known.items())[-ANCESTORS:])
