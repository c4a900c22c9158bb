"""Pure: what arrived of one chain, and how much of it is verified.

Promises that stretches stand in their order without a gap, and that places to begin at stay few.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import accumulate

from Daddy.core.piece import Piece
from Daddy.pokemon.inputs import stretch
from Daddy.pokemon.inputs.stretch import Beginning, Stretch

_MOST_STRETCHES = 4_096
"""A million steps."""
_MOST_PLACES = 64
"""Kept states of a chain, deflated: some 10 to 30 kB each."""


@dataclass
class Chain:
    """One chain, from what it begins at.

    `stretches` are what arrived; the first `verified` of them were played here with equal digests.
    `broken` says why there will be no more of it that can be shown, "" while there may be.
    """

    number: int
    begins: Beginning
    judged: bool = False
    broken: str = ""
    verified: int = 0
    stretches: list[Stretch] = field(default_factory=list)
    captured: list[float] = field(default_factory=list)
    """When each was played, seconds of this machine's monotonic clock."""
    places: dict[int, bytes] = field(default_factory=dict)
    """Deflated states at the beginning of stretches; that of the first unverified among them."""

    @property
    def arrived(self) -> int:
        """The index of the newest piece; piece 0 is the beginning."""
        return len(self.stretches)

    def add(self, piece: Piece, captured_s: float) -> None:
        """The next piece; one that does not follow, or is none, breaks the chain."""
        if self.broken or piece.index <= self.arrived:
            return
        if piece.index > self.arrived + 1:
            self.broken = f"{piece.index - self.arrived - 1} pieces of its inputs were lost"
            return
        if piece.index > _MOST_STRETCHES:
            self.broken = f"it has over {_MOST_STRETCHES} stretches"
            return
        try:
            self.stretches.append(stretch.read(piece.data))
            self.captured.append(captured_s)
        except ValueError as error:
            self.broken = f"its inputs are damaged: {error}"

    def judge(self, reason: str, place: bytes) -> None:
        """Whether it can begin here: at the state `place`, deflated, or why not."""
        self.judged = True
        self.places[0] = place
        if reason:
            self.refuse(reason)

    def refuse(self, reason: str) -> None:
        """What is not verified yet never will be."""
        self.broken = reason
        del self.stretches[self.verified :]
        del self.captured[self.verified :]

    def confirm(self, place: bytes) -> None:
        """The next stretch is verified; `place` is the state after it, deflated."""
        self.verified += 1
        self.places[self.verified] = place
        if len(self.places) > _MOST_PLACES:
            for index in [one for one in self.places if one % 2 and one < self.verified]:
                del self.places[index]
            if len(self.places) > _MOST_PLACES:
                kept = sorted(self.places)[:-1:2]
                self.places = {one: self.places[one] for one in (*kept, self.verified)}

    def frames_before(self, index: int) -> int:
        """Frames from the beginning to that stretch (from 0)."""
        return sum(one.frames for one in self.stretches[:index])

    def stretch_at(self, frames: int) -> int:
        """The verified stretch in which that frame is; the last one for later frames."""
        ends = accumulate(one.frames for one in self.stretches[: self.verified])
        return min(sum(end <= frames for end in ends), max(0, self.verified - 1))

    def place_before(self, index: int) -> int:
        """The last kept place that is no later than that stretch."""
        return max(one for one in self.places if one <= index)
