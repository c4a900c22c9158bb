"""Runs a batch of sandboxes on one machine: a pool, a program in each sandbox, results and events.

``python -m Daddy.fanout.run_batch RUN_DIR TOKEN NUMBER`` runs a batch of an attempt in a job.
"""

import asyncio
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.core.arguments import ArgumentParser, whole_number
from Daddy.core.atomic_files import read_json
from Daddy.core.clock import Clock, SystemClock
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import NetworkError, SandboxError
from Daddy.core.event_log import EventSource, EventWriter
from Daddy.core.host_and_processes import host_name, memory_bytes, usable_cores
from Daddy.core.humanize import printable_line
from Daddy.fanout.estimate import Machine, ProgramCost, concurrency_limit, stated_cost
from Daddy.fanout.fanout_files import FanoutPaths, read_batch, read_settings, save_result
from Daddy.fanout.fanout_settings import FanoutSettings, sandbox_id
from Daddy.fanout.program_lines import ProgramReport
from Daddy.fanout.program_python import ProgramPython, choose_python
from Daddy.sandbox.backend_facts import open_backend
from Daddy.sandbox.choose_backend import VENDORS
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import (
    Backend,
    Command,
    Limits,
    Outcome,
    Sandbox,
    SandboxSpec,
)

PROGRAM = "/files/program.py"
PROGRESS_S = 0.5
"""Seconds between two progress events of a sandbox; the lines between are not lost, see the end."""
CREATE_S = 300.0
"""Longest creation of a sandbox; a vendor takes minutes under load."""
_ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


@dataclass(frozen=True, slots=True)
class Batch:
    """Names the sandboxes that one machine runs, and the means to confine them."""

    run: Path
    token: str
    """Names the attempt: the events of others are ignored."""
    number: int
    indices: tuple[int, ...]
    backend: str = "bubblewrap"
    allow_unsafe: bool = False
    workers: int | None = None
    pace: tuple[int, float] = (1, 0.0)
    """Sandboxes that start at once, and the seconds until the next ones may start."""


def free_memory(environ: Mapping[str, str]) -> int:
    """Return the bytes that are free on this machine, or that Slurm gave to this job."""
    free, given = memory_bytes()[1], environ.get("SLURM_MEM_PER_NODE", "")
    return min(free, int(given) << 20) if given.isdecimal() and int(given) else free


def live_limit(batch: Batch, sandboxes: int, cost: ProgramCost) -> tuple[int, str]:
    """Return the most sandboxes of a batch that live at once, and the bound that decided."""
    machine = Machine(usable_cores(), free_memory(os.environ))
    return concurrency_limit(
        batch.workers, sandboxes, None if batch.backend in VENDORS else machine, cost
    )


def program_command(settings: FanoutSettings, index: int, python: ProgramPython) -> Command:
    """Return the command that runs the program of a sandbox, as the original demo calls it."""
    words = (sandbox_id(index), str(settings.episodes), repr(settings.rate_of(index)))
    env = {
        "TASK_POLICY": settings.policy,
        "TASK_TIMESTEPS": str(settings.timesteps),
        "TASK_SEED": str(settings.seed_of(index)),
        "PYTHONHASHSEED": "0",
        "PYTHONPATH": os.pathsep.join(map(str, python.packages)),
        **_ONE_THREAD,
    }
    return Command(argv=(python.path, "-u", PROGRAM, *words), env=env)


def failure_of(outcome: Outcome, report: ProgramReport, time_limit_s: float) -> str:
    """Return the reason for which a program that ended has no result, "" if it has one."""
    said = outcome.stderr.decode(errors="replace").strip().splitlines()
    last = f": {printable_line(said[-1])}" if said else ""
    if outcome.ending == "timed out":
        return f"timed out after {time_limit_s:g} s{last}"
    if outcome.ending != "exited":
        return f"{outcome.ending} at {outcome.peak_mb} MiB{last}"
    if outcome.exit_code < 0:
        return f"ended by signal {-outcome.exit_code}{last}"
    if outcome.exit_code:
        return f"exit code {outcome.exit_code}{last}"
    if not report.episode:
        return f"printed no line of JSON with episode and reward{last}"
    return ""


def make_result(settings: FanoutSettings, index: int, report: ProgramReport) -> dict[str, Any]:
    """Return the record of a result: what settings and program decide, and nothing else."""
    rate, seed = settings.rate_of(index), settings.seed_of(index)
    return {
        "index": index,
        "learning_rate": rate,
        "seed": seed,
        "policy": settings.policy,
        **report.result(),
    }


class _BatchRun:
    """Runs the sandboxes of a batch, one after the other in each of several workers."""

    def __init__(
        self,
        batch: Batch,
        settings: FanoutSettings,
        pool: SandboxPool,
        backend: Backend,
        python: ProgramPython,
        clock: Clock,
    ) -> None:
        self._batch, self._settings, self._pool = batch, settings, pool
        self._python = python
        self._clock, self._paths = clock, FanoutPaths(batch.run)
        self._began, self._started = clock.monotonic(), 0
        cost = stated_cost(settings)
        self._limits = Limits(settings.time_limit_s, memory_mb=cost.memory_mb)
        ident = f"{host_name()}-{batch.number}"
        self._events = EventWriter(
            self._paths.events, batch.run.name, "fanout", "sandboxes", ident, clock
        )
        level, unsafe = backend.isolation().level, batch.allow_unsafe
        facts = {"backend": backend.name, "isolation": level, "allow_unsafe": unsafe}
        self._events.write(
            "state", 0, {"token": batch.token, "state": "started", "pid": os.getpid(), **facts}
        )

    def report(self, event: str, index: int, **data: object) -> None:
        """Write an event about a sandbox."""
        source = EventSource("sandbox", sandbox_id(index), index)
        self._events.write_about(source, event, 0, {"token": self._batch.token, **data})

    async def work(self, indices: Iterator[int]) -> None:
        """Run sandboxes until there are no more."""
        for index in indices:
            await self._keep_pace()
            if self._paths.result(index).exists():  # of a worker that was killed
                self.report("state", index, state="done", **self._read(index))
                continue
            try:
                async with self._pool.lease(self._limits.time_s) as sandbox:
                    await self._run_sandbox(sandbox, index)
                    await sandbox.close()  # one sandbox for each index
            except (SandboxError, NetworkError) as error:
                self.report("error", index, state="error", message=printable_line(error.message))

    async def _keep_pace(self) -> None:
        """Wait until one more sandbox may start."""
        size, pause_s = self._batch.pace
        at = self._began + self._started // size * pause_s
        self._started += 1
        await asyncio.sleep(max(0.0, at - self._clock.monotonic()))

    async def _run_sandbox(self, sandbox: Sandbox, index: int) -> None:
        report, last = ProgramReport(), -PROGRESS_S
        self.report("state", index, state="running")

        def take_line(line: str) -> None:
            nonlocal last
            now = self._clock.monotonic()
            if report.add_line(line) and now - last >= PROGRESS_S:
                last = now
                self.report("progress", index, **report.result())

        command = program_command(self._settings, index, self._python)
        outcome = await sandbox.run(command, self._limits, take_line)
        bill = {
            "cpu_s": round(outcome.cpu_seconds, 2),
            "seconds": round(outcome.seconds, 2),
            "peak_mb": outcome.peak_mb,
            "dropped": report.dropped,
        }
        if failure := failure_of(outcome, report, self._limits.time_s):
            self.report("error", index, state="error", message=failure, **bill)
            return
        result = make_result(self._settings, index, report)
        await asyncio.to_thread(save_result, self._paths, index, result)
        self.report("state", index, state="done", **report.result(), **bill)

    def _read(self, index: int) -> dict[str, Any]:
        record = read_json(self._paths.result(index))
        return {name: record[name] for name in ProgramReport().result()}


def _warn(sentence: str) -> None:
    print(f"warning: {printable_line(sentence)}", file=sys.stderr, flush=True)


async def run_batch(batch: Batch, backend: Backend, python: ProgramPython, clock: Clock) -> None:
    """Run all sandboxes of a batch to their ends. Raises OSError if a result cannot be written."""
    paths = FanoutPaths(batch.run)
    settings = FanoutSettings(**read_settings(paths))
    live, _ = live_limit(batch, len(batch.indices), stated_cost(settings))
    spec = SandboxSpec(read_only=python.folders, lifetime_s=3 * settings.time_limit_s)

    async def prepare(sandbox: Sandbox) -> None:
        await sandbox.put(paths.program, PROGRAM)

    async with SandboxPool(
        backend, spec, live, prepare=prepare, report=_warn, create_s=CREATE_S
    ) as pool:
        run = _BatchRun(batch, settings, pool, backend, python, clock)
        indices = iter(batch.indices)
        workers = [asyncio.create_task(run.work(indices)) for _ in range(live)]
        try:
            await asyncio.gather(*workers)
        finally:  # a full disk ends all of them
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)


async def run_named_batch(batch: Batch) -> None:
    """Run a batch on another machine than the one that chose its backend."""
    backend = open_backend(batch.backend)
    await run_batch(batch, backend, choose_python(backend.name), SystemClock())


def make_batch_parser() -> ArgumentParser:
    """Return the parser of a job's command line."""
    parser = ArgumentParser(prog="run_batch", description="Run one batch of a fan-out.")
    add = parser.add_argument
    add("run", type=Path, help="run directory")
    add("token", help="attempt of the run")
    add("number", type=whole_number(0), help="number of the batch, from 0")
    add("--backend", required=True, help="sandbox backend that the run chose")
    add("--workers", type=whole_number(1), default=None, help="most sandboxes at once")
    add("--allow-unsafe", action="store_true", help="run without confinement")
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run the batch that the command line names."""
    args = make_batch_parser().parse_args(argv)
    args.indices = read_batch(FanoutPaths(args.run), args.token, args.number)
    asyncio.run(run_named_batch(Batch(**vars(args))))
    return 0


def batch_argv(batch: Batch) -> list[str]:
    """Return the command line of a job that runs a batch; the number may come from the job."""
    words = [sys.executable, "-m", "Daddy.fanout.run_batch", str(batch.run), batch.token]
    words += ["--backend", batch.backend]
    words += ["--workers", str(batch.workers)] if batch.workers else []
    return words + (["--allow-unsafe"] if batch.allow_unsafe else [])


if __name__ == "__main__":
    raise SystemExit(run_entry(main))
