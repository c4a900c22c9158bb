"""Pure. Formats times, counts and columns for people, and durations as Slurm writes them."""

import re
from collections.abc import Sequence
from datetime import datetime, timezone

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400
GAP = 2
"""Spaces between two columns of a table."""
_LEAST = 16
"""Characters that the last column of a table keeps, in which text is wrapped."""
_CONTROL = re.compile("[\\x00-\\x1f\\x7f-\\x9f\\u2028\\u2029\\ud800-\\udfff]")


def format_span(seconds: float) -> str:
    """Format a duration with its two largest units: ``3 d 4 h``, ``2 h 05 min``, ``41 s``."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def format_age(seconds: float) -> str:
    """Format an age with one unit: ``3 d``, ``5 h``, ``12 min``, ``41 s``."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE} min"
    return f"{round(whole / _HOUR)} h" if whole < 2 * _DAY else f"{whole // _DAY} d"


def format_time(stamp: float, now: float) -> str:
    """Format as local time; with the weekday if ``now`` is half a day off, the date if six days."""
    local = datetime.fromtimestamp(stamp, tz=timezone.utc).astimezone()
    away = abs(stamp - now)
    if away < _DAY / 2:
        return local.strftime("%H:%M:%S" if away < _MINUTE else "%H:%M")
    return local.strftime("%a %H:%M" if away < 6 * _DAY else "%Y-%m-%d %H:%M")


def format_count(number: float) -> str:
    """Format a count: ``8.1``, ``812``, ``12,345``, ``3.14 M``, ``2.50 G``."""
    size = abs(number)
    if size < 100:  # noqa: PLR2004 - small rates keep a digit
        return f"{number:.1f}".removesuffix(".0")
    if size < 1e6:  # noqa: PLR2004
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f} M" if size < 1e9 else f"{number / 1e9:,.2f} G"  # noqa: PLR2004


def printable_line(text: str, limit: int = 240) -> str:
    """Return another account's text, ? for what is unprintable, cut to ``limit`` characters."""
    shown = "".join(char if char.isprintable() else "?" for char in text)
    return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"


def has_control_character(text: str) -> bool:
    """Return True for text with a control character, a line separator or undecodable bytes."""
    return _CONTROL.search(text) is not None


def kept_columns(
    heads: Sequence[str], widths: Sequence[int], width: int, expendable: Sequence[str]
) -> list[int]:
    """Return the indices of the columns that fit into ``width`` with gaps of `GAP` between them.

    Columns in ``expendable`` go, the first of them first; the last column of all can be wrapped.
    """
    kept, going = [*range(len(heads))], [*expendable]
    needed = [*widths[:-1], min(widths[-1], _LEAST)]
    while going and sum(needed[index] + GAP for index in kept) - GAP > width:
        head = going.pop(0)
        kept = [index for index in kept if heads[index] != head]
    return kept


_FORM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?")


def parse_duration(text: str) -> int:
    """Parse ``D-HH:MM:SS``, ``H:MM:SS``, ``MM:SS`` or ``MM`` into seconds; or ValueError."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no duration such as 4:00:00")
    days, *parts = match.groups()
    numbers = [int(part) for part in parts if part is not None]
    if days is not None:
        hours, minutes, seconds = [*numbers, 0, 0][:3]
        return ((int(days) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(numbers) == 1:
        return numbers[0] * 60
    total = 0
    for number in numbers:
        total = total * 60 + number
    return total


def format_duration(seconds: float) -> str:
    """Format seconds as ``H:MM:SS``."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
