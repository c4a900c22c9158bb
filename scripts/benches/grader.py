"""Measures the grader of written code during a training of the tiny model.

After each step, while the training waits, the same pool runs as many commands that do nothing
(``pass``). The same training is then repeated with each command in a plain child process, which
confines nothing, in place of the pool. All take ten commands at a time. `of_idle_pool` is the
median of the steps' ratios; completions that are refused before they run are not counted.
"""

import asyncio
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Protocol, cast

from Daddy.codegen.codegen_run import CodegenPaths, RecordedRewards
from Daddy.codegen.grader import SANDBOX_POOL_SIZE, Grader
from Daddy.codegen.tasks import load_tasks
from Daddy.codegen.tiny_corpus import make_corpus
from Daddy.core.event_loop_thread import EventLoopThread
from Daddy.grpo.base_models import model_cache
from Daddy.grpo.grpo_settings import Completion, DeviceFacts, Prompt, choose_settings
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, Limits, Outcome
from Daddy.train_codegen import CORPUS

FLAT = True
STEPS, QUICK_STEPS = 32, 3
TASKS = load_tasks(Path(__file__).parents[1] / "examples" / "tasks.py")


class _Runner(Protocol):
    async def run(self, command: Command, limits: Limits, /) -> Outcome: ...


class _ChildProcesses:
    """Runs each command in a plain child process, ten at a time."""

    def __init__(self) -> None:
        self._threads = ThreadPoolExecutor(SANDBOX_POOL_SIZE)

    async def run(self, command: Command, limits: Limits, /) -> Outcome:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._run, command.python, limits.time_s)

    def _run(self, python: str, time_s: float) -> Outcome:
        source = f"import os; os.dup2(1, 3); os.dup2(2, 1); exec({python!r})"
        argv = [sys.executable, "-I", "-S", "-c", source]
        try:
            done = subprocess.run(argv, capture_output=True, timeout=time_s, check=False)
        except subprocess.TimeoutExpired:
            return Outcome("timed out", -9)
        return Outcome("exited", done.returncode, fd3_output=done.stdout)


@dataclass
class _Training:
    """A training with a means to run commands; its steps' figures are filled in."""

    runner: _Runner
    commands: int = 0
    idle_per_s: list[float] = field(default_factory=list)
    per_s: list[float] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)

    async def run(self, command: Command, limits: Limits) -> Outcome:
        self.commands += 1
        return await self.runner.run(command, limits)

    def train(self, steps: int, model: Path, folder: Path, loop: EventLoopThread) -> None:
        from Daddy.grpo.grpo_trainer import GrpoLearner, GrpoTraining

        settings, _ = choose_settings(DeviceFacts(), {"max_steps": steps})
        prompts = [Prompt(name, task.prompt) for name, task in TASKS.items()]
        grader = Grader(cast("SandboxPool", self), TASKS, settings.seed)
        rewards = RecordedRewards(grader, CodegenPaths(folder))

        async def reward(
            names: Sequence[str], completions: Sequence[Completion], step: int
        ) -> Sequence[float | None]:
            self.commands = 0
            began = time.monotonic()
            found = await rewards(names, completions, step)
            self.per_s.append(self.commands / (time.monotonic() - began))
            return found

        def on_step(row: dict[str, Any]) -> None:
            self.rows.append(row)
            if isinstance(self.runner, SandboxPool):
                self.idle_per_s.append(loop.wait(self._measure_idle()))

        training = GrpoTraining(settings, str(model), folder, prompts, reward, loop.wait, on_step)
        GrpoLearner(training).train()

    async def _measure_idle(self) -> float:
        began, count = time.monotonic(), self.commands
        do_nothing = (self.runner.run(Command(python="pass"), Limits()) for _ in range(count))
        await asyncio.gather(*do_nothing)
        return count / (time.monotonic() - began)

    def figures(self) -> dict[str, float]:
        return {
            "per_s": round(median(self.per_s), 1),
            "share_of_step": round(median(row["sandbox_share"] for row in self.rows), 3),
            "step_s": round(median(row["step_time"] for row in self.rows), 2),
        }


def run(quick: bool) -> dict[str, object]:
    """Return the rates and their ratios."""
    from Daddy.grpo.tiny_model import TinyRecipe, warm_tiny_model

    steps, size = QUICK_STEPS if quick else STEPS, SANDBOX_POOL_SIZE
    prompts = {name: task.prompt for name, task in TASKS.items()}
    corpus = make_corpus(prompts, random.Random(0), CORPUS)
    cache = model_cache(os.environ, Path.home())
    model = warm_tiny_model(corpus, TinyRecipe(), cache, lambda *_: None)
    pool = SandboxPool(BubblewrapBackend(), size=size, warm=size)
    pooled, plain = _Training(pool), _Training(_ChildProcesses())
    with tempfile.TemporaryDirectory() as folder, EventLoopThread() as loop:
        loop.wait(pool.start())
        try:
            pooled.train(steps, model, Path(folder, "pool"), loop)
        finally:
            loop.wait(pool.close())
        plain.train(steps, model, Path(folder, "plain"), loop)
    ratios = [a / b for a, b in zip(pooled.per_s, pooled.idle_per_s, strict=True)]
    return {
        "grader": pooled.figures(),
        "idle_pool_per_s": round(median(pooled.idle_per_s), 1),
        "of_idle_pool": round(median(ratios), 2),
        "subprocess": plain.figures(),
        "times_subprocess": round(median(pooled.per_s) / median(plain.per_s), 1),
        "steps": steps,
    }
