"""An operation that was recorded, done again at an emulator."""

from __future__ import annotations

from Daddy.pokemon.emulator import BUTTONS, Emulator
from Daddy.pokemon.inputs.operations import Kind, Operation


def do(emulator: Emulator, one: Operation) -> None:
    """Anything but KEEP and LOAD; ValueError for these. Whoever watches sees every frame."""
    if one.kind < Kind.IDLE:
        emulator.press(BUTTONS[one.kind])
    elif one.kind == Kind.IDLE:
        emulator.idle()
    elif one.kind == Kind.WAIT:
        _wait(emulator, one.frames)
    elif one.kind == Kind.HOLD:
        down = {name for bit, name in enumerate(BUTTONS) if one.first >> bit & 1}
        emulator.hold(down, one.frames)
    elif one.kind == Kind.WRITE:
        emulator.write(one.first, one.second)
    else:
        raise ValueError(f"operation {one.kind} is about moments")


def _wait(emulator: Emulator, frames: int) -> None:
    """As it was recorded; whoever watches sees these frames too."""
    watcher = emulator.watcher
    if watcher is None:
        emulator.wait(frames)
        return
    for done in range(0, frames, emulator.film_frames):
        emulator.wait(min(emulator.film_frames, frames - done))
        watcher()
