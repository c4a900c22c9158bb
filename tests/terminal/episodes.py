"""Plays episodes of terminal tasks in real sandboxes of the image ``host``."""

import asyncio
import json
import shutil
import sys
from collections.abc import Awaitable, Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.terminal.task_folder import read_task
from Daddy.terminal.task_sandboxes import TaskSandboxes, open_terminal_backend
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv, StepResult, TerminalAction
from tests.components import program
from tests.patience import PATIENCE_S

TASKS = (
    Path(__file__).parents[2] / "scripts/examples/tinker_cookbook/recipes/terminal_rl/harbor_envs"
)
COUNT = TASKS / "count_lines"
Story = Callable[[AsyncTerminalGymEnv], Awaitable[Any]]


@cache
def backend() -> BubblewrapBackend:
    """Return the backend; skip or fail the test without it."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap needs Linux")
    program("bwrap", "bubblewrap")
    program("tmux", "tmux")
    return open_terminal_backend("bubblewrap")[0]


def play(task: Path, runs: Path, story: Story, **options: Any) -> Any:
    """Play one episode by a story, and return what it returns."""

    async def whole() -> Any:
        sandboxes = TaskSandboxes(read_task(task), backend(), runs / "layers", "host")
        env = AsyncTerminalGymEnv(task, backend(), runs, sandboxes=sandboxes, **options)
        try:
            await env.reset()
            return await story(env)
        finally:
            await env.close()

    return asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


def type_and_finish(task: Path, runs: Path, lines: Sequence[str], **options: Any) -> StepResult:
    """Return the last step of an episode that types lines, each to its end."""

    async def story(env: AsyncTerminalGymEnv) -> StepResult:
        for line in lines:
            result = await env.step(TerminalAction(f"{line}\n", max_timeout_sec=PATIENCE_S))
            if result.done:
                return result
        return await env.step(TerminalAction(done=True))

    told: StepResult = play(task, runs, story, **options)
    return told


def solve(task: Path, runs: Path) -> StepResult:
    """Return the last step of an episode that runs the task's solution."""

    async def story(env: AsyncTerminalGymEnv) -> StepResult:
        await env.put(task / "solution", "/solution")
        line = "bash /solution/solve.sh\n"
        return await env.step(TerminalAction(line, max_timeout_sec=PATIENCE_S, done=True))

    told: StepResult = play(task, runs, story)
    return told


def copy_task(task: Path, target: Path, **files: str) -> Path:
    """Return a copy of a task with other contents of files; ``__`` in a name is a slash."""
    shutil.copytree(task, target)
    for name, text in files.items():
        (target / name.replace("__", "/")).write_text(text)
    return target


def read_result(runs: Path) -> dict[str, Any]:
    """Return the only episode's result."""
    (path,) = runs.glob("*/result.json")
    found: dict[str, Any] = json.loads(path.read_text())
    return found
