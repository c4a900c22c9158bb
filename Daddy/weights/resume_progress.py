"""Going on after a restart: what the checkpoint's book-keeping means against today's versions.

Progress after the last offer lives only in the checkpoint. It is carried over unless the process
that wrote it went on to offer it, or its base is too old to be of use.
"""

from __future__ import annotations

from collections.abc import Mapping

from Daddy.core.errors import WeightsError
from Daddy.core.shared_types import Adoption
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas, copy_state, difference
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.peer_progress import Key, PeerProgress, ProgressNote, find_outcome
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store

ANCESTORS = 16
"""Older processes of a peer that are remembered: none that long ago has anything pending."""

OFFERED_ALREADY = "what came after the checkpoint was offered already"


def resume_from_checkpoint(
    store: Store, progress: PeerProgress, newest: Version, own: StateDict, note: ProgressNote,
    offered: Mapping[Key, int], peer: str, max_staleness: int,
) -> Adoption:  # fmt: skip
    """Weights to go on with: the checkpoint's (``own``) rebased on ``newest``, or ``newest``.

    ``progress`` stands on ``newest`` and is brought up to date. ``offered`` are new steps of the
    peer's contributions since the checkpoint, by whichever of its processes: steps which are played
    again after a crash, or after several, are not counted twice.
    """
    progress.env_steps, progress.optimizer_steps = note.env_steps, note.optimizer_steps
    known = note.known
    later = {key: steps for key, steps in offered.items() if key[1] > known.get(key[0], 0)}
    progress.counted_steps = note.counted_steps + sum(later.values())
    try:
        _check(store, newest, note, peer, max_staleness)
        if later:
            raise WeightsError(OFFERED_ALREADY)
        base = store.version(note.version)
        old = decode(store.read_blob(base.state), base.schema)
        deltas = {k: decode(store.read_blob(sha), base.schema) for k, sha in note.pending.items()}
        beside = [decode(store.read_blob(note.held_back), base.schema)] if note.held_back else []
    except WeightsError as error:
        reason = f"took v{newest.version}: {error.message}"
        return Adoption(newest.version, copy_state(progress.base.weights), reason)
    progress.inherited = {
        (incarnation, number): sha
        for (incarnation, number), sha in note.pending.items()
        if number > newest.judged(f"{peer}/{incarnation}")
    }
    waiting = [deltas[key] for key in progress.inherited]
    # Absolute offers: the last one since the last rebase holds the rest.
    last = deltas.get((note.incarnation, note.contained))
    each = [*deltas.values(), *beside] if not progress.absolute else [last] if last else beside
    anchor = add_deltas(old, *each)
    if newest.version == note.version and len(waiting) == len(deltas) and not beside:
        progress.anchor = anchor
        return Adoption(newest.version, own, f"resumed on v{newest.version}")
    since = difference(own, anchor)
    progress.anchor = add_deltas(progress.base.weights, *([] if progress.absolute else waiting))
    reason = f"resumed from v{note.version}, rebased on v{newest.version}"
    return Adoption(newest.version, add_deltas(progress.anchor, since), reason)


def _check(
    store: Store, newest: Version, note: ProgressNote, peer: str, max_staleness: int
) -> None:
    """WeightsError with the reason for which the checkpoint's progress is not carried over."""
    if note.run_id != newest.run_id:
        raise WeightsError("the checkpoint belongs to another folder of shared weights")
    if newest.version < note.version:
        raise WeightsError(f"the checkpoint stood on v{note.version}, which is gone")
    if (lag := newest.version - note.version) > max_staleness:
        raise WeightsError(f"the checkpoint's base is {lag} versions old")
    fate = find_outcome(store, peer, note.incarnation, note.version, newest)
    for number in note.blobs:
        if fate.refused.get(number, ("",))[0] == "reverted":
            raise WeightsError(f"contribution {number} was taken back")
    if fate.base_reverted:
        raise WeightsError(fate.base_reverted)
    if fate.judged > note.sequence:
        raise WeightsError(OFFERED_ALREADY)


def ancestry(note: ProgressNote | None, offered: Mapping[Key, int]) -> dict[str, int]:
    """Up to which sequence each older process of the peer is contained in what begins now."""
    known = {} if note is None else note.known
    for incarnation, number in sorted(offered):
        known[incarnation] = max(number, known.get(incarnation, 0))
    return dict(list(known.items())[-ANCESTORS:])
