"""Runs two learners of one seed on one core, one with the stream and one without, in turns A B B A.

They take the same steps, so the game costs both the same; turns of a second are shorter than the
machine's own variations. After each four turns the learners change roles, because the addresses of
a learner's arrays can make it about 1 % faster or slower than the other for its whole life. The
streamer is a child on the same core. It is stopped during the other learner's turns, so work that
it defers counts against the stream; its rate is that of a job with default settings. Each four
turns are appended to ROWS as one line, so an interrupted measurement can continue.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.load_config import load_config
from Daddy.learning.interfaces import FrameSink, NoFrames
from Daddy.learning.learner_reporting import new_step_hook
from Daddy.learning.learner_state import LearnerState
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.streaming.tunnel_client import FEATURED_FPS, FrameSender
from scripts.benches.train import iterate, training_learner

ORDER = (True, False, False, True)
_SCHED = 2
"""CPUCLOCK_SCHED of the kernel's clock numbers."""
WARM = 8
"""Iterations until the relay has requested pictures."""
FLAGS = {"training.device": "cpu", "training.num_envs": 8,
         "training.vector_backend": "serial",
         "archive.mode": "off"}  # fmt: skip


def main(argv: Sequence[str]) -> int:
    """``STREAM ROWS CASE BLOCK_S QUADS CORE``: run ``QUADS`` times A B B A."""
    die_with_parent()
    os.sched_setaffinity(0, {int(argv[5])})
    stream, rows, case = Path(argv[0]), Path(argv[1]), argv[2]
    block_s, quads = float(argv[3]), int(argv[4])
    prepare_imports()
    config = load_config(None, {**FLAGS, "training.seed": _number(rows)})
    with (
        FrameSender(stream, "slot-0", fps=FEATURED_FPS) as sender,
        training_learner(config) as first,
        training_learner(config) as second,
    ):
        assert sender.streamer is not None
        iterate(first, WARM)
        rate = _turn(second, sender, WARM, on=True)[0]
        block = max(1, round(block_s * rate / first.rollout.rewards.size))
        for quad in range(quads):
            alone, watched = (first, second) if quad % 2 else (second, first)
            turns = [_turn(watched if on else alone, sender, block, on=on) for on in ORDER]
            rates, shown, share = zip(*turns, strict=True)
            row = {"case": case, "block_s": block_s, "rates": rates, "shown": shown, "share": share}
            with rows.open("a") as file:
                file.write(json.dumps(row) + "\n")
        sender.streamer.signal(signal.SIGCONT)
    return 0


def _number(rows: Path) -> int:
    """Return the number of the next quad."""
    return len(rows.read_text().splitlines()) if rows.exists() else 0


def _turn(
    session: LearnerState, sender: FrameSender, block: int, *, on: bool
) -> tuple[float, int, float]:
    """Return steps per second, agents shown at the end, and the streamer's share of the core."""
    assert sender.streamer is not None
    _send(session, sender if on else NoFrames())
    sender.streamer.signal(signal.SIGCONT if on else signal.SIGSTOP)
    began, used = time.perf_counter(), _processor_s(sender.streamer.pid)
    rate = iterate(session, block)
    share = (_processor_s(sender.streamer.pid) - used) / (time.perf_counter() - began)
    return rate, len(sender.wanted_agents()) if on else 0, share


def _send(session: LearnerState, sink: FrameSink) -> None:
    """Send the learner's pictures and reports to ``sink`` from now on."""
    session.parts.vector.request_pictures(frozenset())
    session.parts = replace(session.parts, frames=sink)
    session.collector.after_step = new_step_hook(session)


def _processor_s(pid: int) -> float:
    """Return another process's processor time, by the clock that Linux keeps for each process in
    nanoseconds, as /proc counts in hundredths of a second only.
    """
    return time.clock_gettime((~pid << 3) | _SCHED)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
