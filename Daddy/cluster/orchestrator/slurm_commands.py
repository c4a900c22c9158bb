"""Adapter for Slurm's programs: a built environment, a timeout, and every call counted.

Of the person's ``SQUEUE_*``, ``SBATCH_*`` and ``SLURM_*`` variables only ``SLURM_CONF`` is passed
on: ``SQUEUE_STATES=R`` alone would hide every waiting job at exit code 0. Controller, ``status``
and jobs count their calls as lines of one file per host and day in ``controller/calls``: one append
each, no lock.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from pathlib import Path

from Daddy.core.atomic_files import append_line
from Daddy.core.child_process import Completed, run_command
from Daddy.core.clock import Clock
from Daddy.core.errors import DaddyError
from Daddy.core.machine_info import host_name

_FOREIGN = ("SLURM_", "SBATCH_", "SQUEUE_", "SCANCEL_", "SALLOC_", "SRUN_", "SACCT_", "SCONTROL_",
            "SINFO_")  # fmt: skip
_ASK_TIMEOUT_S = 10.0


def slurm_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """The environment for Slurm's programs, cleaned of everything that bends their answers."""
    kept = {key: value for key, value in environ.items() if not key.startswith(_FOREIGN)}
    if "SLURM_CONF" in environ:
        kept["SLURM_CONF"] = environ["SLURM_CONF"]
    return {**kept, "SLURM_TIME_FORMAT": "%s", "LC_ALL": "C"}


class SlurmCommands:
    """Runs Slurm's programs for one run."""

    def __init__(self, clock: Clock, environ: Mapping[str, str], folder: Path | None) -> None:
        self._clock = clock
        self._env = slurm_environment(environ)
        self._folder = folder

    def run(self, argv: Sequence[str], timeout_s: float) -> Completed:
        """Run one to its end; it dies with us.

        Raises ProgramMissingError and ProcessTimeoutError: after either no such process is left.
        """
        self.count_call(Path(argv[0]).name)
        return run_command(argv, timeout_s, env=self._env, die_with_us=True)

    def read_output(self, argv: Sequence[str], timeout_s: float = _ASK_TIMEOUT_S) -> str | None:
        """The output of a command; None where it cannot be had in time."""
        if timeout_s <= 0:
            return None
        try:
            done = self.run(argv, timeout_s)
        except DaddyError:
            return None
        return done.stdout if done.returncode == 0 else None

    def count_call(self, program: str) -> None:
        """Count one call of a program."""
        if self._folder is not None:
            now = self._clock.now()
            day = datetime.fromtimestamp(now, timezone.utc).strftime("%Y-%m-%d")
            with contextlib.suppress(OSError):  # a full disk: it is only a count
                append_line(self._folder / f"{host_name()}-{day}.log", f"{int(now)} {program}")
