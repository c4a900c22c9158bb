"""Adapter for Slurm: runs batches as an array of jobs, each of which is a command.

A job reads its batch from the run directory. Options of sbatch come from --sbatch and the person's
SBATCH_ variables.
"""

import shlex
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from math import ceil
from pathlib import Path

from Daddy.cluster.orchestrator.slurm_commands import (
    INHERITED,
    SlurmCommands,
    parse_job_options,
    read_shell_settings,
)
from Daddy.core.clock import Clock
from Daddy.core.errors import ConfigError, DaddyError, SchedulerError
from Daddy.core.humanize import printable_line
from Daddy.core.settings import SlurmSettings
from Daddy.fanout.fanout_files import FanoutPaths
from Daddy.fanout.run_batch import Batch, batch_argv

_LOOK_S, _TIMEOUT_S = 2.0, 40.0
_MOST_MINUTES = 240
"""Longest time limit that is asked for by itself."""
_END_S = 60.0
"""Seconds in which cancelled jobs end."""
_GONE = "Invalid job id"
"""Part of squeue's error on an array whose jobs have all ended."""


def array_argv(
    argv: Sequence[str], jobs: int, at_once: int, logs: Path, options: Mapping[str, str]
) -> list[str]:
    """Return the command line of sbatch for an array of jobs; each runs `argv` and its number."""
    usual = {
        "job-name": "daddy-fanout",
        "array": f"0-{jobs - 1}%{at_once}",
        "output": f"{str(logs).replace('%', '%%')}/%A_%a.log",
        "chdir": str(Path.cwd()),
        "export": ",".join(INHERITED),
        "signal": "B:TERM@10",
    }
    words = [f"--{name}={value}" for name, value in {**usual, **options}.items()]
    wrapped = f'exec {shlex.join(argv)} "$SLURM_ARRAY_TASK_ID"'
    return ["sbatch", "--parsable", "--no-requeue", *words, f"--wrap={wrapped}"]


def sbatch_options(
    given: Sequence[str], environ: Mapping[str, str], cpu_s: float
) -> dict[str, str]:
    """Return options of sbatch from ``name=value`` words and from SBATCH_ variables.

    The time limit is otherwise four times that of `cpu_s` seconds on one core, and ten minutes, but
    at most four hours, beyond which many clusters let no job start.
    Raises ConfigError for a word without a value, and for an option that is the run's own.
    """
    values, _ = read_shell_settings(SlurmSettings(), environ)
    shell = {key.removeprefix("slurm."): value for key, value in values.items()}
    usual = {"time": str(min(10 + ceil(4 * cpu_s / 60), _MOST_MINUTES))}
    return {**usual, **shell, **parse_job_options(given)}


class SlurmEngine:
    """Runs batches as an array of jobs, at most `at_once` of them at once."""

    name, repeats = "slurm", 2

    def __init__(
        self,
        paths: FanoutPaths,
        at_once: int,
        options: Mapping[str, str],
        clock: Clock,
        environ: Mapping[str, str],
    ) -> None:
        """Initialise. Raises SchedulerError where no Slurm answers."""
        self._paths, self._at_once, self._clock = paths, at_once, clock
        self._options = options
        self._commands = SlurmCommands(clock, environ, None)
        self._stop, self._job = threading.Event(), ""
        self._call("sinfo", "--noheader", "--format=%P")

    def submit_all(self, batches: Sequence[Batch]) -> "list[Future[None]]":
        """Submit one array for all batches."""
        self._paths.logs.mkdir(parents=True, exist_ok=True)
        argv = batch_argv(batches[0])
        line = array_argv(argv, len(batches), self._at_once, self._paths.logs, self._options)
        self._job = self._call(*line).split(";")[0].strip()
        futures: list[Future[None]] = [Future() for _ in batches]
        threading.Thread(target=self._follow, args=(futures,), daemon=True).start()
        return futures

    def close(self) -> None:
        """Cancel the jobs that are left and wait for their end."""
        self._stop.set()
        if not self._job:
            return
        deadline = self._clock.monotonic() + _END_S
        while self._read_queue() != set() and self._clock.monotonic() < deadline:
            self._commands.run(("scancel", self._job), _TIMEOUT_S)
            self._clock.wait(threading.Event(), 0.5)

    def _follow(self, futures: "Sequence[Future[None]]") -> None:
        """End the future of each job that has left the queue."""
        while not self._stop.is_set():
            if (queue := self._read_queue()) is not None:
                for number, future in enumerate(futures):
                    if str(number) not in queue and not future.done():
                        future.set_result(None)
                if not queue:
                    return
            self._clock.wait(self._stop, _LOOK_S)

    def _read_queue(self) -> set[str] | None:
        """Return the numbers of the jobs in the queue; None without an answer."""
        argv = ("squeue", "--noheader", "--array", f"--jobs={self._job}", "--format=%K")
        try:
            result = self._commands.run(argv, _TIMEOUT_S)
        except DaddyError:
            return None
        if _GONE in result.stderr:
            return set()
        return set(result.stdout.split()) if result.returncode == 0 else None

    def _call(self, *argv: str) -> str:
        try:
            result = self._commands.run(argv, _TIMEOUT_S)
        except DaddyError as error:
            raise ConfigError(f"--engine slurm: {error.message}", "use a login node") from error
        if result.returncode:
            why = printable_line(result.stderr.strip() or f"exit code {result.returncode}")
            raise SchedulerError(f"{argv[0]} refused: {why}", "see --sbatch, or --engine local")
        return result.stdout
