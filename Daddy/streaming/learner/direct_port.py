"""Adapter for a job's own port: relays come here, prove themselves, and are told what happens.

The only port of ours that is not on loopback. It is open while somebody watches; a stranger gets no
byte before a greeting that names our token and three seconds to prove it, and no reason when it is
let go. Relays are told what stands in the spool, too. A thread of its own asks the name server for
the address. Successors under the same name write the same address file: a job takes back its own
address alone, and writes it again when another's stands there while it listens.
"""

from __future__ import annotations

import contextlib
import math
import queue
import select
import socket
import threading
from collections.abc import Callable, Collection, Sequence
from pathlib import Path
from typing import Any

from Daddy.core.errors import DaddyError
from Daddy.streaming.login.spool import (
    LOOPBACK,
    Address,
    jobs_token,
    own_address,
    read_address,
    write_address,
)
from Daddy.streaming.protocol.framing import Kind, Message, ProtocolError, Reason, bye
from Daddy.streaming.protocol.handshake import VIEWER, Channel, Token
from Daddy.streaming.protocol.messages import read_stamps, stamps
from Daddy.streaming.protocol.spool_segment import Writer

MAX_PROVED, MAX_STRANGERS = 4, 4
OUT_LIMIT = 256 * 1024
"""Bytes that wait for a relay; a segment is less than 64 KiB."""
_SEND_BUFFER = 64 * 1024


class _Caller(Channel):
    """A relay, or a stranger who claims to be one."""

    welcomed = False


ASK_AGAIN_S = 30.0
LOOK_AGAIN_S = 5.0
Find = Callable[[frozenset[str], str], str | None]


class Lookup:
    """The address on ``host`` for relays on some hosts; one question at a time."""

    def __init__(self, host: str, find: Find = own_address) -> None:
        self._host = host
        self._find = find
        self._hosts: frozenset[str] = frozenset()
        self._found: str | None = None
        self._again_at = 0.0
        self._asking = False
        self._answers: queue.SimpleQueue[tuple[frozenset[str], str | None]] = queue.SimpleQueue()

    def address(self, hosts: frozenset[str], now: float) -> str | None:
        """The address as known now, without waiting; one not found is asked for again later."""
        if hosts != self._hosts:
            self._hosts, self._again_at = hosts, now
        with contextlib.suppress(queue.Empty):
            asked, found = self._answers.get_nowait()
            self._asking = False
            if asked == hosts:
                self._found, self._again_at = found, math.inf if found else now + ASK_AGAIN_S
        if hosts <= {self._host}:
            self._found = LOOPBACK if hosts else None
        elif now >= self._again_at and not self._asking:
            self._ask(hosts)
        return self._found

    def _ask(self, hosts: frozenset[str]) -> None:
        ask = lambda: self._answers.put((hosts, self._find(hosts, self._host)))  # noqa: E731
        with contextlib.suppress(RuntimeError):  # no thread to be had: at the next look
            threading.Thread(target=ask, daemon=True).start()
            self._asking = True


class Port:
    """The port of ``writer``, open while somebody watches.

    ``so_far``: the first messages for a relay; ``port`` is 0 while it is closed.
    """

    def __init__(
        self, stream: Path, writer: Writer, so_far: Callable[[], Sequence[Message]]
    ) -> None:
        self._stream = stream
        self._writer = writer
        self._so_far = so_far
        self._lookup = Lookup(writer.host)
        self._look_at = 0.0
        self._socket: socket.socket | None = None
        self.address, self.port = "", 0
        self.callers: list[_Caller] = []
        self.rest = False
        """Nobody is let in for now: accepting has failed, and would fail at once again."""

    def fileno(self) -> int:
        return self._socket.fileno() if self._socket else -1

    @property
    def ears(self) -> list[Port | _Caller]:
        """For ``select``: where something may come from."""
        return [*([self] if self._socket and not self.rest else []), *self.callers]

    @property
    def speaking(self) -> list[_Caller]:
        """For ``select``: those for whom bytes wait."""
        return [caller for caller in self.callers if caller.out]

    @property
    def proved(self) -> int:
        return sum(caller.welcomed for caller in self.callers)

    def tell(self, messages: Sequence[Message]) -> None:
        """Tell every relay that has proved itself."""
        for caller in self.callers:
            if caller.welcomed:
                for message in messages:
                    caller.session.send(message)

    def look(self, hosts: frozenset[str], now: float) -> None:
        """Listen for relays on these hosts, and for nobody where there are none."""
        address = self._lookup.address(hosts, now)
        if self.address != (address or ""):
            self.close()
        with contextlib.suppress(DaddyError, OSError):
            if address and self._socket is None:
                jobs_token(self._stream)
                self._socket = socket.create_server((address, 0), backlog=MAX_STRANGERS)
                self._socket.setblocking(False)
                self.address, self.port = address, int(self._socket.getsockname()[1])
                self._look_at = now
        self.rest = False
        if self._socket and now >= self._look_at:
            self._look_at = now + LOOK_AGAIN_S
            self._say_again()

    def step(self, now: float, heard: Collection[Any] | None = None) -> None:
        """Let in, listen, send, drop; ``heard`` are those of ``ears`` that ``select`` has found."""
        if heard is None:
            heard = select.select(self.ears, [], [], 0)[0]
        if self._socket and self in heard:
            self._let_in(self._socket, now)
        for caller in list(self.callers):
            try:
                self._serve(caller, now, speaks=caller in heard)
            except ProtocolError as error:
                self._drop(caller, bye(error.reason, str(error)))
            except OSError:
                self._drop(caller)

    def close(self) -> None:
        """Close the port and tell its relays; an address that another job has written stays."""
        if self._socket is None:
            return
        ours = self._stands()
        for caller in list(self.callers):
            self._drop(caller, bye(Reason.DONE, "the job stops listening"))
        self._socket.close()
        self._socket, self.address, self.port = None, "", 0
        if ours:
            with contextlib.suppress(OSError):
                self._publish()

    def _say_again(self) -> None:
        """Put our address where another's stands; close a port that nobody can be told of."""
        try:
            if not self._stands():
                self._publish()
        except OSError:
            self.close()

    def _stands(self) -> bool:
        there = read_address(self._stream, self._writer.peer)
        ours = (self._writer.incarnation, self.port)
        return there is not None and (there.incarnation, there.port) == ours

    def _publish(self) -> None:
        where = Address(self.address, self.port, self._writer.incarnation, self._writer.host)
        write_address(self._stream, self._writer.peer, where)

    def _let_in(self, listener: socket.socket, now: float) -> None:
        try:
            for _ in range(MAX_STRANGERS):
                sock, _ = listener.accept()
                strangers = len(self.callers) - self.proved
                if strangers < MAX_STRANGERS and self.proved < MAX_PROVED:
                    self._greet(sock, now)
                else:
                    sock.close()
        except BlockingIOError:
            pass
        except OSError:
            self.rest = True

    def _greet(self, sock: socket.socket, now: float) -> None:
        tokens: Sequence[Token] = ()
        with contextlib.suppress(DaddyError, OSError):  # a damaged file refuses everyone
            tokens = jobs_token(self._stream)
        with contextlib.suppress(OSError):  # who has left already is noticed soon enough
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self.callers.append(_Caller(sock, VIEWER, tokens, now))

    def _serve(self, caller: _Caller, now: float, *, speaks: bool) -> None:
        for message in caller.receive(now) if speaks else ():
            if message.kind == Kind.BYE:
                raise ConnectionResetError
            if message.kind == Kind.PING:
                theirs, _ = read_stamps(message.body)
                caller.session.send(Message(Kind.PONG, stamps(theirs, round(now * 1000))))
        if caller.session.established and not caller.welcomed:
            caller.welcomed = True
            for message in self._so_far():
                caller.session.send(message)
        caller.flush()
        if caller.is_overdue(now) or len(caller.out) > OUT_LIMIT:
            raise ProtocolError("too late, silent or not reading", Reason.SILENT)

    def _drop(self, caller: _Caller, last: Message | None = None) -> None:
        """Close a connection; strangers are told nothing."""
        caller.close(last if caller.welcomed else None)
        self.callers.remove(caller)
