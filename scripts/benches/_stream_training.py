"""Measures what being watched costs training: the stream on and off in turns, on one core.

For each case two learners of one seed take the same steps in turns of about a second on the first
core: with the stream, twice without, with it; relay, sshd, ssh, the line and the viewer are on the
others. (In turns of ten seconds the machine's own moods, 4 % of a quad, hid half a per cent for
hours.) A quad gives one ratio; quads are added until the 95 % interval of their centre is within
half a per cent. The centre, since a mood that changes within a quad moves it by 7 % one way or the
other, and all that a stream does comes at least once in each quad; the mean stands beside it.
Quads are kept as they come, in ``runs/benches/stream-training.jsonl``: who was interrupted goes on,
who begins anew removes it.
"""

from __future__ import annotations

import json
import os
import signal
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from itertools import combinations_with_replacement
from math import floor, inf, sqrt
from pathlib import Path
from statistics import fmean, median
from typing import Any

from Daddy.core.confidence_intervals import Interval, mean_interval
from Daddy.core.errors import SchedulerError
from Daddy.core.load_config import CHECKOUT
from Daddy.streaming.protocol.handshake import ensure_token
from scripts.benches._stream_login import (
    Line,
    free_port,
    is_open,
    login_node,
    ours,
    tunnel,
    wait_for,
)

CASES = ("nobody", "watching", "frozen", "killed", "slow")
ON = (0, 3)
"""The turns of a quad with the stream."""
BLOCK_S, QUICK_BLOCK_S = 1.0, 0.5
QUICK_QUADS = 3
WITHIN, MOST_QUADS, AT_ONCE = 0.005, 600, 20
LINE, SLOW_LINE = Line(10, 30), Line(0.1, 150)
Quad = tuple[Sequence[float], Sequence[int], Sequence[float]]
"""Steps per second, agents shown at the end, and the streamer's share of the core, of each of its
four blocks."""
KEPT = CHECKOUT / "runs" / "benches" / "stream-training.jsonl"


def measure(quick: bool) -> dict[str, Any]:
    """Rate with the stream over rate without, and its interval, for each case."""
    if not quick:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        return _settle(KEPT)
    with tempfile.TemporaryDirectory(prefix="daddy-training-") as folder:
        rows = Path(folder) / "rows"
        _play("watching", rows, QUICK_BLOCK_S, QUICK_QUADS)
        return {"watching": figures(_quads(rows, "watching", QUICK_BLOCK_S))}


def _settle(rows: Path) -> dict[str, dict[str, float]]:
    """All cases in turns until each is told closely enough, or for ever will not be."""
    while True:
        told = {case: figures(_quads(rows, case, BLOCK_S)) for case in CASES}
        left = [one for one in CASES if not settled(told[one]) and told[one]["quads"] < MOST_QUADS]
        if not left:
            return told
        for case in left:
            _play(case, rows, BLOCK_S, AT_ONCE)
            now = figures(_quads(rows, case, BLOCK_S))
            print(f"  {case}: {now['ratio']:.4f} [{now['low']:.4f}, {now['high']:.4f}], "
                  f"{now['quads']} quads, mean {now['mean']:.4f}, "
                  f"streamer {now['streamer_share']:.3%} of the core", flush=True)  # fmt: skip


def settled(told: Mapping[str, float]) -> bool:
    """Return True when there are enough quads and the interval is narrow enough."""
    return told["quads"] >= AT_ONCE and told["high"] - told["low"] <= 2 * WITHIN


def figures(quads: Sequence[Quad]) -> dict[str, float]:
    """The ratio's centre, its 95 % interval, the quads behind it; their mean ratio, the agents that
    were shown in them and the streamer's share of the core.
    """
    if not quads:
        return {"ratio": float("nan"), "low": 0.0, "high": 9.0, "quads": 0}
    ratios = [(on + again) / (off + still) for (on, off, still, again), *_ in quads]
    one, mean = hodges_lehmann(ratios), mean_interval(ratios)
    return {
        "ratio": one.middle,
        "low": one.low,
        "high": one.high,
        "quads": len(quads),
        "mean": mean.middle,
        "mean_low": mean.low,
        "mean_high": mean.high,
        "agents_shown": fmean(shown[turn] for _, shown, _ in quads for turn in ON),
        "streamer_share": fmean(share[turn] for *_, share in quads for turn in ON),
    }


def hodges_lehmann(values: Sequence[float]) -> Interval:
    """The median of the means of all pairs (1963), bounded by Wilcoxon's signed ranks at 95 %.

    For symmetric values it estimates what their mean does, but one wild value does not move it, as
    timings have on a machine that is not alone. The bounds are those of the normal approximation,
    rounded outwards; with fewer than six values nothing is known of the error.
    """
    count = len(values)
    means = sorted((one + other) / 2 for one, other in combinations_with_replacement(values, 2))
    pairs = len(means)
    outside = floor(pairs / 2 - 1.96 * sqrt(count * (count + 1) * (2 * count + 1) / 24) - 0.5)
    if outside < 0:
        return Interval(median(means), -inf, inf)
    return Interval(median(means), means[outside], means[pairs - 1 - outside])


def _quads(rows: Path, case: str, block_s: float) -> list[Quad]:
    lines = rows.read_text().splitlines() if rows.exists() else []
    told = [json.loads(line) for line in lines]
    return [
        (one["rates"], one["shown"], one["share"])
        for one in told
        if (one["case"], one["block_s"]) == (case, block_s)
    ]


def _play(case: str, rows: Path, block_s: float, quads: int) -> None:
    with tempfile.TemporaryDirectory(prefix="daddy-training-") as temporary, _elsewhere() as core:
        folder = Path(temporary)
        (folder / "run" / "stream").mkdir(parents=True)
        trainer = "scripts.benches._stream_trainer"
        facts = (folder / "run" / "stream", rows, case, block_s, quads, core)
        with ExitStack() as stack:
            _surround(stack, folder, case)
            log = folder / "trainer.log"
            with ours(trainer, *facts, home=folder, log=log) as learner:
                if learner.wait(240 + quads * 4 * (block_s + 5)):
                    raise SchedulerError(f"the bench's learner failed: {log.read_text()[-1500:]}")


@contextmanager
def _elsewhere() -> Iterator[int]:
    """Children are put on every core but the first, which is the learner's and is told."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores - {min(cores)} or cores)
    try:
        yield min(cores)
    finally:
        os.sched_setaffinity(0, cores)


def _surround(stack: ExitStack, folder: Path, case: str) -> None:
    """Relay, tunnel and viewer as the case has them."""
    if case == "nobody":
        return
    token, port = folder / "token", free_port()
    ensure_token(token, "bench")
    show = ("--headless", "--port", port, "--token", token)
    viewer = stack.enter_context(
        ours("Daddy.streaming.tunnel_server", *show, home=folder, log=folder / "viewer.log")
    )
    wait_for(lambda: is_open(port), "the viewer did not start")
    login = stack.enter_context(login_node(folder / "login"))
    line = SLOW_LINE if case == "slow" else LINE
    remote, ssh = stack.enter_context(tunnel(login, line, port))
    relay = ("--run-dir", folder / "run", "--port", remote, "--token", token)
    stack.enter_context(
        ours("Daddy.streaming.relay", *relay, home=folder, log=folder / "relay.log")
    )
    if case in ("frozen", "killed"):
        time.sleep(3.0)
        os.kill(*((viewer.pid, signal.SIGSTOP) if case == "frozen" else (ssh, signal.SIGKILL)))
    if case == "frozen":
        stack.callback(os.kill, viewer.pid, signal.SIGCONT)
