"""``tunnel_server connect``: ssh brings a relay here, by whichever way leads to one, and keeps on.

A thread that calls, listens to what ssh says, hands the stream to the receiver and calls again when
the network, the laptop's lid or the login node ended it. What to do next is decided in ``ways``.
"""

from __future__ import annotations

import contextlib
import random
import socket
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field

from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError
from Daddy.core.process import Conversation, ProgramMissingError, converse
from Daddy.streaming.home import calls, orders, ways
from Daddy.streaming.home.receiver import Receiver
from Daddy.streaming.home.ways import Course, End, Way
from Daddy.streaming.wire.auth import Token, find_opening
from Daddy.streaming.wire.protocol import READ_BYTES

LOOK_S = 0.1
OPENING_S = 30.0
"""Python may be slow to start from a shared disk."""
ASKING_S = 150.0
"""A person may be typing a password."""
_GRACE_S = 1.0
_GREETING_BYTES = 64 * 1024
_ORDERS = {Way.STDIO: orders.by_stdio, Way.PORT: orders.by_port, Way.DYNAMIC: orders.by_dynamic}


@dataclass
class Call:
    """One running ssh: ``wire`` is our end of its standard input and output, until the receiver
    has it. ``alone``: since this call began there was a moment without any relay.
    """

    way: Way
    ssh: Conversation
    wire: socket.socket
    began: float
    heard: bytearray = field(default_factory=bytearray)
    told_port: bool = False
    opened: float | None = None
    adopted: bool = False
    alone: bool = False
    worked: bool = False

    def close(self) -> None:
        """End ssh; whatever it started at the other side ends with it."""
        if not self.adopted:
            self.wire.close()
        self.ssh.end(_GRACE_S)


class Carrier:
    """Brings relays to ``receiver`` until closed, or until a person has to do something first.

    Then ``error`` says what and ``hopeless`` is set. ``once`` holds the token of the relay that was
    brought last; the receiver is to know it.
    """

    def __init__(
        self,
        course: Course,
        receiver: Receiver,
        once: list[Token],
        clock: Clock,
        hopeless: threading.Event,
    ) -> None:
        self.error: NetworkError | None = None
        self._course = course
        self._receiver = receiver
        self._once = once
        self._clock = clock
        self._hopeless = hopeless
        self._naps = ways.Naps(clock.now(), clock.monotonic())
        self._told: tuple[str, ...] = ()
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, name="carrier", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Hang up."""
        self._stop.set()
        self._thread.join(timeout=4 * _GRACE_S)

    def _work(self) -> None:
        while (way := self._course.way) is not None:
            if self._clock.wait(self._stop, self._course.wait_s * random.uniform(0.8, 1.2)):
                return
            self._tell((f"calling {self._course.target.login} by {self._course.name(way)}",
                        *self._course.failures()))  # fmt: skip
            end = self._try(way)
            if self._stop.is_set():
                return
            self._go_on(self._course.after(end))

    def _go_on(self, course: Course) -> None:
        self._course = course
        if course.way is None:
            message = "\n  ".join([course.why, *course.failures()])
            self._give_up(NetworkError(message, course.fix))
        elif course.wait_s or course.fix:
            again = f"again in {course.wait_s:.1f} s"
            self._tell((f"{course.why}; {again}", *[course.fix] * bool(course.fix)))

    def _give_up(self, error: NetworkError) -> None:
        self.error = error
        self._receiver.tell((*error.message.split("\n  "), f"what to do: {error.fix}"))
        self._hopeless.set()

    def _try(self, way: Way) -> End:
        """One call to its end; a computer without a socket to spare has ended it, too."""
        try:
            return self._call(way)
        except ProgramMissingError as error:
            return End(None, why=error.message)
        except OSError as error:
            return End(None, why=f"this computer: {error.strerror or error}")
        finally:
            self._once.clear()

    def _call(self, way: Way) -> End:
        ours, theirs = socket.socketpair()
        try:
            target = self._course.target
            command = calls.words(target, _ORDERS[way](target), self._receiver.port)
            ssh = converse(command, theirs.fileno())
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        ours.setblocking(False)
        call = Call(way, ssh, ours, self._clock.monotonic())
        try:
            return self._attend(call)
        finally:
            call.close()

    def _attend(self, call: Call) -> End:
        """Look after a call until it has ended, or has to be ended."""
        while not self._clock.wait(self._stop, LOOK_S):
            if self._naps.slept(self._clock.now(), self._clock.monotonic()):
                return End(None, worked=call.worked, slept=True)
            if call.ssh.wait(0):
                call.ssh.end(_GRACE_S)
                return End(call.ssh.exit_code, call.ssh.said(), worked=call.worked)
            why = self._standing(call) if call.way is Way.PORT else self._opening(call)
            if why:
                return End(None, call.ssh.said(), why, worked=call.worked)
            connected = self._receiver.connected
            call.alone |= not connected
            if connected and call.alone and not call.worked:
                call.worked = True
                self._arrived(call.way)
        return End(None)

    def _standing(self, call: Call) -> str:
        """Why a tunnel is of no use, or nothing."""
        target = self._course.target
        there = ways.landing(call.ssh.said())
        if there.elsewhere and not call.worked:
            return ways.wrong_node(there, target)
        if not call.worked and self._clock.monotonic() - call.began > ways.KNOCK_S:
            causes = ways.usual_causes(target.login, target.port)
            self._tell((f"the tunnel stands: {self._course.name(Way.PORT)}", *causes))
        return ""

    def _opening(self, call: Call) -> str:
        """Bring a relay of our own to its first word, and see whether it is still there."""
        now = self._clock.monotonic()
        if call.opened is not None:
            gone = call.adopted and call.wire.fileno() < 0
            late = not call.worked and now - call.opened > ways.KNOCK_S
            return (self._receiver.trouble or "the stream was lost") if gone or late else ""
        if call.way is Way.DYNAMIC and not call.told_port:
            self._tell_port(call)
        with contextlib.suppress(BlockingIOError, ConnectionError):
            call.heard += call.wire.recv(READ_BYTES)
        if (found := find_opening(bytes(call.heard))) is not None:
            call.opened = now
            self._once[:] = [found[0]]
            call.adopted = call.way is Way.STDIO
            if call.adopted:
                self._receiver.adopt(call.wire, found[1])
            return ""
        patience = ASKING_S if self._course.target.asks else OPENING_S
        if now - call.began > patience or len(call.heard) > _GREETING_BYTES:
            return f"no relay has answered there for {patience:.0f} s"
        return ""

    def _tell_port(self, call: Call) -> None:
        for line in call.ssh.said():
            if (port := calls.allocated_port(line)) is not None:
                with contextlib.suppress(OSError):  # ssh has ended: seen at the next look
                    call.wire.send(f"{port}\n".encode())
                call.told_port = True

    def _arrived(self, way: Way) -> None:
        text = f"connected by {self._course.name(way)}"
        failures = self._course.failures()
        self._told = ()
        self._tell((text, *failures), "; ".join([text, *failures]))

    def _tell(self, lines: tuple[str, ...], note: str = "") -> None:
        """To the screen, and what is new of it as lines to the terminal."""
        for line in lines:
            if line not in self._told:
                print(f"connect: {line}", file=sys.stderr, flush=True)
        self._told = lines
        self._receiver.tell(lines, note)


@contextlib.contextmanager
def carrying(
    course: Course | None,
    receiver: Receiver,
    once: list[Token],
    clock: Clock,
    hopeless: threading.Event,
) -> Iterator[None]:
    """A carrier for as long as this lasts, if there is a course; at its end NetworkError when no
    way led anywhere.
    """
    if course is None:
        yield
        return
    carrier = Carrier(course, receiver, once, clock, hopeless)
    try:
        yield
    finally:
        carrier.close()
    if carrier.error is not None:
        raise carrier.error
