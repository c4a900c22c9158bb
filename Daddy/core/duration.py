"""Pure: Slurm's way to write a length of time."""

from __future__ import annotations

import re

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
