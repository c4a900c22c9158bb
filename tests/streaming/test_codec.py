"""Any picture survives the journey; nothing but a picture is accepted."""

from __future__ import annotations

import random
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.vocabulary import SCREEN_BYTES
from Daddy.streaming.protocol import frame_codec
from tests.streaming.helpers import picture

seeds = st.integers(0, 2**32)


def noise(seed: int) -> bytes:
    return random.Random(seed).randbytes(SCREEN_BYTES)


@settings(max_examples=50)
@given(seeds, st.booleans())
def test_any_picture_comes_back_whole(seed: int, noisy: bool) -> None:
    pixels = noise(seed) if noisy else picture(seed)
    assert frame_codec.decode(frame_codec.encode(pixels)) == pixels


@settings(max_examples=50)
@given(seeds, seeds)
def test_any_picture_comes_back_against_any_base(seed: int, base: int) -> None:
    pixels, before = picture(seed), picture(base)
    assert frame_codec.decode(frame_codec.encode(pixels, before), before) == pixels


def test_tile_order_puts_the_sixteen_bytes_of_a_tile_side_by_side() -> None:
    lines = bytearray(SCREEN_BYTES)
    for row in range(8):  # the tile in column 3 of the second band of tiles
        lines[(8 + row) * 40 + 6 : (8 + row) * 40 + 8] = b"\xab\xcd"
    tiles = frame_codec.to_tiles(bytes(lines))
    start = (20 + 3) * 16
    assert tiles[start : start + 16] == b"\xab\xcd" * 8
    assert tiles.count(0) == SCREEN_BYTES - 16


def test_a_scrolled_picture_is_smaller_against_its_predecessor() -> None:
    before = picture(1)
    after = b"".join(before[y * 40 + 4 : y * 40 + 40] + b"\x00" * 4 for y in range(144))
    assert len(frame_codec.encode(after, before)) < 0.7 * len(frame_codec.encode(after))


def test_noise_stays_below_the_bound_of_a_frame() -> None:
    assert len(frame_codec.encode(noise(1), noise(2))) < 6144 - 20


@settings(max_examples=200)
@given(st.binary(max_size=300), st.booleans())
def test_garbage_is_refused_and_never_anything_else(data: bytes, with_base: bool) -> None:
    with pytest.raises(frame_codec.CodecError):
        frame_codec.decode(data, picture(0) if with_base else None)


def test_a_bomb_is_refused_without_being_unpacked() -> None:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    bomb = squeeze.compress(bytes(64 * 1024 * 1024)) + squeeze.flush()
    tracemalloc.start()
    with pytest.raises(frame_codec.CodecError):
        frame_codec.inflate(bomb, None)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 * 1024


@pytest.mark.parametrize("change", [lambda d: d[:-1], lambda d: d + b"x", lambda d: b""])
def test_cut_or_lengthened_bytes_are_refused(change) -> None:
    with pytest.raises(frame_codec.CodecError):
        frame_codec.decode(change(frame_codec.encode(picture(3))))


def test_a_picture_of_the_wrong_size_is_refused() -> None:
    with pytest.raises(frame_codec.CodecError, match="5760 bytes, not 5759"):
        frame_codec.encode(bytes(5759))
