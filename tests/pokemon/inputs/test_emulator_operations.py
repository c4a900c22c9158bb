"""Tests that encoded operations are decoded, and all other bytes refused."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.pokemon.emulator import BUTTONS, FRAMES_PER_STEP
from Daddy.pokemon.inputs import emulator_operations as ops
from Daddy.pokemon.inputs.emulator_operations import OperationKind, encode_operation
from Daddy.pokemon.ram_map import RANDOM

FRAMES = st.integers(1, ops.MAX_FRAMES)
ADDRESSES = st.one_of(st.integers(0xC000, 0xDFFF), st.sampled_from(RANDOM))
DONE = st.one_of(
    st.integers(0, 6).map(lambda button: bytes([button])),
    st.just(ops.IDLE),
    st.builds(encode_operation, st.just(OperationKind.WAIT), FRAMES),
    st.builds(encode_operation, st.just(OperationKind.HOLD), st.integers(0, 127), FRAMES),
    st.builds(encode_operation, st.just(OperationKind.WRITE), ADDRESSES, st.integers(0, 255)),
    st.just(ops.KEEP),
)


def test_a_step_is_what_the_emulator_plays() -> None:
    assert ops.STEP_FRAMES == FRAMES_PER_STEP
    assert len(BUTTONS) == OperationKind.IDLE


@given(st.lists(DONE.filter(lambda operation: operation != ops.KEEP), max_size=40))
def test_what_is_written_is_read(done: list[bytes]) -> None:
    data, at = b"".join(done), 0
    for written, found in zip(done, ops.decode_operations(data), strict=True):
        assert data[at : found.end] == written
        at = found.end


@given(st.binary(max_size=200))
def test_any_bytes_are_operations_within_bounds_or_a_value_error(data: bytes) -> None:
    try:
        found = list(ops.decode_operations(data))
    except ValueError:
        return
    assert all(0 <= operation.frames <= ops.MAX_FRAMES for operation in found)
    assert [operation.end for operation in found[-1:]] == ([len(data)] if data else [])


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (encode_operation(OperationKind.WAIT, 0), "0 frames"),
        (encode_operation(OperationKind.WAIT, 6_145), "6145 frames"),
        (encode_operation(OperationKind.HOLD, 128, 1), "buttons 0x80"),
        (encode_operation(OperationKind.WRITE, 0xFF50, 1), "0xff50"),
        (encode_operation(OperationKind.WRITE, 0x2000, 1), "0x2000"),
        (encode_operation(OperationKind.LOAD, 0), "never saved"),
        (ops.KEEP + encode_operation(OperationKind.LOAD, 1), "never saved"),
        (ops.KEEP * 65, "more than 64 states"),
        (b"\x0d", "no operation 13"),
        (encode_operation(OperationKind.WAIT, 3)[:2], "cut off"),
    ],
)
def test_what_asks_for_more_than_there_is_is_refused(data: bytes, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        list(ops.decode_operations(data))
