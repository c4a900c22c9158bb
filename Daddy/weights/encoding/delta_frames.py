"""Pure. Packs safetensors bytes for a slow network, whole or as a delta that needs a base.

A frame is 64 bytes (magic, format, kind, size and SHA-256 of the decoded bytes, first 8 bytes of
the base's SHA-256) and zlib streams with their lengths: the safetensors header, only in a whole
frame, then per tensor one stream or, for bfloat16, two (low and high bytes). No memory is allocated
by the sizes that a frame claims: its streams must decode to the bytes that the schema gives, or
WeightsError is raised. No torch; numpy is loaded with the first frame.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.tensor_layout import (
    HEADER_LIMIT,
    TensorEntry,
    TensorLayout,
    read_layout,
)

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MAGIC = b"DADDYWTS"
FORMAT = 1
WHOLE, STEP = 1, 2

LEVEL = 1
"""zlib's level; with these strategies any level gives the same bytes for equal zlib versions."""

LIMIT = 1 << 30
"""Bytes of the largest state that is decoded: a hundred times our policy."""

Check = Callable[[TensorLayout], None]
"""Raises WeightsError unless a list of tensors is the one expected."""

_HEAD = struct.Struct("<8sBB6xQ8s32s")
_LENGTH = struct.Struct("<I")
_NOTHING = bytes(8)


def pack_state(data: bytes) -> bytes:
    """Pack safetensors bytes ``data`` into a frame that needs no base. Raise WeightsError when they
    are damaged or hold a bfloat16 that is not finite.
    """
    layout = _read_whole(data)
    header = _deflate(layout.preamble, zlib.Z_DEFAULT_STRATEGY)
    return _frame(WHOLE, data, _NOTHING, [header, *_encode(layout, data)])


def unpack_state(frame: bytes, check: Check, limit: int = LIMIT) -> bytes:
    """Decode a frame of :func:`pack_state`; ``check`` gets its list of tensors first. Raise
    WeightsError when ``check`` refuses, when the result exceeds ``limit`` bytes, when the frame is
    damaged, too long or too short, or when the result does not have the hash in the frame.
    """
    streams = _streams(frame, WHOLE, _NOTHING)
    preamble = _inflate(next(streams, b""), HEADER_LIMIT + 8, exact=False)
    layout = read_layout(preamble)
    check(layout)
    if len(layout.preamble) != len(preamble) or layout.size > limit:
        raise _refused(f"it would be {layout.size} bytes, {limit} are expected")
    return _decode(frame, layout, streams)


def pack_delta(data: bytes, base: bytes) -> bytes:
    """Pack ``data`` as a delta to ``base``, a state with the same tensors. Raise WeightsError when
    the tensors differ, or ``data`` holds a bfloat16 that is not finite.
    """
    layout = _read_whole(data)
    if read_layout(base).preamble != layout.preamble or len(base) != len(data):
        raise _refused("its base has other tensors")
    return _frame(STEP, data, _mark(base), _encode(layout, data, base))


def unpack_delta(frame: bytes, base: bytes) -> bytes:
    """Decode a frame of :func:`pack_delta` with the same ``base``, whose size bounds the result.
    Raise WeightsError when the frame needs another base, is damaged, too long or too short, or when
    the result does not have the hash in the frame.
    """
    layout = _read_whole(base)
    return _decode(frame, layout, _streams(frame, STEP, _mark(base)), base)


def _encode(layout: TensorLayout, data: bytes, base: bytes | None = None) -> list[bytes]:
    """Compress each tensor; a bfloat16 one as its difference to ``base``, if that is given."""
    strategy = zlib.Z_HUFFMAN_ONLY if base is None else zlib.Z_RLE
    streams = []
    for tensor in layout.fields:
        body = _body(layout, tensor, data)
        planes: tuple[bytes, ...] = (body,)
        if tensor.dtype == "BF16":
            _refuse_infinite(tensor, body)
            before = None if base is None else _body(layout, tensor, base)
            code = rotate_left(body) if before is None else zigzag_difference(body, before)
            planes = split_planes(code)
        streams += [_deflate(plane, strategy) for plane in planes]
    return streams


def _decode(
    frame: bytes, layout: TensorLayout, streams: Iterator[bytes], base: bytes | None = None
) -> bytes:
    """Return the safetensors bytes in ``streams``; WeightsError unless ``frame`` has their hash."""
    parts = [layout.preamble]
    for tensor in layout.fields:
        size = tensor.stop - tensor.start
        if tensor.dtype != "BF16":
            parts.append(_inflate(next(streams, b""), size))
            continue
        joined = join_planes(*(_inflate(next(streams, b""), size // 2) for _ in range(2)))
        before = None if base is None else _body(layout, tensor, base)
        parts.append(rotate_right(joined) if before is None else apply_difference(before, joined))
        _refuse_infinite(tensor, parts[-1])
    if next(streams, None) is not None:
        raise _refused("bytes follow its last tensor")
    data = b"".join(parts)
    *_, size, _, digest = _HEAD.unpack_from(frame)
    if size != len(data) or digest != hashlib.sha256(data).digest():
        raise _refused("the decoded bytes do not have the size and hash in its head")
    return data


def _body(layout: TensorLayout, tensor: TensorEntry, data: bytes) -> bytes:
    offset = len(layout.preamble)
    return data[offset + tensor.start : offset + tensor.stop]


def _read_whole(data: bytes) -> TensorLayout:
    layout = read_layout(data)
    if layout.size != len(data):
        raise _refused(f"its tensors have {layout.size} bytes and it has {len(data)}")
    return layout


def _refuse_infinite(tensor: TensorEntry, body: bytes) -> None:
    if not all_finite(body):
        raise _refused(f"{tensor.name[:80]!r} holds values that are not finite")


def _mark(base: bytes) -> bytes:
    return hashlib.sha256(base).digest()[:8]


def _frame(kind: int, data: bytes, base: bytes, streams: list[bytes]) -> bytes:
    head = _HEAD.pack(MAGIC, FORMAT, kind, len(data), base, hashlib.sha256(data).digest())
    return head + b"".join(_LENGTH.pack(len(stream)) + stream for stream in streams)


def _streams(frame: bytes, kind: int, base: bytes) -> Iterator[bytes]:
    if len(frame) < _HEAD.size:
        raise _refused(f"it has {len(frame)} bytes")
    magic, version, found_kind, _, mark, _ = _HEAD.unpack_from(frame)
    if magic != MAGIC or version != FORMAT:
        raise _refused("it is no frame of weights, or its format is newer")
    if found_kind != kind or mark != base:
        raise _refused("it is a delta to another base, or not of the expected kind")
    end = _HEAD.size
    while end < len(frame):
        start = end + _LENGTH.size
        end = start + int.from_bytes(frame[end:start], "little")
        if end > len(frame):
            raise _refused("it ends too early")
        yield frame[start:end]


def _deflate(data: bytes, strategy: int) -> bytes:
    """Compress ``data`` by a zlib strategy: Huffman's code alone is smallest for a whole state."""
    deflater = zlib.compressobj(LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
    return deflater.compress(data) + deflater.flush()


def _inflate(stream: bytes, size: int, *, exact: bool = True) -> bytes:
    """Decompress ``stream`` to ``size`` bytes (at most, unless ``exact``); or WeightsError."""
    inflater = zlib.decompressobj()
    try:
        data = inflater.decompress(stream, size + 1)
    except zlib.error as error:
        raise _refused(f"a stream cannot be read ({error})") from error
    if len(data) > size:
        raise _refused(f"a stream gives more than the {size} bytes that the schema allows")
    if not inflater.eof or inflater.unused_data or (exact and len(data) != size):
        raise _refused(f"a stream gives {len(data)} of {size} bytes, or has a tail")
    return data


def _refused(detail: str) -> WeightsError:
    return WeightsError(f"the weights cannot be decoded: {detail}", "fetch or write them again")


def split_planes(data: bytes) -> tuple[bytes, bytes]:
    """Return the low bytes of all 16-bit numbers, and their high bytes."""
    return data[0::2], data[1::2]


def join_planes(low: bytes, high: bytes) -> bytes:
    """Merge low and high bytes into 16-bit numbers: the inverse of :func:`split_planes`."""
    data = bytearray(len(low) + len(high))
    data[0::2], data[1::2] = low, high
    return bytes(data)


def rotate_left(data: bytes) -> bytes:
    """Rotate each 16-bit number left by one bit: the sign moves to the lowest bit. The exponent of
    a bfloat16 then fills the high byte, which has about a dozen values in a layer of weights; sign
    and mantissa, which are almost random, fill the low byte.
    """
    numbers = _numbers(data)
    return (numbers >> 15 | numbers << 1).tobytes()


def rotate_right(data: bytes) -> bytes:
    """Rotate each 16-bit number right by one bit: the inverse of :func:`rotate_left`."""
    numbers = _numbers(data)
    return (numbers << 15 | numbers >> 1).tobytes()


def all_finite(data: bytes) -> bool:
    """Return True if every bfloat16 in ``data`` is a finite number."""
    return bool((_numbers(data) & 0x7F80 != 0x7F80).all())  # noqa: PLR2004 - all bits of its exponent


def zigzag_difference(after: bytes, before: bytes) -> bytes:
    """Return after - before of each 16-bit number modulo 2^16, with 0, -1, 1, -2, ... coded as 0,
    1, 2, 3, ... Between two versions most differences are small, so the high byte is mostly zero.
    """
    gap = _numbers(after) - _numbers(before)
    return (gap << 1 ^ -(gap >> 15)).tobytes()


def apply_difference(before: bytes, steps: bytes) -> bytes:
    """Return ``before`` plus the ``steps`` of :func:`zigzag_difference`, which is ``after``."""
    zigzag = _numbers(steps)
    return (_numbers(before) + (zigzag >> 1 ^ -(zigzag & 1))).tobytes()


def _numbers(data: bytes) -> NDArray[np.uint16]:
    """Return the 16-bit numbers in ``data``; sums of them wrap around at 2^16."""
    import numpy as np

    return np.frombuffer(data, "<u2")
