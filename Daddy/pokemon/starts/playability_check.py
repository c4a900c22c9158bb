"""Checks that an agent can play on from a state.

A game must be running, with plausible memory, a running clock, and buttons that move the player. A
RomError (exit code 7) names the test that failed.
"""

from Daddy.core.errors import RomError
from Daddy.pokemon import ram_map as ram
from Daddy.pokemon.emulator import Emulator
from Daddy.pokemon.game_progress import not_started_reason
from Daddy.pokemon.memory_decoding import Image, byte
from Daddy.pokemon.starts.route_view import STEERING, STEPS, read_view

REMEDY = (
    "begin from another state (setting training.start), or record one: "
    "python -m Daddy.play --record-start NAME"
)
_CLOCK_FRAMES = 70
"""Frames, more than a second, in which the play time must change."""
_MAPS = 248
_TRIES = 40
"""Keys pressed to end a text or a script."""


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
    if moves_player(emulator):
        return None
    return f"no direction key moves the player from {now.cell} of map {now.progress.map_id}"


def moves_player(emulator: Emulator) -> bool:
    """Press direction keys until one moves the player (in a fight, the cursor); False if none."""
    for button in (*STEPS, *STEPS):
        before = read_view(emulator.ram(STEERING))
        emulator.press(button)
        emulator.press(button)
        after = read_view(emulator.ram(STEERING))
        walked = (after.progress.map_id, after.cell) != (before.progress.map_id, before.cell)
        if after.menu != before.menu if before.progress.battle else walked:
            return True
    return False
