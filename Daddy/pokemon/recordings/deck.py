"""One emulator that plays a recording and compares its digests.

Promises that nothing wrong goes on: the first digest that differs is a RomError that says at which
step, and the deck plays no further. A place on the way can be kept and come back to.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from Daddy.core.errors import RomError
from Daddy.core.rom import Rom
from Daddy.pokemon.emulator import (
    FRAMES_PER_SECOND,
    FRAMES_PER_STEP,
    PYBOY_VERSION,
    Emulator,
)
from Daddy.pokemon.inputs import operations, tape
from Daddy.pokemon.inputs.operations import Kind, Operation
from Daddy.pokemon.inputs.tape import DIGEST_BYTES, DIGEST_FRAMES, Tape
from Daddy.pokemon.memory import Image
from Daddy.pokemon.ram_map import WHOLE
from Daddy.pokemon.recordings.hand import do


@dataclass(frozen=True)
class Place:
    """Between two operations: the byte that comes next, the frames and digests so far."""

    at: int = 0
    frames: int = 0
    since: int = 0
    digests: int = 0
    state: bytes = field(default=b"", repr=False)
    """The emulator's, deflated."""
    moments: tuple[bytes, ...] = field(default=(), repr=False)
    """The states that the recording had kept by then, deflated."""
    due: bool = False
    """Whether anything was done that no digest has covered yet."""


def check(tape: Tape, rom: Rom) -> None:
    """RomError unless it was recorded with this game and this pyboy."""
    if tape.rom_sha1 != rom.sha1:
        raise RomError(
            f"this is a recording of {tape.rom} (SHA-1 {tape.rom_sha1}), and the game here is "
            f"{rom.name} (SHA-1 {rom.sha1})",
            "name the game that was recorded: --rom FILE, or --cartridge",
        )
    if tape.pyboy != PYBOY_VERSION:
        raise RomError(
            f"recorded with pyboy {tape.pyboy}, and here is {PYBOY_VERSION}: games go other ways",
            f"play it where pyboy {tape.pyboy} is: pip install pyboy=={tape.pyboy}",
        )


def check_start(tape_: Tape, state: bytes) -> None:
    """RomError unless the recording begins at this state."""
    if tape.of_state(tape_.rom_sha1, tape_.pyboy, state) != tape_.start:
        raise RomError(
            f"the recording begins at another state than {tape_.start_name or 'this'!r} is here",
            "ask who recorded it for one that begins at power-on, or name the state: --start FILE",
        )


def told(frames: int) -> str:
    """A moment in words: the step, and the time of the game."""
    seconds = int(frames / FRAMES_PER_SECOND)
    minutes, seconds = divmod(seconds, 60)
    return f"step {frames // FRAMES_PER_STEP:,} ({minutes // 60}:{minutes % 60:02d}:{seconds:02d})"


class Deck:
    """Plays one tape, from its start. `start` is the state of one that is not from power-on."""

    def __init__(self, rom: Rom, tape: Tape, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the tape's."""
        check(tape, rom)
        if not tape.from_power_on:
            check_start(tape, start)
        self._emulator, self._tape = Emulator(rom.data), tape
        if start:
            self._emulator.load_state(start)
        self._moments: list[bytes] = []
        self._now = Place()
        self._failure: RomError | None = None
        self.first = self.keep()
        """Where the tape begins."""

    @property
    def frames(self) -> int:
        """Frames of the tape that were played."""
        return self._now.frames

    @property
    def over(self) -> bool:
        """Whether all was played, and no digest differed."""
        return self._failure is None and self._now.at >= len(self._tape.operations)

    def step(self) -> Operation:
        """Do the next operation, and compare the digest that is due after it; RomError."""
        if self._failure is not None:
            raise self._failure
        operation = operations.read(self._tape.operations, self._now.at)
        self._do(operation)
        was = self._now
        since = was.since + operation.frames
        due = was.due or tape.changes(operation)
        frames = was.frames + operation.frames
        self._now = Place(operation.end, frames, since, was.digests, due=due)
        if since >= DIGEST_FRAMES or (self.over and due):
            self._compare()
        return operation

    def _compare(self) -> None:
        now = self._now
        first = now.digests * DIGEST_BYTES
        expected = self._tape.digests[first : first + DIGEST_BYTES]
        if tape.digest(self.memory()) != expected:
            self._failure = RomError(
                "the game went another way than was recorded, between "
                f"{told(now.frames - now.since)} and {told(now.frames)}",
                "what came before is verified; the rest was played otherwise, or was changed since",
            )
            raise self._failure
        self._now = Place(now.at, now.frames, 0, now.digests + 1)

    def _do(self, one: Operation) -> None:
        if one.kind == Kind.KEEP:
            self._moments.append(zlib.compress(self._emulator.save_state(), 1))
        elif one.kind == Kind.LOAD:
            self._emulator.load_state(zlib.decompress(self._moments[one.first]))
        else:
            do(self._emulator, one)

    def keep(self) -> Place:
        """This place, to come back to."""
        now, state = self._now, zlib.compress(self._emulator.save_state(), 1)
        return replace(now, state=state, moments=tuple(self._moments))

    def go(self, place: Place) -> None:
        """To a place that this deck or another of the same tape kept."""
        self._emulator.load_state(zlib.decompress(place.state))
        self._now, self._moments = place, list(place.moments)

    def memory(self) -> Image:
        """The work RAM of this moment."""
        return self._emulator.ram(WHOLE)

    def picture(self) -> bytes:
        """The screen, as `Emulator.picture`."""
        return self._emulator.picture()

    def watch(self, watcher: Callable[[], None] | None, every: int) -> None:
        """Have `watcher` called after so many frames (a divisor of 24) of all that is played."""
        self._emulator.watcher, self._emulator.film_frames = watcher, every

    def close(self) -> None:
        """End the emulator."""
        self._emulator.close()
