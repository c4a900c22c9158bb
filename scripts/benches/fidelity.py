"""Prints all facts read from save states, so that a person who knows the game can check them.

``--states DIR``: a folder of your own PyBoy save states and battery saves (nothing of it is copied,
kept or sent). Without it: states of the free cartridge, made now, and damaged ones. With your own
ROM (DADDY_ROM) each file is loaded in a child process with a time limit, and played on. Without it
the memory in each save state is read, and battery saves are refused. A file that cannot be read,
hangs, or is another game's is listed with the reason; the others are still read.
"""

import json
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any

from Daddy.core.atomic_files import read_bounded
from Daddy.core.errors import ExitCode, FileError, UsageError
from Daddy.core.humanize import printable_line
from Daddy.core.load_config import CHECKOUT
from Daddy.core.rom_identity import load_rom
from Daddy.core.run_subprocess import ProcessTimeoutError
from Daddy.core.run_subprocess import run_command as run_child
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path, find_rom
from Daddy.pokemon.game_progress import not_started_reason, read_progress
from Daddy.pokemon.memory_decoding import Image, byte, span
from Daddy.pokemon.ram_map import NAME_BYTES, PLAYER_NAME, RIVAL_NAME, WHOLE
from Daddy.pokemon.starts.find_start_state import beginning_state
from Daddy.pokemon.starts.state_file_formats import battery_ram, work_ram
from Daddy.pokemon.starts.state_files import BATTERY_LIMIT_S, child_fault, format_fault
from scripts.benches._state_report import doubts, table
from scripts.cartridge.player import Player, read_facts

OPTIONS = {"states": "folder of your own PyBoy save states and battery saves"}
READER = (sys.executable, "-m", "scripts.benches._fidelity_child")
LIMIT_S = 30.0
"""Time limit of a child; a valid state takes about a second, mostly to start the interpreter."""
FOREIGN = 3
"""Number of contradictions from which a state counts as another game's."""
_LARGEST = 1 << 20
_NAME_ROM = "name your ROM, DADDY_ROM=PokemonRed.gb"
_MOST_STEPS = 6_000


@dataclass(frozen=True)
class StateReport:
    """Holds the table of one file, or the reason for which there is none."""

    table: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


def read_state_file(state: Path, rom: Path, real: bool, limit_s: float = LIMIT_S) -> StateReport:
    """Read a file in a child; an invalid file gives a report with the reason."""
    try:
        data = read_bounded(state, _LARGEST)
    except (OSError, FileError) as error:
        return StateReport(refused=str(error))
    battery = battery_ram(data) is not None
    if not battery and (fault := format_fault(data)) is not None:
        return _memory_alone(data, fault, real)
    limit_s = BATTERY_LIMIT_S if battery else limit_s
    argv = [*READER, str(rom), str(state.absolute()), *(["--real"] if real else [])]
    try:
        completed = run_child(argv, limit_s, cwd=CHECKOUT, die_with_us=sys.platform == "linux")
    except ProcessTimeoutError:
        return StateReport(refused=f"it hung the emulator for {limit_s:g} s")
    if completed.returncode:
        fault = child_fault(completed)
        return (
            _memory_alone(data, fault, real)
            if completed.returncode == ExitCode.ROM
            else StateReport(refused=fault)
        )
    return _report(json.loads(completed.stdout.splitlines()[-1]))


def _memory_alone(data: bytes, fault: str, real: bool) -> StateReport:
    report = read_memory(data, fault, real)
    return report if report.table else StateReport(refused=fault)


def read_memory(data: bytes, not_loaded: str, real: bool) -> StateReport:
    """Read the work RAM in a save state of a game, which was `not_loaded` for that reason."""
    try:
        image = work_ram(data)
    except ValueError as error:
        return StateReport(refused=str(error))
    told = {**table(image, real), "to train from": f"not checked: {not_loaded}"}
    return _report(
        {
            "not_started": not_started_reason(image),
            "stopped": None,
            "table": told,
            "doubts": doubts(image, real),
        }
    )


def read_without_rom(state: Path) -> StateReport:
    """Read a file by itself, or with the free cartridge if it is a state of the cartridge's."""
    try:
        data = read_bounded(state, _LARGEST)
    except (OSError, FileError) as error:
        return StateReport(refused=str(error))
    if battery_ram(data) is not None:
        return StateReport(refused=f"it is a battery save, which the game must load: {_NAME_ROM}")
    with suppress(ValueError):
        image = work_ram(data)
        if _names(image) == _names(_cartridge_memory()):
            return read_state_file(state, cartridge_path(), real=False)
    return read_memory(data, _NAME_ROM, real=True)


@cache
def _cartridge_memory() -> Image:
    rom = load_rom(cartridge_path())
    with closing(Emulator(rom.data)) as emulator:
        emulator.restore_state(beginning_state(rom))
        return bytes(emulator.ram(WHOLE))


def _names(image: Image) -> tuple[Image, Image]:
    player, rival = (span(image, at, NAME_BYTES) for at in (PLAYER_NAME, RIVAL_NAME))
    return player, rival


def _report(answer: Mapping[str, Any]) -> StateReport:
    if answer["not_started"]:
        return StateReport(refused=f"another game, or none that has begun: {answer['not_started']}")
    if answer["stopped"]:
        return StateReport(refused=f"the game does not go on from it: {answer['stopped']}")
    if len(answer["doubts"]) >= FOREIGN:
        return StateReport(refused="it is not of this game: " + "; ".join(answer["doubts"]))
    return StateReport(table=answer["table"])


def run(quick: bool, states: Path | None = None) -> dict[str, object]:
    """Return tables by file name, and refused files with the reason."""
    if states is None:
        with _own_states(quick) as folder:
            return _read_all(folder, cartridge_path())
    if not states.is_dir():
        raise UsageError(f"{states} is no folder", "give the folder that holds your .state files")
    rom = find_rom(None)
    return _read_all(states, None if rom == cartridge_path() else rom)


def _read_all(folder: Path, rom: Path | None) -> dict[str, object]:
    game = load_rom(rom) if rom else None
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    reports = {}
    for number, path in enumerate(files, 1):
        print(f"  file {number}/{len(files)}  {printable_line(path.name)}", flush=True)
        reports[path.name] = (
            read_state_file(path, rom, game.real) if rom and game else read_without_rom(path)
        )
    return {
        "game": game.name if game else "Pokémon Red or Blue, by the memory in each state",
        "files": len(files),
        "read": sum(1 for report in reports.values() if report.table),
        "refused": {name: report.refused for name, report in reports.items() if report.refused},
        **{name: dict(report.table) for name, report in reports.items() if report.table},
    }


@contextmanager
def _own_states(quick: bool) -> Iterator[Path]:
    """Make states at every tenth milestone of the game (quick: the first), and damaged ones."""
    with tempfile.TemporaryDirectory(prefix="daddy-fidelity-") as name:
        folder = Path(name)
        good = b""
        for number, (milestone, good) in enumerate(_played()):
            if number % 10 == 0:
                (folder / f"{number:02}-{milestone}.state").write_bytes(good)
            if quick:
                break
        for bad, data in _damaged_states(good):
            (folder / bad).write_bytes(data)
        yield folder


def _damaged_states(good: bytes) -> Iterator[tuple[str, bytes]]:
    yield "x-cut-short.state", good[: len(good) // 2]
    yield "x-not-a-state.txt", b"a note\n"
    yield "x-of-nothing.state", good[:1] + bytes(len(good) - 1)
    yield "x-of-a-newer-emulator.state", bytes([good[0] + 1]) + good[1:]
    rom = bytearray(cartridge_path().read_bytes())
    rom[:0x134], rom[0x150:] = bytes(0x134), bytes(len(rom) - 0x150)
    rom[0x100:0x102] = b"\x18\xfe"
    another = Emulator(bytes(rom))
    yield "x-of-another-game.state", another.dump_state()
    another.close()


def _played() -> Iterator[tuple[str, bytes]]:
    """Play the scripted player; yield each milestone with the state in which it first held."""
    rom = cartridge_path().read_bytes()
    emulator, player = Emulator(rom), Player(rom)
    reached: frozenset[str] = frozenset()
    for _ in range(_MOST_STEPS):
        image = bytes(emulator.ram(WHOLE))
        held = story_milestones.reached_milestones(read_progress(image), real=False)
        for milestone in sorted(held - reached):
            yield milestone, emulator.dump_state()
        reached |= held
        facts = read_facts(partial(byte, image))
        if facts.finished:
            break
        emulator.press(player.next_button(facts))
    emulator.close()
