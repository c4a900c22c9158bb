"""Each completion is one command in a fresh sandbox; the machine's own faults are no reward."""

import asyncio
from collections import Counter
from typing import Any

import pytest

from Daddy.codegen.grader import Grader
from Daddy.codegen.tasks import CodeTask, draw_tests
from Daddy.core.errors import ConfigError, ExitCode, SandboxError, UsageError
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Backend, Isolation, Outcome, Sandbox, SandboxSpec
from tests.codegen.conftest import GradeAll
from tests.codegen.hostile_set import INNOCENT, SORT, SUM


def changed(task: CodeTask, **fields: Any) -> CodeTask:
    return task.model_copy(update=fields)


class Watched:
    """A backend whose sandboxes count the commands that run in each at once, or fail."""

    name = "watched"

    def __init__(self, inner: Backend, *, fails: bool = False) -> None:
        self.inner, self.fails = inner, fails
        self.running: Counter[int] = Counter()
        self.most_in_a_sandbox = self.most_at_once = self.commands = 0
        self.sources: list[str] = []

    def isolation(self) -> Isolation:
        return self.inner.isolation()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        sandbox = await self.inner.create(spec)
        plain = sandbox.run

        async def run(command: Any, *given: Any) -> Outcome:
            if self.fails:
                raise SandboxError("the sandbox ended")
            self.sources.append(command.python)
            self.running[id(sandbox)] += 1
            self.commands += 1
            self.most_in_a_sandbox = max(self.most_in_a_sandbox, *self.running.values())
            self.most_at_once = max(self.most_at_once, self.running.total())
            try:
                return await plain(command, *given)
            finally:
                self.running[id(sandbox)] -= 1

        sandbox.run = run  # type: ignore[method-assign]
        return sandbox


@pytest.fixture
def watched(grade_all: GradeAll) -> Watched:
    return Watched(grade_all.backend)


RIGHT, WRONG = next(row.completion for row in INNOCENT if row.task == SORT), "    return xs[:1]\n"


def test_five_hundred_completions_share_ten_sandboxes_one_at_a_time(
    tasks: dict[str, CodeTask], watched: Watched
) -> None:
    pairs = [(SORT, RIGHT), (SORT, WRONG)] * 250
    grades = GradeAll(watched)(tasks, pairs, size=10)
    assert Counter(grade.reward for grade in grades) == {1.0: 250, 0.2: 250}
    assert [grade.reward for grade in grades[:4]] == [1.0, 0.2, 1.0, 0.2]
    assert (watched.commands, watched.most_in_a_sandbox, watched.most_at_once) == (500, 1, 10)


def test_expected_values_never_enter_a_sandbox(
    tasks: dict[str, CodeTask], watched: Watched
) -> None:
    task = changed(tasks[SUM], reference="31415926 + len(xs)")
    GradeAll(watched)({SUM: task}, [(SUM, "    return 0\n")])
    assert draw_tests(task, 0, 1)[0].expected == "31415927"
    assert "314159" not in watched.sources[0]


def test_a_grade_tells_each_test_and_the_cost(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    body = "    return xs[3]\n"
    (grade,) = grade_all(tasks, [(SUM, body)])
    assert grade.tests[0] == "raised IndexError"
    assert grade.seconds > 0
    assert len(grade.tests) == 7


def test_each_test_gets_its_own_input_and_a_change_of_it_is_no_answer(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    body = "    return xs.append(0)\n"
    (grade,) = grade_all(tasks, [(SORT, body)])
    assert set(grade.tests) == {"returned None"}


def test_values_of_the_largest_size_come_back_from_each_test(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    task = changed(tasks[SUM], reference="'x' * 16000")
    assert grade_all({SUM: task}, [(SUM, "    return 'x' * 16000\n")])[0].reward == 1


def test_banned_builtins_are_missing_at_run_time_too(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    """The module timeit evaluates a text, in which no search of the code finds the name."""
    body = (
        "    import timeit\n    found = [xs]\n"
        "    timeit.timeit('found[0] = so' 'rted(found[0])', number=1, globals={'found': found})\n"
        "    return found[0]\n"
    )
    free, banned = (changed(tasks[SORT], banned_patterns=p) for p in ((), ("sorted",)))
    assert grade_all({SORT: free}, [(SORT, body)])[0].reward == 1
    assert set(grade_all({SORT: banned}, [(SORT, body)])[0].tests) == {"raised NameError"}


def test_a_child_that_goes_on_after_the_fork_writes_no_result(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    body = "    import os\n    os.fork()\n    return max(xs)\n"
    (grade,) = grade_all(tasks, [(SUM, body)])
    assert len(grade.tests) == 7


def test_what_could_not_be_graded_has_no_reward_and_much_of_it_ends_the_run(
    tasks: dict[str, CodeTask], watched: Watched
) -> None:
    async def grade() -> None:
        async with SandboxPool(watched, size=4) as pool:
            grader = Grader(pool, tasks, 0, time_s=60.0)
            good = await grader.grade([SORT] * 50, [RIGHT] * 50, 0)
            watched.fails = True
            bad = await grader.grade([SORT] * 50, [RIGHT] * 50, 1)
            assert {grade.reward for grade in good} == {1.0}
            assert {(g.reward, g.reason) for g in bad} == {(None, "not graded: the sandbox ended")}
            with pytest.raises(
                SandboxError, match=r"51 of the last 100 .*: the sandbox ended"
            ) as caught:
                await grader.grade([SORT, SORT], [RIGHT, "    return (\n"], 2)
            assert caught.value.exit_code is ExitCode.NOT_CONFINED

    asyncio.run(grade())


def test_an_unknown_task_is_refused(tasks: dict[str, CodeTask], grade_all: GradeAll) -> None:
    with pytest.raises(UsageError, match="no task 'sort'"):
        grade_all(tasks, [("sort", RIGHT)])


def test_the_tasks_of_the_examples_and_other_kinds_of_prompts_pass_the_check(
    tasks: dict[str, CodeTask], grade_all: GradeAll
) -> None:
    inside = changed(tasks[SORT], prompt='def sort_numbers(xs):\n  """Sort.\n\n')
    words = changed(tasks[SUM], name="words", prompt="Write max_subarray_sum.\n")
    many = ("[random.random() for _ in range(300)]",) * 4
    large = changed(tasks[SORT], name="large", tests=many, banned_patterns=("vars(",))
    grade_all.check({**tasks, "inside": inside, "words": words, "large": large})


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"prompt": "import math\ndef sort_numbers(xs):\n"},
            "a wrong answer gets -1, not 0 .*import",
        ),
        ({"banned_patterns": ("return ",)}, "a wrong answer gets -1, not 0 .*banned: return"),
        ({"reference": "next(counter)"}, "reference for tests"),
        (
            {"prompt": "def sort_numbers(xs):\n    pass\nexit(1)\ndef sort_numbers(xs):\n"},
            "not loaded",
        ),
    ],
)
def test_a_task_that_no_completion_solves_is_refused_at_the_start(
    tasks: dict[str, CodeTask], grade_all: GradeAll, fields: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"task 'sort_numbers'.*{message}"):
        grade_all.check({SORT: changed(tasks[SORT], **fields)})
