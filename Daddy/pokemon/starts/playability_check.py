"""Checks that an agent can play on from a state; a state from a file is checked in a child process.

A game must be running, with plausible memory, a running clock, and buttons that move the player. A
RomError (exit code 7) names the test that failed. Two wrong bytes of a save state can crash or hang
the emulator, so a file is loaded and checked in a child process with a time limit. The child writes
the same state anew in this pyboy's format.
"""

from __future__ import annotations

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
from Daddy.core.errors import ExitCode, RomError, run_entry
from Daddy.core.rom_identity import Rom
from Daddy.core.run_subprocess import ProcessTimeoutError, run_command
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import PYBOY_VERSION, STATE_FORMAT, Emulator
from Daddy.pokemon.game_progress import not_started_reason
from Daddy.pokemon.memory_decoding import Image, byte
from Daddy.pokemon.starts.route_view import STEERING, STEPS, read_view

REMEDY = (
    "begin from another state (setting training.start), or record one: "
    "python -m Daddy.play --record-start NAME"
)
TIME_LIMIT_S: Final = 20.0
"""Limit for the child; a valid state takes about a second, mostly the start of the interpreter."""
_CLOCK_FRAMES = 70
"""Frames, more than a second, in which the play time must change."""
_MAPS = 248
_TRIES = 40
"""Keys pressed to end a text or a script."""
_SMALLEST, _LARGEST = 64 * 1024, 1 << 20
_NEWEST_KNOWN = 64
"""Largest first byte that is taken for the version of a PyBoy state."""
_SAME_NUMBER = f" (PyBoy 2.6 writes the number {STATE_FORMAT} too: save it with {PYBOY_VERSION})"


def check_playable(emulator: Emulator, state: bytes, name: str) -> None:
    """Raise RomError naming `name` unless an agent can play from `state`; leave `state` loaded."""
    emulator.restore_state(state)
    before = bytes(emulator.ram(STEERING))
    emulator.wait(_CLOCK_FRAMES)
    image = emulator.ram(STEERING)
    fault = memory_fault(image) or not_started_reason(image, before) or _immovable(emulator, state)
    if fault is not None:
        raise RomError(f"{name} cannot be trained from: {fault}", REMEDY)
    emulator.restore_state(state)


def memory_fault(image: Image) -> str | None:
    """Return the reason for which `image` cannot be the game's memory; None if it can be."""
    now = read_view(image)
    party = byte(image, ram.PARTY_COUNT)
    if now.progress.map_id >= _MAPS:
        return f"map {now.progress.map_id} of a game with {_MAPS} maps"
    if party > ram.PARTY_SIZE:
        return f"{party} creatures in a party of at most {ram.PARTY_SIZE}"
    if now.rows and now.columns and not (now.cell.y < now.rows and now.cell.x < now.columns):
        size = f"{now.rows} rows and {now.columns} columns"
        return f"row {now.cell.y}, column {now.cell.x} of a map of {size}"
    return None


def _immovable(emulator: Emulator, state: bytes) -> str | None:
    """Return a reason if no key moves the player (in a fight, the cursor), or None."""
    emulator.restore_state(state)
    now = read_view(emulator.ram(STEERING))
    for _ in range(_TRIES):
        if now.free or now.progress.battle:
            break
        emulator.press("b")
        now = read_view(emulator.ram(STEERING))
    for button in (*STEPS, *STEPS):
        before = read_view(emulator.ram(STEERING))
        emulator.press(button)
        emulator.press(button)
        after = read_view(emulator.ram(STEERING))
        walked = (after.progress.map_id, after.cell) != (before.progress.map_id, before.cell)
        if after.menu != before.menu if now.progress.battle else walked:
            return None
    return f"no direction key moves the player from {now.cell} of map {now.progress.map_id}"


# -- states from files


def format_fault(data: bytes) -> str | None:
    """Return the reason for which this pyboy cannot read the state; None if it may be readable."""
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
def convert_foreign_state(rom: Rom, data: bytes, name: str, limit_s: float = TIME_LIMIT_S) -> bytes:
    """Check a state in a child and return it as our pyboy writes it; RomError naming `name`."""
    fault = format_fault(data)
    if fault is not None:
        raise _refusal(name, fault)
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
            raise _refusal(name, _child_fault(completed.returncode, completed.stderr))
        return read_bounded(target, _LARGEST)


def _child_fault(code: int, stderr: str) -> str:
    if code == ExitCode.ROM:
        return stderr.strip().splitlines()[0].removeprefix("error: ")
    if code < 0:
        with suppress(ValueError):
            return f"it crashed the emulator ({signal.Signals(-code).name})"
    last = stderr.strip().splitlines()[-1:] or [f"exit code {code}"]
    return f"the emulator failed on it: {last[0]}"


def _refusal(name: str, fault: str) -> RomError:
    return RomError(f"the save state {name} cannot be used: {fault}", REMEDY)


def main(argv: Sequence[str] | None = None) -> int:
    """Load and check a state in this child process, and write the state anew."""
    parser = ArgumentParser(prog="playability_check", description="Checks one save state.")
    for name in ("game", "source", "target"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args(argv)
    game, source, target = args.game, args.source, args.target
    data = source.read_bytes()
    emulator = Emulator(game.read_bytes())
    try:
        left = emulator.restore_state(data)
    except RomError as error:
        raise RomError(f"{error.message}{_SAME_NUMBER * (data[0] == STATE_FORMAT)}") from error
    if left and data[0] == STATE_FORMAT:
        raise RomError(f"{left} bytes are left over{_SAME_NUMBER}")
    check_playable(emulator, emulator.dump_state(), "it")
    write_new(target, emulator.dump_state())
    emulator.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
