"""The public code's wire as two processes: a sender that blocks, a viewer that reads what comes.

Its message (length, JSON, base64 of raw RGB) in one connection, ten times a second for each agent.
Its sender could not be had; a plain blocking ``sendall`` is what its format was made for.
"""

from __future__ import annotations

import base64
import contextlib
import json
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from Daddy.core.machine import die_with_parent
from Daddy.core.stopping import set_by
from scripts.benches._stream_codecs import seed_message
from scripts.benches._stream_corpus import rgb
from scripts.benches._stream_straight import read_corpus
from scripts.benches._stream_watcher import AGENTS

FPS = 10.0


def send(out: Path, port: int, corpus: Path) -> int:
    """Until SIGTERM; how long ``sendall`` held it, and what it got rid of by when, go into OUT."""
    stop = set_by(signal.SIGTERM)
    pictures = [rgb(one).tobytes() for one in read_corpus(corpus)[:200]]
    blocked, gone, total = 0.0, list[tuple[float, int]](), 0
    began = time.monotonic()
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 30) as wire:
        wire.settimeout(1.0)
        for message in _messages(pictures, stop):
            blocked += _send_all(wire, message, stop)
            total += len(message)
            gone.append((time.monotonic(), total))
    seconds = time.monotonic() - began
    out.write_text(json.dumps({"blocked": blocked / seconds, "bytes": total, "gone": gone}))
    return 0


def _messages(pictures: Sequence[bytes], stop: threading.Event) -> Iterator[bytes]:
    """Of each agent in turn, at its pace or as soon as the one before is gone."""
    step, due = 0, time.monotonic()
    while not stop.is_set():
        step, due = step + 1, max(due + 1 / FPS, time.monotonic())
        for agent in range(AGENTS):
            image = pictures[(step + 40 * agent) % len(pictures)]
            yield seed_message(image, step, f"job0_env{agent}", time.monotonic())
        stop.wait(max(0.0, due - time.monotonic()))


def _send_all(wire: socket.socket, message: bytes, stop: threading.Event) -> float:
    """Blocking as ``sendall`` is, except that it hears when it is told to end."""
    began, view = time.monotonic(), memoryview(message)
    while view and not stop.is_set():
        try:
            view = view[wire.send(view) :]
        except TimeoutError:
            continue
    return time.monotonic() - began


def show(out: Path, warm_s: float, seconds: float) -> int:
    """Read message after message; the age of each as soon as it is decoded."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        out.with_suffix(".port").write_text(str(listener.getsockname()[1]))
        wire = _connection(listener)
    shown, size = list[tuple[float, str, float]](), 0
    began = time.monotonic() + warm_s
    with wire, wire.makefile("rb") as stream:
        wire.settimeout(seconds + warm_s + 60)
        while time.monotonic() < began + seconds:
            length = int.from_bytes(stream.read(4), "big")
            message = json.loads(stream.read(length))
            pixels = np.frombuffer(base64.b64decode(message["frame_b64"]), message["dtype"])
            pixels.reshape(message["shape"])
            now = time.monotonic()
            if now >= began:
                shown.append((now, message["agent_id"], now - message["timestamp"]))
                size += length + 4
    told = {"shown": shown, "began": began, "seconds": time.monotonic() - began,
            "frames": len(shown), "bytes": size}  # fmt: skip
    out.write_text(json.dumps(told))
    return 0


def _connection(listener: socket.socket) -> socket.socket:
    """The first that says something: who only looks whether the tunnel is up hangs up at once."""
    listener.settimeout(60)
    while True:
        wire, _ = listener.accept()
        if wire.recv(1, socket.MSG_PEEK):
            return wire
        wire.close()


def main(argv: Sequence[str]) -> int:
    """``send OUT PORT CORPUS`` or ``show OUT WARM SECONDS``."""
    die_with_parent()
    if argv[0] == "send":
        return send(Path(argv[1]), int(argv[2]), Path(argv[3]))
    return show(Path(argv[1]), float(argv[2]), float(argv[3]))


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
