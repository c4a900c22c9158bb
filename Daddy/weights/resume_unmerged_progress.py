"""Computes the weights to continue with after a restart, from checkpoint and newest version.

Progress after the last contribution exists only in the checkpoint. It is kept, unless the process
that wrote the checkpoint offered that progress later, or the checkpoint's base is too old.
"""

from collections.abc import Mapping

from Daddy.core.errors import WeightsError
from Daddy.core.shared_types import Adoption
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas, copy_state, difference
from Daddy.weights.encoding.state_codec import decode
from Daddy.weights.store.weight_records import Version
from Daddy.weights.store.weight_store import Store
from Daddy.weights.unmerged_progress import Key, PeerProgress, ProgressNote, find_outcome

ANCESTORS = 16
"""Older processes of a peer that are remembered: no older one has offers pending."""

OFFERED_ALREADY = "progress after the checkpoint was offered already"


def resume_from_checkpoint(
    store: Store, progress: PeerProgress, newest: Version, own: StateDict, note: ProgressNote,
    offered: Mapping[Key, int], peer: str, max_staleness: int,
) -> Adoption:  # fmt: skip
    """Return the checkpoint's weights (``own``) rebased on ``newest``, or those of ``newest``.

    ``progress`` has the base ``newest`` and the checkpoint's totals, and gets the anchor, pending
    offers and, unless progress is dropped, the totals of ``note``. ``offered``: new steps that any
    process of the peer offered since the checkpoint: steps played again are not counted twice.
    """
    if note.env_steps > progress.env_steps:  # a caller without totals
        progress.count_steps(note.env_steps, note.optimizer_steps)
    contained = note.known
    later = {key: steps for key, steps in offered.items() if key[1] > contained.get(key[0], 0)}
    progress.counted_steps = note.counted_steps + sum(later.values())
    try:
        _check(store, newest, note, peer, max_staleness)
        if later:
            raise WeightsError(OFFERED_ALREADY)
        base = store.version(note.version)
        old = decode(store.read_blob(base.state), base.schema)
        deltas = {k: decode(store.read_blob(sha), base.schema) for k, sha in note.pending.items()}
        rest = [decode(store.read_blob(note.held_back), base.schema)] if note.held_back else []
    except WeightsError as error:
        reason = f"took v{newest.version}: {error.message}"
        return Adoption(newest.version, copy_state(progress.base.weights), reason)
    if note.env_steps >= 0:
        progress.env_steps, progress.optimizer_steps = note.env_steps, note.optimizer_steps
    progress.inherited = {
        (incarnation, number): sha
        for (incarnation, number), sha in note.pending.items()
        if number > newest.judged(f"{peer}/{incarnation}")
    }
    waiting = [deltas[key] for key in progress.inherited]
    # Offers of absolute weights: the last since the rebase contains those before it.
    last = deltas.get((note.incarnation, note.contained))
    summed = [*deltas.values(), *rest] if not progress.absolute else [last] if last else rest
    anchor = add_deltas(old, *summed)
    if newest.version == note.version and len(waiting) == len(deltas) and not rest:
        progress.anchor = anchor
        return Adoption(newest.version, own, f"resumed on v{newest.version}")
    since = difference(own, anchor)
    progress.anchor = add_deltas(progress.base.weights, *([] if progress.absolute else waiting))
    reason = f"resumed from v{note.version}, rebased on v{newest.version}"
    return Adoption(newest.version, add_deltas(progress.anchor, since), reason)


def _check(
    store: Store, newest: Version, note: ProgressNote, peer: str, max_staleness: int
) -> None:
    """Raise WeightsError with the reason to drop the checkpoint's progress, if there is one."""
    if note.run_id != newest.run_id:
        raise WeightsError("the checkpoint belongs to another run")
    if newest.version < note.version:
        raise WeightsError(f"the checkpoint's base v{note.version} is gone")
    if (lag := newest.version - note.version) > max_staleness:
        raise WeightsError(f"the checkpoint's base is {lag} versions old")
    outcome = find_outcome(store, peer, note.incarnation, note.version, newest)
    for number in note.blobs:
        if outcome.refused.get(number, ("",))[0] == "reverted":
            raise WeightsError(f"contribution {number} was reverted")
    if outcome.base_reverted:
        raise WeightsError(outcome.base_reverted)
    if outcome.judged > note.sequence:
        raise WeightsError(OFFERED_ALREADY)


def ancestry(note: ProgressNote | None, offered: Mapping[Key, int]) -> dict[str, int]:
    """Return by process of the peer the last sequence that its progress contains now."""
    contained = {} if note is None else note.known
    for incarnation, number in sorted(offered):
        contained[incarnation] = max(number, contained.get(incarnation, 0))
    return dict(list(contained.items())[-ANCESTORS:])
