"""Pure. Bounds what bytes from elsewhere may hold: deflated parts and texts."""

from __future__ import annotations

import re
import zlib


def inflate(data: bytes, limit: int) -> bytes:
    """Inflate one whole stream; ValueError or zlib.error where it is torn or gives over `limit`."""
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, limit + 1)
    if not inflater.eof or inflater.unused_data or len(plain) > limit:
        raise ValueError(f"a deflated part is torn, or gives over {limit} bytes")
    return plain


def matching_text(value: object, shape: re.Pattern[str]) -> str:
    """Return a text of this shape; ValueError for anything else."""
    if not isinstance(value, str) or shape.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:80]!r} has no such shape as {shape.pattern}")
    return value
