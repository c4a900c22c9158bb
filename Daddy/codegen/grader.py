"""Grades completions, each by one command in a fresh sandbox of a pool.

The expected values never enter a sandbox: the command gets the inputs, and its values are compared
outside. A result says what the completion returned, never that it was obtained honestly.
"""

import asyncio
import inspect
import secrets
import warnings
from collections import deque
from collections.abc import Iterable, Mapping, Sequence

from Daddy.codegen import harness
from Daddy.codegen.bans import find_ban, read_bans
from Daddy.codegen.extract import complete_prompt, extract_code
from Daddy.codegen.grade_outcome import REFUSED, Grade, grade_outcome
from Daddy.codegen.tasks import CodeTask, DrawnTest, draw_tests
from Daddy.core.errors import ConfigError, SandboxError, UsageError
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, Limits

SANDBOX_POOL_SIZE = 10
MAX_TIMEOUT_SECONDS = 1.0
"""Longest run of a completion: all its tests."""
_CHECK_S = 20.0
"""The same for a check of tasks, in which nothing is endless and the machine may be busy."""
_REMEMBERED, _MOST_NOT_GRADED = 100, 50
_HARNESS = inspect.getsource(harness)
_OUTPUT_BYTES = 64 * 1024


class Grader:
    """Grades completions of some tasks with the sandboxes of a pool that the caller closes."""

    def __init__(
        self,
        pool: SandboxPool,
        tasks: Mapping[str, CodeTask],
        seed: int,
        time_s: float = MAX_TIMEOUT_SECONDS,
    ) -> None:
        self._pool, self._tasks, self._seed, self._time_s = pool, tasks, seed, time_s
        self._bans = {name: read_bans(task.banned_patterns) for name, task in tasks.items()}
        warnings.filterwarnings("ignore", module="<(completion|unknown)>")  # of its syntax
        self._not_graded: deque[bool] = deque(maxlen=_REMEMBERED)

    async def grade(
        self, task_names: Sequence[str], completions: Sequence[str], step: int
    ) -> list[Grade]:
        """Grade each completion of a step by the task beside it.

        A completion that this machine could not run has no reward. Raises SandboxError if that were
        more than half of the last hundred, UsageError for an unknown task, and ConfigError if a
        task's expressions fail.
        """
        if unknown := set(task_names) - set(self._tasks):
            raise UsageError(f"no task {min(unknown)!r}", f"known: {', '.join(self._tasks)}")
        tests = {name: draw_tests(self._tasks[name], self._seed, step) for name in set(task_names)}
        grades = await asyncio.gather(
            *(
                self._grade(self._tasks[name], completion, tests[name], self._time_s)
                for name, completion in zip(task_names, completions, strict=True)
            )
        )
        self._not_graded.extend(grade.reward is None for grade in grades)
        if sum(self._not_graded) > _MOST_NOT_GRADED:
            last = next(grade.reason for grade in reversed(grades) if grade.reward is None)
            raise SandboxError(
                f"{sum(self._not_graded)} of the last {len(self._not_graded)} completions could "
                f"not be graded; the last one: {last}",
                "try: python -m Daddy.sandbox probe",
            )
        return list(grades)

    async def check_tasks(self) -> None:
        """Grade the reference's values, and a wrong answer, of each task.

        Raises ConfigError if the first gets less than 1 or the second anything but 0, and
        SandboxError if they could not be graded.
        """
        await asyncio.gather(*map(self._check_task, self._tasks.values()))

    async def _check_task(self, task: CodeTask) -> None:
        tests = draw_tests(task, self._seed, 0)
        values = ", ".join(test.expected for test in tests)
        right = f"def {task.func_name}(xs, left=[{values}]):\n    return left.pop(0)\n"
        wrong = complete_prompt(task.prompt, task.func_name, "return ...")
        for grade, wanted, what in (
            (await self._grade(task, wrong, tests, _CHECK_S), 0.0, "a wrong answer"),
            (await self._run(task, right, tests, _CHECK_S), 1.0, "its reference"),
        ):
            if grade.reward is None:
                raise SandboxError(grade.reason, "try: python -m Daddy.sandbox probe")
            if grade.reward != wanted:
                raise ConfigError(
                    f"task {task.name!r}: {what} gets {grade.reward:g}, not {wanted:g} "
                    f"({'; '.join((grade.reason, *grade.tests))})",
                    "mend its prompt, func_name, banned_patterns, tests or reference",
                )

    async def _grade(
        self, task: CodeTask, completion: str, tests: Sequence[DrawnTest], time_s: float
    ) -> Grade:
        source = extract_code(task.prompt, completion, task.func_name)
        refused = find_ban(source, self._bans[task.name]) if source else "empty"
        if refused:
            return Grade(REFUSED, refused)
        return await self._run(task, source, tests, time_s)

    async def _run(
        self, task: CodeTask, source: str, tests: Sequence[DrawnTest], time_s: float
    ) -> Grade:
        nonce = secrets.token_hex(8)
        python = command_source(task, source, self._bans[task.name].names, tests, nonce)
        limits = Limits(
            time_s, output_bytes=_OUTPUT_BYTES + len(tests) * (harness.MOST_TEXT + len(nonce) + 16)
        )
        try:
            outcome = await self._pool.run(Command(python=python), limits)
        except SandboxError as error:
            return Grade(None, f"not graded: {error.message}")
        return grade_outcome(outcome, nonce, [test.expected for test in tests])


def command_source(
    task: CodeTask, source: str, removed: Iterable[str], tests: Sequence[DrawnTest], nonce: str
) -> str:
    """Return the Python that runs a completion's source with the inputs of the tests."""
    given = ", ".join(test.given for test in tests)
    call = f"run_tests({source!r}, {task.func_name!r}, {sorted(removed)}, [{given}], {nonce!r})"
    return f"{_HARNESS}\n{call}\n"
