"""Reads the file of tasks, and makes the inputs and expected values of a step.

The file is Python of the person who trains, and runs with their rights. It defines `TASKS`: name →
a dict with the keys of `KEYS`. `tests` are expressions of an input each, in which `random` is a
generator of (seed, step, task, case): inputs are new in every step, and the same when it is run
again. `reference` is an expression, too, with `xs` bound to the input: its value is the expected
one, or a function that gives it. Expressions use the names of the file.
"""

import copy
import random
import runpy
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from Daddy.codegen.harness import literal_text
from Daddy.core.errors import ConfigError

KEYS = ("prompt", "func_name", "banned_patterns", "tests", "reference")


@dataclass(frozen=True)
class CodeTask:
    """A function to write; `names` are those of the tasks file."""

    name: str
    prompt: str
    func_name: str
    banned_patterns: tuple[str, ...]
    tests: tuple[str, ...]
    reference: str
    names: Mapping[str, Any]


@dataclass(frozen=True)
class CodeCase:
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
    if not isinstance(entry, dict) or set(entry) != set(KEYS):
        found = ", ".join(map(str, entry)) if isinstance(entry, dict) else repr(entry)
        raise ConfigError(f"task {name!r} has: {found}", f"give it: {', '.join(KEYS)}")
    for key in ("prompt", "func_name", "reference"):
        _require(
            name, key, entry[key], isinstance(entry[key], str) and entry[key].strip(), "a text"
        )
    for key in ("banned_patterns", "tests"):
        texts = isinstance(entry[key], list | tuple) and all(
            isinstance(text, str) and text.strip() for text in entry[key]
        )
        _require(name, key, entry[key], texts, "a list of texts, none empty")
    _require(name, "func_name", entry["func_name"], entry["func_name"].isidentifier(), "a name")
    _require(name, "tests", entry["tests"], entry["tests"], "at least one input")
    for key, text in (("reference", entry["reference"]), *(("tests", t) for t in entry["tests"])):
        try:
            compile(text, "<task>", "eval")
        except (SyntaxError, ValueError):
            _require(name, key, text, False, "an expression of Python")
    lists = {key: tuple(entry[key]) for key in ("banned_patterns", "tests")}
    return CodeTask(name=name, names=names, **{**entry, **lists})


def _require(task: str, key: str, found: object, is_right: object, wanted: str) -> None:
    if not is_right:
        raise ConfigError(f"task {task!r}, {key}: {found!r}", f"it must be {wanted}")


def make_cases(task: CodeTask, seed: int, step: int) -> list[CodeCase]:
    """Return the cases of a step. Raises ConfigError if an expression gives no plain value."""
    return [
        _make_case(task, number, random.Random(f"{seed} {step} {task.name} {number}"))
        for number in range(len(task.tests))
    ]


def _make_case(task: CodeTask, number: int, draw: random.Random) -> CodeCase:
    key = f"tests[{number}]"
    try:
        given = eval(task.tests[number], {**task.names, "random": draw})  # noqa: S307 - the person's
        text, key = literal_text(given), f"reference for tests[{number}]"
        expected = eval(task.reference, {**task.names, "xs": copy.deepcopy(given)})  # noqa: S307
        if callable(expected):
            expected = expected(copy.deepcopy(given))
        return CodeCase(text, literal_text(expected))
    except Exception as error:  # noqa: BLE001 - whatever their expressions raise
        raise ConfigError(
            f"task {task.name!r}, {key}: {type(error).__name__}: {error}",
            "use None, bool, int, float, str, bytes, and lists, tuples, sets and dicts of these",
        ) from None
