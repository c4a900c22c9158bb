"""Adapter for the two pipes to the host: headers of one JSON line, each with raw bytes after it.

All bytes of commands pass through two buffers of fixed size, which are wiped after each command:
the next command is a fork of this process and could read what is left in its memory.
"""

from __future__ import annotations

import contextlib
import json
import os
import select

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

_BUFFER_BYTES = 64 * 1024
_HEADER_BYTES = 4096


class HostGoneError(Exception):
    """The host closed its end."""


class HostChannel:
    """Reads requests and writes replies; `wait` waits for an event of poll(2) at a descriptor.

    At most one reply is pending: a caller writes it out before it makes the next one.
    """

    def __init__(self, requests: int, replies: int, wait: Callable[[int, int], None]) -> None:
        self.requests, self.replies, self._wait = requests, replies, wait
        os.set_blocking(requests, False)
        os.set_blocking(replies, False)
        self._input, self._start, self._end = bytearray(_BUFFER_BYTES), 0, 0
        self._output, self._next, self._filled = bytearray(_HEADER_BYTES + _BUFFER_BYTES), 0, 0

    def read_header(self) -> dict[str, Any]:
        """Wait for the next request."""
        while (at := self._input.find(b"\n", self._start, self._end)) < 0:
            self._fill()
        header: dict[str, Any] = json.loads(self._input[self._start : at])
        self._start = at + 1
        return header

    def copy_to(self, descriptor: int, count: int) -> None:
        """Write the next `count` bytes of the request to a file, or a pipe that may be closed."""
        while count:
            if self._start == self._end:
                self._fill()
            part = memoryview(self._input)[self._start : min(self._end, self._start + count)]
            try:
                written = os.write(descriptor, part)
            except BlockingIOError:
                self._wait(descriptor, select.POLLOUT)
                continue
            except BrokenPipeError:  # the outcome of its reader says why
                written = len(part)
            self._start, count = self._start + written, count - written

    def _fill(self) -> None:
        if self._start == self._end:
            self._start = self._end = 0
        self._wait(self.requests, select.POLLIN)
        got = os.readv(self.requests, [memoryview(self._input)[self._end :]])
        if not got:
            raise HostGoneError
        self._end += got

    @property
    def is_waiting(self) -> bool:
        """Tell that a request, or a part of one, was read with the one before it."""
        return self._start < self._end

    @property
    def is_pending(self) -> bool:
        """Tell that part of a reply is not yet written."""
        return self._next < self._filled

    def put(self, reply: dict[str, Any], count: int = 0) -> None:
        """Make a reply pending, with `count` bytes that stand in the buffer after the header."""
        line = json.dumps({**reply, "bytes": count}).encode() + b"\n"
        self._next, self._filled = _HEADER_BYTES - len(line), _HEADER_BYTES + count
        self._output[self._next : _HEADER_BYTES] = line

    def put_from(self, pipe: int, stream: str, keep: int) -> int:
        """Read once from a pipe; make up to `keep` bytes pending. Return the number of all read."""
        got = os.readv(pipe, [memoryview(self._output)[_HEADER_BYTES:]])
        if min(got, keep):
            self.put({"stream": stream}, min(got, keep))
        return got

    def write_some(self) -> None:
        """Write as much of the pending reply as the pipe takes now."""
        rest = memoryview(self._output)[self._next : self._filled]
        try:
            with contextlib.suppress(BlockingIOError):
                self._next += os.write(self.replies, rest)
        except BrokenPipeError:
            raise HostGoneError from None

    def write_out(self, reply: dict[str, Any]) -> None:
        """Write a reply without bytes, and what is pending before it, to the end."""
        self.flush()
        self.put(reply)
        self.flush()

    def flush(self) -> None:
        """Write the pending reply to its end."""
        while self.is_pending:
            self.write_some()
            if self.is_pending:
                self._wait(self.replies, select.POLLOUT)

    def wipe(self) -> None:
        """Forget what passed through, but for input that is not yet taken."""
        self._output[:] = bytes(len(self._output))
        self._input[: self._start] = bytes(self._start)
        self._input[self._end :] = bytes(_BUFFER_BYTES - self._end)
