"""A version again from what it was made of: to verify it, or to repair a damaged file.

Equal inputs give equal bytes, so a replayed state either has the hash in the commit record or is
not used.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import FileError, WeightsError
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_arithmetic import StateDict, add_deltas, add_scaled, difference
from Daddy.weights.encoding.state_codec import decode, encode
from Daddy.weights.store.version_retention import read_kept
from Daddy.weights.store.weight_records import Version, is_reverted
from Daddy.weights.store.weight_store import Store


def rebuild_state(store: Store, record: Version) -> bytes:
    """The bytes of ``record``'s state, made again from its base and inputs.

    WeightsError when a part is gone (retention keeps them for the newest versions).
    """
    base = decode(store.read_blob(store.version(record.base).state), record.schema)
    pulls = []
    inputs = [*record.replayed, *record.inputs]
    for one in inputs:
        delta = decode_delta(store.read_blob(one.blob), one.form, record.schema)
        own_base = base
        if record.rule == "polyak":
            own_base = decode(store.read_blob(store.version(one.base_version).state))
        pulls.append(displacement(record.rule, delta, own_base, base))
    shares, clips = [one.share for one in inputs], [one.clip for one in inputs]
    return encode(add_scaled(base, pulls, displacement_factors(record.rule, shares, clips)))


def displacement(rule: str, delta: StateDict, base: StateDict, shared: StateDict) -> StateDict:
    """A delta on ``base`` as it moves the shared weights; under "polyak" own weights - shared."""
    return difference(add_deltas(base, delta), shared) if rule == "polyak" else delta


def displacement_factors(rule: str, shares: Sequence[float], clips: Sequence[float]) -> list[float]:
    """The factor by which each pull moves the shared weights.

    Under "polyak" S <- (1 - t) S + t W is applied one after the other: later ones shrink earlier
    ones.
    """
    if rule != "polyak":
        return [share * clip for share, clip in zip(shares, clips, strict=True)]
    left, found = 1.0, []
    for share, clip in zip(reversed(shares), reversed(clips), strict=True):
        found.append(left * share * clip)
        left *= 1.0 - share
    return found[::-1]


def candidate_versions(store: Store, newest: int, keep: int) -> Iterator[int]:
    """Versions to stand on, best first: the newest, ``keep`` before it, then the kept older ones.

    Reverted ones are left out. WeightsError when the newest's record cannot be read.
    """
    reverted = store.version(newest).reverted
    first = max(0, newest - keep)
    for number in range(newest, first - 1, -1):
        if not is_reverted(number, reverted):
            yield number
    older: list[int] = []
    with contextlib.suppress(FileError):
        older = sorted((one.version for one in read_kept(store)), reverse=True)
    for number in older:
        if number < first and not is_reverted(number, reverted):
            yield number


def read_or_rebuild(store: Store, record: Version) -> bytes:
    """The bytes of a version's state; a damaged file is kept as evidence and made again.

    WeightsError (of the damage) when it cannot be.
    """
    try:
        return store.read_blob(record.state)
    except WeightsError as damage:
        data = b""
        with contextlib.suppress(WeightsError):
            data = rebuild_state(store, record)
        if sha256_hex(data) != record.state:
            raise damage from None
    store.mend_blob(data)
    return data


def newest_state(
    store: Store,
    newest: int,
    keep: int,
    tell: Callable[[str, Mapping[str, object]], None] | None = None,
) -> tuple[Version, StateDict]:
    """The newest version whose state verifies or can be made again, and that state.

    ``tell`` gets an event for each newer one. WeightsError when there is none.
    """
    first_error: WeightsError | None = None
    for number in candidate_versions(store, newest, keep):
        try:
            record = store.version(number)
            return record, decode(read_or_rebuild(store, record), record.schema)
        except WeightsError as error:
            first_error = first_error or error
            if tell is not None:
                tell("error", {"what": f"v{number} is passed over", "reason": str(error)})
    raise first_error or WeightsError("no version can be read", "restore the shared weights")
