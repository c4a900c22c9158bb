"""Runs the jobs of one slot in one process: each streams for a while, then its successor does."""

from __future__ import annotations

import itertools
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from Daddy.core.host_and_processes import die_with_parent
from Daddy.core.shared_types import AgentReport
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches._stream_relay_only import read_corpus
from scripts.benches._stream_watcher import AGENTS


def main(argv: Sequence[str]) -> int:
    """``STREAM SLOT CORPUS SECONDS``: run jobs of ``SECONDS`` each until terminated."""
    die_with_parent()
    stream, pictures, seconds = Path(argv[0]), read_corpus(Path(argv[2])), float(argv[3])
    for job in itertools.count(1):
        with FrameSender(stream, argv[1], str(job)) as sender:
            _play(sender, pictures, time.monotonic() + seconds)
    return 0


def _play(sender: FrameSender, pictures: Sequence[bytes], until: float) -> None:
    step = 0
    while time.monotonic() < until:
        step += 1
        sender.send_reports(
            [AgentReport(agent, 0, 0, 0.0, 0, 0, "nowhere", 5, step) for agent in range(AGENTS)]
        )
        for agent in sender.wanted_agents():
            sender.send_picture(agent, pictures[(step + 40 * agent) % len(pictures)])
        time.sleep(1 / 60)


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
