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
from Daddy.streaming.protocol.framing import READ_BYTES, Kind, Message, ProtocolError, Reason, bye
from Daddy.streaming.protocol.handshake import Channel, Token
from Daddy.streaming.protocol.messages import read_stamps, stamps
from Daddy.streaming.protocol.spool_segment import Writer

MAX_PROVED, MAX_STRANGERS = 4, 4
GREETING_S = 3.0
SILENT_S = 15.0
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
        self._callers: list[_Caller] = []
        self.rest = False
        """Nobody is let in for now: accepting has failed, and would fail at once again."""
        self._socket = socket.create_server((address, 0), backlog=MAX_STRANGERS)
        self._socket.setblocking(False)
        self.port = int(self._socket.getsockname()[1])

    def fileno(self) -> int:
        return self._socket.fileno()

    @property
    def callers(self) -> Sequence[_Caller]:
        return self._callers

    @property
    def ears(self) -> Sequence[Listener | _Caller]:
        """For ``select``: where something may come from."""
        return self._callers if self.rest else [self, *self._callers]

    @property
    def speaking(self) -> Sequence[_Caller]:
        """For ``select``: those for whom bytes wait."""
        return [caller for caller in self._callers if caller.out]

    @property
    def proved(self) -> int:
        return sum(caller.welcomed for caller in self._callers)

    def tell(self, messages: Sequence[Message]) -> None:
        for caller in self._callers:
            if caller.welcomed:
                for message in messages:
                    caller.session.send(message)

    def step(self, now: float, heard: Collection[Any] | None = None) -> None:
        """Let in, listen, send, drop; ``heard`` are those of ``ears`` that ``select`` has found."""
        if heard is None:
            heard = select.select(self.ears, [], [], 0)[0]
        if self in heard:
            self._let_in(now)
        for caller in list(self._callers):
            try:
                self._serve(caller, now, speaks=caller in heard)
            except ProtocolError as error:
                self._drop(caller, bye(error.reason, str(error)))
            except OSError:
                self._drop(caller)

    def close(self) -> None:
        """No port any more; who is served is told."""
        for caller in list(self._callers):
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
        strangers = len(self._callers) - self.proved
        if strangers >= MAX_STRANGERS or self.proved >= MAX_PROVED:
            sock.close()
            return
        with contextlib.suppress(OSError):  # who has left already is noticed soon enough
            sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        self._callers.append(_Caller(sock, self._known_tokens(), now))

    def _known_tokens(self) -> Sequence[Token]:
        """The token as the file has it now; a damaged file refuses everyone."""
        with contextlib.suppress(DaddyError, OSError):
            return self._tokens()
        return ()

    def _serve(self, caller: _Caller, now: float, *, speaks: bool) -> None:
        if speaks:
            data = caller.socket.recv(READ_BYTES)
            if not data:
                raise ConnectionResetError
            caller.heard = now
            for message in caller.session.receive(data):
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
        late = not caller.welcomed and now - caller.began > GREETING_S
        if late or now - caller.heard > SILENT_S or len(caller.out) > OUT_LIMIT:
            raise ProtocolError("too late, silent or not reading", Reason.SILENT)

    def _drop(self, caller: _Caller, last: Message | None = None) -> None:
        """Close a connection; strangers are told nothing."""
        with contextlib.suppress(OSError):
            if last is not None and caller.session.established:
                caller.session.send(last)
                caller.flush()
        caller.socket.close()
        self._callers.remove(caller)


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
        self._again_at = math.inf
        self._asking = False
        self._answers: queue.SimpleQueue[tuple[frozenset[str], str | None]] = queue.SimpleQueue()

    def address(self, hosts: frozenset[str], now: float) -> str | None:
        """The address as known now, without waiting; one not found is asked for again later."""
        if hosts != self._hosts:
            self._hosts, self._again_at = hosts, now
        if hosts <= {self._host}:
            self._found, self._again_at = LOOPBACK if hosts else None, math.inf
        self._hear(now)
        if now >= self._again_at and not self._asking:
            self._ask(hosts)
        return self._found

    def _hear(self, now: float) -> None:
        with contextlib.suppress(queue.Empty):
            hosts, found = self._answers.get_nowait()
            self._asking = False
            if hosts == self._hosts and self._again_at < math.inf:
                self._found = found
                self._again_at = math.inf if found else now + ASK_AGAIN_S

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
        if self.listener:
            self.listener.rest = False
            if now >= self._look_at:
                self._say_again(self.listener, now)
        elif address:
            self._open(address, now)

    def close(self) -> None:
        """No port any more; what another has said of its own stays."""
        if self.listener:
            ours = self._stands(self.listener)
            self.listener.close()
            self.listener = None
            if ours:
                with contextlib.suppress(OSError):
                    self._publish("", 0)

    def _open(self, address: str, now: float) -> None:
        with contextlib.suppress(DaddyError, OSError):
            jobs_token(self._stream)
            self.listener = Listener(address, lambda: jobs_token(self._stream), self._so_far)
            self._look_at = now + LOOK_AGAIN_S
            try:
                self._publish(address, self.listener.port)
            except OSError:
                self.close()  # a port that nobody is told of is one too many

    def _say_again(self, listener: Listener, now: float) -> None:
        self._look_at = now + LOOK_AGAIN_S
        if not self._stands(listener):
            with contextlib.suppress(OSError):
                self._publish(listener.address, listener.port)

    def _stands(self, listener: Listener) -> bool:
        there = read_address(self._stream, self._who.peer)
        ours = (self._who.incarnation, listener.port)
        return there is not None and (there.incarnation, there.port) == ours

    def _publish(self, address: str, port: int) -> None:
        where = Address(address, port, self._who.incarnation, self._who.host)
        write_address(self._stream, self._who.peer, where)
