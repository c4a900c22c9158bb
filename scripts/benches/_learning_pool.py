"""Runs as children, as many at once as there are cores: begun, gone on with, stopped, judged.

A learner is the real entry, `Daddy.train_slim`; who presses at random is `_learning_random`. A run
that is over is asked to leave, as a job is, and writes its last checkpoint. A child dies with this
program; what it had is in its checkpoints, and the next time it goes on from there.
"""

from __future__ import annotations

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
from Daddy.core.load_config import CHECKOUT
from Daddy.core.machine_info import parent_death_hook, usable_cores
from scripts.benches._learning_runs import WON, Run, Story

_LOOK_S, _TELL_S = 1.0, 20.0
_JUDGEMENT_LIMIT = 1 << 28
_ENDS = (ExitCode.DONE, ExitCode.DRAINED)
_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")
SPAN = "DADDY_REWARD__MEMORY_STEPS"
"""A policy sees what it has visited: it is judged with the memory that it learnt with."""
_JUDGE_SEED = 1_000_000
"""Of the first judged episode: no learner trains on it."""


class StoppedError(Exception):
    """The person has had enough; what was begun can be gone on with."""


@dataclass
class Pool:
    """Plays runs to their ends; `tell` says what happens. `episodes`: of each judgement."""

    episodes: int
    tell: Callable[[str], None]
    stop: Event = field(default_factory=Event)

    def play(self, runs: Sequence[Run]) -> Iterator[Run]:
        """Each run as it ends; KeyboardInterrupt is kept back until all children have left."""
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
            self._carry_on(run)
        if run.arm.judged and not run.judged.exists():
            self._judge(run)

    def _carry_on(self, run: Run) -> None:
        """Begin or go on, until the run is over or its steps are used up."""
        run.write_config()
        run.paths.events.mkdir(parents=True, exist_ok=True)
        tail, story = EventTail(run.paths.events), run.story()
        if not run.is_over(story):
            with single_threaded(run.folder, learner(run)) as child:
                self._follow(run, story, tail, child)
            story.hear(tail.read_new())
            if child.returncode not in _ENDS:
                raise _failed(run, child.returncode)
        write_json(run.done, {"steps": story.step, "wall_s": run.seconds()})
        self.tell(_end(run, story))

    def _follow(
        self, run: Run, story: Story, tail: EventTail, child: subprocess.Popen[bytes]
    ) -> None:
        """Until the learner has ended or may be ended. StoppedError when the person wants it."""
        said = time.monotonic()
        while child.poll() is None and not run.is_over(story):
            self._wait()
            story.hear(tail.read_new())
            if time.monotonic() - said >= _TELL_S:
                said = time.monotonic()
                self.tell(_progress(run, story))

    def _wait(self) -> None:
        if self.stop.wait(_LOOK_S):
            raise StoppedError

    def _judge(self, run: Run) -> None:
        """The final policy from the start of the game, without an archive, in fresh episodes."""
        training, made = run.settings["training"], run.judged.with_suffix(".tmp")
        argv = [sys.executable, "-m", "Daddy.play", "evaluate", "--weights", str(run.paths.root)]
        argv += ["--rom", str(run.rom), "--episode-steps", str(training["episode_steps"])]
        argv += ["--episodes", str(self.episodes), "--seed", str(_JUDGE_SEED)]
        span = run.settings["reward"]["memory_steps"]
        self.tell(f"{run.name}: its final policy plays {self.episodes} episodes")
        with single_threaded(
            run.folder, [*argv, "--json", str(made)], **{SPAN: str(span)}
        ) as child:
            while child.poll() is None:
                self._wait()
        if child.returncode:
            raise _failed(run, child.returncode)
        made.rename(run.judged)
        won = read_json(run.judged, _JUDGEMENT_LIMIT)["won"]["mean"]
        self.tell(f"{run.name}: its final policy wins {won:.0%} of {self.episodes} episodes")


@contextmanager
def single_threaded(
    folder: Path, argv: Sequence[str], **settings: str
) -> Iterator[subprocess.Popen[bytes]]:
    """A child with one thread, its words in the folder's log; asked to leave at the end.

    It is waited for, and dies with this program.
    """
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    single = dict.fromkeys(_THREADS, "1")
    with (folder / "log.txt").open("ab") as log:
        child = subprocess.Popen(
            argv,
            cwd=folder,
            env={**kept, **single, **settings, "PYTHONPATH": str(CHECKOUT)},
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


def learner(run: Run) -> list[str]:
    """The command that plays it."""
    entry = [sys.executable, "-m", "scripts.benches._learning_random", "--config", str(run.config)]
    return [*entry, "--learns"] if run.arm.learns else entry


def _progress(run: Run, story: Story) -> str:
    limit = run.limit
    return f"{run.name}: {story.step:,} of {limit:,} steps, milestones {story.milestones}"


def _end(run: Run, story: Story) -> str:
    at = story.firsts.get(WON)
    came = f"won at step {at:,}" if at is not None else f"not won in {story.step:,} steps"
    return f"{run.name}: {came}, milestones {story.milestones}, {run.seconds():.0f} s"


def _failed(run: Run, code: int) -> DaddyError:
    return DaddyError(f"{run.name} ended with exit code {code}", f"read {run.folder / 'log.txt'}")


def judgement(run: Run) -> dict[str, Any]:
    """What `evaluate` found of the run's final policy."""
    return read_json(run.judged, _JUDGEMENT_LIMIT)
