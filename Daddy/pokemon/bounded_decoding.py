"""Pure. Limits the size of untrusted data: deflated parts and texts."""

import re
import zlib


def inflate(data: bytes, limit: int) -> bytes:
    """Inflate one zlib stream; ValueError or zlib.error if cut off or over `limit` bytes."""
    inflater = zlib.decompressobj()
    plain = inflater.decompress(data, limit + 1)
    if not inflater.eof or inflater.unused_data or len(plain) > limit:
        raise ValueError(f"a deflated part is cut off, or has over {limit} bytes inflated")
    return plain


def matching_text(value: object, shape: re.Pattern[str]) -> str:
    """Return `value` if it is a text that matches `shape`; raise ValueError otherwise."""
    if not isinstance(value, str) or shape.fullmatch(value) is None:
        raise ValueError(f"{str(value)[:80]!r} does not match {shape.pattern}")
    return value
