"""Pure: which streams of a relay are played here, in an emulator beside the viewer, and how far.

Knows no emulator: pieces go out as words (``core.booth``), frames and verdicts come in as words.
What a verdict asks for becomes a WANT; while a stream is played its own pictures need not be sent.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import count

from Daddy.core import booth
from Daddy.core.booth import Verdict, Word
from Daddy.core.piece import Piece
from Daddy.streaming.home.rate import Rate
from Daddy.streaming.home.scene import Panel
from Daddy.streaming.wire.inputs import Want, read_offer, read_play
from Daddy.streaming.wire.protocol import Kind, Message, ProtocolError, clean

_SPARE = 2
"""Streams more than are wished for: who is featured next is offered before the last one leaves."""
_SAID = 160
_CUT_S = 4.0
"""For so long a cut is told on the picture."""

Say = Callable[[Word], None]


@dataclass
class Replay:
    """A stream that is played here: its newest frame, when the learner played it, why it is cut.

    ``captured_s`` is of this machine's monotonic clock.
    """

    lane: int
    pixels: bytes | None = None
    chain: int = 0
    frames: int = 0
    captured_s: float = 0.0
    received: float = 0.0
    showing: bool = False
    said: str = ""
    said_at: float = 0.0
    rate: Rate = field(default_factory=Rate)

    def over(self, panel: Panel, now: float) -> Panel:
        """The stream's panel as it is played here; of these frames none has travelled."""
        return replace(
            panel,
            pixels=self.pixels,
            frames=self.frames,
            bytes_per_frame=0.0,
            age_s=max(0.0, now - self.captured_s),
            silent_s=now - self.received,
            per_second=self.rate.per_second(now),
            replayed=True,
            cut=self.said if now - self.said_at < _CUT_S else "",
        )


class Replays:
    """Of one relay. ``lanes`` gives numbers that no other relay's streams have."""

    def __init__(self, say: Say | None = None, lanes: Iterator[int] | None = None) -> None:
        self.never = say is None
        """Nothing of this relay can be played here."""
        self._say: Say = say or (lambda _: None)
        self._lanes = lanes or count(1)
        self._streams: dict[int, Replay] = {}
        self._most = _SPARE

    def wish(self, top_k: int) -> None:
        """So many are to be seen; each costs two emulators, so hardly more are played."""
        self._most = top_k + _SPARE

    def hear(self, message: Message, captured_s: float) -> None:
        """An OFFER or a PLAY, played at ``captured_s``; ProtocolError for what is none.

        Only an OFFER begins a stream, and one that nobody wished for is passed over.
        """
        if message.kind == Kind.OFFER:
            offer = read_offer(message.body)
            piece = Piece(offer.chain, 0, offer.beginning)
        else:
            play = read_play(message.body)
            piece = Piece(play.chain, play.index, play.data)
        one = self._streams.get(message.stream)
        if one is None:
            begins = message.kind == Kind.OFFER and len(self._streams) < self._most
            if self.never or not begins:
                return
            one = self._streams[message.stream] = Replay(next(self._lanes) % 0xFFFF + 1)
        try:
            self._say(booth.piece(one.lane, captured_s, piece))
        except ValueError as error:
            raise ProtocolError("an OFFER or a PLAY is too long") from error

    def tell(self, word: Word, now: float) -> tuple[int, list[Message], str] | None:
        """A word from the emulator: the stream it is about, answers to the relay, what to say.

        None when it is about no stream of this relay. ValueError for what is no word.
        """
        found = next((it for it in self._streams.items() if it[1].lane == word.lane), None)
        if found is None:
            return None
        stream, one = found
        if word.kind == booth.Kind.SHOWN:
            _take(one, booth.read_shown(word.body), now)
            return stream, [], ""
        verdict = booth.read_verdict(word.body)
        return stream, [self._want(stream, verdict)], self._judged(one, verdict, now)

    def _judged(self, one: Replay, verdict: Verdict, now: float) -> str:
        """Take a verdict over; the sentence for the person, if it is news."""
        was, said = (one.showing, one.said), clean(verdict.said, _SAID)
        one.showing, one.said = not verdict.pictures, said
        one.said_at = now if said != was[1] else one.said_at
        self.never = self.never or verdict.never
        if verdict.pictures and said and was != (False, said):
            return f"pictures instead of inputs: {said}"
        return said if said != was[1] else ""

    @staticmethod
    def _want(stream: int, verdict: Verdict) -> Message:
        want = Want(verdict.chain, verdict.index, verdict.inputs, verdict.pictures)
        return Message(Kind.WANT, want.pack(), stream=stream)

    def of(self, stream: int) -> Replay | None:
        """The stream as it is played here now; None while its pictures are to be shown."""
        one = self._streams.get(stream)
        return one if one is not None and one.showing and one.pixels is not None else None

    def keep(self, streams: Collection[int]) -> list[Message]:
        """Nothing more of all other streams; what the relay is to know of it: pictures again."""
        gone = [one for one in self._streams if one not in streams]
        for number in gone:
            self._say(Word(booth.Kind.LEAVE, self._streams.pop(number).lane))
        want = Want(0, 0, inputs=False, pictures=True).pack()
        return [Message(Kind.WANT, want, stream=number) for number in gone]

    def seek(self, stream: int, seconds: float) -> None:
        """Go back or ahead in a stream that is played here."""
        one = self.of(stream)
        if one is not None:
            self._say(booth.seek(one.lane, seconds))

    def end(self) -> None:
        """The emulator is gone: pictures from here on."""
        self.never = True
        self._streams.clear()


def _take(one: Replay, frame: booth.Shown, now: float) -> None:
    one.pixels, one.received = frame.pixels, now
    one.chain, one.frames, one.captured_s = frame.chain, frame.frames, frame.captured_s
    one.rate.add(now)


def ago(seconds: float) -> str:
    """How long ago that was played which is shown."""
    if seconds < 90:  # noqa: PLR2004 - a minute and a half is still told in seconds
        return f"played {seconds:.0f} s ago"
    return f"played {seconds / 60:.0f} min ago"
