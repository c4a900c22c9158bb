"""One visit of a laptop to a run: the learner's own parts, wired for playing or for contributing.

Stands above the packages and below `run_actors_only`. Promises that every version that is played is
announced with its hash, that every receipt is reported once, and that nothing is left running.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from Daddy import laptop
from Daddy.core import machine, process
from Daddy.core.events import EventWriter
from Daddy.core.names import new_incarnation
from Daddy.core.paths import RunPaths
from Daddy.core.settings import Config
from Daddy.errands.beside import errands
from Daddy.visit import Limits, Visit
from Daddy.workloads import WORKLOADS

if TYPE_CHECKING:
    from Daddy.learning.assemble import Surroundings, Task
    from Daddy.learning.commentary import Commentary
    from Daddy.learning.parts import Outcome
    from Daddy.learning.ports import Adoption, EventSink, FrameSink, StateDict
    from Daddy.weights.laptop.laptop_exchange import PulledVersions

RELAY_GRACE_S = 3.0


class Announced:
    """An exchange whose versions, receipts and warnings are written down as they come."""

    def __init__(self, exchange: PulledVersions, events: EventSink, limits: Limits) -> None:
        self._exchange = exchange
        self._events = events
        self._limits = limits
        self._told: set[int] = set()

    def begin(self, initial: Callable[[], StateDict], resumed: bytes | None) -> Adoption:
        """As the exchange; says which version it is."""
        return self._announce(self._exchange.begin(initial, resumed))

    def adopt(self, weights: StateDict) -> Adoption | None:
        """As the exchange; says which version it is and what became of contributions."""
        adoption = self._exchange.adopt(weights)
        self._tell_receipts()
        self._tell_warnings()
        return None if adoption is None else self._announce(adoption)

    def publish(self, weights: StateDict, env_steps: int, optimizer_steps: int) -> str:
        """As the exchange."""
        return self._exchange.publish(weights, env_steps, optimizer_steps)

    def beat(self) -> None:
        """As the exchange."""
        self._exchange.beat()

    def fleet_steps(self) -> int:
        """As the exchange."""
        return self._exchange.fleet_steps()

    def bookkeeping(self) -> bytes:
        """As the exchange."""
        return self._exchange.bookkeeping()

    def _announce(self, adoption: Adoption) -> Adoption:
        newest = self._exchange.newest
        sha = newest.sha256 if newest is not None else ""
        self._write("state", {"state": "playing", "version": adoption.version, "sha": sha})
        self._tell_warnings()
        return adoption

    def _tell_receipts(self) -> None:
        for one in self._exchange.receipts():
            if one.sequence not in self._told:
                self._told.add(one.sequence)
                facts = {name: getattr(one, name) for name in _RECEIPT}
                self._write("state", {"state": "receipt", **facts})

    def _tell_warnings(self) -> None:
        while self._exchange.warnings:
            self._write("error", {"text": self._exchange.warnings.pop(0)})

    def _write(self, event: str, data: Mapping[str, object]) -> None:
        self._events.write(event, self._limits.steps, data)


_RECEIPT = ("sequence", "accepted", "version", "share", "reason")


def visit(visit: Visit) -> str:
    """Play, or learn and contribute, until told to stop; returns the line that sums it up."""
    with _frames(visit) as frames:
        commentary = _commentary(visit, frames)
        outcome = _loop(visit, commentary)
        _remember(visit, commentary)
        return commentary.farewell(outcome.reason)


def _remember(visit: Visit, commentary: Commentary) -> None:
    """Add this visit to what its owner did for the run."""
    from Daddy.weights.laptop.receipts import Effort, add_visit

    effort = Effort(commentary.step, commentary.milestones["handed in"])
    with suppress(OSError):
        add_visit(visit.shared, visit.user_id, effort)


def _commentary(visit: Visit, frames: FrameSink) -> Commentary:
    from Daddy.learning.commentary import Commentary

    workload = visit.config.training.workload
    facts = (visit.run.events, visit.run_name, workload, "actor", visit.user_id, visit.clock)
    return Commentary(
        EventWriter(*facts), frames, visit.clock, lambda text: print(text, flush=True)
    )


def _loop(visit: Visit, commentary: Commentary) -> Outcome:
    from Daddy.learning.assemble import assemble
    from Daddy.learning.loop import train
    from Daddy.learning.player import play

    laptop.step_back(visit.niceness)
    # A laptop begins with the newest version, so its checkpoints are nobody's.
    with tempfile.TemporaryDirectory(prefix="daddy-") as scratch:
        around = _surroundings(visit, commentary, Path(scratch))
        parts = assemble(visit.config, _task(visit.config), around, laptop.cores_for_us())
        try:
            with errands(visit, commentary):
                return train(parts) if visit.contribute else play(parts)
        finally:
            parts.vector.close()


def _task(config: Config) -> Task:
    from Daddy.learning.assemble import Task

    row = WORKLOADS[config.training.workload]
    told = (row.reports, row.reached, row.helped, row.given_up)
    return Task(row.name, row.make_env(config), row.make_policy, *told)


def _surroundings(visit: Visit, commentary: Commentary, scratch: Path) -> Surroundings:
    from Daddy.learning.assemble import Surroundings

    return Surroundings(
        peer=visit.user_id,
        checkpoints=scratch,
        tensorboard=visit.run.tensorboard,
        place=visit.limits,
        exchange=Announced(_exchange(visit), commentary, visit.limits),
        frames=commentary,
        stopper=visit.limits,
        events=commentary,
        clock=visit.clock,
    )


def _exchange(visit: Visit) -> PulledVersions:
    assists = tuple(visit.config.training.assists)
    if not visit.contribute:
        from Daddy.weights.laptop.laptop_exchange import PulledVersions

        return PulledVersions(visit.shared, assists)
    from Daddy.weights.laptop.laptop_exchange import LaptopExchange

    own = new_incarnation()
    return LaptopExchange(visit.shared, visit.user_id, own, visit.clock, assists=assists)


@contextmanager
def _frames(visit: Visit) -> Iterator[FrameSink]:
    """Where pictures go: nowhere, or through a relay of our own to the viewer on this machine."""
    from Daddy.learning.solo import NoFrames

    if visit.stream_port is None:
        yield NoFrames()
        return
    from Daddy.streaming.tunnel_client import frame_sender

    relay = _start_relay(visit.run, visit.stream_port)
    try:
        training = visit.config.training
        sender = frame_sender(visit.run.stream, visit.user_id, training, visit.clock) or NoFrames()
        with closing(sender):
            yield sender
    finally:
        machine.end_tree(relay, RELAY_GRACE_S)


def _start_relay(run: RunPaths, port: int) -> machine.ProcessId:
    run.stream.mkdir(parents=True, exist_ok=True)
    print(f"streaming to 127.0.0.1:{port}; to watch: "
          f"python -m Daddy.streaming.tunnel_server --port {port}")  # fmt: skip
    where = ["--run-dir", str(run.root), "--port", str(port)]
    argv = [sys.executable, "-m", "Daddy.streaming.relay", *where, "--via", "spool"]
    return process.start([*argv, "--die-with-parent", str(machine.myself().pid)],
                         log_path=run.logs / "relay.log")  # fmt: skip
