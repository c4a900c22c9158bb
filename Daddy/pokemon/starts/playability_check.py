"""Checks that a player can play on from a state, in a child for a state brought from elsewhere.

A game must go on, its memory make sense, its clock run, and buttons move the player. A RomError
(exit code 7) says which test failed. A save state is a program: two wrong bytes can crash the
emulator or hang it. So a foreign file is loaded and judged in a process of its own with a time
limit, which hands back the same moment as this pyboy writes it.
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

from Daddy.core.atomic_files import read_bounded, write_new
from Daddy.core.child_process import ProcessTimeoutError, run_command
from Daddy.core.errors import ExitCode, RomError, run_entry
from Daddy.core.rom_identity import Rom
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import PYBOY_VERSION, STATE_FORMAT, Emulator
from Daddy.pokemon.game_progress import not_started_reason
from Daddy.pokemon.read_memory import Image, byte
from Daddy.pokemon.starts.player_view import STEERING, STEPS, read_view

REMEDY = (
    "begin from another state (setting training.start), or record one: "
    "python -m Daddy.play --record-start NAME"
)
TIME_LIMIT_S: Final = 20.0
"""A good state takes about a second, most of it for starting an interpreter."""
_CLOCK_FRAMES = 70
"""The play time counts in seconds and frames: more than a second of them."""
_MAPS = 248
_TRIES = 40
"""Keys that a text or a script gets to give control back."""
_SMALLEST, _LARGEST = 64 * 1024, 1 << 20
_NEWEST_KNOWN = 64
"""A first byte beyond this is no version of anything yet."""
_SAME_NUMBER = f" (PyBoy 2.6 writes the number {STATE_FORMAT} too: save it with {PYBOY_VERSION})"


def check_playable(emulator: Emulator, state: bytes, name: str) -> None:
    """RomError naming `what` unless a player could play on from `state`; leaves it loaded."""
    emulator.restore_state(state)
    before = bytes(emulator.ram(STEERING))
    emulator.wait(_CLOCK_FRAMES)
    image = emulator.ram(STEERING)
    why = memory_fault(image) or not_started_reason(image, before) or _immovable(emulator, state)
    if why is not None:
        raise RomError(f"{name} is no state to train from: {why}", REMEDY)
    emulator.restore_state(state)


def memory_fault(image: Image) -> str | None:
    """Reason why this cannot be the memory of the game, None when it can."""
    now = read_view(image)
    party = byte(image, ram.PARTY_COUNT)
    if now.progress.map_id >= _MAPS:
        return f"map {now.progress.map_id}, where the game has {_MAPS}"
    if party > ram.PARTY_SIZE:
        return f"{party} creatures in a party of at most {ram.PARTY_SIZE}"
    if now.rows and now.columns and not (now.cell.y < now.rows and now.cell.x < now.columns):
        size = f"{now.rows} rows and {now.columns} columns"
        return f"row {now.cell.y}, column {now.cell.x} of a map of {size}"
    return None


def _immovable(emulator: Emulator, state: bytes) -> str | None:
    """Reason why no key does anything; in a fight or a menu the cursor has to move."""
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


# -- states from elsewhere


def format_fault(data: bytes) -> str | None:
    """Reason why this pyboy cannot read the state, None when it may."""
    if not _SMALLEST <= len(data) <= _LARGEST:
        return f"it has {len(data):,} bytes, where a PyBoy state has about 150,000"
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
    """The same moment as our pyboy writes it; RomError naming `what` when it is refused."""
    why = format_fault(data)
    if why is not None:
        raise _refused(name, why)
    with tempfile.TemporaryDirectory(prefix="daddy-state-") as scratch:
        game, given, made = (Path(scratch) / name for name in ("game.gb", "given", "made"))
        write_new(game, rom.data)
        write_new(given, data)
        argv = [sys.executable, "-m", __name__, *map(str, (game, given, made))]
        try:
            done = run_command(argv, limit_s, die_with_us=sys.platform == "linux")
        except ProcessTimeoutError as error:
            raise _refused(name, f"it hung the emulator for {limit_s:g} s") from error
        if done.returncode:
            raise _refused(name, _why(done.returncode, done.stderr))
        return read_bounded(made, _LARGEST)


def _why(code: int, stderr: str) -> str:
    if code == ExitCode.ROM:
        return stderr.strip().splitlines()[0].removeprefix("error: ")
    if code < 0:
        with suppress(ValueError):
            return f"it crashed the emulator ({signal.Signals(-code).name})"
    last = stderr.strip().splitlines()[-1:] or [f"exit code {code}"]
    return f"the emulator failed on it: {last[0]}"


def _refused(what: str, why: str) -> RomError:
    return RomError(f"the save state {what} cannot be used: {why}", REMEDY)


def main(argv: Sequence[str] | None = None) -> int:
    """Run as the child: load, judge, and write the state anew."""
    game, given, made = map(Path, sys.argv[1:] if argv is None else argv)
    data = given.read_bytes()
    emulator = Emulator(game.read_bytes())
    try:
        left = emulator.restore_state(data)
    except RomError as error:
        raise RomError(f"{error.message}{_SAME_NUMBER * (data[0] == STATE_FORMAT)}") from error
    if left and data[0] == STATE_FORMAT:
        raise RomError(f"{left} bytes are left over{_SAME_NUMBER}")
    check_playable(emulator, emulator.dump_state(), "it")
    write_new(made, emulator.dump_state())
    emulator.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
