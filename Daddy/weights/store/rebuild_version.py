"""Rebuilds a version from its base and inputs, to verify it or to repair a damaged file.

Equal inputs give equal bytes, so a rebuilt state either has the hash in the commit record or is not
used.
"""

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
    """Return the bytes of ``record``'s state, computed from its base and inputs. Raise WeightsError
    when a blob is gone (retention keeps those of the newest versions).
    """
    base = decode(store.read_blob(store.version(record.base).state), record.schema)
    displacements = []
    inputs = [*record.replayed, *record.inputs]
    for merged in inputs:
        delta = decode_delta(store.read_blob(merged.blob), merged.form, record.schema)
        own_base = base
        if record.rule == "polyak":
            own_base = decode(store.read_blob(store.version(merged.base_version).state))
        displacements.append(displacement(record.rule, delta, own_base, base))
    shares, clips = [merged.share for merged in inputs], [merged.clip for merged in inputs]
    return encode(add_scaled(base, displacements, displacement_factors(record.rule, shares, clips)))


def displacement(rule: str, delta: StateDict, base: StateDict, shared: StateDict) -> StateDict:
    """Return the change of ``shared`` by a delta on ``base``; "polyak": base + delta - shared."""
    return difference(add_deltas(base, delta), shared) if rule == "polyak" else delta


def displacement_factors(rule: str, shares: Sequence[float], clips: Sequence[float]) -> list[float]:
    """Return the factor of each displacement of the shared weights S. Under "polyak", S <- (1 - t)
    S + t W is applied for one input W after another, so later inputs shrink earlier ones.
    """
    if rule != "polyak":
        return [share * clip for share, clip in zip(shares, clips, strict=True)]
    left, result = 1.0, []
    for share, clip in zip(reversed(shares), reversed(clips), strict=True):
        result.append(left * share * clip)
        left *= 1.0 - share
    return result[::-1]


def candidate_versions(store: Store, newest: int, keep: int) -> Iterator[int]:
    """Yield versions to start from, best first: the newest, ``keep`` before it, older ones of
    ``kept.json``; no reverted ones. Raise WeightsError when the newest's record cannot be read.
    """
    reverted = store.version(newest).reverted
    first = max(0, newest - keep)
    for number in range(newest, first - 1, -1):
        if not is_reverted(number, reverted):
            yield number
    older: list[int] = []
    with contextlib.suppress(FileError):
        older = sorted((entry.version for entry in read_kept(store)), reverse=True)
    for number in older:
        if number < first and not is_reverted(number, reverted):
            yield number


def read_or_rebuild(store: Store, record: Version) -> bytes:
    """Return the bytes of a version's state; rebuild a damaged file, which is kept in quarantine.
    Raise WeightsError (of the damage) when the state cannot be rebuilt.
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
    """Return the newest version whose state verifies or can be rebuilt, and that state. ``tell`` is
    called with an event for each version that was skipped. Raise WeightsError when none is left.
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
