"""The relay's connection to a viewer: the cause that it reports."""

import socket
import struct
from itertools import count

import pytest

from Daddy.streaming.login.relay_connections import OutgoingConnection


@pytest.mark.timeout(60)
def test_a_connection_that_never_stood_is_not_reported_as_lost() -> None:
    """Behind ``ssh -R`` without a viewer, the first connection is taken and reset at once."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        connection = OutgoingConnection("127.0.0.1", server.getsockname()[1], tuple)
        connection.step(0.0)
        taken, _ = server.accept()
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        taken.close()
        next(_ for _ in count() if connection.step(0.0) or connection.trouble)
    connection.close()
    assert (
        connection.trouble == "no connection: the viewer's end is closed (is the viewer running?)"
    )
