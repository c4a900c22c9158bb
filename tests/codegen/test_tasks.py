"""The file of tasks is checked by task and key, and gives new inputs in every step."""

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from Daddy.codegen.tasks import CodeTask, draw_tests, load_tasks, new_inputs
from Daddy.core.errors import ConfigError, ExitCode

ENTRY: dict[str, Any] = {
    "prompt": "def double(x):\n",
    "func_name": "double",
    "banned_patterns": [],
    "tests": ["3", "random.randrange(10**9)"],
    "reference": "xs * 2",
}
Load = Callable[..., CodeTask]


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Write a file with one task, ENTRY with some keys changed, and load it."""

    def load(before: str = "", **changed: object) -> CodeTask:
        path = tmp_path / "tasks.py"
        path.write_text(f"{before}\nTASKS = {{'double': {ENTRY | changed!r}}}\n")
        return load_tasks(path)["double"]

    return load


def test_the_examples_are_two_tasks_with_five_and_seven_tests(tasks: dict[str, CodeTask]) -> None:
    assert {name: len(task.tests) for name, task in tasks.items()} == {
        "sort_numbers": 5,
        "max_subarray_sum": 7,
    }
    drawn = [test for task in tasks.values() for test in draw_tests(task, 0, 0)]
    given, expected = (
        [ast.literal_eval(getattr(t, key)) for t in drawn] for key in ("given", "expected")
    )
    assert expected[:5] == [sorted(xs) for xs in given[:5]]
    assert expected[5:8] == [5, -1, 7]


def test_inputs_are_new_for_each_seed_step_task_and_test_and_repeat(load: Load) -> None:
    task = load(tests=["random.randrange(10**9)"] * 2)
    drawn = [draw_tests(task, seed, step) for seed, step in [(0, 1), (0, 2), (1, 1)]]
    assert len({test.given for tests in drawn for test in tests}) == 6
    assert draw_tests(task, 0, 1) == drawn[0]


def test_an_input_is_new_if_no_step_of_the_training_has_it(
    load: Load, tasks: dict[str, CodeTask]
) -> None:
    drawn, rare = "random.randrange(10**9)", "random.randrange(3)"
    task = load(tests=["3", drawn, rare, "3 if random.random() else 0", drawn])
    assert new_inputs(task, seed=0, step=10**9, steps=64) == [1, 4]
    assert new_inputs(task, seed=0, step=64, steps=64) == []
    of_examples = [new_inputs(task, 0, 10**9, 64) for task in tasks.values()]
    assert of_examples == [[2, 3, 4], [3, 4, 5, 6]]


@pytest.mark.parametrize(
    ("before", "reference", "expected"),
    [
        ("", "xs * 2", "6"),
        ("", "lambda x: x * 2", "6"),
        ("def twice(x): return x * 2", "twice", "6"),
        ("def twice(x): return x * 2", "twice(xs)", "6"),
        ("FACTOR = 4", "[FACTOR * xs]", "[12]"),
    ],
)
def test_a_reference_is_a_value_or_a_function_and_names_come_from_the_file(
    load: Load, before: str, reference: str, expected: str
) -> None:
    assert draw_tests(load(before, reference=reference), 0, 0)[0].expected == expected


@pytest.mark.parametrize("reference", ["lambda xs: xs.pop()", "xs.pop()"])
def test_a_reference_gets_a_copy_of_the_input(load: Load, reference: str) -> None:
    task = load("SHARED = [1, 2]", tests=["SHARED", "SHARED"], reference=reference)
    assert [(c.given, c.expected) for c in draw_tests(task, 0, 0)] == [("[1, 2]", "2")] * 2


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("prompt", ""),
        ("prompt", 3),
        ("func_name", "no name"),
        ("banned_patterns", "sorted"),
        ("banned_patterns[1]", ["sorted", " "]),
        ("tests", []),
        ("tests[0]", [3]),
        ("tests[1]", ["3", "[1, 2"]),
        ("tests[0]", ["-" * 100_000 + "1"]),
        ("reference", None),
        ("reference", "x = 1"),
        ("reference", "\0"),
        ("test", []),
    ],
)
def test_a_wrong_value_is_named_by_task_and_key(load: Load, key: str, value: object) -> None:
    with pytest.raises(ConfigError) as caught:
        load(**{key.partition("[")[0]: value})
    assert caught.value.message.startswith(f"task 'double', {key}: ")
    assert caught.value.exit_code is ExitCode.CONFIGURATION


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "defines no TASKS"),
        ("TASKS = {}", "defines no TASKS"),
        ("TASKS = {'a': 3}", "task 'a', prompt: Field required"),
        ("TASKS = {'a': {'prompt': 'x'}}", "task 'a', func_name: Field required"),
        ("import nowhere", "ModuleNotFoundError: No module named 'nowhere'"),
        ("TASKS = {", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit: 3"),
    ],
)
def test_a_file_without_tasks_is_refused_with_the_reason(
    tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "tasks.py"
    path.write_text(text)
    with pytest.raises(ConfigError, match=message):
        load_tasks(path)


def test_a_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be run: FileNotFoundError"):
        load_tasks(tmp_path / "none.py")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"tests": ["3", "nothing"]}, r"tests\[1\]: NameError"),
        ({"tests": ["range(3)"]}, r"tests\[0\]: ValueError: no plain value: range"),
        ({"tests": ["exit(3)"]}, r"tests\[0\]: SystemExit: 3"),
        ({"reference": "xs / 0"}, r"reference for tests\[0\]: ZeroDivisionError"),
        ({"reference": "lambda: 3"}, r"reference for tests\[0\]: TypeError"),
        ({"reference": "{xs}.__iter__()"}, "no plain value: set_iterator"),
        ({"reference": "float('inf')"}, "no plain value: an infinite number"),
    ],
)
def test_an_expression_that_gives_no_plain_value_is_named(
    load: Load, changed: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigError, match=f"task 'double', .*{message}"):
        draw_tests(load(**changed), 0, 0)
