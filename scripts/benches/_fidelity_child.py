"""Loads one file of a person and prints all its facts as a line of JSON; child of ``fidelity``.

A damaged save state may crash or hang the emulator; the parent limits the time of this process.
"""

import json
import resource
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.arguments import ArgumentParser
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import RomError
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.game_progress import not_started_reason
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.starts.playability_check import check_playable
from Daddy.pokemon.starts.state_files import load_state_file
from scripts.benches._state_report import doubts, table

MEMORY_LIMIT = 4 << 30
CLOCK_FRAMES = 70
"""Frames, more than a second of play, in which the game's clock must move."""


def read(game: bytes, state: bytes, real: bool) -> dict[str, object]:
    """Return the table of a state, its contradictions, and faults that prevent play."""
    emulator = load_state_file(game, state)
    state = emulator.dump_state()
    image = bytes(emulator.ram(WHOLE))
    emulator.wait(CLOCK_FRAMES)
    not_started = not_started_reason(image)
    stopped = None if not_started else not_started_reason(emulator.ram(), image)
    answer: dict[str, object] = {
        "not_started": not_started,
        "table": {**table(image, real), "to train from": _trainable(emulator, state)},
        "doubts": doubts(image, real),
        "stopped": stopped,
    }
    emulator.close()
    return answer


def _trainable(emulator: Emulator, state: bytes) -> str:
    try:
        check_playable(emulator, state, "this")
    except RomError as error:
        return error.message
    return "fit"


def main(argv: Sequence[str] | None = None) -> int:
    """Read one state; exit code 7 when the emulator cannot read it."""
    parser = ArgumentParser(prog="state-reader", description=__doc__)
    parser.add_argument("game", type=Path)
    parser.add_argument("state", type=Path)
    parser.add_argument("--real", action="store_true")
    args = parser.parse_args(argv)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    print(json.dumps(read(args.game.read_bytes(), args.state.read_bytes(), args.real)))
    return 0


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
