"""Every picture survives encoding, whole and as tiles; all other bytes are refused."""

import random
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.shared_types import SCREEN_BYTES
from Daddy.streaming.protocol import frame_codec
from Daddy.streaming.protocol.frame_codec import MAX_BASES, NEW, PLACES, TiledPicture, split_tiles
from Daddy.streaming.protocol.frame_codec import deflate_tiled as deflate
from Daddy.streaming.protocol.frame_codec import inflate_tiled as inflate
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
    for row in range(8):  # the tile in column 3 of the second row of tiles
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


def shown(seed: int) -> bytes:
    """Return a picture in tile order; every fourth is noise with more tiles than numbers."""
    return random.Random(seed).randbytes(SCREEN_BYTES) if seed % 4 == 0 else _drawn(seed)


def _drawn(seed: int) -> bytes:
    return frame_codec.to_tiles(picture(seed))


def bases(*seeds: int) -> list[TiledPicture]:
    return [split_tiles(shown(seed)) for seed in seeds]


@settings(max_examples=60)
@given(st.integers(0, 20), st.lists(st.integers(0, 20), min_size=1, max_size=12))
def test_any_picture_comes_back_against_any_bases(seed: int, before: list[int]) -> None:
    assert split_tiles(shown(seed)).tiles() == shown(seed)
    against = bases(*before)
    assert inflate(deflate(split_tiles(shown(seed)), against), against) == shown(seed)


def test_what_came_back_after_a_while_costs_next_to_nothing() -> None:
    old, others = shown(1), [shown(seed) for seed in (2, 3, 5, 6)]
    against = [split_tiles(tiles) for tiles in (old, *others)]
    assert len(deflate(split_tiles(old), against)) < 16
    assert len(frame_codec.deflate(old, others[-1])) > 300


def test_a_scrolled_picture_is_numbers_shifted() -> None:
    before = _drawn(1)
    after = b"".join(before[row * 320 + 32 : row * 320 + 320] + bytes(32) for row in range(18))
    assert 1.5 * len(deflate(split_tiles(after), [split_tiles(before)])) < len(
        frame_codec.deflate(after, before)
    )


@settings(max_examples=200)
@given(st.binary(max_size=300))
def test_garbage_of_tiles_is_refused_and_never_anything_else(data: bytes) -> None:
    with pytest.raises(frame_codec.CodecError):
        inflate(data, bases(1, 0))


@pytest.mark.parametrize(
    "plain",
    [
        bytes([200]) * PLACES,
        bytes([NEW]) + bytes(PLACES - 1),
        bytes(PLACES) + bytes(16),
        bytes(PLACES - 1),
        b"",
    ],
    ids=["no such tile", "a tile is missing", "a tile too many", "a place is missing", "nothing"],
)
def test_numbers_that_make_no_picture_are_refused(plain: bytes) -> None:
    with pytest.raises(frame_codec.CodecError):
        inflate(_squeezed(plain), bases(1))


def _squeezed(plain: bytes) -> bytes:
    squeeze = zlib.compressobj(9, zlib.DEFLATED, -15)
    return squeeze.compress(plain) + squeeze.flush()


def test_a_bomb_of_tiles_is_refused_without_being_unpacked() -> None:
    bomb, against = _squeezed(bytes(64 * 1024 * 1024)), bases(1)
    tracemalloc.start()
    with pytest.raises(frame_codec.CodecError):
        inflate(bomb, against)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 128 * 1024


def test_pictures_without_two_equal_tiles_take_64_kib_at_most() -> None:
    noise = [random.Random(seed).randbytes(SCREEN_BYTES) for seed in range(MAX_BASES + 1)]
    against = [split_tiles(tiles) for tiles in noise[:-1]]
    delta = deflate(split_tiles(noise[-1]), against)
    tracemalloc.start()
    assert split_tiles(inflate(delta, against)).tiles() == noise[-1]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 64 * 1024


def test_a_remembered_picture_takes_less_than_its_own_bytes() -> None:
    tracemalloc.start()
    kept = [split_tiles(_drawn(seed)) for seed in range(1, 9)]
    taken = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert taken < 8 * SCREEN_BYTES
    assert len(kept) == 8


def test_a_distance_never_leaves_the_small_window() -> None:
    dictionary = frame_codec.DICTIONARY_MAPS * PLACES + NEW * frame_codec.TILE_BYTES
    assert dictionary + PLACES + SCREEN_BYTES < 16 * 1024
