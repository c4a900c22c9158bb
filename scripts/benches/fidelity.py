"""What every reader finds in save states, so that a person who knows the game can check it.

``--states DIR``: a folder of your own PyBoy save states, read with your own ROM (DADDY_ROM; none of
it is copied, kept or sent). Without it: states of the free cartridge, made on the spot, beside
damaged ones. Each state is loaded in a process of its own with a time limit. What cannot be loaded,
hangs, or is another game's is refused by name; the rest is still read.
"""

from __future__ import annotations

import json
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from Daddy.core.atomic_files import read_bounded
from Daddy.core.child_process import Completed, ProcessTimeoutError
from Daddy.core.child_process import run_command as run_child
from Daddy.core.errors import ExitCode, UsageError
from Daddy.core.load_config import CHECKOUT
from Daddy.core.rom_identity import load_rom
from Daddy.pokemon import story_milestones
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.find_rom import cartridge_path, find_rom
from Daddy.pokemon.game_progress import read_progress
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.read_memory import byte
from Daddy.pokemon.starts.playability_check import format_fault
from scripts.cartridge.player import Player, read_facts

OPTIONS = {"states": "a folder of your own PyBoy save states"}
READER = (sys.executable, "-m", "scripts.benches._fidelity_child")
LIMIT_S = 30.0
"""A good state takes about a second, most of it for starting an interpreter."""
FOREIGN = 3
"""So many contradictions no state of this game shows."""
_LARGEST = 1 << 20
_MOST_STEPS = 6_000


@dataclass(frozen=True)
class Found:
    """One file: its table, or why there is none."""

    table: Mapping[str, str] = field(default_factory=dict)
    refused: str = ""


def look(state: Path, rom: Path, real: bool, limit_s: float = LIMIT_S) -> Found:
    """What a child finds in a file; never raises for a bad one."""
    try:
        why = format_fault(read_bounded(state, _LARGEST))
    except (OSError, ValueError) as error:
        why = str(error)
    if why is not None:
        return Found(refused=why)
    argv = [*READER, str(rom), str(state.absolute()), *(["--real"] if real else [])]
    try:
        done = run_child(argv, limit_s, cwd=CHECKOUT, die_with_us=sys.platform == "linux")
    except ProcessTimeoutError:
        return Found(refused=f"it hung the emulator for {limit_s:g} s")
    return _judged(done) if done.returncode == 0 else Found(refused=_last_words(done))


def _judged(done: Completed) -> Found:
    answer = json.loads(done.stdout.splitlines()[-1])
    if answer["not_started"]:
        return Found(refused=f"another game, or none that has begun: {answer['not_started']}")
    if answer["stopped"]:
        return Found(refused=f"the game does not go on from it: {answer['stopped']}")
    if len(answer["doubts"]) >= FOREIGN:
        return Found(refused="it is not of this game: " + "; ".join(answer["doubts"]))
    return Found(table=answer["table"])


def _last_words(done: Completed) -> str:
    if done.returncode < 0:
        with suppress(ValueError):
            return f"it crashed the emulator ({signal.Signals(-done.returncode).name})"
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    chosen = said[0] if done.returncode == ExitCode.ROM else said[-1]
    return chosen.removeprefix("error: ")


def run(quick: bool, states: Path | None = None) -> dict[str, object]:
    """Tables by file name, and what was refused and why."""
    if states is None:
        with _own_states(quick) as folder:
            return _read_all(folder, cartridge_path())
    if not states.is_dir():
        raise UsageError(f"{states} is no folder", "give the folder that holds your .state files")
    return _read_all(states, find_rom(None))


def _read_all(folder: Path, rom: Path) -> dict[str, object]:
    game = load_rom(rom)
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name[0] != ".")
    found = {path.name: look(path, rom, game.real) for path in files}
    return {
        "game": game.name,
        "files": len(files),
        "read": sum(1 for one in found.values() if one.table),
        "refused": {name: one.refused for name, one in found.items() if one.refused},
        **{name: dict(one.table) for name, one in found.items() if one.table},
    }


@contextmanager
def _own_states(quick: bool) -> Iterator[Path]:
    """States of the cartridge at every tenth milestone (quick: at the first), and bad ones."""
    with tempfile.TemporaryDirectory(prefix="daddy-fidelity-") as name:
        folder = Path(name)
        good = b""
        for number, (milestone, good) in enumerate(_played()):
            if number % 10 == 0:
                (folder / f"{number:02}-{milestone}.state").write_bytes(good)
            if quick:
                break
        for bad, data in _bad_ones(good):
            (folder / bad).write_bytes(data)
        yield folder


def _bad_ones(good: bytes) -> Iterator[tuple[str, bytes]]:
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
    """The scripted player's way: each milestone and the state in which it first held."""
    rom = cartridge_path().read_bytes()
    emulator, player = Emulator(rom), Player(rom)
    seen: frozenset[str] = frozenset()
    for _ in range(_MOST_STEPS):
        image = bytes(emulator.ram(WHOLE))
        held = story_milestones.reached_milestones(read_progress(image), real=False)
        for milestone in sorted(held - seen):
            yield milestone, emulator.dump_state()
        seen |= held
        facts = read_facts(partial(byte, image))
        if facts.finished:
            break
        emulator.press(player.next_button(facts))
    emulator.close()
