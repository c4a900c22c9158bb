"""Tests the assembler's language, and its encodings against the published opcode table."""

import pytest

from scripts.cartridge.assembler import Assembler
from scripts.cartridge.expressions import AsmError


def assemble(source: str, **more: str) -> bytes:
    rom = Assembler({"main.asm": source, **more}, "main.asm").assemble()
    return rom.rstrip(b"\0")


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("ld b, c", "41"),
        ("ld a, [hl+]", "2a"),
        ("ld [hl-], a", "32"),
        ("ld [de], a", "12"),
        ("ld hl, $1234", "21 34 12"),
        ("ld [$C123], a", "ea 23 c1"),
        ("ld a, [$C123]", "fa 23 c1"),
        ("ld [$C123], sp", "08 23 c1"),
        ("ld [hl], 7", "36 07"),
        ("ld b, -4", "06 fc"),
        ("ld sp, hl", "f9"),
        ("ldh a, [$FF44]", "f0 44"),
        ("ldh [$FF40], a", "e0 40"),
        ("ldh a, [c]", "f2"),
        ("inc de", "13"),
        ("dec [hl]", "35"),
        ("add hl, bc", "09"),
        ("adc a, 3", "ce 03"),
        ("sbc a, b", "98"),
        ("cp [hl]", "be"),
        ("swap a", "cb 37"),
        ("rl c", "cb 11"),
        ("bit 7, [hl]", "cb 7e"),
        ("set 3, a", "cb df"),
        ("push af", "f5"),
        ("pop bc", "c1"),
        ("ret nc", "d0"),
        ("reti", "d9"),
        ("jp hl", "e9"),
        ("jp z, $1234", "ca 34 12"),
        ("call $1234", "cd 34 12"),
        ("halt", "76"),
        ("daa", "27"),
    ],
)
def test_an_instruction_becomes_its_published_code(line: str, code: str) -> None:
    assert assemble(line) == bytes.fromhex(code)


@pytest.mark.parametrize(
    "line",
    [
        "ld [hl], [hl]",
        "ld a, 256",
        "frobnicate a",
        "jr nowhere",
        "inc 5",
        "push hl, de",
        "db nonsense +",
        'row "unmapped"',
        'include "missing.asm"',
        "macro endless",
        "add b, c, [q]",
    ],
)
def test_what_makes_no_sense_is_refused(line: str) -> None:
    with pytest.raises(AsmError):
        assemble(line + "\n nop")


def test_an_error_names_file_and_line() -> None:
    with pytest.raises(AsmError, match=r"second\.asm:2: unknown symbol gone"):
        assemble('include "second.asm"', **{"second.asm": "nop\njp gone\n"})


def test_labels_work_forwards_backwards_and_locally() -> None:
    source = "first:\n.loop:\n jr .loop\nsecond:\n.loop:\n jr first.loop\n jp end\nend:\n ret"
    assert assemble(source) == bytes.fromhex("18fe 18fc c30700 c9")


def test_a_label_defined_twice_and_a_jump_too_far_are_refused() -> None:
    with pytest.raises(AsmError, match="twice"):
        assemble("a1:\na1:\n nop")
    with pytest.raises(AsmError, match="use jp"):
        assemble("far:\n ds 200\n jr far")


def test_bytes_never_overwrite_bytes() -> None:
    with pytest.raises(AsmError, match="on other bytes"):
        assemble("org 16\n db 1, 2\norg 17\n db 3")


def test_expressions_know_numbers_names_and_halves() -> None:
    source = "N equ 3\n db $10 + N * 2, %101 << 1, high($ABCD), low($ABCD), ~1 & 255, 7 / 2"
    assert assemble(source) == bytes([22, 10, 0xAB, 0xCD, 254, 3])


def test_strings_and_map_rows_go_through_their_own_letters() -> None:
    source = 'charmap "A", $80\ncellmap "A", 5\n db "AA", 1\n row AA'
    assert assemble(source) == bytes([0x80, 0x80, 1, 5, 5])


def test_macros_fill_in_arguments_and_repetitions_repeat() -> None:
    source = "macro pair\n db \\1, \\2\nendm\n pair 1, 2\nrept 3\n pair 9\nendr"
    assert assemble(source) == bytes([1, 2, 9, 9, 9])


def test_a_comment_may_hold_anything_and_a_string_may_hold_a_semicolon() -> None:
    assert assemble('charmap ";", 7\n db ";" ; "quoted" ; twice') == bytes([7])


def test_pictures_become_two_bit_planes_row_by_row_or_column_by_column() -> None:
    left, right = "|#.......", "-.......|"
    wide = "\n".join([left + right] * 8 + ["|................|"] * 8)
    rows = assemble(wide)
    assert rows[:2] == bytes([0x80, 0x80])
    assert rows[16:18] == bytes([0x80, 0x00])
    tall = assemble("sprite\n" + wide)
    assert tall[16:18] == bytes([0, 0])
    assert tall[32:34] == bytes([0x80, 0x00])


def test_a_picture_of_odd_size_or_shade_is_refused() -> None:
    with pytest.raises(AsmError, match="8x8"):
        assemble("|........|\n nop")
    with pytest.raises(AsmError, match="outside"):
        assemble("|x.......|\n" * 8 + " nop")
