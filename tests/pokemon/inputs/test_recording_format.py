"""Tests that an encoded recording is decoded, and invalid data refused cheaply with a reason."""

import hashlib
import json
import struct
import tracemalloc
import zlib
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from Daddy.core.errors import FileError
from Daddy.pokemon.inputs import emulator_operations as ops
from Daddy.pokemon.inputs import recording_format
from Daddy.pokemon.inputs.emulator_operations import OperationKind, encode_operation
from Daddy.pokemon.inputs.recording_format import (
    DIGEST_BYTES,
    Recording,
    decode_recording,
    encode_recording,
)
from tests.pokemon.inputs.test_emulator_operations import DONE

SHA1 = "a" * 40
HEAD = struct.Struct("<8sHHII")


def made(done: bytes, **changes: object) -> Recording:
    count = len(list(recording_format.digest_frames(ops.decode_operations(done))))
    start = recording_format.power_on_id(SHA1, "2.7.0")
    blank = Recording(SHA1, "Pokémon Red", "2.7.0", start, operations=done)
    return replace(blank, digests=b"d" * DIGEST_BYTES * count, **changes)  # type: ignore[arg-type]


def sealed(data: bytes) -> bytes:
    return data + hashlib.sha256(data).digest()


def packed(header: bytes, inflated: bytes, digests: bytes = b"", version: int = 1) -> bytes:
    done = zlib.compress(inflated, 9)
    head = HEAD.pack(recording_format.MAGIC, version, len(header), len(done), len(digests))
    return sealed(head + header + done + digests)


@given(st.lists(DONE, max_size=60), st.sampled_from(["", "pokedex", "my own"]))
def test_a_recording_is_read_as_it_was_written(done: list[bytes], name: str) -> None:
    recording = made(b"".join(done), start_name=name, title="a way", assists=("money",))
    assert decode_recording(encode_recording(recording), "x") == recording


def test_moments_are_named_by_game_pyboy_and_all_that_was_done() -> None:
    recording = made(bytes([1]) * 3)
    others = [
        replace(recording, operations=bytes([1]) * 4),
        replace(recording, rom_sha1="b" * 40),
        replace(recording, pyboy="2.8.0"),
        replace(recording, start="c" * 64),
    ]
    assert recording.from_power_on
    assert len({recording.end_id, *(other.end_id for other in others)}) == 5
    assert replace(recording, digests=b"", title="x").end_id == recording.end_id


@given(st.data())
def test_a_changed_or_torn_file_is_a_sentence(data: st.DataObject) -> None:
    whole = encode_recording(made(bytes([4]) * 600))
    at = data.draw(st.integers(0, len(whole) - 1))
    other = bytearray(whole)
    other[at] ^= data.draw(st.integers(1, 255))
    for bad in (bytes(other), whole[:at]):
        with pytest.raises(FileError, match="mine is not a recording"):
            decode_recording(bad, "mine")


@given(st.binary(max_size=400), st.binary(max_size=400))
def test_sealed_nonsense_is_a_sentence_too(header: bytes, done: bytes) -> None:
    for bad in (sealed(header), packed(header, done)):
        with pytest.raises(FileError):
            decode_recording(bad, "mine")


FACTS = {
    "rom_sha1": SHA1, "rom": "x", "pyboy": "2.7.0", "start": "0" * 64,
    "start_name": "", "title": "", "assists": [],
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"rom_sha1": "../../etc"}, "does not match"),
        ({"title": "\x1b[2J"}, "does not match"),
        ({"title": 7}, "does not match"),
        ({"assists": ["x"] * 33}, "no list of assists"),
        ({"assists": 7}, "no list of assists"),
    ],
)
def test_facts_that_are_none_are_refused(change: dict[str, object], said: str) -> None:
    with pytest.raises(FileError, match=said):
        decode_recording(packed(json.dumps({**FACTS, **change}).encode(), b""), "mine")


def test_a_newer_format_says_so() -> None:
    with pytest.raises(FileError, match="its format is 2, here it is 1"):
        decode_recording(packed(json.dumps(FACTS).encode(), b"", version=2), "mine")


def test_digests_must_be_as_many_as_the_operations_ask_for() -> None:
    header = json.dumps(FACTS).encode()
    assert decode_recording(packed(header, ops.IDLE * 257, b"d" * 16), "mine").digests
    for count in (0, 8, 15, 24):
        with pytest.raises(FileError, match="bytes of digests for 2"):
            decode_recording(packed(header, ops.IDLE * 257, b"d" * count), "mine")


@pytest.mark.parametrize(
    ("tail", "more"),
    [
        (encode_operation(OperationKind.WRITE, 0xC000, 7), 8),
        (ops.KEEP + encode_operation(OperationKind.LOAD, 0), 8),
        (ops.KEEP, 0),
        (b"", 0),
    ],
    ids=["a byte is written", "back to a moment", "a moment is kept", "nothing"],
)
def test_what_is_done_in_no_time_after_the_last_frame_is_not_believed(
    tail: bytes, more: int
) -> None:
    header, done = json.dumps(FACTS).encode(), ops.IDLE * 256 + tail
    assert decode_recording(packed(header, done, b"d" * (8 + more)), "mine").digests
    with pytest.raises(FileError, match="bytes of digests"):
        decode_recording(packed(header, done, b"d" * (16 - more)), "mine")


@pytest.mark.parametrize(
    "inflated",
    [
        bytes(recording_format.OPERATIONS_LIMIT + 1),
        encode_operation(OperationKind.WAIT, 6_144) * 30_000,
        b"\x05" * (64 << 20),
        ops.KEEP + encode_operation(OperationKind.LOAD, 0) * (recording_format.MAX_LOADS + 1),
    ],
    ids=["a byte too many", "too many frames", "a bomb", "too many returns"],
)
def test_a_file_that_swells_is_refused_before_it_has(inflated: bytes) -> None:
    bomb = packed(json.dumps(FACTS).encode(), inflated)
    del inflated
    tracemalloc.start()
    try:
        with pytest.raises(FileError):
            decode_recording(bomb, "mine")
        assert tracemalloc.get_traced_memory()[1] < 4 * recording_format.OPERATIONS_LIMIT
    finally:
        tracemalloc.stop()


def test_lengths_that_lie_are_not_believed() -> None:
    for lengths in ((65_535, 1 << 31, 8), (10, 0xFFFFFFFF, 0xFFFFFFFF)):
        with pytest.raises(FileError, match="do not match its lengths"):
            decode_recording(
                sealed(HEAD.pack(recording_format.MAGIC, 1, *lengths) + bytes(100)), "mine"
            )
