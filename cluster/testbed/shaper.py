"""Simulates a slow or broken link between ssh and the login node, without the kernel's netem.

ssh runs it as its ProxyCommand: it forwards bytes between standard input and output and the server
with a delay and a rate limit. It needs no privileges and ends with ssh.
"""

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
"""Most chunks in transit; a full link stops reading, as a real one would."""


@dataclass(frozen=True)
class Link:
    """Holds the link's properties, which are the same in both directions."""

    delay_s: float = 0.0
    bytes_per_s: float = 0.0
    """Rate limit; 0: none."""
    stall_file: Path | None = None
    """While this file exists no bytes are delivered; the connection stays open."""
    cut_file: Path | None = None
    """When this file appears the link is cut."""


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
    os._exit(0)  # closes the pipes although threads may still block in read()


def _write_out(data: bytes) -> None:
    while data:
        data = data[os.write(1, data) :]


def _direction(
    read: Callable[[], bytes], write: Callable[[bytes], None], link: Link, ended: threading.Event
) -> tuple[threading.Thread, threading.Thread]:
    transit: queue.Queue[tuple[float, bytes]] = queue.Queue(LONGEST_QUEUE)

    def collect() -> None:
        data = b"-"
        while data:
            try:
                data = read()
            except OSError:
                data = b""
            transit.put((time.monotonic() + link.delay_s, data))

    def deliver() -> None:
        try:
            while data := _receive(transit, link):
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


def _receive(transit: queue.Queue[tuple[float, bytes]], link: Link) -> bytes:
    due, data = transit.get()
    time.sleep(max(0.0, due - time.monotonic()))
    while _exists(link.stall_file):
        time.sleep(0.02)
    return data


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()
