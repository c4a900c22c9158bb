"""Measures the cost of a watching viewer to training: the stream on and off in turns, on one core.

For each case two learners of one seed take the same steps in turns of about a second on the first
core: with the stream, twice without, with it; relay, sshd, ssh, the link and the viewer use the
other cores. (With turns of ten seconds the machine's own variations, 4 % of a quad, hid half a per
cent for hours.) Each quad gives one ratio; quads are added until the 95 % interval of their centre
is narrower than half a per cent each way. The centre is used because a variation within a quad
moves its ratio by 7 % either way, and every effect of a stream occurs at least once in each quad;
the mean is reported beside it. Quads are appended to ``runs/benches/stream-training.jsonl``, so an
interrupted measurement continues; remove the file to start anew.
"""

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
"""Steps per second, agents shown at the end, and the streamer's share of the core, per turn."""
KEPT = CHECKOUT / "runs" / "benches" / "stream-training.jsonl"


def measure(quick: bool) -> dict[str, Any]:
    """Return, for each case, the rate with the stream over the rate without, and its interval."""
    if not quick:
        KEPT.parent.mkdir(parents=True, exist_ok=True)
        return _settle(KEPT)
    with tempfile.TemporaryDirectory(prefix="daddy-training-") as folder:
        rows = Path(folder) / "rows"
        _play("watching", rows, QUICK_BLOCK_S, QUICK_QUADS)
        return {"watching": figures(_quads(rows, "watching", QUICK_BLOCK_S))}


def _settle(rows: Path) -> dict[str, dict[str, float]]:
    """Measure all cases in turns until each interval is narrow enough or has the most quads."""
    while True:
        results = {case: figures(_quads(rows, case, BLOCK_S)) for case in CASES}
        left = [c for c in CASES if not settled(results[c]) and results[c]["quads"] < MOST_QUADS]
        if not left:
            return results
        for case in left:
            _play(case, rows, BLOCK_S, AT_ONCE)
            now = figures(_quads(rows, case, BLOCK_S))
            print(f"  {case}: {now['ratio']:.4f} [{now['low']:.4f}, {now['high']:.4f}], "
                  f"{now['quads']} quads, mean {now['mean']:.4f}, "
                  f"streamer {now['streamer_share']:.3%} of the core", flush=True)  # fmt: skip


def settled(result: Mapping[str, float]) -> bool:
    """Return True when there are enough quads and the interval is narrow enough."""
    return result["quads"] >= AT_ONCE and result["high"] - result["low"] <= 2 * WITHIN


def figures(quads: Sequence[Quad]) -> dict[str, float]:
    """Return the ratio's centre and 95 % interval, the number of quads, the mean ratio, the agents
    shown and the streamer's share of the core.
    """
    if not quads:
        return {"ratio": float("nan"), "low": 0.0, "high": 9.0, "quads": 0}
    ratios = [(on + again) / (off + still) for (on, off, still, again), *_ in quads]
    centre, mean = hodges_lehmann(ratios), mean_interval(ratios)
    return {
        "ratio": centre.middle,
        "low": centre.low,
        "high": centre.high,
        "quads": len(quads),
        "mean": mean.middle,
        "mean_low": mean.low,
        "mean_high": mean.high,
        "agents_shown": fmean(shown[turn] for _, shown, _ in quads for turn in ON),
        "streamer_share": fmean(share[turn] for *_, share in quads for turn in ON),
    }


def hodges_lehmann(values: Sequence[float]) -> Interval:
    """Return the median of the means of all pairs (1963), with Wilcoxon's signed-rank bounds, 95 %.

    For symmetric values it estimates the mean, but a single outlier does not move it, as timings
    have on a shared machine. The bounds use the normal approximation, rounded outwards; with fewer
    than six values they are infinite.
    """
    count = len(values)
    means = sorted(
        (first + second) / 2 for first, second in combinations_with_replacement(values, 2)
    )
    pairs = len(means)
    outside = floor(pairs / 2 - 1.96 * sqrt(count * (count + 1) * (2 * count + 1) / 24) - 0.5)
    if outside < 0:
        return Interval(median(means), -inf, inf)
    return Interval(median(means), means[outside], means[pairs - 1 - outside])


def _quads(rows: Path, case: str, block_s: float) -> list[Quad]:
    lines = rows.read_text().splitlines() if rows.exists() else []
    quads = [json.loads(line) for line in lines]
    return [
        (quad["rates"], quad["shown"], quad["share"])
        for quad in quads
        if (quad["case"], quad["block_s"]) == (case, block_s)
    ]


def _play(case: str, rows: Path, block_s: float, quads: int) -> None:
    with tempfile.TemporaryDirectory(prefix="daddy-training-") as temporary, _other_cores() as core:
        folder = Path(temporary)
        (folder / "run" / "stream").mkdir(parents=True)
        trainer = "scripts.benches._stream_trainer"
        facts = (folder / "run" / "stream", rows, case, block_s, quads, core)
        with ExitStack() as stack:
            _start_around(stack, folder, case)
            log = folder / "trainer.log"
            with ours(trainer, *facts, home=folder, log=log) as learner:
                if learner.wait(240 + quads * 4 * (block_s + 5)):
                    raise SchedulerError(f"the bench's learner failed: {log.read_text()[-1500:]}")


@contextmanager
def _other_cores() -> Iterator[int]:
    """Run children on every core but the first; yield the first, which is the learner's."""
    cores = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores - {min(cores)} or cores)
    try:
        yield min(cores)
    finally:
        os.sched_setaffinity(0, cores)


def _start_around(stack: ExitStack, folder: Path, case: str) -> None:
    """Start relay, tunnel and viewer as the case requires."""
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
