"""Fetching one version by its route: files into ``incoming/``, what they give into ``wan/``.

Nothing is put there before the hash in the head has been found again, in the file or in what comes
out of the frames; a frame that does not hold what it promises ends it earlier. No torch.
"""

from __future__ import annotations

import os
from pathlib import Path

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.files import read_bounded, sha256_hex, write_atomic
from Daddy.weights.laptops.local import read_version
from Daddy.weights.link.carrier import Carrier
from Daddy.weights.records.notices import Keyframe, Part
from Daddy.weights.wire import frames
from Daddy.weights.wire.layout import refuse_unless_half
from Daddy.weights.wire.route import Route


def bring(
    carrier: Carrier, local: Path, frame: Keyframe, route: Route, here: Keyframe | None
) -> bool | None:
    """Put ``frame``'s file into ``local/wan``; ``here`` is the version that was pulled before.

    False when what arrived does not verify, None when a file is no longer there. NetworkError.
    """
    incoming = local / "incoming"
    if not route.parts:
        if not carrier.fetch(f"wan/{frame.name}", incoming, frame.size):
            return None
        return _arrived(local, frame)
    there = all(carrier.fetch(f"wan/{one.file}", incoming, one.size) for one in route.parts)
    try:
        if there:
            write_atomic(local / "wan" / frame.name, _decoded(local, frame, route, here))
    except WeightsError:
        return False
    finally:
        for left in incoming.glob("*.wire"):  # also of a pull that was interrupted long ago
            left.unlink(missing_ok=True)
    return True if there else None


def _decoded(local: Path, frame: Keyframe, route: Route, here: Keyframe | None) -> bytes:
    """What the route's frames come to; WeightsError unless it is what ``frame`` promises."""
    data = b""
    if here is not None and route.parts[0].base_sha256 == here.sha256:
        data = read_version(local, here).data
    for part in route.parts:
        data = _opened(_read(local / "incoming" / part.file, part), part, frame, data)
    if (len(data), sha256_hex(data)) != (frame.size, frame.sha256):
        raise WeightsError(f"v{frame.version} does not come out of its frames", "pull again")
    return data


def _opened(data: bytes, part: Part, frame: Keyframe, base: bytes) -> bytes:
    if part.base_sha256:
        return frames.unpack_step(data, base)
    limit = min(frame.size, frames.LIMIT)
    return frames.unpack(data, lambda layout: refuse_unless_half(layout, frame.schema), limit)


def _read(path: Path, part: Part) -> bytes:
    try:
        data = read_bounded(path, part.size)
    except (FileNotFoundError, FileError) as error:
        raise WeightsError(f"{path} cannot be read: {error}", "pull again") from error
    if len(data) != part.size:
        raise WeightsError(f"{path} has {len(data)} of {part.size} bytes", "pull again")
    return data


def _arrived(local: Path, frame: Keyframe) -> bool:
    """Move the plain file into place if it verifies; remove it otherwise."""
    arrived, place = local / "incoming" / frame.name, local / "wan" / frame.name
    place.parent.mkdir(parents=True, exist_ok=True)
    try:
        read_version(local, frame, arrived)
    except WeightsError:
        arrived.unlink(missing_ok=True)
        return False
    with arrived.open("rb") as stream:
        os.fsync(stream.fileno())
    arrived.replace(place)
    return True
