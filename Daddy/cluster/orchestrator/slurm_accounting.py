"""How jobs ended that nobody lists any more: ``sacct``, where there is one, and only when asked."""

from __future__ import annotations

import threading
from collections.abc import Sequence

from Daddy.cluster.orchestrator import slurm_autopsy
from Daddy.cluster.orchestrator.records import QueueJob
from Daddy.cluster.orchestrator.scheduler import JobRef
from Daddy.cluster.orchestrator.slurm_commands import SlurmCommands
from Daddy.core.clock import Clock
from Daddy.core.process import ProcessTimeoutError, ProgramMissingError

_TIMEOUT_S = 10.0
_PAUSE_S = 300.0
"""After a failure: a database that hangs must not cost every pass its time."""
_LAG_S = 1.5
"""The database hears of an end a moment after the listing shows it."""


class SlurmAccounting:
    """Asks for the jobs of one run; a site without accounting is asked once and left alone."""

    def __init__(self, commands: SlurmCommands, run_id: str, own_id: int, clock: Clock) -> None:
        self._commands = commands
        self._run_id = run_id
        self._own_id = own_id
        self._clock = clock
        self._there = True
        self._pause_until = float("-inf")

    def autopsy(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...]:
        """How these ended; ``canceller`` is set where somebody else cancelled."""
        found = self._ask(jobs)
        if found is not None and len(found) < len(jobs):
            self._clock.wait(threading.Event(), _LAG_S)
            found = self._ask(jobs)
        return found or ()

    def _ask(self, jobs: Sequence[JobRef]) -> tuple[QueueJob, ...] | None:
        """None where there is no answer to be had."""
        if not jobs or not self._there or self._clock.monotonic() < self._pause_until:
            return None
        tokens = {job.job_id: job.token for job in jobs}
        try:
            done = self._commands.run(slurm_autopsy.question(tokens), _TIMEOUT_S)
        except ProcessTimeoutError:
            self._pause_until = self._clock.monotonic() + _PAUSE_S
            return None
        except ProgramMissingError:
            self._there = False
            return None
        if done.returncode != 0:
            self._there = "storage is disabled" not in done.stderr
            self._pause_until = self._clock.monotonic() + _PAUSE_S
            return None
        return slurm_autopsy.parse_answer(done.stdout, self._run_id, tokens, self._own_id)
