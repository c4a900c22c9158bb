"""Runs programs beside the controller while it runs, such as the stream's relay.

A program that ends is started again, after a delay that doubles each time it ran under a minute.
The controller ends all programs when it exits, and each exits when its parent process is gone.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.host_and_processes import ProcessId, is_alive, terminate_tree
from Daddy.core.run_subprocess import running_pids, start_background

_FIRST_DELAY_S = 1.0
_LONGEST_DELAY_S = 300.0
_STEADY_S = 60.0
"""Seconds of running after which the restart delay is the shortest again."""


@dataclass(slots=True)
class _State:
    process: ProcessId | None = None
    started: float = 0.0
    due: float = 0.0
    delay_s: float = _FIRST_DELAY_S


@dataclass
class ChildPrograms:
    """Starts and restarts ``programs`` (name → argument list), with output in ``logs``."""

    programs: Mapping[str, Sequence[str]]
    logs: Path
    env: Mapping[str, str]
    clock: Clock

    def __post_init__(self) -> None:
        self._states = {name: _State() for name in self.programs}

    def restart_ended(self) -> None:
        """Start each program that does not run and whose restart delay is over."""
        children = running_pids()
        now = self.clock.monotonic()
        for name, state in self._states.items():
            if state.process is not None and state.process.pid not in children:
                steady = now - state.started >= _STEADY_S
                doubled = min(_LONGEST_DELAY_S, state.delay_s * 2)
                state.delay_s = _FIRST_DELAY_S if steady else doubled
                state.process, state.due = None, now + state.delay_s
            if state.process is None and now >= state.due:
                log = self.logs / f"{name}.log"
                state.process = start_background(self.programs[name], log_path=log, env=self.env)
                state.started = now

    def pids(self) -> dict[str, int | None]:
        """Return program name → process id, or → None if the program does not run."""
        return {
            name: state.process.pid if state.process and is_alive(state.process) else None
            for name, state in self._states.items()
        }

    def end_all(self, grace_s: float = 5.0) -> None:
        """End all programs: SIGTERM, and SIGKILL after ``grace_s`` seconds."""
        for state in self._states.values():
            if state.process is not None:
                terminate_tree(state.process, grace_s)
        running_pids()
