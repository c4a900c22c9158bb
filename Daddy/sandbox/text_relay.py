"""Adapter for a runner in a vendor's sandbox: carries its pipes over lines of text.

The host uploads this file and runs it there with the runner's command line; standard library only.
A line ``<BASE64`` brings bytes from the host, ``@PATH`` names an uploaded file with them; a line
``>BASE64`` takes bytes to the host. Other lines (of a shell, an echo, a greeting) are skipped.
"""

from __future__ import annotations

import base64
import os
import sys
import threading
from pathlib import Path

_PIECE = 48 * 1024


def start_program(argv: list[str]) -> tuple[int, int]:
    """Start a program; return descriptors of its standard input and output."""
    (theirs_in, requests), (replies, theirs_out) = os.pipe(), os.pipe()
    if os.fork() == 0:
        os.dup2(theirs_in, 0)
        os.dup2(theirs_out, 1)
        os.closerange(3, 64)
        os.execvp(argv[0], argv)  # noqa: S606
    os.close(theirs_in)
    os.close(theirs_out)
    return requests, replies


def carry_replies(replies: int) -> None:
    """Write what the program writes, as lines, until it ends; then end as well."""
    while data := os.read(replies, _PIECE):
        sys.stdout.write(f">{base64.b64encode(data).decode()}\n")
        sys.stdout.flush()
    os._exit(0)


def carry_requests(requests: int) -> None:
    """Write the bytes of each line into the program's input."""
    for line in sys.stdin:
        if line.startswith("<"):
            data = base64.b64decode(line[1:])
        elif line.startswith("@"):
            path = Path(line[1:].rstrip("\n"))
            data = path.read_bytes()
            path.unlink()
        else:
            continue
        while data:
            data = data[os.write(requests, data) :]


if __name__ == "__main__":
    to_program, from_program = start_program(sys.argv[1:])
    threading.Thread(target=carry_replies, args=(from_program,), daemon=True).start()
    carry_requests(to_program)
