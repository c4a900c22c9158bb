"""Two agents from a sender through spool, relay and a socket to a viewer, on this machine."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import mean

import numpy as np

from Daddy.core.clock import SystemClock
from Daddy.core.vocabulary import AgentReport
from Daddy.streaming.protocol.handshake import ensure_token, load_tokens
from Daddy.streaming.protocol.messages import Wish
from Daddy.streaming.relay import make_relay
from Daddy.streaming.tunnel_client import FrameSender
from Daddy.streaming.viewer.receiver import Receiver

FPS, AGENTS = 15.0, 2


def journey(pictures: Sequence[bytes], seconds: float) -> dict[str, float]:
    """Two agents from a sender through spool, relay and socket to a viewer, paced as wanted."""
    clock, stop = SystemClock(), threading.Event()
    with tempfile.TemporaryDirectory() as folder:
        run_dir, token = Path(folder) / "run", Path(folder) / "token"
        (run_dir / "stream").mkdir(parents=True)
        ensure_token(token, "bench")
        receiver = Receiver(0, lambda: load_tokens([token]), Wish(AGENTS, FPS), clock)
        relay = make_relay(run_dir, receiver.port, [token], Wish(AGENTS, FPS), "spool", clock)
        threads = [
            threading.Thread(target=relay.run, args=(stop,)),
            threading.Thread(target=_play, args=(run_dir / "stream", pictures, stop)),
        ]
        for thread in threads:
            thread.start()
        try:
            return _watch(receiver, seconds)
        finally:
            stop.set()
            for thread in threads:
                thread.join(5)
            receiver.close()


def _play(stream: Path, pictures: Sequence[bytes], stop: threading.Event) -> None:
    with FrameSender(stream, "slot-0") as sender:
        step = 0
        while not stop.wait(1 / 60):
            step += 1
            sender.report([_report(agent, step) for agent in range(AGENTS)])
            for agent in sender.wanted():
                sender.offer(agent, pictures[(step + 40 * agent) % len(pictures)])


def _report(agent: int, step: int) -> AgentReport:
    return AgentReport(agent, 0, 0, 0.0, 0, 0, "nowhere", 5, step)


def _watch(receiver: Receiver, seconds: float) -> dict[str, float]:
    give_up = time.monotonic() + 10
    while not receiver.scene(AGENTS).frames and time.monotonic() < give_up:
        time.sleep(0.05)
    before, began, ages = sum(receiver.scene(AGENTS).frames.values()), time.monotonic(), []
    while time.monotonic() - began < seconds:
        ages += [panel.age_s for panel in receiver.scene(AGENTS).panels if panel.pixels]
        time.sleep(0.1)
    scene = receiver.scene(AGENTS)
    shown = sum(scene.frames.values()) - before
    return {
        "frames_per_s_and_agent": shown / (time.monotonic() - began) / AGENTS,
        "wanted_per_s_and_agent": FPS,
        "age_p50_s": float(np.percentile(ages or [0], 50)),
        "age_p95_s": float(np.percentile(ages or [0], 95)),
        "body_bytes_per_frame": mean([one.bytes_per_frame for one in scene.panels] or [0.0]),
    }
