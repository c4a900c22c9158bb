"""Adapter for the inside of a sandbox: calls a completion's function, and writes its values.

Its source is sent with each command and runs with the standard library alone. It knows neither the
expected values nor the grade: it writes a line per test to descriptor 3 for `grade_outcome`.
"""

from __future__ import annotations

import builtins
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""Built-ins of the functions below, whichever a completion replaces in the module."""

MOST_TEXT, MOST_DEPTH = 16 * 1024, 50
"""Bounds of a value: characters of its text, and nesting."""


def literal_text(value: object) -> str:
    """Write a value of plain types as a Python literal, in ASCII. Raises ValueError for others."""
    _check_plain(value, MOST_DEPTH, [MOST_TEXT])
    text = ascii(value)
    if len(text) > MOST_TEXT:
        raise ValueError("too large")
    return text


def _check_plain(value: Any, depth: int, room: list[int]) -> None:
    """Compare types by identity: a subclass is another type, and a metaclass can define ``==``."""
    kind = type(value)
    room[0] -= 1
    if kind is list or kind is tuple or kind is set or kind is dict:
        for part in value.items() if kind is dict else value:
            if depth == 0:
                raise ValueError("too deep")
            _check_plain(part, depth - 1, room)
    elif kind is str or kind is bytes:
        room[0] -= len(value)
    elif kind is int:
        room[0] -= value.bit_length() // 4
    elif kind is float:
        if value - value:
            raise ValueError("no plain value: an infinite number or none")
    elif value is not None and kind is not bool:
        raise ValueError("no plain value: " + ascii(kind.__name__)[1:-1])
    if room[0] < 0:
        raise ValueError("too large")


def run_tests(
    source: str, func_name: str, removed: list[str], inputs: list[object], nonce: str
) -> None:
    """Load the source without some built-ins, call the function with each input, and exit.

    A process that the completion forked ends here, and no exit handler is run.
    """
    own, getpid, write, leave = os.getpid(), os.getpid, os.write, os._exit

    def tell(what: str) -> None:
        if getpid() != own:
            leave(0)
        write(3, (nonce + " " + what + "\n").encode())

    names = {"__name__": "completion", "__builtins__": builtins}
    for name in removed:
        vars(builtins).pop(name, None)
    try:
        exec(compile(source, "<completion>", "exec"), names)  # noqa: S102
        function: Any = names[func_name]
    except BaseException as error:  # noqa: BLE001
        tell("not loaded: " + ascii(type(error).__name__)[1:-1])
        leave(0)
    for number, given in enumerate(inputs):
        try:
            value = function(given)
        except BaseException as error:  # noqa: BLE001
            tell(str(number) + " raised " + ascii(type(error).__name__)[1:-1])
            continue
        try:
            told = "ok " + literal_text(value)
        except ValueError as error:
            told = str(error)
        tell(str(number) + " " + told)
    leave(0)
