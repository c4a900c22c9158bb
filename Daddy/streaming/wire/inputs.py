"""Pure: one agent's play towards one viewer that plays it itself: chains of pieces, in order.

A chain is offered by what it begins at; its pieces follow once the viewer wants it, at most so many
unacknowledged. The newest chain is kept whole, so that who comes late can begin it. Chains are
numbered here, in the order in which they came: a successor of a job counts from 1 again.
"""

from __future__ import annotations

import struct
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

from Daddy.core.piece import Piece, read_piece
from Daddy.streaming.wire.outbox import Handed
from Daddy.streaming.wire.protocol import Kind, Message, ProtocolError

CHAIN_BYTES = 128 * 1024
"""A longer chain is given up until the next: it would be of 200,000 steps or more."""
CHAINS = 3
_PLACE = struct.Struct("<III")
_OFFER = struct.Struct("<I")
_WANT = struct.Struct("<IIB")


@dataclass(frozen=True, slots=True)
class Want:
    """What a viewer says of a stream: it has piece ``index`` of ``chain``, and all before it.

    ``inputs``: it wants the rest. ``pictures``: it needs pictures, too.
    """

    chain: int
    index: int
    inputs: bool
    pictures: bool

    def pack(self) -> bytes:
        """The body of a WANT."""
        return _WANT.pack(self.chain, self.index, self.inputs | self.pictures << 1)


def read_want(body: bytes) -> Want:
    """A WANT's body; ProtocolError when it has another length."""
    if len(body) != _WANT.size:
        raise ProtocolError("a WANT has 9 bytes")
    chain, index, bits = _WANT.unpack(body)
    return Want(chain, index, bool(bits & 1), bool(bits & 2))


@dataclass(frozen=True, slots=True)
class Offer:
    """A chain and what it begins at, in the game's own words."""

    chain: int
    beginning: bytes


def read_offer(body: bytes) -> Offer:
    """An OFFER's body; ProtocolError when it is shorter than its head."""
    if len(body) < _OFFER.size:
        raise ProtocolError("an OFFER is shorter than its head")
    return Offer(_OFFER.unpack_from(body)[0], body[_OFFER.size :])


@dataclass(frozen=True, slots=True)
class Play:
    """A piece of a chain, played at ``captured_ms`` of the relay's monotonic clock, mod 2^32."""

    chain: int
    index: int
    captured_ms: int
    data: bytes


def read_play(body: bytes) -> Play:
    """A PLAY's body; ProtocolError when it is shorter than its head."""
    if len(body) < _PLACE.size:
        raise ProtocolError("a PLAY is shorter than its head")
    chain, index, captured_ms = _PLACE.unpack_from(body)
    return Play(chain, index, captured_ms, body[_PLACE.size :])


@dataclass
class _Chain:
    number: int
    beginning: bytes
    plays: list[tuple[int, int, bytes]] = field(default_factory=list)
    """(index, captured_ms, data) from index 1 on, with gaps where pieces were lost."""
    offered: bool = False
    wanted: bool = False
    sent: int = 0
    acked: int = 0
    size: int = 0

    def unacked(self) -> list[tuple[int, int, bytes]]:
        return [one for one in self.plays[: self.sent] if one[0] > self.acked]


class Inputs:
    """What one agent plays, towards one viewer."""

    def __init__(self) -> None:
        self.plays = False
        """Whether the viewer plays it itself, and needs no pictures."""
        self._numbers = 0
        self._chains: deque[_Chain] = deque(maxlen=CHAINS)
        self._origin: tuple[str, int] = ("", 0)
        self._newest = 0
        self._missed = True

    def restart(self) -> None:
        """A new viewer: it has nothing yet, and can only begin the newest chain."""
        self.plays = False
        for chain in self._chains:
            chain.offered = chain.wanted = False
            chain.sent = chain.acked = 0
        while len(self._chains) > 1:
            self._chains.popleft()

    def absorb(self, handed: Iterable[Handed], origin: str) -> None:
        """Pieces as a job wrote them, some again; ``origin`` tells one process from the next."""
        for one in handed:
            try:
                piece = read_piece(one.piece)
            except ValueError:
                continue
            self._take(piece, one.captured_ms, origin)

    def _take(self, piece: Piece, captured_ms: int, origin: str) -> None:
        before, chain = self._origin
        if origin != before or piece.chain > chain:
            self._origin, self._newest = (origin, piece.chain), piece.index
            self._missed = piece.index > 0
            if not self._missed:
                self._numbers += 1
                self._chains.append(_Chain(self._numbers, piece.data))
        elif piece.chain == chain and piece.index > self._newest:
            self._newest = piece.index
            if not self._missed:
                self._keep(piece, captured_ms)

    def _keep(self, piece: Piece, captured_ms: int) -> None:
        chain = self._chains[-1]
        chain.size += len(piece.data)
        chain.plays.append((piece.index, captured_ms % 2**32, piece.data))
        if chain.size > CHAIN_BYTES:
            self._chains.pop()
            self._missed = True

    def hear(self, want: Want) -> None:
        """What the viewer has, and wants next; chains that are gone are passed over."""
        self.plays = not want.pictures
        for chain in self._chains:
            if chain.number < want.chain and chain.sent:  # what was sent before has arrived before
                chain.acked = chain.plays[chain.sent - 1][0]
            elif chain.number == want.chain:
                chain.acked = max(chain.acked, want.index)
                chain.wanted = want.inputs

    def messages(self, stream: int, allowed: int) -> list[Message]:
        """Offers, and pieces as long as fewer than ``allowed`` are unacknowledged."""
        messages = []
        for chain in self._chains:
            if not chain.offered and chain.plays:
                chain.offered = True
                body = _OFFER.pack(chain.number) + chain.beginning
                messages.append(Message(Kind.OFFER, body, stream=stream))
            while chain.wanted and chain.sent < len(chain.plays):
                if len(chain.unacked()) >= allowed:
                    return messages
                index, captured_ms, data = chain.plays[chain.sent]
                chain.sent += 1
                body = _PLACE.pack(chain.number, index, captured_ms) + data
                messages.append(Message(Kind.PLAY, body, stream=stream))
        return messages

    def unacked_bytes(self) -> int:
        """Bytes of pieces that the viewer has not acknowledged."""
        return sum(len(data) for chain in self._chains for _, _, data in chain.unacked())
