"""A slow or broken link between ssh and the login node, for kernels without netem.

ssh starts it as its ProxyCommand: bytes from standard input go to the server and back, later and
slower than they came. Nothing listens, no right is needed, and it ends with the ssh it serves.
"""

from __future__ import annotations

import os
import queue
import socket
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

CHUNK = 16_384
LONGEST_QUEUE = 4096
"""Chunks on their way; a full link stops reading, as a real one would."""


@dataclass(frozen=True)
class Link:
    """What the link does to bytes, the same in both directions."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    """0: as fast as it goes."""
    stall_file: Path | None = None
    """While this file exists nothing gets through, and nobody is told."""
    cut_file: Path | None = None
    """When this file appears the link breaks."""


def shape(host: str, port: int, link: Link) -> int:
    """Connect standard input and output to a server until one side ends or the link is cut."""
    server = socket.create_connection((host, port), timeout=10)
    server.settimeout(None)
    ended = threading.Event()
    up = _direction(lambda: os.read(0, CHUNK), server.sendall, link, ended)
    down = _direction(lambda: server.recv(CHUNK), _write_out, link, ended)
    for thread in (*up, *down):
        thread.start()
    while not ended.wait(0.05) and not _exists(link.cut_file):
        pass
    os._exit(0)  # threads may still sit in a read; whoever waits on a pipe must see it close


def _write_out(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _direction(
    read: Callable[[], bytes], write: Callable[[bytes], None], link: Link, ended: threading.Event
) -> tuple[threading.Thread, threading.Thread]:
    way: queue.Queue[tuple[float, bytes]] = queue.Queue(LONGEST_QUEUE)

    def collect() -> None:
        data = b"-"
        while data:
            try:
                data = read()
            except OSError:
                data = b""
            way.put((time.monotonic() + link.delay_s, data))

    def deliver() -> None:
        try:
            while data := _arrival(way, link):
                write(data)
                if link.bytes_per_s:
                    time.sleep(len(data) / link.bytes_per_s)
        except OSError:
            pass
        ended.set()

    return (
        threading.Thread(target=collect, daemon=True),
        threading.Thread(target=deliver, daemon=True),
    )


def _arrival(way: queue.Queue[tuple[float, bytes]], link: Link) -> bytes:
    due, data = way.get()
    time.sleep(max(0.0, due - time.monotonic()))
    while _exists(link.stall_file):
        time.sleep(0.02)
    return data


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()
