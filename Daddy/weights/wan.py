"""What laptops are offered below ``wan/``: each version whole, compressed, and as steps.

The plain bfloat16 file is what every laptop understands and what is read in place; a frame of the
whole and one of the step from the version offered before are smaller ways to the same bytes. Steps
make a chain that the head lists: whoever follows pulls one, whoever slept some, a newcomer the
whole. Equal inputs give equal frames wherever zlib is the same; the hash of what comes out decides.
"""

from __future__ import annotations

from Daddy.core.errors import WeightsError
from Daddy.core.files import sha256_hex
from Daddy.weights.local import read_version
from Daddy.weights.manifest import INT8, Keyframe, Part
from Daddy.weights.store import Store
from Daddy.weights.wire import pack, pack_step

LISTED_STEPS = 4
"""Steps in the head, which is polled: longer chains seldom cost less than the whole."""

SPARE = 4
"""Frames that stay although no head lists them any more: somebody may be fetching them."""


def serve(store: Store, number: int, data: bytes) -> None:
    """Offer version ``number``, whose bfloat16 safetensors ``data`` is: the head comes last.

    WeightsError when the version's records cannot be read; OSError when the disk does not take it.
    """
    before, sha = store.keyframe(), sha256_hex(data)
    whole = _put(store, pack(data), number, sha)
    parts = (*_steps(store, before, number, data)[-LISTED_STEPS:], whole)
    store.write_keyframe(number, data, parts, accepts=(INT8,))
    for kind, kept in (("kf", SPARE), ("d", LISTED_STEPS + SPARE)):
        for old in sorted(store.paths.wan.glob(f"{kind}-*.wire"))[:-kept]:
            old.unlink(missing_ok=True)


def _steps(store: Store, before: Keyframe | None, number: int, data: bytes) -> list[Part]:
    """The steps offered before and the one to ``number``, if it can be made."""
    if before is None or before.run_id != store.card().run_id:
        return []
    known = [part for part in before.parts if part.base_sha256]
    if before.version >= number:  # another merger has served it meanwhile
        return known if before.sha256 == sha256_hex(data) else []
    try:
        base = read_version(store.paths.root, before)
        frame = pack_step(data, base.data)
    except WeightsError:
        return []  # whoever holds the version before takes the whole
    return [*known, _put(store, frame, number, sha256_hex(data), base.sha256)]


def _put(store: Store, frame: bytes, number: int, sha: str, base_sha: str = "") -> Part:
    """Write a frame under its name; what the head says of it."""
    kind = "d" if base_sha else "kf"
    name = f"{kind}-{number:08d}-{sha256_hex(frame)[:12]}.wire"
    store.durable.create(store.paths.wan / name, frame, "part", mode=0o444)
    return Part(name, len(frame), number, sha, base_sha)
