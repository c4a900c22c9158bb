"""Whether a chain can begin here: the same game, the same pyboy, an emulator that plays alike, and
a moment that can be made.

What is offered is a stranger's word. A start is the game's beginning or a route's name, and is made
of the game alone, once: nothing of this person's is looked up by it, and nothing is written.
"""

from __future__ import annotations

import threading
import zlib
from typing import NamedTuple

from Daddy.core.errors import DaddyError
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import PYBOY_VERSION
from Daddy.pokemon.inputs.stretch import Beginning
from Daddy.pokemon.recordings.proof import STEPS, proof
from Daddy.pokemon.recordings.way import made
from Daddy.pokemon.starts.named import is_route
from Daddy.pokemon.starts.route import BEGINNING


class Finding(NamedTuple):
    """Why it cannot, "" where it can; whether that holds for all of this learner; the place."""

    reason: str
    never: bool = False
    place: bytes = b""


class _Start(NamedTuple):
    """A start of this game: its moment and its deflated state, or why there is none."""

    moment: str = ""
    place: bytes = b""
    reason: str = ""


class Judge:
    """Of one game. What a judgement costs (seconds) is paid once per start, of which there are as
    many as the game has routes; whoever asks meanwhile waits. `steps`: of the proof.
    """

    def __init__(self, rom: Rom, steps: int = STEPS) -> None:
        self.rom = rom
        self._steps = steps
        self._lock = threading.Lock()
        self._starts: dict[str, _Start] = {}

    def hear(self, begins: Beginning) -> Finding:
        """Whether what begins so can be played here."""
        if why := stranger(begins, self.rom):
            return Finding(why, never=True)
        with self._lock:
            return self._hear(begins)

    def _hear(self, begins: Beginning) -> Finding:
        try:
            if proof(self.rom, self._steps) != begins.proof:
                why = f"this machine's emulator plays {self._steps:,} steps otherwise than "
                return Finding(f"{why}the learner's", never=True)
        except DaddyError as error:
            return Finding(f"this machine's emulator cannot play it: {error.message}", never=True)
        if not begins.start:
            return Finding("it goes on from a state that only the learner has")
        start = self._start(begins.start)
        if start.reason:
            return Finding(f"the start {begins.start!r} cannot be made here: {start.reason}")
        if start.moment != begins.moment:
            return Finding(f"the start {begins.start!r} is another moment here")
        return Finding("", place=start.place)

    def _start(self, name: str) -> _Start:
        if name != BEGINNING and not is_route(self.rom, name):
            return _Start(reason="it is no route of this game")
        if name not in self._starts:
            self._starts[name] = self._made(name)
        return self._starts[name]

    def _made(self, name: str) -> _Start:
        try:
            moment, state = made(self.rom, name)
        except DaddyError as error:
            return _Start(reason=error.message)
        return _Start(moment, zlib.compress(state, 1))


def stranger(begins: Beginning, rom: Rom) -> str:
    """Pure: why another game, or another pyboy, is none to play; "" for ours."""
    if begins.rom_sha1 != rom.sha1:
        return f"they play {begins.title or begins.rom_sha1[:12]}, and the game here is {rom.name}"
    if begins.pyboy != PYBOY_VERSION:
        return f"they play with pyboy {begins.pyboy}, and here is {PYBOY_VERSION}"
    return ""
