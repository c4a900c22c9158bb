"""Measures the stream's cost in the training thread: a real learner with its step hook timed.

One process plays all environments, so the picture work of a vector worker is included. The learner
reads nothing to select featured agents, so the files that its thread opens are counted. Of every
three rollouts one is played with the hook; one with a hook that does nothing, whose time is
subtracted; and one with a hook that only reads the request byte, the least possible cost, because
after an emulator step the processor's caches are cold and everything takes longer than in a loop.
The median per step counts, because in some rollouts another process had the processor.
"""

import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

from Daddy.core.load_config import load_config
from Daddy.learning import learner_reporting, loop
from Daddy.learning.startup_preloading import prepare_imports
from Daddy.pokemon.emulator import Emulator
from Daddy.streaming.login.stream_folder import WatchRequest, write_watch_request
from Daddy.streaming.tunnel_client import FrameSender
from scripts.benches.train import iterate, training_learner

STEPS, QUICK_STEPS = 10_000, 1
QUICK_HORIZON = 16
ENVS = 8
AGENTS = frozenset({0, 1})
FPS = 15.0
_FILES = ("open", "os.listdir", "os.mkdir", "os.remove", "os.rename", "os.scandir")


class Tally:
    """Counts the seconds that wrapped functions take, and the files that they open."""

    def __init__(self) -> None:
        self.seconds = self._own_s = 0.0
        self.files = 0
        self._inside = False
        self._thread = threading.get_ident()
        sys.addaudithook(self._audit)
        self._own_s, self.seconds = _overhead_s(self), 0.0

    def wrap(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Return the function with its time added to :attr:`seconds`."""

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


def _overhead_s(tally: Tally) -> float:
    """Return the seconds that one measurement costs by itself."""
    nothing = tally.wrap(lambda: None)
    for _ in range(1000):
        nothing()
    return tally.seconds / 1000


def measure(quick: bool) -> dict[str, dict[str, float]]:
    """Measure microseconds in the hook per environment step and files opened, wanted and not."""
    prepare_imports()
    return {"not_wanted": _hook(frozenset(), quick), "wanted": _hook(AGENTS, quick)}


def _hook(wanted: frozenset[int], quick: bool) -> dict[str, float]:
    flags = {"training.device": "cpu", "training.num_envs": ENVS,
             "training.vector_backend": "serial", "archive.mode": "off"}  # fmt: skip
    if quick:
        flags |= {"training.horizon": QUICK_HORIZON, "training.update_epochs": 1}
    with tempfile.TemporaryDirectory(prefix="daddy-costs-") as folder:
        stream = Path(folder)
        with (
            FrameSender(stream, "slot-0") as sender,
            training_learner(load_config(None, flags), frames=sender) as session,
        ):
            stop = threading.Event()
            thread = threading.Thread(target=_request, args=(stream, wanted, stop), daemon=True)
            thread.start()
            try:
                iterate(session, 1)
                while sender.wanted_agents() != wanted:
                    iterate(session, 1)
                return _timed(session, QUICK_STEPS if quick else STEPS)
            finally:
                stop.set()
                thread.join(5)


def _request(stream: Path, wanted: frozenset[int], stop: threading.Event) -> None:
    """Write a relay's watch request with a growing counter until ``stop``."""
    counter = 1
    while wanted and not stop.is_set():
        counter += 1
        write_watch_request(stream, WatchRequest(counter, FPS, {"slot-0": wanted}))
        stop.wait(1.0)


def _timed(session: Any, steps: int) -> dict[str, float]:
    tally, drawn, reports, nothing, looking = (Tally() for _ in range(5))
    session.movement.enabled = False  # agents' walks are recorded without a stream too
    show, report, picture = (
        learner_reporting.new_step_hook(session),
        learner_reporting.report_agents,
        Emulator.packed_screen,
    )
    learner_reporting.report_agents = reports.wrap(
        report
    )  # also called once a rollout by the loop itself
    loop.report_agents = tally.wrap(reports.wrap(report))  # type: ignore[attr-defined]
    hook, idle = tally.wrap(show), nothing.wrap(lambda _: None)
    asks = session.parts.frames.request_counter
    read_byte = looking.wrap(lambda _: asks[0])
    Emulator.packed_screen = drawn.wrap(picture)  # type: ignore[method-assign]
    beside = {"nothing": (nothing, idle), "look": (looking, read_byte)}
    tallies = {"hook": tally, "reports": reports, "drawn": drawn}
    rows: list[dict[str, float]] = []
    began = time.perf_counter()
    try:
        while len(rows) * session.rollout.rewards.size < steps:
            before = {name: each.seconds for name, each in tallies.items()}
            session.collector.after_step = hook
            iterate(session, 1)
            row = {name: each.seconds - before[name] for name, each in tallies.items()}
            for name, (other, after_step) in beside.items():
                so_far, session.collector.after_step = other.seconds, after_step
                iterate(session, 1)
                row[name] = other.seconds - so_far
            rows.append(row)
    finally:
        Emulator.packed_screen = picture  # type: ignore[method-assign]
        learner_reporting.report_agents = loop.report_agents = report  # type: ignore[attr-defined]
    played = len(rows) * session.rollout.rewards.size
    return {
        **_per_step(rows, session.rollout.rewards.size),
        "files_per_step": (tally.files + drawn.files) / played,
        "steps": played,
        "steps_per_s": 3 * played / (time.perf_counter() - began),
    }


def _per_step(rows: Sequence[dict[str, float]], steps: int) -> dict[str, float]:
    """Return microseconds per step: the median over rollouts of ``steps`` steps each."""

    def usual(cost: Callable[[dict[str, float]], float]) -> float:
        return median(map(cost, rows)) / steps * 1e6

    reports = fmean(row["reports"] for row in rows) / steps * 1e6  # expensive in a few rollouts
    hook = usual(lambda row: row["hook"] - row["reports"] - row["nothing"])
    return {
        "hook_us": hook + reports,
        "of_timing_us": usual(lambda row: row["nothing"]),
        "a_look_us": usual(lambda row: row["look"] - row["nothing"]),
        "of_it_reports_us": reports,
        "drawing_us": usual(lambda row: row["drawn"]),
        "total_us": hook + reports + usual(lambda row: row["drawn"]),
    }
