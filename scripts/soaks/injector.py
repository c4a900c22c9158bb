"""Injects faults, one after the other, and records each with its duration.

Signals only processes that the test cluster or the run recorded, by process id and start time; what
else a fault changes is taken back when it ends, also by an interruption.
"""

import contextlib
import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from Daddy.core.host_and_processes import ProcessId, identify_process, is_alive
from Daddy.core.lease import read_lease
from Daddy.core.run_paths import RunPaths
from scripts.soaks.records import Fault
from scripts.soaks.schedule_faults import LASTS_S

NODES = ("n1", "n2", "n3", "n4")
_NOTICED_S = 10.0
"""Seconds for which a node stays drained before its administrator resumes it."""


class Site(Protocol):
    """The methods of the soak's stage that faults use."""

    run: RunPaths

    def flag(self, name: str) -> Path: ...
    def mend(self) -> None: ...
    def ensure_by_cron(self) -> None: ...
    def start(self) -> None: ...
    def resize_disk(self, *, full: bool) -> None: ...
    def ask_slurm(self, *argv: str) -> str: ...
    def wait(self, seconds: float) -> None: ...


@dataclass
class Injector:
    """Injects faults into one test cluster and one run."""

    base: Path
    """The test cluster's folder."""
    site: Site
    rng: random.Random
    faults: list[Fault] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._actions: dict[str, Callable[[float], str]] = {
            "kill controller": self._kill_controller,
            "kill slurmctld": lambda seconds: self._kill_daemon("slurmctld", seconds),
            "kill slurmd": self._kill_slurmd,
            "kill job": self._kill_learner,
            "freeze slurmctld": self._freeze_slurmctld,
            "failing prolog": self._fail_prolog,
            "empty listing": lambda seconds: self._set_flag("listing", seconds),
            "failing setup": self._fail_setup,
            "full disk": self._fill_disk,
        }

    def inject(self, kind: str) -> None:
        """Inject a fault, wait, and repair it; the site's ``wait`` also samples the controller."""
        begun = time.time()
        hit = self._actions[kind](self.rng.uniform(*LASTS_S[kind]))
        if hit:
            self.faults.append(Fault(kind, begun, time.time(), hit if kind in _LOCAL else ""))

    def _kill_controller(self, seconds: float) -> str:
        hit = self._kill(self._controller())
        self.site.wait(seconds)
        self.site.ensure_by_cron()
        return hit

    def _kill_daemon(self, name: str, seconds: float) -> str:
        hit = self._kill(self._daemon(name))
        self.site.wait(seconds)
        self.site.mend()
        return hit

    def _kill_slurmd(self, seconds: float) -> str:
        node = self.rng.choice(NODES)
        return node if self._kill_daemon(f"slurmd-{node}", seconds) else ""

    def _freeze_slurmctld(self, seconds: float) -> str:
        process = self._daemon("slurmctld")
        if process is None or not is_alive(process):
            return ""
        os.kill(process.pid, signal.SIGSTOP)
        try:
            self.site.wait(seconds)
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process.pid, signal.SIGCONT)
        return "slurmctld"

    def _fail_prolog(self, seconds: float) -> str:
        """Let a node's prolog fail until Slurm drains the node; later resume it as its admin."""
        node = self.rng.choice(NODES)
        until = time.monotonic() + seconds
        with self._flagged(f"prolog-{node}"):
            while not (drained := self._is_drained(node)) and time.monotonic() < until:
                self.site.wait(1.0)
            self.site.wait(_NOTICED_S if drained else 0.0)
        if not self._is_drained(node):
            return ""
        self.site.ask_slurm("scontrol", "update", f"NodeName={node}", "State=RESUME")
        return node

    def _is_drained(self, node: str) -> bool:
        return "drain" in self.site.ask_slurm("sinfo", "--noheader", "--nodes", node, "-o", "%T")

    def _fail_setup(self, seconds: float) -> str:
        self._set_flag("setup", seconds)
        self.site.start()  # as the person who mended it
        return "setup"

    def _fill_disk(self, seconds: float) -> str:
        self.site.resize_disk(full=True)
        try:
            self.site.wait(seconds)
        finally:
            self.site.resize_disk(full=False)
        return "disk"

    def _set_flag(self, name: str, seconds: float) -> str:
        with self._flagged(name):
            self.site.wait(seconds)
        return name

    @contextlib.contextmanager
    def _flagged(self, name: str) -> Iterator[None]:
        self.site.flag(name).touch()
        try:
            yield
        finally:
            self.site.flag(name).unlink(missing_ok=True)

    def _kill(self, process: ProcessId | None) -> str:
        if process is None or not is_alive(process):
            return ""
        os.kill(process.pid, signal.SIGKILL)
        return str(process.pid)

    def _kill_learner(self, _: float) -> str:
        holders = list(self._learners())
        if not holders:
            return ""
        token, process = self.rng.choice(holders)
        return token if self._kill(process) else ""

    def _learners(self) -> Iterator[tuple[str, ProcessId]]:
        for number in range(len(NODES)):
            view = read_lease(self.site.run.slot(number).lease)
            if view is None or view.ended is not None:
                continue
            process = ProcessId(int(view.holder["pid"]), float(view.holder["created"]))
            if is_alive(process):
                yield str(view.holder["token"]), process

    def _controller(self) -> ProcessId | None:
        view = read_lease(self.site.run.controller_lease)
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


_LOCAL = ("kill job", "kill slurmd", "failing prolog")
"""Faults that affect one slot only."""
