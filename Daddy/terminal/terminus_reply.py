"""Pure. Parses a model's reply in the format terminus-json-plain.

A reply is one JSON object, which text or a code fence may surround: ``analysis`` and ``plan`` are
texts, ``commands`` a list of ``keystrokes`` with a ``duration`` in seconds, and ``task_complete``
ends the episode.
"""

import json
from dataclasses import dataclass
from typing import Any, Final

from Daddy.core.humanize import printable_line

LONGEST_S: Final = 180.0
_USUAL_S = 1.0


@dataclass(frozen=True)
class TypedCommand:
    """Keys to type, and the seconds to wait at most."""

    keys: str
    duration_s: float = _USUAL_S


@dataclass(frozen=True)
class TerminusReply:
    """A reply that keeps the format."""

    commands: tuple[TypedCommand, ...]
    task_complete: bool = False


def parse_reply(text: str) -> TerminusReply:
    """Return the reply. Raises ValueError with the first thing that breaks the format."""
    start, end = text.find("{"), text.rfind("}")
    if not 0 <= start < end:
        raise ValueError(f"there is no JSON object in {printable_line(text, 60)!r}")
    try:
        found = json.loads(text[start : end + 1])
    except RecursionError as error:
        raise ValueError("it is nested too deep") from error
    commands = _field(found, "commands", list)
    for name in ("analysis", "plan"):
        _field(found, name, str)
    return TerminusReply(
        commands=tuple(map(_read_command, commands)),
        task_complete=_field(found, "task_complete", bool, default=False),
    )


def _read_command(found: Any) -> TypedCommand:
    if not isinstance(found, dict):
        raise ValueError(f"{printable_line(repr(found), 60)} is no command")  # noqa: TRY004
    duration = _field(found, "duration", (int, float), default=_USUAL_S)
    if isinstance(duration, bool) or not 0 <= duration < float("inf"):
        raise ValueError(f"duration {duration!r} is no number of seconds")
    keys = _field(found, "keystrokes", str)
    keys.encode()  # raises UnicodeEncodeError, a ValueError, for half of a surrogate pair
    return TypedCommand(keys, float(min(duration, LONGEST_S)))


def _field(found: Any, name: str, kind: Any, default: Any = None) -> Any:
    value = found.get(name, default)
    if not isinstance(value, kind):
        raise ValueError(f"{name} = {printable_line(repr(value), 60)} is missing or wrong")  # noqa: TRY004
    return value
