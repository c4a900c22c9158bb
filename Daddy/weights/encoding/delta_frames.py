"""Pure. Safetensors bytes for a slow line, whole or as the step from a version both sides hold.

A frame is 64 bytes (magic, format, kind, size and SHA-256 of what comes out, whose step it is) and
zlib streams with their lengths: the header of the safetensors, which a step leaves out, then per
tensor one stream or, for bfloat16, two byte planes. What a frame claims is only ever compared: a
stream gives the bytes that the schema promises, or the frame is refused with WeightsError.

Byte planes: all 16-bit numbers of a tensor are one big integer whose lanes masks keep apart: as
fast as arrays, on a laptop that has loaded none. No torch.
"""

from __future__ import annotations

import hashlib
import struct
import zlib
from collections.abc import Callable, Iterator

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding.tensor_layout import HEADER_LIMIT, Field, Layout, read_layout

MAGIC = b"DADDYWTS"
FORMAT = 1
WHOLE, STEP = 1, 2

LEVEL = 1
"""Of zlib's, with a strategy that takes no level: the same bytes wherever zlib is the same."""

LIMIT = 1 << 30
"""Bytes of the largest state that is decoded: a policy a hundred times ours."""

Check = Callable[[Layout], None]
"""Raises WeightsError unless a list of tensors is the one expected."""

_HEAD = struct.Struct("<8sBB6xQ8s32s")
_LENGTH = struct.Struct("<I")
_NOTHING = bytes(8)


def pack(data: bytes) -> bytes:
    """A frame that gives ``data``, safetensors bytes, by itself.

    WeightsError when it is damaged or holds a bfloat16 that is not finite.
    """
    layout = read_layout(data)
    _refuse_cut(layout, data)
    streams = [_deflate(layout.preamble, zlib.Z_DEFAULT_STRATEGY)]
    for one in layout.fields:
        body = _body(layout, one, data)
        parts = split(_finite(one, turn(body))) if one.dtype == "BF16" else (body,)
        streams += [_deflate(part, zlib.Z_HUFFMAN_ONLY) for part in parts]
    return _frame(WHOLE, data, _NOTHING, streams)


def unpack(frame: bytes, check: Check, limit: int = LIMIT) -> bytes:
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
    parts = [preamble]
    for one in layout.fields:
        size = one.stop - one.start
        if one.dtype == "BF16":
            turned = join(*(_inflate(next(streams, b""), size // 2) for _ in range(2)))
            parts.append(turn_back(_finite(one, turned)))
        else:
            parts.append(_inflate(next(streams, b""), size))
    return _proven(frame, b"".join(parts), streams)


def pack_step(data: bytes, base: bytes) -> bytes:
    """A frame that gives ``data`` to whoever holds ``base``: two states of one schema in bfloat16.

    WeightsError when they are not, or hold numbers that are not finite.
    """
    layout = read_layout(data)
    _refuse_cut(layout, data)
    if read_layout(base).preamble != layout.preamble or len(base) != len(data):
        raise _refused("its base has other tensors")
    streams: list[bytes] = []
    for one in layout.fields:
        after, before = _body(layout, one, data), _body(layout, one, base)
        if one.dtype == "BF16":
            _finite(one, turn(after))
            streams += [_deflate(part, zlib.Z_RLE) for part in split(step(after, before))]
        else:
            streams.append(_deflate(after, zlib.Z_RLE))
    return _frame(STEP, data, _mark(base), streams)


def unpack_step(frame: bytes, base: bytes) -> bytes:
    """The input of :func:`pack_step`, from the same ``base``; its size bounds all that is made.

    WeightsError when ``base`` is another, when anything in the frame is damaged, too long or too
    short, or when the hash of what comes out is not the promised.
    """
    layout = read_layout(base)
    _refuse_cut(layout, base)
    streams = _streams(frame, STEP, _mark(base))
    parts = [layout.preamble]
    for one in layout.fields:
        size = one.stop - one.start
        if one.dtype == "BF16":
            steps = join(*(_inflate(next(streams, b""), size // 2) for _ in range(2)))
            after = walk(_body(layout, one, base), steps)
            _finite(one, turn(after))
            parts.append(after)
        else:
            parts.append(_inflate(next(streams, b""), size))
    return _proven(frame, b"".join(parts), streams)


def _body(layout: Layout, one: Field, data: bytes) -> bytes:
    offset = len(layout.preamble)
    return data[offset + one.start : offset + one.stop]


def _refuse_cut(layout: Layout, data: bytes) -> None:
    if layout.size != len(data):
        raise _refused(f"its tensors have {layout.size} bytes and it has {len(data)}")


def _finite(one: Field, turned: bytes) -> bytes:
    """The turned numbers of a tensor; WeightsError when any is not finite."""
    if not is_finite(turned):
        raise _refused(f"{one.name[:80]!r} holds values that are not finite")
    return turned


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
    return _pieces(frame)


def _pieces(frame: bytes) -> Iterator[bytes]:
    at = _HEAD.size
    while at < len(frame):
        if len(frame) - at < _LENGTH.size:
            raise _refused("it ends too early")
        (length,) = _LENGTH.unpack_from(frame, at)
        at += _LENGTH.size
        if length > len(frame) - at:
            raise _refused("it ends too early")
        yield frame[at : at + length]
        at += length


def _proven(frame: bytes, data: bytes, streams: Iterator[bytes]) -> bytes:
    """``data``, when nothing is left over and it is what the frame's first bytes promised."""
    *_, size, _, digest = _HEAD.unpack_from(frame)
    if next(streams, None) is not None:
        raise _refused("something follows its last tensor")
    if size != len(data) or digest != hashlib.sha256(data).digest():
        raise _refused("what comes out does not have the promised size and hash")
    return data


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


def split(data: bytes) -> tuple[bytes, bytes]:
    """The low bytes of all numbers, and their high bytes."""
    return data[0::2], data[1::2]


def join(low: bytes, high: bytes) -> bytes:
    """The inverse of :func:`split`."""
    data = bytearray(len(low) + len(high))
    data[0::2], data[1::2] = low, high
    return bytes(data)


def turn(data: bytes) -> bytes:
    """Each number with its highest bit moved to the lowest place.

    A bfloat16's exponent then fills the high byte, which takes a dozen values in a layer of
    weights; sign and mantissa, which are as good as random, the low one.
    """
    numbers, one = _number(data), _lanes(0x0001, data)
    return _bytes((numbers >> 15 & one) | (numbers & _lanes(0x7FFF, data)) << 1, data)


def turn_back(data: bytes) -> bytes:
    """The inverse of :func:`turn`."""
    numbers, one = _number(data), _lanes(0x0001, data)
    return _bytes((numbers & one) << 15 | (numbers >> 1 & _lanes(0x7FFF, data)), data)


def is_finite(data: bytes) -> bool:
    """True if every bfloat16 in ``data``, as :func:`turn` gave it, is a finite number."""
    return b"\xff" not in data[1::2]


def step(after: bytes, before: bytes) -> bytes:
    """From ``before`` to ``after`` modulo 2^16; steps 0, -1, 1, -2, ... become 0, 1, 2, 3, ...

    Between two versions of a weight the low byte of it is mostly all that is not zero.
    """
    top, rest = _lanes(0x8000, after), _lanes(0x7FFF, after)
    new, old = _number(after), _number(before)
    gap = ((new | top) - (old & rest)) ^ (~(new ^ old) & top)
    return _bytes((gap & rest) << 1 ^ _filled(gap >> 15, after), after)


def walk(before: bytes, steps: bytes) -> bytes:
    """The inverse of :func:`step`: ``after`` again."""
    top, rest = _lanes(0x8000, before), _lanes(0x7FFF, before)
    old, zigzag = _number(before), _number(steps)
    gap = (zigzag >> 1 & rest) ^ _filled(zigzag, before)
    return _bytes(((old & rest) + (gap & rest)) ^ (old ^ gap) & top, before)


def _filled(numbers: int, like: bytes) -> int:
    """0xFFFF in every lane whose lowest bit is set, 0 in the others."""
    odd = numbers & _lanes(0x0001, like)
    return (odd << 16) - odd


def _lanes(number: int, like: bytes) -> int:
    return int.from_bytes(number.to_bytes(2, "little") * (len(like) // 2), "little")


def _number(data: bytes) -> int:
    return int.from_bytes(data, "little")


def _bytes(numbers: int, like: bytes) -> bytes:
    return numbers.to_bytes(len(like), "little")
