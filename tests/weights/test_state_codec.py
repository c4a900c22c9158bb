import json
import struct

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from Daddy.core.errors import WeightsError
from Daddy.learning.checkpoint import _read_tensors
from Daddy.weights.encoding import delta_frames
from Daddy.weights.encoding.quantise import decode_delta
from Daddy.weights.encoding.state_codec import decode, encode, schema_of, schema_of_bytes
from Daddy.weights.encoding.tensor_layout import metadata_of
from tests.weights.helpers import make_state


@given(st.integers(0, 1000))
@settings(max_examples=20)
def test_a_state_comes_back_bit_for_bit(seed):
    state = make_state(seed)
    again = decode(encode(state), schema_of(state))
    assert all(torch.equal(state[name], again[name]) for name in state)


def test_equal_states_have_equal_bytes_whatever_the_order_of_names():
    state = make_state()
    assert encode(state) == encode(dict(reversed(list(state.items()))))


def test_half_the_bytes_come_back_as_float32_within_a_part_in_256():
    state = {"w": torch.randn(100, 100)}
    data = encode(state, half=True)
    again = decode(data, schema_of(state))
    assert len(data) < 0.51 * len(encode(state))
    assert again["w"].dtype == torch.float32
    assert ((again["w"] - state["w"]).abs() <= state["w"].abs() / 256).all()


def test_negative_zero_and_denormals_survive():
    state = {"w": torch.tensor([-0.0, 1e-42, -1e-45])}
    again = decode(encode(state))
    assert torch.equal(again["w"].view(torch.int32), state["w"].view(torch.int32))


def test_the_schema_is_the_same_from_the_state_and_from_its_bytes():
    state = make_state()
    assert (
        schema_of(state)
        == schema_of_bytes(encode(state))
        == schema_of_bytes(encode(state, half=True))
    )


@pytest.mark.parametrize(
    "change",
    [
        lambda s: s.pop("core.bias"),
        lambda s: s.update(extra=torch.zeros(1)),
        lambda s: s.update({"core.bias": torch.zeros(4)}),
        lambda s: s.update(steps=torch.zeros(1)),
    ],
    ids=["missing", "extra", "shape", "kind"],
)
def test_another_schema_is_refused(change):
    expected, state = schema_of(make_state()), make_state()
    change(state)
    with pytest.raises(WeightsError, match="names or shapes"):
        decode(encode(state), expected)


def packed(header: dict, size: int) -> bytes:
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + b"\0" * size


def test_a_name_that_stands_twice_is_refused():
    row = b'"a":{"dtype":"F32","shape":[1],"data_offsets":[%d,%d]}'
    text = b"{" + row % (0, 4) + b"," + row % (4, 8) + b"}"
    with pytest.raises(WeightsError, match="safetensors"):
        decode(struct.pack("<Q", len(text)) + text + b"\0" * 8)


def with_a_name_twice(data: bytes) -> bytes:
    """Repeat the row of the first tensor, so that all places still fit together."""
    length = int.from_bytes(data[:8], "little")
    header = data[8 : 8 + length].decode().rstrip()
    name, row = next(iter(json.loads(header).items()))
    text = (header[:-1] + f",{json.dumps(name)}:{json.dumps(row)}}}").encode()
    return struct.pack("<Q", len(text)) + text + data[8 + length :]


def unpacked(data: bytes) -> object:
    """Pack as an older release would have, and unpack."""
    return delta_frames.unpack_state(delta_frames.pack_state(data), lambda _: None)


@pytest.mark.parametrize(
    "read",
    [decode, lambda data: decode_delta(data, "", schema_of(make_state())), metadata_of,
     schema_of_bytes, unpacked, _read_tensors],
    ids=["state", "delta", "import", "schema", "frame", "checkpoint"],
)  # fmt: skip
def test_a_tensor_whose_name_stands_twice_enters_in_no_form(read):
    good = encode(make_state())
    read(good)
    with pytest.raises((WeightsError, ValueError), match="a key occurs twice"):
        read(with_a_name_twice(good))


@given(st.lists(st.integers(0, 0xFFFF), min_size=1, max_size=64))
@settings(max_examples=50)
def test_half_the_bytes_come_back_bit_for_bit_once_they_are_bfloat16(bits):
    """Negative zero, denormals and infinities too; NaN stays NaN."""
    wire = torch.tensor(bits, dtype=torch.int32).to(torch.int16).view(torch.bfloat16)
    again = decode(encode({"w": wire.float()}, half=True))["w"]
    numbers = ~wire.isnan()
    assert torch.equal(again.bfloat16()[numbers].view(torch.int16), wire[numbers].view(torch.int16))
    assert again.isnan().equal(wire.isnan())


def hostile() -> dict[str, bytes]:
    good = encode(make_state())
    header = {"w": {"dtype": "F32", "shape": [1 << 40], "data_offsets": [0, 4]}}
    text = json.dumps(header).encode()
    return {
        "empty": b"",
        "eight bytes": b"\0" * 8,
        "truncated": good[:-1],
        "first half": good[: len(good) // 2],
        "trailing byte": good + b"\0",
        "huge header": struct.pack("<Q", 1 << 40) + b"{}",
        "shape overflow": struct.pack("<Q", len(text)) + text + b"\0" * 4,
        "header of 101 MB": struct.pack("<Q", 101 << 20) + b"{" + b" " * (101 << 20),
        "overlapping": packed(
            {
                "a": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]},
                "b": {"dtype": "F32", "shape": [2], "data_offsets": [4, 12]},
            },
            12,
        ),
        "hole": packed({"a": {"dtype": "F32", "shape": [1], "data_offsets": [4, 8]}}, 8),
        "shape times offsets": packed(
            {"a": {"dtype": "F32", "shape": [3], "data_offsets": [0, 8]}}, 8
        ),
        "header no object": struct.pack("<Q", 2) + b"[]",
        "header rows no objects": struct.pack("<Q", 7) + b'{"a":1}',
        "pickle": b"\x80\x04\x95" + b"\0" * 64,
    }


@pytest.mark.parametrize("name", hostile())
def test_damaged_or_hostile_bytes_are_refused_in_words(name):
    with pytest.raises(WeightsError, match="safetensors"):
        decode(hostile()[name])


def test_tied_tensors_are_written_like_any_other():
    entry = torch.randn(3)
    again = decode(encode({"a": entry, "b": entry}))
    assert torch.equal(again["a"], again["b"])
