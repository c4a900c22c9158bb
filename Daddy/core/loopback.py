"""Adapter for loopback sockets: listens on this computer's own addresses and no other."""

import contextlib
import errno
import os
import socket

from Daddy.core.errors import NetworkError
from Daddy.core.host_and_processes import listening_program


def listen_on_loopback(
    port: int, backlog: int, other_port: str, usual: str = "another viewer?"
) -> list[socket.socket]:
    """Listen on both loopback addresses. NetworkError, with ``other_port`` as the remedy.

    ``usual``: the program that the person may have forgotten at this port.
    """
    try:
        first = socket.create_server(("127.0.0.1", port), backlog=backlog)
    except OSError as error:
        program = listening_program(port) if error.errno == errno.EADDRINUSE else None
        reason = os.strerror(error.errno or 0) + (f" by {program}" if program else "")
        raise NetworkError(
            f"port {port} of 127.0.0.1 cannot be used: {reason}",
            f"end the program that uses it ({usual}), or choose another port: {other_port}",
        ) from error
    with contextlib.suppress(OSError):
        family, same = socket.AF_INET6, ("::1", int(first.getsockname()[1]))
        return [first, socket.create_server(same, family=family, backlog=backlog)]
    return [first]
