"""Adapter for a runner that is no child of ours: its two pipes lead through an engine or a vendor.

`RunnerSandbox` speaks to it as to a child's pipes. Between them stands a pair of sockets, so that a
slow reader on either side stops the other one.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import cast

from Daddy.core.errors import SandboxError
from Daddy.core.humanize import printable_line
from Daddy.sandbox.runner_client import RunnerSandbox

PIECE = 64 * 1024
_STREAM_LIMIT = 1 << 17
_ERROR_BYTES = 2000
_END_S = 60.0


class FarRunner:
    """Stands for the process of a runner elsewhere. `end` ends it and whatever holds it."""

    def __init__(self, end: Callable[[], Awaitable[None]]) -> None:
        self.stdin: asyncio.StreamWriter
        self.stdout: asyncio.StreamReader
        self.pid, self.returncode = 0, cast("int | None", None)
        self._end = end
        self._ending: asyncio.Future[None] | None = None
        self._errors = bytearray()
        self._ours: socket.socket
        self._pumps: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Make the pair of sockets."""
        theirs, self._ours = socket.socketpair()
        self._ours.setblocking(False)
        self.stdout, self.stdin = await asyncio.open_connection(sock=theirs, limit=_STREAM_LIMIT)

    def pump(self, *pumps: Awaitable[None]) -> None:
        """Move bytes until one of the pumps ends; `RunnerSandbox` then reads the end."""

        async def guard(pump: Awaitable[None]) -> None:
            try:
                await pump
            except Exception as error:  # noqa: BLE001 - a vendor's library; told at the next call
                self.take_error(repr(error).encode())
            finally:
                self._ours.close()

        self._pumps = [asyncio.ensure_future(guard(pump)) for pump in pumps]

    async def next_request(self) -> bytes:
        """Return the next bytes for the runner; empty: the sandbox was closed."""
        return await asyncio.get_running_loop().sock_recv(self._ours, PIECE)

    async def take_reply(self, data: bytes) -> None:
        """Pass on bytes of the runner."""
        await asyncio.get_running_loop().sock_sendall(self._ours, data)

    def take_error(self, data: bytes) -> None:
        """Keep the last bytes that the runner or its way wrote about an error."""
        self._errors = (self._errors + data)[-_ERROR_BYTES:]

    def kill(self) -> None:
        """Begin to end it."""
        if self._ending is None:
            self._ending = asyncio.ensure_future(self._end_all())

    async def wait(self) -> int:
        """Wait until it has ended."""
        self.kill()
        assert self._ending
        await asyncio.shield(self._ending)
        return 0

    async def _end_all(self) -> None:
        try:
            await asyncio.wait_for(self._end(), _END_S)
        finally:
            self.returncode = 0
            for pump in self._pumps:
                pump.cancel()
            await asyncio.gather(*self._pumps, return_exceptions=True)
            self._ours.close()
            self.stdin.close()

    async def greet(self) -> RunnerSandbox:
        """Return a sandbox whose runner has answered. Raises SandboxError with what it wrote."""
        sandbox = RunnerSandbox(cast("asyncio.subprocess.Process", self), "plain")
        try:
            await sandbox.start()
        except SandboxError as error:
            said = printable_line(self._errors.decode(errors="replace").strip())
            raise SandboxError(f"no sandbox was made: {said or error.message}") from None
        return sandbox
