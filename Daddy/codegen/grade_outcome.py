"""Pure. Grades a completion by the values that its command wrote, outside of the sandbox.

A value passes if it is the expected one, with the same types in all its parts: True is not 1, and
1 is not 1.0. Two floats are the same within 1e-9 of the larger, or 1e-12; as a key of a dict or an
element of a set, exactly. The order of a dict does not count.
"""

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass

from Daddy.core.humanize import printable_line
from Daddy.sandbox.sandbox_interfaces import Outcome

REFUSED = -1.0
"""Reward of a completion that is empty, banned, unparsable, cut at the length limit, not loadable,
killed, late, or writes a wrong number of values."""
PASSED = "passed"
_FAILURES = ("raised ", "no plain value: ", "too ")
_SHOWN = 80


@dataclass(frozen=True)
class Grade:
    """The reward of a completion with its reason.

    `reward` is -1, the fraction of tests passed, or None: it could not be graded. `tests` has
    ``passed`` or the reason for each test.
    """

    reward: float | None
    reason: str
    tests: tuple[str, ...] = ()
    seconds: float = 0.0
    peak_mb: int = 0


def grade_outcome(outcome: Outcome, nonce: str, expected: Sequence[str]) -> Grade:
    """Compare the lines on descriptor 3 with the expected values, each a Python literal."""

    def refuse(reason: str) -> Grade:
        return Grade(REFUSED, reason, (), outcome.seconds, outcome.peak_mb)

    if outcome.ending != "exited":
        return refuse(outcome.ending)
    if outcome.exit_code < 0:
        return refuse(f"killed by signal {-outcome.exit_code}")
    *lines, rest = outcome.fd3_output.decode("ascii", "replace").split("\n")
    if len(lines) == 1 and lines[0].startswith(f"{nonce} not loaded: "):
        return refuse(printable_line(lines[0].partition(" ")[2], _SHOWN))
    heads = [f"{nonce} {number} " for number in range(len(expected))]
    if rest or len(lines) != len(heads) or not all(map(str.startswith, lines, heads)):
        return refuse(f"wrong count: {len(lines)} lines for {len(heads)} tests")
    told = [line[len(head) :] for line, head in zip(lines, heads, strict=True)]
    tests = tuple(map(_test_result, told, expected))
    passed, total = tests.count(PASSED), len(tests)
    reason = f"{passed} of {total} tests passed"
    return Grade(passed / total, reason, tests, outcome.seconds, outcome.peak_mb)


def _test_result(told: str, expected: str) -> str:
    """Return `PASSED` or the reason; `told` is a claim of the completion."""
    word, _, text = told.partition(" ")
    if word == "ok":
        return (
            PASSED if _is_expected(text, expected) else f"returned {printable_line(text, _SHOWN)}"
        )
    return printable_line(told, _SHOWN) if told.startswith(_FAILURES) else "unreadable"


def _is_expected(text: str, expected: str) -> bool:
    """Compare as texts; else as values, if the text is not much longer than the expected one."""
    if text == expected:
        return True
    if len(text) > 8 * len(expected) + 64:
        return False
    try:
        return is_same(ast.literal_eval(text), ast.literal_eval(expected))
    except (ValueError, TypeError, SyntaxError, RecursionError, MemoryError):
        return False


def is_same(found: object, expected: object) -> bool:
    """Tell that two plain values are the same, with exact types."""
    if type(found) is not type(expected):
        return False
    if isinstance(found, float) and isinstance(expected, float):
        return math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-12)
    if isinstance(found, list | tuple) and isinstance(expected, list | tuple):
        return len(found) == len(expected) and all(map(is_same, found, expected))
    if isinstance(found, set) and isinstance(expected, set):
        return sorted(map(repr, found)) == sorted(map(repr, expected))
    if isinstance(found, dict) and isinstance(expected, dict):
        given, wanted = ({repr(k): v for k, v in d.items()} for d in (found, expected))
        return given.keys() == wanted.keys() and all(is_same(given[k], wanted[k]) for k in wanted)
    return found == expected
