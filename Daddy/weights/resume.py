"""Going on after a restart: what the checkpoint's book-keeping means against today's versions.

Progress after the last offer lives only in the checkpoint. It is carried over unless the process
that wrote it went on to offer it, or its base is too old to be of use.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from dataclasses import dataclass

from Daddy.core.errors import WeightsError
from Daddy.core.files import sha256_hex
from Daddy.weights import offers
from Daddy.weights.codec import decode, encode
from Daddy.weights.manifest import Version
from Daddy.weights.polyak import StateDict, add, copy, difference
from Daddy.weights.progress import Adoption, Progress
from Daddy.weights.store import Store

FORMAT = 1


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
    """Hash of what was not taken of the last adoption, as a blob; "" where all was."""

    def to_bytes(self) -> bytes:
        """JSON with a format number."""
        return json.dumps({
            "format": FORMAT,
            "run_id": self.run_id,
            "incarnation": self.incarnation,
            "version": self.version,
            "sequence": self.sequence,
            "unmerged": {str(number): sha for number, sha in sorted(self.unmerged.items())},
            "env_steps": self.env_steps,
            "counted_steps": self.counted_steps,
            "optimizer_steps": self.optimizer_steps,
            "held_back": self.held_back,
        }, sort_keys=True).encode()  # fmt: skip


def take_note(store: Store, progress: Progress, run_id: str, incarnation: str) -> Note:
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
        held_back=_keep(store, progress.held_back),
    )


def _keep(store: Store, held_back: StateDict | None) -> str:
    """Put what was not taken where a successor looks; one who does not find it goes all the way."""
    if held_back is None:
        return ""
    data = encode(held_back)
    with contextlib.suppress(OSError):
        store.put_blob(data, "blob")
    return sha256_hex(data)


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
    progress.counted_steps = max(note.counted_steps, published_total(store, peer, note))
    why_not = _why_not(store, newest, note, peer, max_staleness)
    try:
        if why_not:
            raise WeightsError(why_not)
        base = store.version(note.version)
        old = decode(store.get_blob(base.state), base.schema)
        offered = {n: decode(store.get_blob(sha), base.schema) for n, sha in note.unmerged.items()}
        beside = [decode(store.get_blob(note.held_back), base.schema)] if note.held_back else []
    except WeightsError as error:
        reason = f"took v{newest.version}: {error.message}"
        return Adoption(newest.version, copy(progress.base.weights), reason)
    judged = newest.consumed.get(f"{peer}/{note.incarnation}", [0])[0]
    waiting = [delta for number, delta in offered.items() if number > judged]
    if newest.version == note.version and len(waiting) == len(offered):
        progress.anchor = add(old, *waiting, *beside)
        progress.held_back = beside[0] if beside else None
        return Adoption(newest.version, own, f"resumed on v{newest.version}")
    since = difference(own, add(old, *offered.values(), *beside))
    progress.anchor = add(progress.base.weights, *waiting)
    reason = f"resumed from v{note.version}, rebased on v{newest.version}"
    return Adoption(newest.version, add(progress.anchor, since), reason)


def _why_not(store: Store, newest: Version, note: Note, peer: str, max_staleness: int) -> str:
    """Why the checkpoint's progress must not be carried over; empty when it may."""
    if note.run_id != newest.run_id:
        return "the checkpoint belongs to another folder of shared weights"
    if newest.version < note.version:
        return f"the checkpoint stood on v{note.version}, which is gone"
    if newest.version - note.version > max_staleness:
        return f"the checkpoint's base is {newest.version - note.version} versions old"
    judged = newest.consumed.get(f"{peer}/{note.incarnation}", [0])[0]
    folder = store.paths.peer(peer, note.incarnation)
    offered = max((number for number, _ in offers.sequences(folder)), default=0)
    if max(judged, offered) > note.sequence:
        return "what came after the checkpoint was offered already"
    return ""


def published_total(store: Store, peer: str, note: Note) -> int:
    """Steps of the peer that were ever offered: the note's, and those after the checkpoint.

    So that steps which are played again after a crash are not counted twice.
    """
    later = offers.offered_by(store, peer, note.incarnation, note.version)
    return note.counted_steps + sum(n for number, n in later.items() if number > note.sequence)
