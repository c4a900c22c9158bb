"""Tests that a battery save becomes a start state: a cartridge of ours loads and continues it.

The free cartridge's header promises 32 KiB of battery RAM that its program does not use. A variant,
assembled here, fills its memory from it at the title and continues at START or A, as the real game
does from its menu.
"""

from functools import cache
from itertools import islice
from pathlib import Path

import pytest

from Daddy.core.errors import RomError
from Daddy.core.rom_identity import Rom, load_rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path
from Daddy.pokemon.game_progress import Progress, read_progress
from Daddy.pokemon.memory_decoding import Image, span
from Daddy.pokemon.starts.find_start_state import start_state
from Daddy.pokemon.starts.state_file_formats import BATTERY_BYTES
from Daddy.pokemon.starts.state_files import convert_foreign_state, holds_game
from scripts.benches import fidelity
from scripts.cartridge.assembler import Assembler
from scripts.cartridge.build import SOURCE
from scripts.cartridge.header import with_header

_NAME_AT, _PARTY_AT, _RECORDS_AT = 0x2100, 0x2200, 0x2400
_PARTY_BYTES = ram.PARTY_MONS + ram.PARTY_SIZE * ram.PARTY_STRIDE - ram.PARTY_COUNT
_RECORDS_END = ram.EVENTS + ram.EVENT_BYTES
_BLOCKS = (
    (_NAME_AT, ram.PLAYER_NAME, ram.NAME_BYTES),
    (_PARTY_AT, ram.PARTY_COUNT, _PARTY_BYTES),
    (_RECORDS_AT, ram.POKEDEX_OWNED, _RECORDS_END - ram.POKEDEX_OWNED),
)
"""Offset in the battery RAM, address in the work RAM, and size of each block that is kept."""
_RAM_ON, _SECOND_BANK = "ld a, $0A\n ld [$0000], a", "ld a, 1\n ld [$4000], a"
_CONTINUE = """
    ld a, [wY]
    ld b, a
    ld a, [wX]
    ld c, a
    ld a, [wMap]
    jp enter_map
"""


def _copy(offset: int, address: int, size: int) -> str:
    start = 0xA000 + offset - 0x2000
    return f"ld hl, ${start:04X}\n ld de, ${address:04X}\n ld bc, {size}\n call copy\n"


@cache
def continuing_cartridge() -> Rom:
    """Assemble the cartridge with a title that loads the battery RAM and then continues it."""
    sources = {path.name: path.read_text(encoding="ascii") for path in SOURCE.rglob("*.asm")}
    load = "".join(_copy(*block) for block in _BLOCKS)
    title = sources["title.asm"].replace(
        "open_title:\n", f"open_title:\n {_RAM_ON}\n {_SECOND_BANK}\n{load}"
    )
    title = title.replace("new_game:\n", f"new_game:{_CONTINUE}")
    assert title != sources["title.asm"]
    sources["title.asm"] = title
    image = with_header(Assembler(sources, "main.asm").assemble())
    return Rom("stand-in", "0" * 40, image, real=False)


@cache
def played() -> bytes:
    """Return the memory of the cartridge at its sixth milestone: a creature, money and a place."""
    (_, state), *_ = islice(fidelity._played(), 5, 6)
    emulator = Emulator(cartridge_path().read_bytes())
    emulator.restore_state(state)
    image = bytes(emulator.ram(ram.WHOLE))
    emulator.close()
    return image


def battery_save(image: Image) -> bytes:
    """Keep the blocks of a memory as the game's save does."""
    save = bytearray(b"\xff" * BATTERY_BYTES)
    for offset, address, size in _BLOCKS:
        save[offset : offset + size] = span(image, address, size)
    return bytes(save)


def test_a_battery_save_is_continued_where_it_was_saved() -> None:
    before = read_progress(played())
    state = convert_foreign_state(continuing_cartridge(), battery_save(played()), "my.sav")
    emulator = Emulator(continuing_cartridge().data)
    emulator.restore_state(state)
    now = read_progress(emulator.ram(ram.WHOLE))
    emulator.close()
    assert before.party
    assert _place_and_things(now) == _place_and_things(before)


def _place_and_things(now: Progress) -> tuple[object, ...]:
    return now.map_id, now.y, now.x, now.party, now.money, now.bag, now.events, now.badges


def test_a_path_of_a_battery_save_is_a_start_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "mine.srm").write_bytes(battery_save(played()) + bytes(48))
    first = start_state(continuing_cartridge(), str(tmp_path / "mine.srm"))
    convert_foreign_state.cache_clear()
    capsys.readouterr()
    assert start_state(continuing_cartridge(), str(tmp_path / "mine.srm")) == first
    assert "continuing" not in capsys.readouterr().out, "the state was kept"


@pytest.mark.parametrize("save", [bytes(BATTERY_BYTES), b"\xff" * BATTERY_BYTES])
def test_an_empty_battery_save_is_refused(save: bytes) -> None:
    with pytest.raises(RomError, match=r"empty\.sav cannot be used: .* did not load this"):
        convert_foreign_state(continuing_cartridge(), save, "empty.sav")


def test_a_battery_save_of_another_place_does_not_hold_the_game() -> None:
    save, elsewhere = battery_save(played()), bytearray(played())
    assert holds_game(save, played())
    elsewhere[ram.MAP_ID - ram.RAM_START] ^= 1
    assert not holds_game(save, elsewhere)
    assert not holds_game(bytes(BATTERY_BYTES), bytes(ram.RAM_SIZE))


def test_a_game_without_battery_is_not_given_one() -> None:
    rom = load_rom(cartridge_path())
    bare = bytearray(rom.data)
    bare[0x149] = 0
    with pytest.raises(RomError, match="a battery save of 32,768 bytes, and this game has none"):
        convert_foreign_state(Rom("bare", "0" * 40, bytes(bare), False), bytes(32768), "my.sav")


def test_fidelity_reads_a_battery_save_with_its_game(tmp_path: Path) -> None:
    game, save = tmp_path / "game.gb", tmp_path / "mine.sav"
    game.write_bytes(continuing_cartridge().data)
    save.write_bytes(battery_save(played()))
    report = fidelity.read_state_file(save, game, real=False)
    assert report.refused == ""
    assert report.table["to train from"] == "fit"
    assert report.table["map"].startswith(f"{read_progress(played()).map_id} ")
