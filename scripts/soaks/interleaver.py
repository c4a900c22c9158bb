"""Runs processes as threads, one at a time; a random number picks the next at every file operation.

One seed gives one schedule: the process that is switched to, frozen or killed, and when, the call
that fails, the time for which everything stands still. A killed process runs no further code, not
even cleanup.
"""

from __future__ import annotations

import errno
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from scripts.soaks.lagging_fs import failure

_TROUBLE = {"create": errno.ENOSPC, "write": errno.ENOSPC, "fsync": errno.EIO, "link": errno.EDQUOT,
            "open": errno.EIO, "rename": errno.EIO}  # fmt: skip


KILLS = 8
"""Of one schedule at most: a fleet that is killed faster than it works would never end."""


class Killed(BaseException):
    """Ends a process at once: nothing in the product catches it."""


@dataclass(frozen=True)
class Odds:
    """Probabilities of a schedule: seconds per call, and per call the chance of each event."""

    seconds: float
    switch: float
    kill: float = 0.0
    freeze: float = 0.0
    outage: float = 0.0
    trouble: float = 0.0
    lost: float = 0.0


def _shut() -> threading.Lock:
    """Return a lock that is held until another thread releases it."""
    gate = threading.Lock()
    gate.acquire()
    return gate


@dataclass(eq=False)
class Process:
    """One process: its name, its function, and its successor when it is killed."""

    name: str
    work: Callable[[], None]
    successor: Callable[[], Process | None] = lambda: None
    wakes: float = 0.0
    dead: bool = False
    gate: threading.Lock = field(default_factory=_shut)


class Interleaver:
    """Lets one process run at a time; keeps the time."""

    def __init__(self, seed: int, odds: Odds) -> None:
        self.chance = random.Random(seed)
        self.odds = odds
        self.time = 1000.0
        self.steps = self.kills = 0
        self.failures: list[tuple[str, BaseException]] = []
        self._living: list[Process] = []
        self._running: Process | None = None
        self._finished = _shut()

    # -- what the files ask

    @property
    def actor(self) -> str:
        """Name of the process that runs; empty before and after the schedule."""
        return self._running.name if self._running else ""

    def between(self, low: float, high: float) -> float:
        """Return a random number."""
        return self.chance.uniform(low, high)

    def by_chance(self, probability: float) -> bool:
        """Return True with this probability."""
        return self.chance.random() < probability

    def step(self, what: str) -> None:
        """Let time pass, and fail, freeze, kill or switch; called before every file operation."""
        me = self._running
        if me is None:
            self.time += 0.001
            return
        if me.dead:
            raise Killed
        self.steps += 1
        self.time += self.odds.seconds * self.chance.random()
        drawn = self.chance.random()
        if drawn < self.odds.kill and self.kills < KILLS:
            self.kills += 1
            me.dead = True
            raise Killed
        if self.by_chance(self.odds.outage):
            self.time += self.between(600.0, 5000.0)
        if self.by_chance(self.odds.freeze):
            self.sleep(self.between(0.0, 200.0))
        elif self.by_chance(self.odds.switch):
            self.sleep(0.0)
        if what in _TROUBLE and self.by_chance(self.odds.trouble):
            raise failure(_TROUBLE[what], what)

    def answer(self, what: str) -> None:
        """Lose the reply now and then; called after an operation had its effect."""
        if self._running is not None and self.by_chance(self.odds.lost):
            raise failure(errno.EIO, what)

    # -- who runs

    def sleep(self, seconds: float) -> None:
        """Let others run for at least that many seconds."""
        me = self._running
        if me is None:
            self.time += seconds
            return
        me.wakes = self.time + seconds
        if (chosen := self._choose()) is not me:
            self._pass_to(chosen)
            me.gate.acquire()

    def run(self, processes: list[Process]) -> None:
        """Run until all processes and their successors have ended."""
        for process in processes:
            self._add(process)
        self._pass_to(self._choose())
        self._finished.acquire()
        self._running = None

    def _add(self, process: Process) -> None:
        self._living.append(process)
        threading.Thread(target=self._live, args=(process,), daemon=True).start()

    def _live(self, me: Process) -> None:
        me.gate.acquire()
        try:
            me.work()
        except Killed:
            follower = me.successor()
            if follower is not None:
                follower.wakes = self.time + self.between(0.0, 120.0)
                self._add(follower)
        except BaseException as error:  # noqa: BLE001 - said by whoever judges the schedule
            self.failures.append((me.name, error))
        self._living.remove(me)
        if self._living:
            self._pass_to(self._choose())
        else:
            self._finished.release()

    def _choose(self) -> Process:
        ready = [entry for entry in self._living if entry.wakes <= self.time]
        if not ready:
            self.time = min(process.wakes for process in self._living)
            ready = [item for item in self._living if item.wakes <= self.time]
        return self.chance.choice(ready)

    def _pass_to(self, chosen: Process) -> None:
        self._running = chosen
        chosen.gate.release()
