"""Reads the file of tasks, and makes the inputs and expected values of a step.

The file is Python of the person who trains, and runs with their rights. It defines `TASKS`: name →
a dict with the fields of `CodeTask`. `tests` are expressions of an input each, in which `random` is
a generator of (seed, step, task, test): what a test draws from it is new in every step, and the
same when the step is run again. `reference` is an expression, too, with `xs` bound to the input:
its value is the expected one, or a function that gives it. Expressions use the names of the file.
"""

import copy
import random
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from Daddy.codegen.harness import literal_text
from Daddy.core.errors import ConfigError
from Daddy.core.humanize import printable_line


def _check_expression(text: str) -> str:
    try:
        compile(text, "<task>", "eval")
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        raise ValueError(f"no expression of Python ({error})") from None
    return text


_Text = Annotated[str, Field(pattern=r"\S")]
_Expression = Annotated[str, AfterValidator(_check_expression)]


class CodeTask(BaseModel):
    """A function to write; `names` are those of the tasks file."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    name: str
    prompt: _Text
    func_name: Annotated[str, Field(pattern=r"^[A-Za-z_]\w*$")]
    banned_patterns: tuple[_Text, ...]
    tests: Annotated[tuple[_Expression, ...], Field(min_length=1)]
    reference: _Expression
    names: Mapping[str, Any] = Field(repr=False)


@dataclass(frozen=True)
class DrawnTest:
    """An input and the expected value, as Python literals."""

    given: str
    expected: str


def load_tasks(path: Path) -> dict[str, CodeTask]:
    """Return the tasks of a file, by name. Raises ConfigError with task and key."""
    try:
        names = runpy.run_path(str(path))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever the file raises
        said = f"{type(error).__name__}: {error}"
        raise ConfigError(f"{path} cannot be run: {said}", "mend the file of tasks") from None
    tasks = names.get("TASKS")
    if not isinstance(tasks, dict) or not tasks:
        raise ConfigError(f"{path} defines no TASKS", "TASKS = {'name': {...}, ...}")
    return {str(name): _read_task(str(name), entry, names) for name, entry in tasks.items()}


def _read_task(name: str, entry: object, names: Mapping[str, Any]) -> CodeTask:
    given = entry if isinstance(entry, dict) else {}
    try:
        return CodeTask.model_validate({**given, "name": name, "names": names})
    except ValidationError as error:
        first = error.errors()[0]
        key = "".join(f"[{part}]" if isinstance(part, int) else part for part in first["loc"])
        raise ConfigError(
            printable_line(f"task {name!r}, {key}: {first['msg']}"),
            "a task has prompt, func_name, banned_patterns, tests and reference",
        ) from None


def draw_tests(task: CodeTask, seed: int, step: int) -> list[DrawnTest]:
    """Return the tests of a step. Raises ConfigError if an expression gives no plain value."""
    return [
        _draw_test(task, number, random.Random(f"{seed} {step} {task.name} {number}"))
        for number in range(len(task.tests))
    ]


def new_inputs(task: CodeTask, seed: int, step: int, steps: int) -> list[int]:
    """Return the numbers of the tests whose input of a step none of the steps 1 to `steps` has."""
    known = {test.given for at in range(1, steps + 1) for test in draw_tests(task, seed, at)}
    drawn = draw_tests(task, seed, step)
    return [number for number, test in enumerate(drawn) if test.given not in known]


def _draw_test(task: CodeTask, number: int, draw: random.Random) -> DrawnTest:
    key = f"tests[{number}]"
    try:
        given = eval(task.tests[number], {**task.names, "random": draw})  # noqa: S307 - the person's
        text, key = literal_text(given), f"reference for tests[{number}]"
        xs = copy.deepcopy(given)  # it may be an object of the file
        expected = eval(task.reference, {**task.names, "xs": xs})  # noqa: S307
        return DrawnTest(text, literal_text(expected(xs) if callable(expected) else expected))
    except (Exception, SystemExit) as error:  # noqa: BLE001 - whatever their expressions raise
        raise ConfigError(
            f"task {task.name!r}, {key}: {type(error).__name__}: {error}",
            "use None, bool, int, float, str, bytes, and lists, tuples, sets and dicts of these",
        ) from None
