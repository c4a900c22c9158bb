"""Save states that a person brings along: looked at in a child that may crash or hang, then kept.

A save state is a program: two wrong bytes are enough to crash the emulator or to hang it. So a file
is first loaded, played and judged in a process of its own with a time limit, which hands back the
same moment as this pyboy writes it. What is not good enough is refused by name.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from Daddy.core.errors import ExitCode, RomError, run_entry
from Daddy.core.files import read_bounded, write_new
from Daddy.core.process import ProcessTimeoutError, run
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION, STATE_FORMAT, Emulator
from Daddy.pokemon.starts.preflight import FIX, preflight

TIME_LIMIT_S: Final = 20.0
"""A good state takes about a second, most of it for starting an interpreter."""
_SMALLEST, _LARGEST = 64 * 1024, 1 << 20
_SAME_NUMBER = f" (PyBoy 2.6 writes the number {STATE_FORMAT} too: save it with {PYBOY_VERSION})"
_NEWEST_KNOWN = 64
"""A first byte beyond this is no version of anything yet."""


def refusal(data: bytes) -> str | None:
    """Why this cannot be a state that our pyboy reads, None when it may be one."""
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


def adopt(rom: Rom, data: bytes, what: str, limit_s: float = TIME_LIMIT_S) -> bytes:
    """The same moment as our pyboy writes it; RomError naming `what` when it is refused."""
    why = refusal(data)
    if why is not None:
        raise _refused(what, why)
    with tempfile.TemporaryDirectory(prefix="daddy-state-") as scratch:
        game, given, made = (Path(scratch) / name for name in ("game.gb", "given", "made"))
        write_new(game, rom.data)
        write_new(given, data)
        argv = [sys.executable, "-m", __name__, *map(str, (game, given, made))]
        try:
            done = run(argv, limit_s, die_with_us=sys.platform == "linux")
        except ProcessTimeoutError as error:
            raise _refused(what, f"it hung the emulator for {limit_s:g} s") from error
        if done.returncode:
            raise _refused(what, _why(done.returncode, done.stderr))
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
    return RomError(f"the save state {what} cannot be used: {why}", FIX)


def main(argv: Sequence[str] | None = None) -> int:
    """The child: load, judge, and write the state anew."""
    parser = argparse.ArgumentParser(prog="foreign", description="Judge one save state.")
    for name in ("game", "given", "made"):
        parser.add_argument(name, type=Path)
    args = parser.parse_args(argv)
    data = args.given.read_bytes()
    emulator = Emulator(args.game.read_bytes())
    try:
        left = emulator.load_state(data)
    except RomError as error:
        raise RomError(f"{error.message}{_SAME_NUMBER * (data[0] == STATE_FORMAT)}") from error
    if left and data[0] == STATE_FORMAT:
        raise RomError(f"{left} bytes are left over{_SAME_NUMBER}")
    preflight(emulator, emulator.save_state(), "it")
    write_new(args.made, emulator.save_state())
    emulator.close()
    return 0


if __name__ == "__main__":
    sys.exit(run_entry(main))
