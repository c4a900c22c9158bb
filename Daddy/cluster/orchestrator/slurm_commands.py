"""Door to Slurm's programs: a built environment, a timeout, and every call counted.

Nothing of the person's ``SQUEUE_*``, ``SBATCH_*`` or ``SLURM_*`` variables gets through but
``SLURM_CONF``: ``SQUEUE_STATES=R`` alone would hide every waiting job at exit code 0. Calls are
counted by all who ask for a run (controller, ``status``, jobs) as lines of one file per host and
day in ``controller/calls``: one append each, no lock.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from Daddy.cluster.orchestrator.slurm_states import rate_limited
from Daddy.core.clock import Clock
from Daddy.core.machine import host_name
from Daddy.core.process import Completed, ProcessTimeoutError, ProgramMissingError, run

_FOREIGN = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_", "SACCT_", "SCONTROL_",
            "SINFO_")  # fmt: skip

_ASK_TIMEOUT_S = 10.0
_SLOW_S = 900.0
"""How long slurmctld's wish to be asked less often is heeded."""


def slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What Slurm's commands are started with: the caller's, cleaned of what bends their answers."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_FOREIGN)}
    if "SLURM_CONF" in environ:
        kept["SLURM_CONF"] = environ["SLURM_CONF"]
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


class SlurmCommands:
    """Runs Slurm's programs for one run; ``calls`` is how many so far."""

    def __init__(self, clock: Clock, environ: Mapping[str, str], folder: Path | None) -> None:
        self._clock = clock
        self._env = slurm_environment(environ)
        self._folder = folder
        self.calls = 0
        self._slow_until = float("-inf")

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run one to its end; it dies with us.

        Raises ProgramMissingError and ProcessTimeoutError: after either no such process is left.
        """
        self.count(Path(argv[0]).name)
        done = run(argv, timeout_s, env=self._env, die_with_us=True)
        if rate_limited(done.stderr):
            self._slow_until = self._clock.monotonic() + _SLOW_S
        return done

    def ask(self, argv: Sequence[str], timeout_s: float = _ASK_TIMEOUT_S) -> str | None:
        """What a command prints; None where it cannot be had in time."""
        if timeout_s <= 0:
            return None
        try:
            done = self.run(argv, timeout_s)
        except (ProcessTimeoutError, ProgramMissingError):
            return None
        return done.stdout if done.returncode == 0 else None

    @property
    def slowed(self) -> bool:
        """Whether slurmctld asked, not long ago, to be asked less often."""
        return self._clock.monotonic() < self._slow_until

    def count(self, program: str) -> None:
        """One more call, by whomever it is made."""
        self.calls += 1
        if self._folder is None:
            return
        now = self._clock.now()
        day = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d")
        line = f"{int(now)} {program}\n".encode()
        with contextlib.suppress(OSError):  # a full disk: it is only a count
            self._folder.mkdir(parents=True, exist_ok=True)
            path = self._folder / f"{host_name()}-{day}.log"
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
            try:
                os.write(descriptor, line)
            finally:
                os.close(descriptor)
