"""The job's end of the direct way: relays come here, prove themselves, and are told what happens.

The only port of ours that is not on loopback. It is open while somebody watches; a stranger gets no
byte before a greeting that names our token and three seconds to prove it, no reason when it is let
go, and few fit in at a time. A relay that does not read is dropped. What they are told is what
stands in the spool, too.
"""

from __future__ import annotations

import contextlib
import secrets
import select
import socket
from collections.abc import Callable, Collection, Sequence
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.streaming.wire.auth import NONCE_BYTES, Token
from Daddy.streaming.wire.messages import read_stamps, stamps
from Daddy.streaming.wire.protocol import (
    READ_BYTES,
    Kind,
    Message,
    ProtocolError,
    Reason,
    bye,
)
from Daddy.streaming.wire.session import VIEWER, Session

MAX_PROVED, MAX_STRANGERS = 4, 4
GREETING_S = 3.0
SILENT_S = 15.0
OUT_LIMIT = 256 * 1024
"""Bytes that wait for a relay; a segment is less than 64 KiB."""
_SEND_BUFFER = 64 * 1024


class _Caller:
    """Whoever has connected."""

    def __init__(self, sock: socket.socket, tokens: Sequence[Token], now: float) -> None:
        self.socket = sock
        self.session = Session(VIEWER, tokens, secrets.token_bytes(NONCE_BYTES))
        self.began = self.heard = now
        self.out = bytearray()
        self.welcomed = False

    def fileno(self) -> int:
        """For ``select``."""
        return self.socket.fileno()

    def flush(self) -> None:
        """Hand the kernel what it takes."""
        self.out += self.session.take()
        with contextlib.suppress(BlockingIOError):
            while self.out:
                del self.out[: self.socket.send(self.out)]


class Listener:
    """One open port, at ``address``; ``so_far`` is what a relay is told first. OSError."""

    def __init__(
        self,
        address: str,
        tokens: Callable[[], Sequence[Token]],
        so_far: Callable[[], Sequence[Message]],
    ) -> None:
        self.address = address
        self._tokens = tokens
        self._so_far = so_far
        self._callers: list[_Caller] = []
        self.rest = False
        """Nobody is let in for now: that has failed, and would be ready to fail at once again."""
        self._socket = socket.create_server((address, 0), backlog=MAX_STRANGERS)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        """For ``select``."""
        return self._socket.fileno()

    @property
    def callers(self) -> Sequence[_Caller]:
        """All that are connected."""
        return self._callers

    @property
    def ears(self) -> Sequence[Listener | _Caller]:
        """For ``select``: where something may come from."""
        return self._callers if self.rest else [self, *self._callers]

    @property
    def speaking(self) -> Sequence[_Caller]:
        """For ``select``: those for whom bytes wait."""
        return [one for one in self._callers if one.out]

    @property
    def proved(self) -> int:
        """How many relays are served."""
        return sum(one.welcomed for one in self._callers)

    def tell(self, messages: Sequence[Message]) -> None:
        """Something new, for every relay that is served."""
        for one in self._callers:
            if one.welcomed:
                for message in messages:
                    one.session.send(message)

    def step(self, now: float, heard: Collection[Any] | None = None) -> None:
        """Let in, listen, send, and drop whom there is no use in waiting for.

        ``heard`` are those of ``ears`` that ``select`` has just told of; None: it is asked here.
        """
        if heard is None:
            heard = select.select(self.ears, [], [], 0)[0]
        if self in heard:
            self._let_in(now)
        for one in list(self._callers):
            try:
                self._serve(one, now, speaks=one in heard)
            except ProtocolError as error:
                self._drop(one, bye(error.reason, str(error)))
            except OSError:
                self._drop(one)

    def close(self) -> None:
        """No port any more; who is served is told."""
        for one in list(self._callers):
            self._drop(one, bye(Reason.DONE, "the job stops listening"))
        self._socket.close()

    def _let_in(self, now: float) -> None:
        try:
            for _ in range(MAX_STRANGERS):
                sock, _ = self._socket.accept()
                self._greet(sock, now)
        except BlockingIOError:
            pass
        except OSError:
            self.rest = True

    def _greet(self, sock: socket.socket, now: float) -> None:
        strangers = len(self._callers) - self.proved
        if strangers >= MAX_STRANGERS or self.proved >= MAX_PROVED:
            sock.close()
            return
        sock.setblocking(False)
        with contextlib.suppress(OSError):  # who has left already is noticed soon enough
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._callers.append(_Caller(sock, self._known_tokens(), now))

    def _known_tokens(self) -> Sequence[Token]:
        """The token as the file has it now; a damaged file refuses everyone."""
        with contextlib.suppress(DaddyError, OSError):
            return self._tokens()
        return ()

    def _serve(self, one: _Caller, now: float, *, speaks: bool) -> None:
        if speaks:
            data = one.socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError
            one.heard = now
            for message in one.session.receive(data):
                _answer(one.session, message, now)
        if one.session.established and not one.welcomed:
            one.welcomed = True
            for message in self._so_far():
                one.session.send(message)
        one.flush()
        late = not one.welcomed and now - one.began > GREETING_S
        if late or now - one.heard > SILENT_S or len(one.out) > OUT_LIMIT:
            raise ProtocolError("too late, silent or not reading", Reason.SILENT)

    def _drop(self, one: _Caller, last: Message | None = None) -> None:
        """Let go; strangers are told nothing, and not why."""
        with contextlib.suppress(OSError):
            if last is not None and one.session.established:
                one.session.send(last)
                one.flush()
        one.socket.close()
        self._callers.remove(one)


def _answer(session: Session, message: Message, now: float) -> None:
    if message.kind == Kind.PING:
        theirs, _ = read_stamps(message.body)
        session.send(Message(Kind.PONG, stamps(theirs, round(now * 1000))))
    elif message.kind == Kind.BYE:
        raise ConnectionResetError
