"""A learner on a core of its own, with a stream and without one, in the order A B B A.

Its streamer is its child, so it is on the same core. All blocks of a quad take the same steps: a
learner anew from the same seed, so that what the game does costs all of them the same. Each quad is
a line of ROWS as soon as it is over, so that whoever was interrupted goes on.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from Daddy.core.config import load
from Daddy.core.machine import die_with_parent
from Daddy.core.settings import Config
from Daddy.learning.prepare import prepare
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches.train import iterate, session_of

ORDER = (True, False, False, True)
WARM = 3
"""Iterations until whoever watches has asked for pictures."""
FLAGS = {"training.device": "cpu", "training.tensorboard": False, "training.num_envs": 8,
         "training.torch_threads": 1, "training.vector_backend": "serial",
         "archive.mode": "off"}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """``STREAM ROWS CASE BLOCK_S QUADS CORE``: so many times A B B A."""
    die_with_parent()
    os.sched_setaffinity(0, {int(argv[5])})
    stream, rows, case = Path(argv[0]), Path(argv[1]), argv[2]
    seconds, quads = float(argv[3]), int(argv[4])
    prepare()
    iterations = 0
    for _ in range(quads):
        config = load(None, {**FLAGS, "training.seed": _number(rows)})
        iterations = iterations or _calibrate(config, seconds)
        blocks = [_block(config, stream if on else None, iterations) for on in ORDER]
        rates, shown = zip(*blocks, strict=True)
        row = {"case": case, "block_s": seconds, "rates": rates, "shown": shown}
        with rows.open("a") as file:
            file.write(json.dumps(row) + "\n")
    return 0


def _number(rows: Path) -> int:
    """Of the quad that is next."""
    return len(rows.read_text().splitlines()) if rows.exists() else 0


def _calibrate(config: Config, seconds: float) -> int:
    """How many iterations last about so long."""
    with session_of(config) as session:
        iterate(session, 1)
        steps_per_s = iterate(session, 1)
        return max(1, round(seconds * steps_per_s / session.rollout.rewards.size))


def _block(config: Config, stream: Path | None, iterations: int) -> tuple[float, int]:
    """Steps per second of a learner, once it is warm and whoever watches has asked; and how many
    agents are shown at the end.
    """
    with ExitStack() as stack:
        sender = stack.enter_context(FrameSender(stream, "slot-0")) if stream else None
        session = stack.enter_context(session_of(config, frames=sender))
        iterate(session, WARM)
        rate = iterate(session, iterations)
        return rate, len(sender.wanted()) if sender else 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
