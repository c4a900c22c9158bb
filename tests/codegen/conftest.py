"""Fixtures: the tasks of the examples, and a grader with real sandboxes."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest

from Daddy.codegen.grade_outcome import Grade
from Daddy.codegen.grader import Grader
from Daddy.codegen.tasks import CodeTask, load_tasks
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Backend
from tests.patience import PATIENCE_S
from tests.sandbox.backends import bubblewrap

EXAMPLES = Path(__file__).resolve().parents[2] / "scripts" / "examples" / "tasks.py"


class GradeAll:
    """Grades completions with a pool of its own for each call."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend

    def __call__(
        self,
        tasks: dict[str, CodeTask],
        pairs: Sequence[tuple[str, str]],
        time_s: float = PATIENCE_S,
        size: int = 4,
        step: int = 1,
    ) -> list[Grade]:
        """Grade pairs of a task's name and a completion."""

        async def grade() -> list[Grade]:
            async with SandboxPool(self.backend, size=size) as pool:
                names, completions = zip(*pairs, strict=True)
                return await Grader(pool, tasks, 0, time_s).grade(names, completions, step)

        return asyncio.run(grade())

    def check(self, tasks: dict[str, CodeTask]) -> None:
        """Check the tasks as at the start of a run."""

        async def check() -> None:
            async with SandboxPool(self.backend, size=2) as pool:
                await Grader(pool, tasks, 0).check_tasks()

        asyncio.run(check())


@pytest.fixture(scope="session")
def tasks() -> dict[str, CodeTask]:
    return load_tasks(EXAMPLES)


@pytest.fixture(scope="session")
def grade_all() -> GradeAll:
    return GradeAll(bubblewrap())
