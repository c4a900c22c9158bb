"""Adapter for the inside of a sandbox: calls a completion's function, and writes its values.

Its source is sent with each command and runs with the standard library alone. It knows neither the
expected values nor the grade: it writes a line per case to descriptor 3 for `judge_outcome`.
"""

from __future__ import annotations

import builtins
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

__builtins__ = dict(vars(builtins))  # type: ignore[assignment]
"""Built-ins of the functions below, whichever a completion replaces in the module."""

MOST_TEXT, MOST_DEPTH, MOST_BITS = 16 * 1024, 50, 13_000
"""Bounds of a value: characters of its text, nesting, and bits of a number."""


def literal_text(value: Any, depth: int = 0, room: list[int] | None = None) -> str:
    """Write a value of plain types as a Python literal, in ASCII. Raises ValueError for others.

    Types are compared by identity: a subclass is another type, and a metaclass can define ``==``.
    """
    room = [MOST_TEXT] if room is None else room
    if depth > MOST_DEPTH:
        raise ValueError("too deep")
    kind = type(value)
    if kind is list or kind is tuple or kind is set or kind is dict:
        _spend(room, 2)
        return _container_text(value, depth + 1, room)
    if kind is str or kind is bytes:
        _spend(room, len(value))
    elif kind is int:
        _spend(room, 0 if value.bit_length() <= MOST_BITS else MOST_TEXT + 1)
    elif not (value is None or kind is bool or kind is float) or value != value:  # noqa: PLR0124
        raise ValueError("no plain value: " + ascii(kind.__name__)[1:-1])
    text = ascii(value)
    _spend(room, len(text))
    return text.replace("inf", "1e999") if kind is float else text


def _spend(room: list[int], characters: int) -> None:
    room[0] -= characters
    if room[0] < 0:
        raise ValueError("too large")


def _container_text(value: Any, depth: int, room: list[int]) -> str:
    parts = []
    if type(value) is dict:
        for key, item in value.items():
            written = literal_text(key, depth, room), literal_text(item, depth, room)
            parts.append(": ".join(written))
        return "{" + ", ".join(parts) + "}"
    for item in value:
        parts.append(literal_text(item, depth, room))
        _spend(room, 2)
    if type(value) is list:
        return "[" + ", ".join(parts) + "]"
    if type(value) is set:
        return "{" + ", ".join(sorted(parts)) + "}" if parts else "set()"
    return "(" + ", ".join(parts) + (",)" if len(parts) == 1 else ")")


def answer(
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
        else:
            tell(str(number) + " " + _describe(value))
    leave(0)


def _describe(value: object) -> str:
    try:
        return "ok " + literal_text(value)
    except ValueError as error:
        return str(error)
