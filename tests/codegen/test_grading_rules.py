"""Each numbered rule of the guide's chapter 13 has rows here: a completion and its grade."""

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from Daddy.codegen.codegen_run import CodegenPaths, RecordedRewards
from Daddy.codegen.grade_outcome import Grade
from Daddy.codegen.grader import Grader
from Daddy.codegen.tasks import CodeTask
from Daddy.core.errors import SandboxError
from Daddy.grpo.grpo_settings import Completion
from Daddy.sandbox.pool import SandboxPool
from tests.codegen.conftest import GradeAll
from tests.codegen.test_grader import Watched
from tests.patience import PATIENCE_S

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "guide.md"
TASK = CodeTask(
    name="task",
    prompt="def f(xs):\n",
    func_name="f",
    banned_patterns=(),
    tests=("1", "2", "3", "4", "5"),
    reference="xs",
    names={"double": lambda number: 2 * number},
)
TEXT_RUNS = """import timeit
found = [xs]
timeit.timeit('{}', number=1, globals={{'found': found}})
return found[0]"""
"""Runs code that is a text of the module timeit's argument: no search of the code finds it."""


@dataclass(frozen=True)
class RuleRow:
    """`reason` is the beginning of the grade's, or that of a failed test."""

    rule: int
    body: str
    reward: float
    reason: str = ""
    banned: tuple[str, ...] = ()
    reference: str = "xs"
    tests: tuple[str, ...] = TASK.tests

    def task(self) -> CodeTask:
        fields = {"banned_patterns": self.banned, "reference": self.reference, "tests": self.tests}
        return TASK.model_copy(update=fields)

    def completion(self) -> str:
        return "".join(f"    {line}\n" for line in self.body.split("\n"))


def banned(rule: int, pattern: str, *bodies: str) -> list[RuleRow]:
    return [RuleRow(rule, body, -1, "banned: ", (pattern,)) for body in bodies]


def free(rule: int, pattern: str, *bodies: str) -> list[RuleRow]:
    return [RuleRow(rule, body, 1, "", (pattern,) if pattern else ()) for body in bodies]


LOOKUPS = [
    *("getattr(xs, 'real')", "setattr(f, 'a', 1)", "delattr(f, 'a')", "hasattr(xs, 'a')"),
    *("vars(f)", "globals()", "locals()", "eval('xs')", "exec('xs')", "compile('xs', '', 'eval')"),
    *("xs.__class__", "f.__globals__", "'{0.real}'.format(xs)", "'{0[a]}'.format(xs)"),
]
ROWS = [
    RuleRow(1, "return xs + 1", 1, reference="xs + 1"),
    RuleRow(1, "return xs + 1", 1, reference="lambda number: number + 1"),
    RuleRow(1, "return xs + xs", 1, reference="double"),
    RuleRow(1, "return xs + xs", 1, reference="double(xs)"),
    RuleRow(1, "return xs", 0, "returned [2, 1]", (), "lambda xs: xs.sort() or xs", ("[2, 1]",)),
    RuleRow(2, "return xs if xs < 4 else 0", 0.6, "returned 0"),
    RuleRow(2, "return 4 // (xs - 1) * 0 + xs", 0.8, "raised ZeroDivisionError"),
    RuleRow(2, "return float(xs)", 0, "returned "),
    RuleRow(2, "raise SystemExit(0)", 0, "raised SystemExit"),
    RuleRow(3, "", -1, "empty"),
    RuleRow(3, "'''Do nothing.'''", -1, "empty"),
    *banned(4, "abs", "return abs(xs)"),
    RuleRow(5, "return (xs", -1, "unparsable: "),
    RuleRow(6, "import os\nos.kill(os.getpid(), 9)", -1, "killed by signal 9"),
    RuleRow(
        6,
        "import os\nos.fork(), os.fork()\nx = bytearray(200 << 20)\nwhile 1: pass",
        -1,
        "out of memory",
    ),
    RuleRow(6, "while True: print('x' * 99999)", -1, "too much output"),
    RuleRow(7, "while True: pass", -1, "timed out"),
    RuleRow(8, "import os\nos._exit(0)", -1, "wrong count: 0 lines for 5 tests"),
    RuleRow(8, "import os\nos.write(3, b'0 ok 1')\nreturn xs", -1, "wrong count: "),
    *banned(10, "sorted(", "return sorted([xs])", "order = sorted\nreturn xs", "f.sorted = 1"),
    *banned(10, "list.sort", "[xs].sort()", "order = [].sort\nreturn xs"),
    *banned(10, "bisect", "import bisect", "from bisect import insort", "import os, bisect as b"),
    *free(10, "sorted", "sorted_part = xs\nreturn sorted_part", "# sorted\nreturn xs"),
    *free(10, ".sort(", "sort = xs\nreturn sort", "'''Like list.sort.'''\nreturn xs"),
    *banned(11, "import ", "import os", "from os import path", "__import__('os')"),
    *free(11, "import ", "# import os\nreturn xs", "important = 'import os'\nreturn xs"),
    *banned(12, "[::-1]", "return [xs][ : : -1 ]"),
    *free(12, "[::-1]", "return xs  # [::-1]", "text = '[::-1]'\nreturn xs"),
    *(row for lookup in LOOKUPS for row in banned(13, "[::-1]", lookup)),
    *free(13, "", "return getattr(xs, 'real')", "return eval('xs')", "return xs.__int__()"),
    *free(13, "[::-1]", "'{:.2f}'.format(xs)\nreturn xs"),
    RuleRow(14, TEXT_RUNS.format("sorted(found)"), 0, "raised NameError", ("sorted",)),
    RuleRow(14, TEXT_RUNS.format("sorted(found)"), 1),
    RuleRow(15, TEXT_RUNS.format("found.sort()"), 1, "", (".sort(",)),
]


@pytest.fixture(scope="module")
def grades(grade_all: GradeAll) -> dict[RuleRow, Grade]:
    """Rows that must time out do it soon; the others have as long as a busy machine needs."""
    found: dict[RuleRow, Grade] = {}
    late = [row for row in ROWS if row.reason == "timed out"]
    for rows, time_s in ((late, 1.0), ([row for row in ROWS if row not in late], 120.0)):
        tasks = {str(number): row.task() for number, row in enumerate(rows)}
        pairs = [(name, row.completion()) for name, row in zip(tasks, rows, strict=True)]
        named = {name: task.model_copy(update={"name": name}) for name, task in tasks.items()}
        found |= dict(zip(rows, grade_all(named, pairs, time_s), strict=True))
    return found


@pytest.mark.parametrize("row", ROWS, ids=[f"rule {row.rule}: {row.body}" for row in ROWS])
def test_a_row_gets_the_grade_of_its_rule(row: RuleRow, grades: dict[RuleRow, Grade]) -> None:
    grade = grades[row]
    assert grade.reward == row.reward, grade
    reasons = [grade.reason, *(text for text in grade.tests if text != "passed")]
    assert any(text.startswith(row.reason) for text in reasons), reasons


def grade_once(watched: Watched, tmp_path: Path, *completions: Completion) -> Sequence[Grade]:
    async def grade() -> Sequence[Grade]:
        async with SandboxPool(watched, size=1) as pool:
            grader = Grader(pool, {"task": TASK}, 0, PATIENCE_S)
            rewards = RecordedRewards(grader, CodegenPaths(tmp_path))
            return await rewards.grade(["task"] * len(completions), completions, 1)

    return asyncio.run(grade())


def test_rule_9_code_that_does_not_load_or_has_no_end_is_refused(
    grade_all: GradeAll, tmp_path: Path
) -> None:
    block = "```python\n1 / 0\ndef f(xs):\n    return xs\n```\n"
    given = [Completion(block, True), Completion("    return xs\n", False)]
    unloaded, endless = grade_once(Watched(grade_all.backend), tmp_path, *given)
    assert (unloaded.reward, unloaded.reason) == (-1, "not loaded: ZeroDivisionError")
    assert (endless.reward, endless.reason) == (-1, "no end within the length limit")


def test_rule_16_a_fault_of_the_machine_is_no_reward(grade_all: GradeAll, tmp_path: Path) -> None:
    broken, good = Watched(grade_all.backend, fails=True), Completion("    return xs\n", True)
    (grade,) = grade_once(broken, tmp_path, good)
    assert (grade.reward, grade.reason) == (None, "not graded: the sandbox ended")
    with pytest.raises(SandboxError, match="51 of the last 51 completions could not be graded"):
        grade_once(broken, tmp_path, *[good] * 51)


def test_every_rule_of_the_guide_is_tested() -> None:
    text = GUIDE.read_text().partition("### Rules of grading")[2].partition("\n## ")[0]
    numbers = [int(number) for number in re.findall(r"^(\d+)\. ", text, re.MULTILINE)]
    assert numbers == [*range(1, 17)]
    named = [int(number) for number in re.findall(r"test_rule_(\d+)", " ".join(globals()))]
    assert {*(row.rule for row in ROWS), *named} == {*numbers}
