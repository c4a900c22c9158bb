"""Adapter for Slurm's programs: a built environment, a timeout, and every call counted.

Of the person's ``SQUEUE_*``, ``SBATCH_*`` and ``SLURM_*`` variables only ``SLURM_CONF`` is passed
on: ``SQUEUE_STATES=R`` alone would hide every waiting job at exit code 0. Controller, ``status``
and jobs count their calls as lines of one file per host and day in ``controller/calls``: one append
each, no lock.
"""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from Daddy.core.clock import Clock
from Daddy.core.machine import host_name
from Daddy.core.process import Completed, ProcessTimeoutError, ProgramMissingError, run

_FOREIGN = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_", "SACCT_", "SCONTROL_",
            "SINFO_")  # fmt: skip
_ASK_TIMEOUT_S = 10.0
_RATE_LIMIT = re.compile(r"RPC rate limit", re.IGNORECASE)
_SLOW_S = 900.0
"""Time for which slurmctld's request for fewer calls is heeded."""


def slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for Slurm's programs, cleaned of everything that bends their answers."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_FOREIGN)}
    if "SLURM_CONF" in environ:
        kept["SLURM_CONF"] = environ["SLURM_CONF"]
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


class SlurmCommands:
    """Runs Slurm's programs for one run; ``calls`` is their number so far."""

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
        if _RATE_LIMIT.search(done.stderr):
            self._slow_until = self._clock.monotonic() + _SLOW_S
        return done

    def ask(self, argv: Sequence[str], timeout_s: float = _ASK_TIMEOUT_S) -> str | None:
        """The output of a command; None where it cannot be had in time."""
        if timeout_s <= 0:
            return None
        try:
            done = self.run(argv, timeout_s)
        except (ProcessTimeoutError, ProgramMissingError):
            return None
        return done.stdout if done.returncode == 0 else None

    @property
    def slowed(self) -> bool:
        """Whether slurmctld asked for fewer calls a short while ago."""
        return self._clock.monotonic() < self._slow_until

    def count(self, program: str) -> None:
        """Count one call of a program."""
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
