"""Converts a person's save state or battery save to a state of our pyboy, in a child process.

Two wrong bytes of a save state can crash or hang the emulator, so a file is loaded and checked in a
child process with a time limit. The child writes the same state anew in this pyboy's format. Of a
battery save, the child continues the saved game from power-on, as a person does.
"""

import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from pathlib import Path
from typing import Final

from Daddy.core.arguments import ArgumentParser
from Daddy.core.atomic_files import read_bounded, write_new
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, RomError
from Daddy.core.rom_identity import Rom
from Daddy.core.run_subprocess import Completed, ProcessTimeoutError, run_command
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import PYBOY_VERSION, STATE_FORMAT, Emulator
from Daddy.pokemon.memory_decoding import Image, byte, span
from Daddy.pokemon.starts.playability_check import REMEDY, check_playable, moves_player
from Daddy.pokemon.starts.route_view import read_view
from Daddy.pokemon.starts.state_file_formats import BATTERY_BYTES, battery_ram, foreign_format

TIME_LIMIT_S: Final = 20.0
"""Limit for the child; a valid state takes about a second, mostly the start of the interpreter."""
BATTERY_LIMIT_S: Final = 120.0
"""Limit for a child that continues a battery save, which takes some seconds."""
_SMALLEST, _LARGEST = 40 * 1024, 1 << 20
_NEWEST_KNOWN = 64
"""Largest first byte that is taken for the version of a PyBoy state."""
_UNREAD = {14: "PyBoy 2.5 wrote it", 15: "PyBoy 2.6 writes the number 15 too"}
"""Formats that this pyboy lets through and then fails on."""
_RAM_SIZE_FIELD, _RAM_OF_32_KIB = 0x149, 3
_CONTINUE_KEYS = 200
_PAUSE_FRAMES = 48
"""Frames without a key before the memory is read: a game appears within a second after its menu."""


def format_fault(data: bytes) -> str | None:
    """Return the reason for which this pyboy cannot read the state; None if it may be readable."""
    if (foreign := foreign_format(data)) is not None:
        return foreign
    if not _SMALLEST <= len(data) <= _LARGEST:
        return f"it has {len(data):,} bytes, but a PyBoy state has about 150,000"
    version = data[0]
    if version > _NEWEST_KNOWN:
        return f"it begins with byte {version}, which is no version of a PyBoy state"
    if version > STATE_FORMAT:
        return (
            f"it has format {version} of a newer PyBoy, and {PYBOY_VERSION} reads formats up to "
            f"{STATE_FORMAT}: save it with pyboy {PYBOY_VERSION}"
        )
    return None


@lru_cache(maxsize=4)
def convert_foreign_state(rom: Rom, data: bytes, name: str, limit_s: float | None = None) -> bytes:
    """Check a file in a child and return it as a state of our pyboy; RomError naming `name`."""
    battery = battery_ram(data) is not None
    if not battery and (fault := format_fault(data)) is not None:
        raise _refusal(name, fault)
    if battery:
        print(f"continuing the game that is saved in {name}", flush=True)
    limit_s = limit_s or (BATTERY_LIMIT_S if battery else TIME_LIMIT_S)
    with tempfile.TemporaryDirectory(prefix="daddy-state-") as scratch:
        game, source, target = (Path(scratch) / name for name in ("game.gb", "given", "made"))
        write_new(game, rom.data)
        write_new(source, data)
        argv = [sys.executable, "-m", __name__, *map(str, (game, source, target))]
        try:
            completed = run_command(argv, limit_s, die_with_us=sys.platform == "linux")
        except ProcessTimeoutError as error:
            raise _refusal(name, f"it hung the emulator for {limit_s:g} s") from error
        if completed.returncode:
            raise _refusal(name, child_fault(completed))
        return read_bounded(target, _LARGEST)


def child_fault(child: Completed) -> str:
    """Describe the failure of a child that loaded a file."""
    if child.returncode == ExitCode.ROM:
        return child.stderr.strip().splitlines()[0].removeprefix("error: ")
    if child.returncode < 0:
        with suppress(ValueError):
            return f"it crashed the emulator ({signal.Signals(-child.returncode).name})"
    return f"the emulator failed on it: {child.fault}"


def _refusal(name: str, fault: str) -> RomError:
    return RomError(f"the save state {name} cannot be used: {fault}", REMEDY)


# -- in the child


def load_state_file(game: bytes, data: bytes) -> Emulator:
    """Return an emulator at a save state, or in the game that a battery save holds. RomError."""
    battery = battery_ram(data)
    if battery is not None:
        return _continue_saved_game(game, battery)
    emulator = Emulator(game)
    try:
        left = emulator.restore_state(data)
    except RomError as error:
        raise RomError(f"{error.message}{_advice(data)}") from error
    if left and data[0] == STATE_FORMAT:
        raise RomError(f"{left} bytes are left over{_advice(data)}")
    return emulator


def _advice(data: bytes) -> str:
    cause = _UNREAD.get(data[0])
    return f" ({cause}: save it with {PYBOY_VERSION})" if cause else ""


def _continue_saved_game(game: bytes, battery: bytes) -> Emulator:
    """Press A from power-on, through the title and its menu, until the saved game is played."""
    if game[_RAM_SIZE_FIELD] != _RAM_OF_32_KIB:
        raise RomError(f"it is a battery save of {BATTERY_BYTES:,} bytes, and this game has none")
    emulator = Emulator(game, battery=battery)
    for _ in range(_CONTINUE_KEYS):
        emulator.wait(_PAUSE_FRAMES)
        if _is_played(emulator, battery):
            return emulator
        emulator.press("a")
    raise RomError(
        f"the game did not load this battery save in {_CONTINUE_KEYS} key presses: it belongs to "
        "another game or language, or is empty"
    )


def _is_played(emulator: Emulator, battery: bytes) -> bool:
    """Return True if the player walks in the saved game; the memory is loaded before, at a menu."""
    image = emulator.ram(ram.WHOLE)
    if not (read_view(image).free and holds_game(battery, image)):
        return False
    state = emulator.dump_state()
    played = moves_player(emulator)
    emulator.restore_state(state)
    return played


def holds_game(battery: bytes, image: Image) -> bool:
    """Return True if name, party, records and map in `image` are those in the battery RAM.

    The game keeps these blocks of its work RAM byte by byte in its battery RAM.
    """
    party = ram.PARTY_MONS + ram.PARTY_SIZE * ram.PARTY_STRIDE - ram.PARTY_COUNT
    name = span(image, ram.PLAYER_NAME, ram.NAME_BYTES)
    records = span(image, ram.POKEDEX_OWNED, ram.OPTIONS - ram.POKEDEX_OWNED)
    found = battery.find(records)
    if found < 0 or not any(records) or name not in battery:
        return False
    if span(image, ram.PARTY_COUNT, party) not in battery:
        return False
    map_at = found + ram.MAP_ID - ram.POKEDEX_OWNED
    return battery[map_at : map_at + 1] == bytes([byte(image, ram.MAP_ID)])


def main(argv: Sequence[str] | None = None) -> int:
    """Load and check a file in this child process, and write its state anew."""
    parser = ArgumentParser(prog="state_files", description="Checks one save state.")
    for name in ("game", "source", "target"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args(argv)
    game, source, target = args.game, args.source, args.target
    emulator = load_state_file(game.read_bytes(), source.read_bytes())
    check_playable(emulator, emulator.dump_state(), "it")
    write_new(target, emulator.dump_state())
    emulator.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
