"""Door to the viewer's port: who may knock (this machine alone), and who holds the other end.

Owns a connection's bytes until they are a session's.
"""

from __future__ import annotations

import contextlib
import errno
import socket

from Daddy.core.errors import NetworkError
from Daddy.core.machine import listener_on, socket_owner
from Daddy.streaming.home.source import Source
from Daddy.streaming.wire.session import Session


class Connection:
    """A relay, or somebody who claims to be one."""

    def __init__(self, sock: socket.socket, session: Session, now: float) -> None:
        self.socket = sock
        self.session = session
        self.began = self.heard = now
        self.source: Source | None = None
        self.out = bytearray()

    def flush(self) -> None:
        """Send what the kernel takes."""
        self.out += self.session.take()
        with contextlib.suppress(BlockingIOError):
            while self.out:
                del self.out[: self.socket.send(self.out)]


def carrier_of(sock: socket.socket) -> str | None:
    """Which program holds the other end; None where the relay's own word has to do."""
    if sock.family not in (socket.AF_INET, socket.AF_INET6):
        return None
    return socket_owner(sock.getpeername()[1], sock.getsockname()[1])


def listen(port: int, backlog: int, otherwise: str) -> list[socket.socket]:
    """Listeners on both loopback addresses; ::1 is left out where there is none.

    NetworkError when the port is taken, ``otherwise`` says what to do then besides ending who has
    it.
    """
    first = _bind(socket.AF_INET, "127.0.0.1", port, backlog, otherwise)
    chosen = int(first.getsockname()[1])
    with contextlib.suppress(NetworkError, OSError):
        return [first, _bind(socket.AF_INET6, "::1", chosen, backlog, otherwise)]
    return [first]


def _bind(
    family: socket.AddressFamily, host: str, port: int, backlog: int, otherwise: str
) -> socket.socket:
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((host, port))
        listener.listen(backlog)
    except OSError as error:
        listener.close()
        by = listener_on(port) if error.errno == errno.EADDRINUSE else None
        raise NetworkError(
            f"port {port} of {host} cannot be used: {error.strerror}{f' by {by}' if by else ''}",
            f"end the program that uses it (another viewer?), or choose another port: {otherwise}",
        ) from error
    return listener
