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


class Listener:
    """One open port, at ``address``; ``so_far``: the first messages for a relay. OSError."""

    def __init__(
        self,
        address: str,
        tokens: Callable[[], Sequence[Token]],
        so_far: Callable[[], Sequence[Message]],
    ) -> None:
        self.address = address
        self._tokens = tokens
        self._so_far = so_far
        self.callers: list[_Caller] = []
        self.rest = False
        """Nobody is let in for now: accepting has failed, and would fail at once again."""
        self._socket = socket.create_server((address, 0), backlog=MAX_STRANGERS)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def ears(self) -> Sequence[Listener | _Caller]:
        """For ``select``: where something may come from."""
        return self.callers if self.rest else [self, *self.callers]

    @property
    def speaking(self) -> Sequence[_Caller]:
        """For ``select``: those for whom bytes wait."""
        return [caller for caller in self.callers if caller.out]

    @property
    def proved(self) -> int:
        return sum(caller.welcomed for caller in self.callers)

    def tell(self, messages: Sequence[Message]) -> None:
        for caller in self.callers:
            if caller.welcomed:
                for message in messages:
                    caller.session.send(message)

    def step(self, now: float, heard: Collection[Any] | None = None) -> None:
        """Let in, listen, send, drop; ``heard`` are those of ``ears`` that ``select`` has found."""
        if heard is None:
            heard = select.select(self.ears, [], [], 0)[0]
        if self in heard:
            self._let_in(now)
        for caller in list(self.callers):
            try:
                self._serve(caller, now, speaks=caller in heard)
            except ProtocolError as error:
                self._drop(caller, bye(error.reason, str(error)))
            except OSError:
                self._drop(caller)

    def close(self) -> None:
        """No port any more; who is served is told."""
        for caller in list(self.callers):
            self._drop(caller, bye(Reason.DONE, "the job stops listening"))
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
        strangers = len(self.callers) - self.proved
        if strangers >= MAX_STRANGERS or self.proved >= MAX_PROVED:
            sock.close()
            return
        tokens: Sequence[Token] = ()
        with contextlib.suppress(DaddyError, OSError):  # a damaged file refuses everyone
            tokens = self._tokens()
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
    """The port of ``who``, open while somebody watches; ``so_far``: as for a listener."""

    def __init__(self, stream: Path, who: Writer, so_far: Callable[[], Sequence[Message]]) -> None:
        self._stream = stream
        self._who = who
        self._so_far = so_far
        self._lookup = Lookup(who.host)
        self._look_at = 0.0
        self.listener: Listener | None = None

    def look(self, hosts: frozenset[str], now: float) -> None:
        """Listen for relays on these hosts, and for nobody where there are none."""
        address = self._lookup.address(hosts, now)
        if self.listener and self.listener.address != address:
            self.close()
        with contextlib.suppress(DaddyError, OSError):
            if self.listener is None and address:
                jobs_token(self._stream)
                self.listener = Listener(address, lambda: jobs_token(self._stream), self._so_far)
                self._publish(self.listener)
                self._look_at = now + LOOK_AGAIN_S
        if self.listener:
            self.listener.rest = False
            if now >= self._look_at:
                self._look_at = now + LOOK_AGAIN_S
                self._say_again(self.listener)

    def tell(self, messages: Sequence[Message]) -> None:
        """Tell every relay that has proved itself."""
        if self.listener:
            self.listener.tell(messages)

    def close(self) -> None:
        """No port any more; what another has said of its own stays."""
        if self.listener:
            ours = self._stands(self.listener)
            self.listener.close()
            self.listener = None
            if ours:
                with contextlib.suppress(OSError):
                    self._publish(None)

    def _say_again(self, listener: Listener) -> None:
        """Put our address where another's stands; close a port that nobody can be told of."""
        if self._stands(listener):
            return
        try:
            self._publish(listener)
        except OSError:
            self.close()

    def _stands(self, listener: Listener) -> bool:
        there = read_address(self._stream, self._who.peer)
        ours = (self._who.incarnation, listener.port)
        return there is not None and (there.incarnation, there.port) == ours

    def _publish(self, listener: Listener | None) -> None:
        where = (listener.address, listener.port) if listener else ("", 0)
        address = Address(*where, self._who.incarnation, self._who.host)
        write_address(self._stream, self._who.peer, address)
