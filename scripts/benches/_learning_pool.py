"""Plays runs in child processes, one per core: starts, resumes, stops and evaluates them.

A PPO learner is the real entry, `Daddy.train_slim`; random keys are played by `_learning_random`. A
run that has reached its goal gets TERM, as a job does, and writes its last checkpoint. Children end
with this program, and resume from their checkpoints the next time.
"""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Event
from typing import Any

from Daddy.core.atomic_files import read_json, write_json
from Daddy.core.errors import DaddyError, ExitCode
from Daddy.core.event_log import EventTail
from Daddy.core.host_and_processes import parent_death_hook, usable_cores
from Daddy.core.load_config import CHECKOUT
from scripts.benches._learning_runs import WON, Run, RunProgress

_POLL_S, _REPORT_S = 1.0, 20.0
_EVALUATION_LIMIT = 1 << 28
_ENDS = (ExitCode.DONE, ExitCode.DRAINED)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPAN = "DADDY_REWARD__MEMORY_STEPS"
"""Setting of the visited-cells memory, a part of the observation: as in training."""
_EVALUATION_SEED = 1_000_000
"""Seed of the first evaluated episode; no learner trains with it."""


class StoppedError(Exception):
    """A person stopped the bench; its runs can be resumed."""


@dataclass
class Pool:
    """Plays runs to their ends, prints by `tell`, and evaluates policies in `episodes` episodes."""

    episodes: int
    tell: Callable[[str], None]
    stop: Event = field(default_factory=Event)

    def play(self, runs: Sequence[Run]) -> Iterator[Run]:
        """Yield each run as it ends; a KeyboardInterrupt first waits for all children to end."""
        with ThreadPoolExecutor(usable_cores()) as threads:
            futures = {threads.submit(self._finish, run): run for run in runs}
            try:
                yield from self._ended(futures)
            finally:
                self.stop.set()
                threads.shutdown(wait=True, cancel_futures=True)

    def _ended(self, futures: Mapping[Future[None], Run]) -> Iterator[Run]:
        for future in as_completed(futures):
            future.result()
            yield futures[future]

    def _finish(self, run: Run) -> None:
        if not run.done.exists():
            self._train(run)
        if run.arm.evaluated and not run.evaluation.exists():
            self._evaluate(run)

    def _train(self, run: Run) -> None:
        """Start or resume a run, until its goal is reached or its steps are used up."""
        run.write_config()
        run.paths.events.mkdir(parents=True, exist_ok=True)
        tail, progress = EventTail(run.paths.events), run.read_progress()
        if not run.is_over(progress):
            with single_threaded(run.folder, learner_command(run)) as child:
                self._follow(run, progress, tail, child)
            progress.add_events(tail.read_new())
            if child.returncode not in _ENDS:
                raise _failed(run, child.returncode)
        write_json(run.done, {"steps": progress.step, "wall_s": run.seconds()})
        self.tell(_end(run, progress))

    def _follow(
        self, run: Run, progress: RunProgress, tail: EventTail, child: subprocess.Popen[bytes]
    ) -> None:
        """Read events until the learner ends or the run is over; StoppedError on Ctrl-C."""
        reported = time.monotonic()
        while child.poll() is None and not run.is_over(progress):
            self._wait()
            progress.add_events(tail.read_new())
            if time.monotonic() - reported >= _REPORT_S:
                reported = time.monotonic()
                self.tell(_progress(run, progress))

    def _wait(self) -> None:
        if self.stop.wait(_POLL_S):
            raise StoppedError

    def _evaluate(self, run: Run) -> None:
        """Evaluate the final policy from the start of the game, without an archive."""
        training, partial = run.settings["training"], run.evaluation.with_suffix(".tmp")
        argv = [sys.executable, "-m", "Daddy.play", "evaluate", "--weights", str(run.paths.root)]
        argv += ["--rom", str(run.rom), "--episode-steps", str(training["episode_steps"])]
        argv += ["--episodes", str(self.episodes), "--seed", str(_EVALUATION_SEED)]
        span = run.settings["reward"]["memory_steps"]
        self.tell(f"{run.name}: its final policy plays {self.episodes} episodes")
        with single_threaded(
            run.folder, [*argv, "--json", str(partial)], **{SPAN: str(span)}
        ) as child:
            while child.poll() is None:
                self._wait()
        if child.returncode:
            raise _failed(run, child.returncode)
        partial.rename(run.evaluation)
        won = read_json(run.evaluation, _EVALUATION_LIMIT)["won"]["mean"]
        self.tell(f"{run.name}: its final policy wins {won:.0%} of {self.episodes} episodes")


@contextmanager
def single_threaded(
    folder: Path, argv: Sequence[str], **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """Yield a child process with one thread, which writes to the folder's log.

    It gets TERM at the end of the context and is waited for; it also ends with this program.
    """
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    single = dict.fromkeys(_THREADS, "1")
    with (folder / "log.txt").open("ab") as log:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env={**inherited, **single, **settings, "PYTHONPATH": str(CHECKOUT)},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
            preexec_fn=parent_death_hook(os.getpid()),  # noqa: PLW1509
        )
        try:
            yield child
        finally:
            child.terminate()
            child.wait()


def learner_command(run: Run) -> list[str]:
    """Return the command that plays a run."""
    entry = [sys.executable, "-m", "scripts.benches._learning_random", "--config", str(run.config)]
    return [*entry, "--learns"] if run.arm.learns else entry


def _progress(run: Run, progress: RunProgress) -> str:
    limit = run.limit
    return f"{run.name}: {progress.step:,} of {limit:,} steps, milestones {progress.milestones}"


def _end(run: Run, progress: RunProgress) -> str:
    step = progress.firsts.get(WON)
    end = f"won at step {step:,}" if step is not None else f"not won in {progress.step:,} steps"
    return f"{run.name}: {end}, milestones {progress.milestones}, {run.seconds():.0f} s"


def _failed(run: Run, code: int) -> DaddyError:
    return DaddyError(f"{run.name} ended with exit code {code}", f"read {run.folder / 'log.txt'}")


def read_evaluation(run: Run) -> dict[str, Any]:
    """Read the evaluation of a run's final policy."""
    return read_json(run.evaluation, _EVALUATION_LIMIT)
