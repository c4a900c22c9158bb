"""Pure. Safetensors bytes for a slow line, whole or as the step from a version both sides hold.

A frame is 64 bytes (magic, format, kind, size and SHA-256 of what comes out, whose step it is) and
zlib streams with their lengths: the header of the safetensors, which a step leaves out, then per
tensor one stream or, for bfloat16, two byte planes. What a frame claims is only ever compared: a
stream gives the bytes that the schema promises, or the frame is refused with WeightsError.

No torch; numpy is loaded when the first frame comes.
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
"""Of zlib's, with a strategy that takes no level: the same bytes wherever zlib is the same."""

LIMIT = 1 << 30
"""Bytes of the largest state that is decoded: a policy a hundred times ours."""

Check = Callable[[TensorLayout], None]
"""Raises WeightsError unless a list of tensors is the one expected."""

_HEAD = struct.Struct("<8sBB6xQ8s32s")
_LENGTH = struct.Struct("<I")
_NOTHING = bytes(8)


def pack_state(data: bytes) -> bytes:
    """A frame that gives ``data``, safetensors bytes, by itself.

    WeightsError when it is damaged or holds a bfloat16 that is not finite.
    """
    layout = _read_whole(data)
    header = _deflate(layout.preamble, zlib.Z_DEFAULT_STRATEGY)
    return _frame(WHOLE, data, _NOTHING, [header, *_encode(layout, data)])


def unpack_state(frame: bytes, check: Check, limit: int = LIMIT) -> bytes:
    """The input of :func:`pack`; ``check`` sees its list of tensors before the rest is decoded.

    WeightsError when that refuses, when it comes to more than ``limit`` bytes, when anything in the
    frame is damaged, too long or too short, or when the hash of what comes out is not the promised.
    """
    streams = _streams(frame, WHOLE, _NOTHING)
    preamble = _inflate(next(streams, b""), HEADER_LIMIT + 8, exact=False)
    layout = read_layout(preamble)
    check(layout)
    if len(layout.preamble) != len(preamble) or layout.size > limit:
        raise _refused(f"it would be {layout.size} bytes, {limit} are expected")
    return _decode(frame, layout, streams)


def pack_delta(data: bytes, base: bytes) -> bytes:
    """A frame that gives ``data`` to whoever holds ``base``: two states of one schema in bfloat16.

    WeightsError when they are not, or hold numbers that are not finite.
    """
    layout = _read_whole(data)
    if read_layout(base).preamble != layout.preamble or len(base) != len(data):
        raise _refused("its base has other tensors")
    return _frame(STEP, data, _mark(base), _encode(layout, data, base))


def unpack_delta(frame: bytes, base: bytes) -> bytes:
    """The input of :func:`pack_step`, from the same ``base``; its size bounds all that is made.

    WeightsError when ``base`` is another, when anything in the frame is damaged, too long or too
    short, or when the hash of what comes out is not the promised.
    """
    layout = _read_whole(base)
    return _decode(frame, layout, _streams(frame, STEP, _mark(base)), base)


def _encode(layout: TensorLayout, data: bytes, base: bytes | None = None) -> list[bytes]:
    """The streams of all tensors, as they are or as steps from ``base``."""
    strategy = zlib.Z_HUFFMAN_ONLY if base is None else zlib.Z_RLE
    streams = []
    for tensor in layout.fields:
        body = _body(layout, tensor, data)
        planes: tuple[bytes, ...] = (body,)
        if tensor.dtype == "BF16":
            _refuse_infinite(tensor, body)
            before = None if base is None else _body(layout, tensor, base)
            planes = split_planes(
                rotate_left(body) if before is None else zigzag_difference(body, before)
            )
        streams += [_deflate(plane, strategy) for plane in planes]
    return streams


def _decode(
    frame: bytes, layout: TensorLayout, streams: Iterator[bytes], base: bytes | None = None
) -> bytes:
    """The safetensors bytes in ``streams``; WeightsError unless ``frame`` promises just these."""
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
        raise _refused("something follows its last tensor")
    data = b"".join(parts)
    *_, size, _, digest = _HEAD.unpack_from(frame)
    if size != len(data) or digest != hashlib.sha256(data).digest():
        raise _refused("what comes out does not have the promised size and hash")
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
    return head + b"".join(_LENGTH.pack(len(one)) + one for one in streams)


def _streams(frame: bytes, kind: int, base: bytes) -> Iterator[bytes]:
    """The compressed streams of a frame of this kind and base."""
    if len(frame) < _HEAD.size:
        raise _refused(f"it has {len(frame)} bytes")
    magic, version, found, _, mark, _ = _HEAD.unpack_from(frame)
    if magic != MAGIC or version != FORMAT:
        raise _refused("it does not begin as one of ours, or is of a newer format")
    if found != kind or mark != base:
        raise _refused("it is the step from another version, or none at all")
    at = _HEAD.size
    while at < len(frame):
        start = at + _LENGTH.size
        at = start + int.from_bytes(frame[at:start], "little")
        if at > len(frame):
            raise _refused("it ends too early")
        yield frame[start:at]


def _deflate(data: bytes, strategy: int) -> bytes:
    """Exponents differ too irregularly for repeats to pay: Huffman's code alone is smaller."""
    deflater = zlib.compressobj(LEVEL, zlib.DEFLATED, zlib.MAX_WBITS, 9, strategy)
    return deflater.compress(data) + deflater.flush()


def _inflate(stream: bytes, size: int, *, exact: bool = True) -> bytes:
    """The ``size`` bytes (at most so many, unless ``exact``) in ``stream``, and no more of them."""
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
    """The low bytes of all numbers, and their high bytes."""
    return data[0::2], data[1::2]


def join_planes(low: bytes, high: bytes) -> bytes:
    """The inverse of :func:`split`."""
    data = bytearray(len(low) + len(high))
    data[0::2], data[1::2] = low, high
    return bytes(data)


def rotate_left(data: bytes) -> bytes:
    """Each number with its highest bit moved to the lowest place.

    A bfloat16's exponent then fills the high byte, which takes a dozen values in a layer of
    weights; sign and mantissa, which are as good as random, the low one.
    """
    numbers = _numbers(data)
    return (numbers >> 15 | numbers << 1).tobytes()


def rotate_right(data: bytes) -> bytes:
    """The inverse of :func:`turn`."""
    numbers = _numbers(data)
    return (numbers << 15 | numbers >> 1).tobytes()


def all_finite(data: bytes) -> bool:
    """True if every bfloat16 in ``data`` is a finite number."""
    return bool((_numbers(data) & 0x7F80 != 0x7F80).all())  # noqa: PLR2004 - all bits of its exponent


def zigzag_difference(after: bytes, before: bytes) -> bytes:
    """From ``before`` to ``after`` modulo 2^16; steps 0, -1, 1, -2, ... become 0, 1, 2, 3, ...

    Between two versions of a weight the low byte of it is mostly all that is not zero.
    """
    gap = _numbers(after) - _numbers(before)
    return (gap << 1 ^ -(gap >> 15)).tobytes()


def apply_difference(before: bytes, steps: bytes) -> bytes:
    """The inverse of :func:`step`: ``after`` again."""
    zigzag = _numbers(steps)
    return (_numbers(before) + (zigzag >> 1 ^ -(zigzag & 1))).tobytes()


def _numbers(data: bytes) -> NDArray[np.uint16]:
    """The 16-bit numbers in ``data``, whose sums wrap round."""
    import numpy as np

    return np.frombuffer(data, "<u2")
