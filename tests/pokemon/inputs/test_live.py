"""What an emulator tells while somebody watches, as pieces, and what no viewer believes."""

from __future__ import annotations

import zlib

import pytest

from Daddy.core.piece import PIECE_BYTES, Piece, read_piece
from Daddy.pokemon.inputs import operations, stretch, tape
from Daddy.pokemon.inputs.live import LiveRecorder
from Daddy.pokemon.inputs.stretch import STRETCH_BYTES, Beginning, read_beginning
from Daddy.pokemon.ram_map import BAG, EVENTS, MONEY, RANDOM

AT = Beginning("a" * 40, "2.7.0", "b" * 64, "beginning", "c" * 16, "a game")
RAM = bytes(8192)


def taken(recorder: LiveRecorder) -> list[Piece]:
    pieces = []
    while piece := recorder.take():
        pieces.append(read_piece(piece))
    return pieces


def press(recorder: LiveRecorder, count: int) -> None:
    for number in range(count):
        recorder.add(operations.press(number % 7), 24, lambda: RAM)


def test_a_chain_begins_at_a_load_and_has_a_digest_every_256_steps_and_at_its_end() -> None:
    recorder = LiveRecorder(b"start", AT)
    press(recorder, 300)  # before any load nobody could follow
    assert taken(recorder) == []
    recorder.loads(b"start", lambda: RAM)
    press(recorder, 300)
    recorder.loads(b"start", lambda: RAM)
    pieces = taken(recorder)
    assert [(one.chain, one.index) for one in pieces] == [(1, 0), (1, 1), (1, 2)]
    assert read_beginning(pieces[0].data) == AT
    found = [stretch.read(one.data) for one in pieces[1:]]
    assert [len(one.operations) for one in found] == [256, 44]
    assert {one.digest for one in found} == {tape.digest(RAM)}
    assert max(len(one.pack()) for one in pieces) <= PIECE_BYTES


def test_a_state_from_elsewhere_begins_a_chain_that_only_who_has_it_can_play() -> None:
    recorder = LiveRecorder(b"start", AT)
    recorder.loads(b"an archive's", lambda: RAM)
    press(recorder, 256)
    begins = read_beginning(taken(recorder)[0].data)
    assert (begins.start, begins.moment) == (
        "",
        tape.of_state(AT.rom_sha1, AT.pyboy, b"an archive's"),
    )


def test_of_pieces_that_nobody_takes_the_oldest_go_and_forgetting_waits_for_a_load() -> None:
    recorder = LiveRecorder(b"start", AT)
    recorder.loads(b"start", lambda: RAM)
    press(recorder, 256 * 30)
    kept = taken(recorder)
    assert [one.index for one in kept] == list(range(15, 31))
    recorder.forget()
    press(recorder, 600)
    assert taken(recorder) == []
    recorder.loads(b"start", lambda: RAM)
    press(recorder, 256)
    assert [(one.chain, one.index) for one in taken(recorder)] == [(2, 0), (2, 1)]


def test_a_start_that_nobody_played_from_is_no_chain() -> None:
    recorder = LiveRecorder(b"start", AT)
    recorder.loads(b"start", lambda: RAM)
    recorder.add(operations.wait(30), 30, lambda: RAM)
    recorder.loads(b"another", lambda: RAM)
    assert taken(recorder) == []


@pytest.mark.parametrize(
    "done",
    [
        b"",
        operations.KEEP,
        operations.KEEP + operations.load(0),
        bytes([13]),
        operations.write(0xFF26, 0),  # the sound's switch
        operations.wait(6144) * 3,
        operations.hold(1, 5),  # it would be down still where the next one begins
        operations.write(0xFF80, 0xD3) + operations.wait(60),  # the program in high RAM: it hangs
        operations.write(0xDFF0, 0),  # the stack
        bytes(STRETCH_BYTES + 1),
    ],
)
def test_what_no_stretch_may_do_is_refused(done: bytes) -> None:
    with pytest.raises(ValueError, match=r"stretch|operation|written|kept"):
        stretch.read(stretch.pack(done, bytes(8)))


def test_what_environments_do_is_a_stretch() -> None:
    done = b"".join(map(operations.press, range(7))) + operations.IDLE + operations.wait(5)
    for address in (*RANDOM, EVENTS + 7, BAG, MONEY):
        done += operations.write(address, 7)
    assert stretch.read(stretch.pack(done, bytes(8))).frames == 8 * 24 + 5


def test_torn_and_blown_up_stretches_are_refused_within_bounds() -> None:
    good = stretch.pack(bytes(200), bytes(8))
    bomb = bytes(8) + zlib.compress(bytes(10_000_000))[2:-4]
    for data in (good[:-2], good + b"x", b"", b"12345678", bomb):
        with pytest.raises(ValueError, match="stretch"):
            stretch.read(data)


@pytest.mark.parametrize(
    "change",
    [
        {"start": "../../etc/passwd"},
        {"start": "a/b"},
        {"rom_sha1": "A" * 40},
        {"moment": "b" * 63},
        {"pyboy": "2.7.0\n"},
        {"proof": ""},
    ],
)
def test_a_beginning_names_no_file_and_nothing_odd(change: dict[str, str]) -> None:
    odd = Beginning(**{**AT.__dict__, **change})
    with pytest.raises(ValueError, match=next(iter(change))):
        read_beginning(odd.pack())
    for data in (b"", b"[]", b"{}", b"1" * 400, b"[" * 400, AT.pack() + b" " * 400):
        with pytest.raises(ValueError, match=r"."):
            read_beginning(data)
