"""Whether training from a save state can teach anything, asked before it costs anybody hours.

Owns the questions: is a game going on, does its memory make sense, does its clock run, do buttons
move the player. Promises an answer in well under a second and a RomError (exit code 7) that says
which question failed.
"""

from __future__ import annotations

from collections.abc import Callable

from Daddy.core.errors import RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.progress import not_started
from Daddy.pokemon.starts.ground import STEPS
from Daddy.pokemon.starts.situation import STEERING, Situation, read_situation

_CLOCK_FRAMES = 70
"""The play time counts in seconds and frames: more than a second of them."""
_MAPS = 248
_TRIES = 40
"""Keys that a text or a script gets to give control back."""
_HOW = "begin from another state (setting training.start), or record one: "
FIX = _HOW + "python -m Daddy.play --record-start NAME"


def preflight(emulator: Emulator, state: bytes, what: str) -> None:
    """RomError naming `what` unless a player could play on from `state`; leaves it loaded."""
    emulator.load_state(state)
    before = bytes(emulator.ram(STEERING))
    emulator.wait(_CLOCK_FRAMES)
    image = emulator.ram(STEERING)
    why = nonsense(image) or not_started(image, before) or _immovable(emulator, state)
    if why is not None:
        raise RomError(f"{what} is no state to train from: {why}", FIX)
    emulator.load_state(state)


def nonsense(image: bytes | bytearray) -> str | None:
    """Why this cannot be the memory of the game, None when it can."""
    now = read_situation(image)
    party = image[ram.PARTY_COUNT - ram.RAM_START]
    if now.progress.map_id >= _MAPS:
        return f"map {now.progress.map_id}, where the game has {_MAPS}"
    if party > ram.PARTY_SIZE:
        return f"{party} creatures in a party of at most {ram.PARTY_SIZE}"
    if now.rows and now.columns and not (now.cell.y < now.rows and now.cell.x < now.columns):
        size = f"{now.rows} rows and {now.columns} columns"
        return f"row {now.cell.y}, column {now.cell.x} of a map of {size}"
    return None


def _immovable(emulator: Emulator, state: bytes) -> str | None:
    """Why no key does anything; a fight or a menu counts as moved when its cursor does."""
    emulator.load_state(state)
    now = _look(emulator)
    for _ in range(_TRIES):
        if now.free or now.progress.battle:
            break
        emulator.press("b")
        now = _look(emulator)
    tells: Callable[[Situation], object] = _cursor if now.progress.battle else _stand
    for button in (*STEPS, *STEPS):
        was = tells(_look(emulator))
        emulator.press(button)
        emulator.press(button)
        if tells(_look(emulator)) != was:
            return None
    return f"no direction key moves the player from {now.cell} of map {now.progress.map_id}"


def _look(emulator: Emulator) -> Situation:
    return read_situation(emulator.ram(STEERING))


def _stand(now: Situation) -> object:
    return now.progress.map_id, now.cell


def _cursor(now: Situation) -> object:
    return now.menu
