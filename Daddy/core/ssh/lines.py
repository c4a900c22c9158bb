"""Door to paramiko's channels: a command with a connection of ours as its pipes, ports from there.

What ``ssh`` and ``ssh -R`` do. Each direction of each channel is a thread that hands over what it
has before it takes more, so that nothing gathers but a channel's window.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

import paramiko

from Daddy.core.clock import Clock
from Daddy.core.errors import NetworkError
from Daddy.core.ssh.login import Host, log_in, translated
from Daddy.core.ssh.troubles import ForwardRefusedError

ASK_S = 5.0
SILENT_S = 10.0
"""After a question without an answer for so long, 15 s after the last sign at most, it is dead."""
WINDOW_BYTES = 256 * 1024
"""What may be on its way to us in one channel; 2.5 MB/s where an answer takes 100 ms."""
_READ_BYTES = 32 * 1024
_CHANNELS = 16
_LINE_BYTES = 2000
_JOIN_S = 1.0
_LOOK_S = 0.5
_ALIVE = "keepalive@openssh.com"
_NO_STATUS = 255
"""As ssh has it of a command that a signal ended."""


class Line:
    """A login and all that runs over it, until :meth:`close`.

    NetworkError when there is none to be had.
    """

    def __init__(self, host: Host, clock: Clock) -> None:
        self._client = log_in(host)
        transport = self._client.get_transport()
        assert transport is not None
        transport.default_window_size = WINDOW_BYTES
        self._transport, self._name, self._clock = transport, host.name, clock
        self._pumps: list[_Pump] = []
        self._places = threading.Semaphore(_CHANNELS)
        self._closed = False
        self._stop = threading.Event()
        self._lock, self._question = threading.Lock(), threading.Lock()
        self._asked: float | None = None
        self._asker = threading.Thread(target=self._ask, name="ssh-alive", daemon=True)
        self._asker.start()

    def forward(self, port: int, local: int) -> int:
        """Lead ``localhost:port`` there to 127.0.0.1:``local`` here; 0: a port of its choice.

        Returns the port there; ForwardRefusedError.
        """

        def arrived(channel: paramiko.Channel, _: object, __: object) -> None:
            way = (channel, local)
            threading.Thread(target=self._join_up, args=way, name="ssh-in", daemon=True).start()

        try:
            with self._awaiting():
                # The very word that ``ssh -R`` sends: a key's permitlisten compares it.
                return int(self._transport.request_port_forward("localhost", port, arrived))
        except paramiko.SSHException as error:
            self.check()
            fix = "use another port, or a way that needs none"
            raise ForwardRefusedError(f"{self._name} opens no port {port}", fix) from error

    def run(
        self, command: str, connection: socket.socket, said: Callable[[str], None]
    ) -> Callable[[], int | None]:
        """Run ``command`` there with ``connection`` (which is ours from now on) as its pipes.

        ``said`` is given each line of its standard error. What is returned tells the exit status
        once all output is delivered, and None as long as there is none.
        """
        channel = None
        try:
            with translated(self._name):
                channel = self._transport.open_session(timeout=SILENT_S)
                channel.exec_command(command)  # ends with the connection; ``check`` tells
        except BaseException:
            connection.close()
            if channel is not None:
                channel.close()
            raise
        pump = self._pump(channel, connection)
        codes: list[int] = []

        def attend() -> None:
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException), channel:
                if (code := self._ended(channel, pump, said)) is not None:
                    codes.append(code)

        threading.Thread(target=attend, name="ssh-end", daemon=True).start()
        return lambda: codes[0] if codes else None

    def _ended(
        self, channel: paramiko.Channel, pump: _Pump, said: Callable[[str], None]
    ) -> int | None:
        """Wait for a command's status, and until its output is delivered; None: it was lost."""
        listener = threading.Thread(
            target=_listen, args=(channel, said), name="ssh-said", daemon=True
        )
        listener.start()
        status = int(channel.recv_exit_status())
        while not pump.delivered(_LOOK_S) and self._transport.is_active():
            pass
        listener.join(_JOIN_S)
        if status >= 0:
            return status
        with self._awaiting():  # paramiko closes channels before it knows the connection as lost
            self._transport.global_request(_ALIVE, wait=True)
        return _NO_STATUS if self._transport.is_active() else None

    def check(self) -> None:
        """NetworkError once the connection is lost, or nobody answers."""
        asked = self._asked
        if asked is not None and self._clock.monotonic() - asked > SILENT_S:
            raise NetworkError(f"{self._name} has stopped answering")
        if not self._transport.is_active():
            raise NetworkError(f"the connection to {self._name} was lost")

    def close(self) -> None:
        """Hang up; every thread and socket of it ends."""
        self._stop.set()
        with self._lock:
            self._closed = True
            pumps = list(self._pumps)
        self._client.close()
        for pump in pumps:
            pump.end()
            pump.join(_JOIN_S)
        self._asker.join(_JOIN_S)

    def _join_up(self, channel: paramiko.Channel, local: int) -> None:
        """Lead one connection there to the port here; more than a few at a time are strangers."""
        with contextlib.suppress(OSError, paramiko.SSHException, EOFError):
            if not self._places.acquire(blocking=False):
                channel.close()
                return
            try:
                sock = socket.create_connection(("127.0.0.1", local), timeout=SILENT_S)
                sock.settimeout(None)
                sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                self._pump(channel, sock).join(None)
            finally:
                self._places.release()
                channel.close()

    def _pump(self, channel: paramiko.Channel, sock: socket.socket) -> _Pump:
        with self._lock:
            pump = _Pump(channel, sock)
            self._pumps = [one for one in self._pumps if one.alive] + [pump]
            closed = self._closed
        if closed:
            pump.end()
        return pump

    def _ask(self) -> None:
        """Ask for a sign of life again and again; ``check`` sees one that does not come."""
        while not self._clock.wait(self._stop, ASK_S):
            with contextlib.suppress(OSError, EOFError, paramiko.SSHException), self._awaiting():
                self._transport.global_request(_ALIVE, wait=True)

    @contextlib.contextmanager
    def _awaiting(self) -> Iterator[None]:
        """One question at a time: paramiko would take the answer to one for that to another."""
        with self._question:
            self._asked = self._clock.monotonic()
            try:
                yield
            finally:
                self._asked = None


class _Pump:
    """Carries bytes between a channel and a socket, both ways, until both have ended."""

    def __init__(self, channel: paramiko.Channel, sock: socket.socket) -> None:
        self._channel, self._sock = channel, sock
        self._left = 2
        self._lock = threading.Lock()
        self._threads = [
            threading.Thread(target=self._carry, args=way, name="ssh-pump", daemon=True)
            for way in ((self._inwards,), (self._outwards,))
        ]
        for thread in self._threads:
            thread.start()

    @property
    def alive(self) -> bool:
        """Whether anything may still pass."""
        return self._left > 0

    def delivered(self, seconds: float) -> bool:
        """Whether all that comes has been handed over, or is within ``seconds``."""
        self._threads[0].join(seconds)
        return not self._threads[0].is_alive()

    def end(self) -> None:
        """End both ways, whatever they wait for."""
        with self._lock:  # a socket that has been closed may be another's number by now
            if self._left:
                with contextlib.suppress(OSError):
                    self._sock.shutdown(socket.SHUT_RDWR)
        with contextlib.suppress(OSError, EOFError, paramiko.SSHException):
            self._channel.close()

    def join(self, seconds: float | None) -> None:
        """Wait for the threads, ``seconds`` for each at most; the socket is closed then."""
        for thread in self._threads:
            thread.join(seconds)

    def _carry(self, way: Callable[[], None]) -> None:
        try:
            way()
        except (OSError, EOFError, paramiko.SSHException):
            self.end()
        with self._lock:
            self._left -= 1
            if not self._left:  # not the channel: a command's status may be still to come
                self._sock.close()

    def _inwards(self) -> None:
        while data := self._channel.recv(_READ_BYTES):
            self._sock.sendall(data)
        self._sock.shutdown(socket.SHUT_WR)

    def _outwards(self) -> None:
        while data := self._sock.recv(_READ_BYTES):
            self._channel.sendall(data)
        self._channel.shutdown_write()


def _listen(channel: paramiko.Channel, said: Callable[[str], None]) -> None:
    with contextlib.suppress(OSError, EOFError), channel.makefile_stderr("rb") as stream:
        while line := stream.readline(_LINE_BYTES):
            said(line.decode(errors="replace").rstrip())
