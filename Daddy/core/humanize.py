"""Pure: times and counts as people read them, and lengths of time as Slurm writes them."""

from __future__ import annotations

import re
from datetime import datetime, timezone

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def format_span(seconds: float) -> str:
    """A length of time with its two largest units: ``3 d 4 h``, ``2 h 05 min``, ``41 s``."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def format_age(seconds: float) -> str:
    """The same with one unit: how fresh something is."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE} min"
    return f"{round(whole / _HOUR)} h" if whole < 2 * _DAY else f"{whole // _DAY} d"


def format_time(stamp: float, now: float) -> str:
    """Local time of day; with the day of the week from half a day away, with the date from six."""
    there = datetime.fromtimestamp(stamp, tz=timezone.utc).astimezone()
    away = abs(stamp - now)
    if away < _DAY / 2:
        return there.strftime("%H:%M:%S" if away < _MINUTE else "%H:%M")
    return there.strftime("%a %H:%M" if away < 6 * _DAY else "%Y-%m-%d %H:%M")


def format_count(number: float) -> str:
    """A count with at most four digits to read: ``812``, ``12,345``, ``3.14 M``."""
    size = abs(number)
    if size < 100:  # noqa: PLR2004 - small rates keep a digit
        return f"{number:.1f}".removesuffix(".0")
    if size < 1e6:  # noqa: PLR2004
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f} M" if size < 1e9 else f"{number / 1e9:,.2f} G"  # noqa: PLR2004


def printable_line(text: str, longest: int = 240) -> str:
    """Words that others wrote, fit for a terminal: no control characters, no new lines, no end."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"


_FORM = re.compile(r"(?:(\d+)-)?(\d+)(?::(\d{1,2}))?(?::(\d{1,2}))?")


def parse_duration(text: str) -> int:
    """Seconds of ``D-HH:MM:SS``, ``H:MM:SS``, ``MM:SS`` or ``MM``; ValueError otherwise."""
    match = _FORM.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is no length of time such as 4:00:00")
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
    """``H:MM:SS`` of a number of seconds."""
    whole = max(0, int(seconds))
    return f"{whole // 3600}:{whole // 60 % 60:02d}:{whole % 60:02d}"
