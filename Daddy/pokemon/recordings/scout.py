"""A deck ahead of whoever watches: what of a recording is verified, and what was reached where.

Owns what a recording proves: milestones are read from the game's memory as it is played, never
believed. Keeps a place after every 256 steps, to rewind to; of a long recording every second.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from copy import deepcopy
from dataclasses import dataclass, field

from Daddy.core.errors import DaddyError
from Daddy.core.rom import Rom
from Daddy.pokemon import story
from Daddy.pokemon.inputs.operations import Kind, Operation
from Daddy.pokemon.inputs.tape import DIGEST_FRAMES, Tape, beginning
from Daddy.pokemon.progress import read_progress
from Daddy.pokemon.ram_map import RANDOM
from Daddy.pokemon.recordings.deck import Deck, Place

_MOST_PLACES = 512


@dataclass
class Report:
    """What was verified so far. `reached`: milestone → frames, in order; `held`: those before.

    `dice`: bytes with which the game's dice were thrown; `writes`: others that were written, by
    scripted helps; `cuts`: frames at which it went back to an earlier moment.
    """

    frames: int = 0
    held: frozenset[str] = frozenset()
    reached: dict[str, int] = field(default_factory=dict)
    dice: int = 0
    writes: int = 0
    cuts: list[int] = field(default_factory=list)


class Scout:
    """Verifies one tape, piece by piece."""

    def __init__(self, rom: Rom, tape: Tape, start: bytes = b"") -> None:
        """RomError when game, pyboy or start are not the tape's."""
        self.report = Report()
        self.failure: DaddyError | None = None
        """What ended it before the tape's end."""
        self._deck = Deck(rom, tape, start)
        self._real, self._begins = rom.real, beginning(tape)
        self._places: list[Place] = [self._deck.first]
        self._spacing, self._stop = DIGEST_FRAMES, threading.Event()
        self._thread: threading.Thread | None = None

    @property
    def over(self) -> bool:
        """Whether all is verified."""
        return self._deck.over

    def advance(self) -> None:
        """Verify the next piece, up to a digest; RomError where the game goes another way."""
        found = deepcopy(self.report)
        until = self._deck.frames + DIGEST_FRAMES
        while not self._deck.over and self._deck.frames < until:
            self._look(self._deck.step(), found)
        found.frames = self._deck.frames
        self._keep()
        self.report = found

    def _look(self, done: Operation, found: Report) -> None:
        if done.kind == Kind.WRITE:
            found.dice += done.first in RANDOM
            found.writes += done.first not in RANDOM
        if done.kind == Kind.LOAD and self._deck.frames > self._begins:
            found.cuts.append(self._deck.frames)
        if done.frames or done.kind == Kind.LOAD:
            now = story.reached(read_progress(self._deck.memory()), self._real)
            if self._deck.frames <= self._begins:
                found.held = now
            for name in sorted(now - found.held - found.reached.keys()):
                found.reached[name] = self._deck.frames

    def _keep(self) -> None:
        if self._deck.frames - self._places[-1].frames < self._spacing:
            return
        self._places.append(self._deck.keep())
        if len(self._places) > _MOST_PLACES:
            self._places = self._places[::2]
            self._spacing *= 2

    def send(self, deck: Deck, frames: int) -> None:
        """Have another deck of the tape go to the last kept place that is no later."""
        places = self._places
        after = bisect_right([place.frames for place in places], frames)
        deck.go(places[max(0, after - 1)])

    def start(self) -> None:
        """Go on on a thread of its own until the end, a failure, or `close`."""
        self._thread = threading.Thread(target=self._run, name="scout", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        try:
            while not self._deck.over and not self._stop.is_set():
                self.advance()
        except DaddyError as error:
            self.failure = error

    def close(self) -> None:
        """Stop and end the emulator."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        self._deck.close()
