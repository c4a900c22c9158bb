"""A learner on a core of its own, its stream switched on and off in the order A B B A.

Its streamer is its child, so it is on the same core.

Each block is a line of ROWS as soon as it is over, so that whoever was interrupted goes on.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.config import load
from Daddy.core.machine import die_with_parent
from Daddy.core.vocabulary import AgentReport
from Daddy.learning.prepare import prepare
from Daddy.learning.show import Show
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches.train import iterate, session_of

ORDER = (True, False, False, True)


class Switch:
    """Streams while it is on; off, it is as if there were no stream at all."""

    def __init__(self, stream: Path) -> None:
        self._stream = stream
        self._sender: FrameSender | None = None
        self.asks: Sequence[int] = b"\0"

    def turn(self, on: bool) -> None:
        """On or off; off ends the streamer."""
        if self._sender is not None:
            self._sender.close()
        self._sender = FrameSender(self._stream, "slot-0") if on else None
        self.asks = self._sender.asks if self._sender else b"\0"

    def due(self) -> tuple[bool, frozenset[int]]:
        """What is asked for while on."""
        return self._sender.due() if self._sender else (False, frozenset())

    def report(self, reports: Sequence[AgentReport]) -> None:
        """Hand on while on."""
        if self._sender:
            self._sender.report(reports)

    def offer(self, agent: int, picture: bytes) -> None:
        """Hand on while on."""
        if self._sender:
            self._sender.offer(agent, picture)

    def taped(self) -> frozenset[int]:
        """Of whom what they play is wanted; of nobody while off."""
        return self._sender.taped() if self._sender else frozenset()

    def play(self, agent: int, piece: bytes) -> None:
        """Hand on while on."""
        if self._sender:
            self._sender.play(agent, piece)


def main(argv: Sequence[str]) -> int:
    """``STREAM ROWS CASE BLOCK_S QUADS CORE``: so many times A B B A."""
    die_with_parent()
    os.sched_setaffinity(0, {int(argv[5])})
    stream, rows, case = Path(argv[0]), Path(argv[1]), argv[2]
    seconds, quads, switch = float(argv[3]), int(argv[4]), Switch(stream)
    prepare()
    flags = {"training.device": "cpu", "training.tensorboard": False, "training.num_envs": 8,
             "training.torch_threads": 1, "training.vector_backend": "serial",
             "archive.mode": "off"}  # fmt: skip
    with session_of(load(None, flags), frames=switch) as session:
        iterate(session, 1)
        for _ in range(quads):
            rates = []
            for on in ORDER:
                switch.turn(on)
                session.collector.after_step = Show(session)  # it looks at what asks now
                iterate(session, 1)
                steps, began = 0, time.perf_counter()
                while time.perf_counter() - began < seconds:
                    iterate(session, 1)
                    steps += session.rollout.rewards.size
                rates.append(steps / (time.perf_counter() - began))
            switch.turn(False)
            with rows.open("a") as file:
                file.write(json.dumps({"case": case, "block_s": seconds, "rates": rates}) + "\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
