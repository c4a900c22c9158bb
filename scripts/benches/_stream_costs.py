"""Measures the cost of the stream in the training thread: a real learner, its step hook timed.

One process plays all environments, so that also what a worker does for a picture is seen. The
learner looks nothing up for the choice of who is shown: files that its thread opens are counted.
Of every three rollouts one is played with the hook, one with a hook that does nothing, whose time
is taken off, and one with a hook that looks at the byte and does no more, which none can be cheaper
than: after a step of the emulator the processor's caches are cold, and all of it takes longer than
in a loop. Of what a step took, the median counts: in some rollouts the processor was another's.
"""

from __future__ import annotations

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from Daddy.core.load_config import load_config
from Daddy.learning import loop, run_log
from Daddy.learning.preloading import prepare_imports
from Daddy.pokemon.emulator import Emulator
from Daddy.streaming.login.spool import WatchRequest, write_watch_request
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches.train import iterate, training_learner

STEPS, QUICK_STEPS = 10_000, 1
ENVS = 8
AGENTS = frozenset({0, 1})
FPS = 15.0
_FILES = ("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir")


class Tally:
    """Seconds in what it wraps, and files it opened there."""

    def __init__(self) -> None:
        self.seconds = self._own_s = 0.0
        self.files = 0
        self._inside = False
        self._thread = threading.get_ident()
        sys.addaudithook(self._audit)
        self._own_s, self.seconds = _of_nothing(self), 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """The same function, timed."""

        def timed(*args: Any) -> Any:
            self._inside = True
            began = time.perf_counter()
            try:
                return function(*args)
            finally:
                self.seconds += time.perf_counter() - began - self._own_s
                self._inside = False

        return timed

    def _audit(self, event: str, _: tuple[Any, ...]) -> None:
        if self._inside and event in _FILES and threading.get_ident() == self._thread:
            self.files += 1


def _of_nothing(tally: Tally) -> float:
    """Return the seconds that taking the time costs by itself."""
    nothing = tally.wrap(lambda: None)
    for _ in range(1000):
        nothing()
    return tally.seconds / 1000


def measure(quick: bool) -> dict[str, dict[str, float]]:
    """Per environment step: microseconds in the hook and files opened there, wanted and not."""
    prepare_imports()
    return {
        "not_wanted": _hook(frozenset(), quick),
        "wanted": _hook(AGENTS, quick),
    }


def _hook(wanted: frozenset[int], quick: bool) -> dict[str, float]:
    flags = {"training.device": "cpu", "training.num_envs": ENVS,
             "training.vector_backend": "serial", "archive.mode": "off"}  # fmt: skip
    with tempfile.TemporaryDirectory(prefix="daddy-costs-") as folder:
        stream = Path(folder)
        with (
            FrameSender(stream, "slot-0") as sender,
            training_learner(load_config(None, flags), frames=sender) as session,
        ):
            stop = threading.Event()
            thread = threading.Thread(target=_want, args=(stream, wanted, stop), daemon=True)
            thread.start()
            try:
                iterate(session, 1)
                return _timed(session, QUICK_STEPS if quick else STEPS)
            finally:
                stop.set()
                thread.join(5)


def _want(stream: Path, wanted: frozenset[int], stop: threading.Event) -> None:
    """A relay's wish list, whose counter moves."""
    counter = 1
    while wanted and not stop.wait(1.0):
        counter += 1
        write_watch_request(stream, WatchRequest(counter, FPS, {"slot-0": wanted}))


def _timed(session: Any, steps: int) -> dict[str, float]:
    tally, drawn, reports, nothing, looking = (Tally() for _ in range(5))
    session.movement.enabled = False  # where agents walk is looked at without a stream too
    show, report, picture = (
        run_log.new_step_hook(session),
        run_log.report_agents,
        Emulator.packed_screen,
    )
    run_log.report_agents = reports.wrap(
        report
    )  # told apart; the loop's own, once a rollout, counts too
    loop.report_agents = tally.wrap(reports.wrap(report))  # type: ignore[attr-defined]
    hook, idle = tally.wrap(show), nothing.wrap(lambda _: None)
    asks = session.parts.frames.request_counter
    look = looking.wrap(lambda _: asks[0])
    Emulator.packed_screen = drawn.wrap(picture)  # type: ignore[method-assign]
    beside = {"nothing": (nothing, idle), "look": (looking, look)}
    tallies = {"hook": tally, "reports": reports, "drawn": drawn}
    rows: list[dict[str, float]] = []
    began = time.perf_counter()
    try:
        while len(rows) * session.rollout.rewards.size < steps:
            before = {name: one.seconds for name, one in tallies.items()}
            session.collector.after_step = hook
            iterate(session, 1)
            row = {name: one.seconds - before[name] for name, one in tallies.items()}
            for name, (one, other) in beside.items():
                so_far, session.collector.after_step = one.seconds, other
                iterate(session, 1)
                row[name] = one.seconds - so_far
            rows.append(row)
    finally:
        Emulator.packed_screen = picture  # type: ignore[method-assign]
        run_log.report_agents = loop.report_agents = report  # type: ignore[attr-defined]
    played = len(rows) * session.rollout.rewards.size
    return {
        **_of_a_step(rows, session.rollout.rewards.size),
        "files_per_step": (tally.files + drawn.files) / played,
        "steps": played,
        "steps_per_s": 3 * played / (time.perf_counter() - began),
    }


def _of_a_step(rows: Sequence[dict[str, float]], steps: int) -> dict[str, float]:
    """Microseconds of a step: the median over rollouts of so many steps each."""

    def usual(cost: Callable[[dict[str, float]], float]) -> float:
        return median(map(cost, rows)) / steps * 1e6

    reports = fmean(row["reports"] for row in rows) / steps * 1e6  # in few rollouts, but dear
    hook = usual(lambda row: row["hook"] - row["reports"] - row["nothing"])
    return {
        "hook_us": hook + reports,
        "of_timing_us": usual(lambda row: row["nothing"]),
        "a_look_us": usual(lambda row: row["look"] - row["nothing"]),
        "of_it_reports_us": reports,
        "drawing_us": usual(lambda row: row["drawn"]),
        "total_us": hook + reports + usual(lambda row: row["drawn"]),
    }
