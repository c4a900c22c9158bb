"""Frames: decoded bytes equal the input, bit for bit, and any other frame is refused."""

import contextlib
import hashlib
import random
import struct
import tracemalloc
import zlib

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.errors import WeightsError
from Daddy.weights.encoding import delta_frames as planes
from Daddy.weights.encoding.delta_frames import pack_delta, pack_state, unpack_delta, unpack_state
from Daddy.weights.encoding.state_codec import encode
from Daddy.weights.encoding.tensor_layout import refuse_unless_half, schema_of_bytes
from tests.weights.helpers import make_state, perturbed

NUMBERS = st.integers(0, 0xFFFF)
FINITE = NUMBERS.filter(lambda bits: bits & 0x7F80 != 0x7F80)  # also -0 and denormals


def half(*rows: list[int]) -> bytes:
    """Return a state of bfloat16 tensors with exactly these bits, and a counter."""
    state = {
        f"layer{n}": torch.tensor(bits, dtype=torch.uint16).view(torch.bfloat16)
        for n, bits in enumerate(rows)
    }
    return encode({**state, "steps": torch.tensor([len(rows), -1])}, half=True)


def check_for(data: bytes):
    schema = schema_of_bytes(data)
    return lambda layout: refuse_unless_half(layout, schema)


@given(st.lists(NUMBERS, max_size=50), st.lists(NUMBERS, min_size=50, max_size=50))
def test_every_rearrangement_has_its_inverse_for_all_bits_there_are(left, right):
    after, before = (
        struct.pack(f"<{len(left)}H", *numbers) for numbers in (left, right[: len(left)])
    )
    assert planes.join_planes(*planes.split_planes(after)) == after
    assert planes.rotate_right(planes.rotate_left(after)) == after
    assert planes.apply_difference(before, planes.zigzag_difference(after, before)) == after


@given(NUMBERS, st.integers(-100, 100))
def test_a_small_step_of_either_sign_is_a_small_number(before, by):
    after = struct.pack("<H", (before + by) % 0x10000)
    (number,) = struct.unpack("<H", planes.zigzag_difference(after, struct.pack("<H", before)))
    assert number == (2 * by if by >= 0 else -2 * by - 1)


@given(st.lists(FINITE, max_size=40), st.lists(FINITE, max_size=40))
@settings(max_examples=50)
def test_a_whole_state_comes_back_bit_for_bit(entry, other):
    data = half(entry, other)
    assert unpack_state(pack_state(data), check_for(data), len(data)) == data


@given(st.lists(st.tuples(FINITE, FINITE), max_size=60))
@settings(max_examples=50)
def test_a_step_from_any_version_to_any_other_comes_back_bit_for_bit(pairs):
    before, after = half([a for a, _ in pairs]), half([b for _, b in pairs])
    assert unpack_delta(pack_delta(after, before), before) == after


def test_minus_zero_and_denormals_survive():
    bits = [0x8000, 0x0001, 0x807F, 0x0000, 0x0080, 0x7F7F]
    data = half(bits)
    assert unpack_state(pack_state(data), check_for(data), len(data)) == data
    assert unpack_delta(pack_delta(data, half([0] * 6)), half([0] * 6)) == data


@pytest.mark.parametrize("bits", [0x7F80, 0xFF80, 0x7FC0, 0x7F81, 0xFFFF])
def test_a_number_that_is_not_finite_is_refused_before_and_after_it_travels(bits, monkeypatch):
    bad, good = half([1, bits]), half([1, 2])
    for make in (lambda: pack_state(bad), lambda: pack_delta(bad, good)):
        with pytest.raises(WeightsError, match="not finite"):
            make()
    monkeypatch.setattr(
        "Daddy.weights.encoding.delta_frames.all_finite", lambda _: True
    )  # a sender that lies
    whole, stepped = pack_state(bad), pack_delta(bad, good)
    monkeypatch.undo()
    with pytest.raises(WeightsError, match="not finite"):
        unpack_state(whole, check_for(good), len(good))
    with pytest.raises(WeightsError, match="not finite"):
        unpack_delta(stepped, good)


def test_equal_states_have_equal_frames_and_a_real_one_is_smaller():
    state = {"w": torch.randn(300, 300, generator=torch.Generator().manual_seed(1)) * 0.05}
    before, after = encode(state, half=True), encode(perturbed(state, 3, 1e-4), half=True)
    assert pack_state(before) == pack_state(bytes(bytearray(before)))
    assert len(pack_state(before)) < 0.72 * len(before)
    assert len(pack_delta(after, before)) < 0.7 * len(pack_state(after))


def frames() -> tuple[bytes, bytes, bytes, bytes]:
    state = make_state(1, 50)
    before, after = encode(state, half=True), encode(perturbed(state, 2), half=True)
    return pack_state(after), pack_delta(after, before), before, after


@given(st.data())
@settings(max_examples=150)
def test_a_truncated_or_altered_frame_is_refused_in_words_or_gives_the_very_same(data):
    whole, stepped, before, after = frames()
    for frame, decode in (
        (whole, lambda f: unpack_state(f, check_for(after), len(after))),
        (stepped, lambda f: unpack_delta(f, before)),
    ):
        at = data.draw(st.integers(0, len(frame) - 1))
        flipped = bytearray(frame)
        flipped[at] ^= data.draw(st.integers(1, 255))
        with pytest.raises(WeightsError, match=r"decoded|safetensors|names or shapes"):
            decode(frame[:at])
        with contextlib.suppress(WeightsError):
            assert decode(bytes(flipped)) == after  # a byte that says nothing, such as a zlib hint


def framed(head: bytes, *streams: bytes) -> bytes:
    return head + b"".join(struct.pack("<I", len(stream)) + stream for stream in streams)


def streams_of(frame: bytes) -> list[bytes]:
    found, at = [], 64
    while at < len(frame):
        (size,) = struct.unpack_from("<I", frame, at)
        found.append(frame[at + 4 : at + 4 + size])
        at += 4 + size
    return found


@pytest.mark.parametrize("which", [0, 1, -1])
def test_a_stream_that_unfolds_into_gigabytes_is_refused_at_the_size_of_the_schema(which):
    whole, stepped, before, after = frames()
    bomb = zlib.compress(bytes(200_000_000), 9)
    assert len(bomb) < 250_000
    for frame, decode in (
        (whole, lambda f: unpack_state(f, check_for(after), len(after))),
        (stepped, lambda f: unpack_delta(f, before)),
    ):
        streams = streams_of(frame)
        streams[which] = bomb
        armed = framed(frame[:64], *streams)
        tracemalloc.start()
        try:
            with pytest.raises(WeightsError):
                decode(armed)
            assert tracemalloc.get_traced_memory()[1] < 8_000_000
        finally:
            tracemalloc.stop()


def altered(frame: bytes, change) -> bytes:
    """Return the frame with its last stream changed."""
    *others, last = streams_of(frame)
    return framed(frame[:64], *others, change(last))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda stream: stream[:-4], "or has a tail"),  # all its bytes, but no proof of them
        (lambda stream: stream + b"x", "or has a tail"),
        (lambda stream: zlib.compress(zlib.decompress(stream)[:-1]), "of 50 bytes"),
        (lambda stream: zlib.compress(zlib.decompress(stream) + b"x"), "more than the 50 bytes"),
        (lambda stream: zlib.compress(zlib.decompress(stream)[::-1]), "size and hash in its head"),
        (lambda stream: b"", "0 of 50 bytes"),
    ],
)
def test_a_stream_gives_exactly_what_was_promised_or_is_refused(change, said):
    state = {"w": torch.randn(50, generator=torch.Generator().manual_seed(1))}
    before, after = encode(state, half=True), encode(perturbed(state, 2), half=True)
    with pytest.raises(WeightsError, match=said):
        unpack_state(altered(pack_state(after), change), check_for(after), len(after))
    with pytest.raises(WeightsError, match=said):
        unpack_delta(altered(pack_delta(after, before), change), before)


def test_what_its_first_bytes_claim_allocates_nothing_and_must_be_true():
    whole, _, _, after = frames()
    head = bytearray(whole[:64])
    struct.pack_into("<Q", head, 16, 1 << 50)
    with pytest.raises(WeightsError, match="size and hash in its head"):
        unpack_state(bytes(head) + whole[64:], check_for(after), len(after))


def test_a_state_of_another_schema_or_size_is_refused_before_its_tensors_are_decoded():
    whole, _, _, after = frames()
    streams = streams_of(whole)
    torn = framed(whole[:64], streams[0], *(b"nothing to decode" for _ in streams[1:]))
    other = encode(make_state(1, 51), half=True)
    with pytest.raises(WeightsError, match="names or shapes"):
        unpack_state(torn, check_for(other), len(other))
    with pytest.raises(WeightsError, match="are expected"):
        unpack_state(torn, check_for(after), len(after) - 1)
    plain = encode(make_state(1, 50))
    with pytest.raises(WeightsError, match="not bfloat16"):
        unpack_state(pack_state(plain), check_for(plain), len(plain))


def test_a_step_is_refused_by_whoever_holds_another_version_or_another_policy():
    whole, stepped, before, after = frames()
    with pytest.raises(WeightsError, match="another base"):
        unpack_delta(stepped, after)
    with pytest.raises(WeightsError, match="another base"):
        unpack_delta(whole, before)
    with pytest.raises(WeightsError, match="another base"):
        unpack_state(stepped, check_for(after), len(after))
    with pytest.raises(WeightsError, match="other tensors"):
        pack_delta(after, encode(make_state(1, 51), half=True))


def test_what_follows_the_last_tensor_is_refused():
    whole, stepped, before, after = frames()
    extra = struct.pack("<I", 3) + b"abc"
    with pytest.raises(WeightsError, match="bytes follow"):
        unpack_state(whole + extra, check_for(after), len(after))
    with pytest.raises(WeightsError, match="bytes follow"):
        unpack_delta(stepped + extra, before)


def test_a_list_of_tensors_that_overlap_or_leave_holes_is_refused():
    rng = random.Random(1)
    body = rng.randbytes(8)
    for second in ("[2, 6]", "[0, 4]", "[4, 9]", "[4, 7]", '["4", 8]', "[-4, 0]"):
        text = (
            '{"a": {"dtype": "I8", "shape": [4], "data_offsets": [0, 4]}, '
            f'"b": {{"dtype": "I8", "shape": [4], "data_offsets": {second}}}}}'
        ).encode()
        data = struct.pack("<Q", len(text)) + text + body
        with pytest.raises(WeightsError, match="complete safetensors"):
            pack_state(data)


def test_the_frame_is_documented_by_its_first_bytes():
    whole, stepped, before, after = frames()
    assert whole[:10] == b"DADDYWTS\x01\x01"
    assert stepped[:10] == b"DADDYWTS\x01\x02"
    assert struct.unpack_from("<Q", whole, 16) == (len(after),)
    assert stepped[24:32] == hashlib.sha256(before).digest()[:8]
    assert whole[32:64] == stepped[32:64] == hashlib.sha256(after).digest()
