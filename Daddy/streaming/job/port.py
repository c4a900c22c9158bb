"""Door to a job's own port: open while somebody watches, where the relays can reach it.

Where that is may take a name server half a minute to say, so a thread of its own asks it. The
address stands in a file that successors under the same name write as well: a job takes back its own
word alone, and says it again when another's stands there while it listens.
"""

from __future__ import annotations

import contextlib
import math
import queue
import threading
from collections.abc import Callable, Sequence
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.streaming.job.listener import Listener
from Daddy.streaming.login.address import (
    LOOPBACK,
    Address,
    jobs_token,
    own_address,
    read_address,
    write_address,
)
from Daddy.streaming.wire.protocol import Message
from Daddy.streaming.wire.segment import Writer

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
        """What is known by now, without waiting: the address before until there is a new one.

        What was not found is asked for again every ``ASK_AGAIN_S``. ``now``: monotonic seconds.
        """
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
    """Where ``who`` listens, if it does; ``so_far`` is what a relay is told first."""

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
