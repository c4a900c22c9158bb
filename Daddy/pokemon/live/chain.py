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
_MOST_BYTES = 512 * 1024
"""Of operations: half as many again as a million steps."""
_MOST_WAITING = 256
"""Stretches that wait to be verified; an honest relay sends no more than are acknowledged."""
_ACKNOWLEDGED = 128
_MOST_PLACES = 64
_PLACES_BYTES = 2 << 20
"""Kept states of a chain, deflated: some 10 to 30 kB each."""


@dataclass(frozen=True)
class Passage:
    """A verified stretch with all that is needed to show it, its frames from `first` on.

    Where the emulator is elsewhere it begins at `place` (a deflated state) and plays the stretches
    `before` unseen. `frames` of the chain come before it; it was played at `captured_s`.
    """

    chain: int
    index: int
    stretch: Stretch
    captured_s: float
    frames: int
    place: bytes
    before: tuple[Stretch, ...]
    first: int = 0


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
    _size: int = 0
    _spacing: int = 1
    """Places are kept at multiples of it."""

    @property
    def arrived(self) -> int:
        """The index of the newest piece; piece 0 is the beginning."""
        return len(self.stretches)

    @property
    def acknowledged(self) -> int:
        """The piece up to which more may be sent: verifying is slower than sending."""
        return min(self.arrived, self.verified + _ACKNOWLEDGED)

    def add(self, piece: Piece, captured_s: float) -> None:
        """The next piece; one that does not follow, or is none, breaks the chain."""
        if self.broken or piece.index <= self.arrived:
            return
        if piece.index > self.arrived + 1:
            self.broken = f"{piece.index - self.arrived - 1} pieces of its inputs were lost"
            return
        if piece.index > _MOST_STRETCHES:
            self.broken = f"it has over {_MOST_STRETCHES} stretches"
        elif self.arrived - self.verified >= _MOST_WAITING:
            self.broken = f"over {_MOST_WAITING} of its stretches wait to be verified"
        else:
            self._take(piece.data, captured_s)

    def _take(self, data: bytes, captured_s: float) -> None:
        try:
            found = stretch.read(data)
        except ValueError as error:
            self.broken = f"its inputs are damaged: {error}"
            return
        self._size += len(found.operations)
        if self._size > _MOST_BYTES:
            self.broken = f"it has over {_MOST_BYTES} bytes of inputs"
            return
        self.stretches.append(found)
        self.captured.append(captured_s)

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

    def give_up(self, reason: str) -> None:
        """Nothing of it is verified any more."""
        self.verified = 0
        self.refuse(reason)
        self.places.clear()

    def confirm(self, index: int, place: bytes) -> None:
        """That stretch is verified; `place` is the state after it, deflated.

        Passed over when the chain was given up meanwhile.
        """
        if not index == self.verified < self.arrived:
            return
        self.verified += 1
        self.places[self.verified] = place
        self._thin()
        while len(self.places) > _MOST_PLACES or self._held() > _PLACES_BYTES:
            self._spacing *= 2
            self._thin()

    def _thin(self) -> None:
        apart, last = self._spacing, self.verified
        self.places = {
            one: place for one, place in self.places.items() if one == last or not one % apart
        }

    def _held(self) -> int:
        """Bytes of the places that can be done without: those of both ends stay."""
        return sum(len(place) for one, place in self.places.items() if 0 < one < self.verified)

    def passage(self, index: int, first: int = 0) -> Passage:
        """That verified stretch, as it is shown; its frames from `first` (of the chain) on."""
        begins = self.place_before(index)
        return Passage(
            chain=self.number,
            index=index,
            stretch=self.stretches[index],
            captured_s=self.captured[index],
            frames=sum(one.frames for one in self.stretches[:index]),
            place=self.places[begins],
            before=tuple(self.stretches[begins:index]),
            first=first,
        )

    def stretch_at(self, frames: int) -> int:
        """The verified stretch in which that frame is; the last one for later frames."""
        ends = accumulate(one.frames for one in self.stretches[: self.verified])
        return min(sum(end <= frames for end in ends), max(0, self.verified - 1))

    def place_before(self, index: int) -> int:
        """The last kept place that is no later than that stretch."""
        return max(one for one in self.places if one <= index)
