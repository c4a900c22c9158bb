"""Injects faults at random times, one after the other, and records each with its duration.

Signals only processes that the test cluster or the run recorded, by process id and start time.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from Daddy.core.host_and_processes import ProcessId, identify_process, is_alive
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths
from scripts.soaks.records import Fault

FREEZE_S = 120.0
KINDS = ("kill controller", "kill slurmctld", "kill slurmd", "kill job")
_SLURMD_AWAY_S = (2.0, 35.0)
_SLURMCTLD_AWAY_S = (0.5, 15.0)
_CONTROLLER_AWAY_S = (0.5, 20.0)


@dataclass
class Injector:
    """Injects faults into one test cluster and one run."""

    base: Path
    """The test cluster's folder."""
    run: RunPaths
    mend: Callable[[], None]
    """Starts ended daemons of the test cluster again."""
    ensure: Callable[[], None]
    """Starts an ended controller again."""
    rng: random.Random
    faults: list[Fault] = field(default_factory=list)

    def plan(self, seconds: float) -> list[tuple[float, str]]:
        """Return (seconds from now, kind): all kinds in random rounds, one freeze in the middle."""
        frozen = self._freeze_s(seconds)
        begin, times = 15.0, []
        freeze_at = seconds * self.rng.uniform(0.35, 0.5)
        kinds: list[str] = []
        at = begin
        while at < seconds - 25.0:
            if freeze_at - 30.0 < at < freeze_at + frozen + 20.0:
                at = freeze_at + frozen + 20.0
                continue
            kinds = kinds or self.rng.sample(KINDS, len(KINDS))
            times.append((at, kinds.pop()))
            at += self.rng.uniform(18.0, 60.0)
        return sorted([*times, (freeze_at, "freeze slurmctld")])

    @staticmethod
    def _freeze_s(seconds: float) -> float:
        return min(FREEZE_S, 0.4 * seconds)

    def inject(self, kind: str, seconds: float, wait: Callable[[float], None]) -> None:
        """Inject a fault, wait, and repair it; ``wait`` also samples the controller."""
        begun = time.time()
        if kind == "kill controller":
            hit = self._kill(self._controller())
            wait(self.rng.uniform(*_CONTROLLER_AWAY_S))
            self.ensure()
        elif kind == "kill slurmctld":
            hit = self._kill(self._daemon("slurmctld"))
            wait(self.rng.uniform(*_SLURMCTLD_AWAY_S))
            self.mend()
        elif kind == "kill slurmd":
            node = self.rng.choice(("n1", "n2", "n3", "n4"))
            hit = node if self._kill(self._daemon(f"slurmd-{node}")) else ""
            wait(self.rng.uniform(*_SLURMD_AWAY_S))
            self.mend()
        elif kind == "kill job":
            hit = self._kill_learner()
        else:
            hit = self._freeze(self._freeze_s(seconds), wait)
        if hit:
            self.faults.append(Fault(kind, begun, time.time(), hit if kind in _LOCAL else ""))

    def _freeze(self, seconds: float, wait: Callable[[float], None]) -> str:
        process = self._daemon("slurmctld")
        if process is None or not is_alive(process):
            return ""
        os.kill(process.pid, signal.SIGSTOP)
        try:
            wait(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        return "slurmctld"

    def _kill(self, process: ProcessId | None) -> str:
        if process is None or not is_alive(process):
            return ""
        os.kill(process.pid, signal.SIGKILL)
        return str(process.pid)

    def _kill_learner(self) -> str:
        holders = list(self._learners())
        if not holders:
            return ""
        token, process = self.rng.choice(holders)
        return token if self._kill(process) else ""

    def _learners(self) -> Iterator[tuple[str, ProcessId]]:
        for number in range(4):
            view = read_lease(self.run.slot(number).lease)
            if view is None or view.ended is not None:
                continue
            process = ProcessId(int(view.holder["pid"]), float(view.holder["created"]))
            if is_alive(process):
                yield str(view.holder["token"]), process

    def _controller(self) -> ProcessId | None:
        view = read_lease(self.run.controller_lease)
        if view is None or view.ended is not None or "pid" not in view.holder:
            return None
        return ProcessId(int(view.holder["pid"]), float(view.holder["created"]))

    def _daemon(self, name: str) -> ProcessId | None:
        """Return a daemon's process from the test cluster's record of pid and start ticks."""
        try:
            pid, ticks = json.loads((self.base / "run" / "daemons.json").read_text())[name]
            started = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[19]
        except (OSError, KeyError, ValueError):
            return None
        return identify_process(pid) if int(started) == ticks else None


_LOCAL = ("kill job", "kill slurmd")
"""Faults that affect one slot only."""
