"""One stream: its chains, the emulator that verifies them and the one that shows them.

Owns the threads, and the lock that both share. What is to be done is decided in `course`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from Daddy.core.booth import Shown, Verdict
from Daddy.core.clock import Clock
from Daddy.core.piece import Piece
from Daddy.pokemon.inputs.stretch import read_beginning
from Daddy.pokemon.live.chain import Chain, Passage
from Daddy.pokemon.live.course import Do, Move, next_move, what_to_verify
from Daddy.pokemon.live.judge import Judge
from Daddy.pokemon.live.scout import Scout
from Daddy.pokemon.live.show import Show
from Daddy.pokemon.live.vigil import Vigil

_CHAINS: Final = 4
"""The one that is shown, and the newest."""
_IDLE_S: Final = 0.05
_OTHERWISE: Final = "the game went another way here than at the learner"


@dataclass(frozen=True)
class Outlet:
    """Where a lane's words go."""

    verdict: Callable[[Verdict], None]
    shown: Callable[[Shown], None]


class Lane:
    """Give it pieces; it says and shows by itself until it is closed."""

    def __init__(self, judge: Judge, outlet: Outlet, clock: Clock, vigil: Vigil) -> None:
        self._judge, self._outlet, self._clock = judge, outlet, clock
        self._vigil = vigil
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._chains: list[Chain] = []
        self._at = (0, 0)
        self._seek: int | None = None
        self._said: Verdict | None = None
        self._reason, self._showing, self._never = "", False, False
        self._coming: str | None = None
        """What is to be said with the next frame."""
        self._threads = [
            threading.Thread(target=one, name=one.__name__, daemon=True)
            for one in (self._verify, self._play)
        ]
        for thread in self._threads:
            thread.start()

    # -- what arrives

    def hear(self, captured_s: float, piece: Piece) -> None:
        """A piece; whatever cannot be one breaks its chain."""
        with self._lock:
            if not piece.index:
                self._begin(piece)
            for chain in self._chains:
                if chain.number == piece.chain and piece.index:
                    chain.add(piece, captured_s)
            self._say()

    def _begin(self, piece: Piece) -> None:
        if self._chains and piece.chain <= self._chains[-1].number:
            return
        try:
            self._chains.append(Chain(piece.chain, read_beginning(piece.data)))
        except ValueError as error:
            self._reason = str(error)
            return
        spare = [one for one in self._chains[:-1] if one.number != self._at[0]]
        if len(self._chains) > _CHAINS:
            self._chains.remove(spare[0])

    def seek(self, frames: int) -> None:
        """Go back or ahead by so many frames of what is kept."""
        with self._lock:
            self._seek = frames

    def close(self) -> None:
        """Have the threads end, and close their emulators; they are not waited for."""
        self._stop.set()

    @property
    def is_over(self) -> bool:
        """Whether its threads have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    # -- what is said

    def _say(self) -> None:
        """Tell what is had and needed, where that is news; under the lock."""
        newest = self._chains[-1] if self._chains else None
        one = Verdict(
            chain=newest.number if newest else 0,
            index=newest.acknowledged if newest else 0,
            inputs=newest is None or not newest.broken,
            pictures=not self._showing,
            never=self._never,
            said=self._reason,
        )
        if one != self._said:
            self._said = one
            self._outlet.verdict(one)

    # -- the emulator that verifies

    def _verify(self) -> None:
        scout = Scout(self._judge.rom, self._vigil, self._stop)
        try:
            while not self._stop.is_set():
                with self._lock:
                    chain = what_to_verify(self._chains, self._at)
                if chain is None:
                    self._clock.wait(self._stop, _IDLE_S)
                elif not chain.judged:
                    self._decide(chain)
                else:
                    self._confirm(scout, chain)
        finally:
            scout.close()

    def _decide(self, chain: Chain) -> None:
        found = self._judge.hear(chain.begins)
        with self._lock:
            chain.judge(found.reason, found.place)
            self._never = self._never or found.never
            self._reason = found.reason
            self._say()

    def _confirm(self, scout: Scout, chain: Chain) -> None:
        with self._lock:
            index = chain.verified
            stretch, place = chain.stretches[index], chain.places[index]
        after = scout.follow(chain.number, index, stretch, place)
        with self._lock:
            if self._stop.is_set():
                return
            if after is not None:
                chain.confirm(index, after)
            elif chain.verified == index:
                chain.refuse(_OTHERWISE)
                self._reason = chain.broken
            self._say()

    # -- the emulator that shows

    def _play(self) -> None:
        show = Show(self._judge.rom, self._shown, self._clock, self._stop, self._vigil)
        idle_since = self._clock.monotonic()
        try:
            while not self._stop.is_set():
                now = self._clock.monotonic()
                with self._lock:
                    move = self._sought(show.frames) or next_move(
                        self._chains, self._at, now, now - idle_since
                    )
                    passage = self._take(move)
                if passage is None:
                    self._clock.wait(self._stop, _IDLE_S)
                    continue
                if not show.play(passage, self._is_sought):
                    self._give_up(passage.chain)
                idle_since = self._clock.monotonic()
        finally:
            show.close()

    def _take(self, move: Move) -> Passage | None:
        """Take a move up: what to play, None where there is nothing to play now."""
        if move.do in (Do.PLAY, Do.CUT):
            self._at, self._coming = (move.chain, move.stretch + 1), move.reason
            chain = next(one for one in self._chains if one.number == move.chain)
            return chain.passage(move.stretch, move.first)
        if move.do is Do.PICTURES:
            self._showing, self._reason = False, move.reason
        self._say()
        return None

    def _shown(self, frame: Shown) -> None:
        """A frame goes out; with the first after a move it is said what is shown, and why."""
        self._outlet.shown(frame)
        if self._coming is not None:
            with self._lock:
                self._showing, self._reason, self._coming = True, self._coming, None
                self._say()

    def _give_up(self, number: int) -> None:
        with self._lock:
            for chain in self._chains:
                if chain.number == number:
                    chain.give_up(_OTHERWISE)
            self._say()

    def _is_sought(self) -> bool:
        return self._seek is not None

    def _sought(self, here: int) -> Move | None:
        """Where the person wants to go, as a cut; None when they do not."""
        frames, self._seek = self._seek, None
        number = self._at[0]
        chain = next((one for one in self._chains if one.number == number), None)
        if frames is None or chain is None or not chain.verified:
            return None
        first = max(0, here + frames)
        return Move(Do.CUT, number, chain.stretch_at(first), "as you wished", first)
