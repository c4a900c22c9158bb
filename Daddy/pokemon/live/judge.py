"""Whether a chain can begin here: the same game, the same pyboy, an emulator that plays alike, and
a moment that can be made. Nothing that is offered opens a file or is loaded.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from Daddy.core.errors import DaddyError
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.inputs.stretch import Beginning
from Daddy.pokemon.recordings.feed import beginning
from Daddy.pokemon.recordings.proof import proof
from Daddy.pokemon.starts.boot import start_state


class Finding(NamedTuple):
    """Why it cannot, "" where it can; whether that holds for all of this learner; the place."""

    reason: str
    never: bool = False
    place: bytes = b""


class Judge:
    """Of one game. What a judgement costs (seconds) is paid once per start."""

    def __init__(self, rom: Rom) -> None:
        self.rom = rom

    def hear(self, begins: Beginning) -> Finding:
        """Whether what begins so can be played here."""
        if why := stranger(begins, self.rom):
            return Finding(why, never=True)
        try:
            if proof(self.rom) != begins.proof:
                why = "this machine's emulator plays 2,000 steps otherwise than the learner's"
                return Finding(why, never=True)
            if not begins.start:
                return Finding("it goes on from a state that only the learner has")
            state = start_state(self.rom, begins.start)
            ours = beginning(self.rom, state, begins.start)
        except DaddyError as error:
            return Finding(f"the start {begins.start!r} cannot be made here: {error.message}")
        if ours.moment != begins.moment:
            return Finding(f"the start {begins.start!r} is another moment here")
        return Finding("", place=zlib.compress(state, 1))


def stranger(begins: Beginning, rom: Rom) -> str:
    """Pure: why another game, or another pyboy, is none to play; "" for ours."""
    if begins.rom_sha1 != rom.sha1:
        return f"they play {begins.title or begins.rom_sha1[:12]}, and the game here is {rom.name}"
    if begins.pyboy != PYBOY_VERSION:
        return f"they play with pyboy {begins.pyboy}, and here is {PYBOY_VERSION}"
    return ""
