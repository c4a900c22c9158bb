"""Pure: times and numbers as a person reads them at a glance."""

from __future__ import annotations

from datetime import datetime, timezone

_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


def span(seconds: float) -> str:
    """A length of time with its two largest units: ``3 d 4 h``, ``2 h 05 min``, ``41 s``."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < _HOUR:
        return f"{whole // _MINUTE} min"
    if whole < 2 * _DAY:
        return f"{whole // _HOUR} h {whole % _HOUR // _MINUTE:02d} min"
    return f"{whole // _DAY} d {whole % _DAY // _HOUR} h"


def age(seconds: float) -> str:
    """The same with one unit: how fresh something is."""
    whole = max(0, round(seconds))
    if whole < 2 * _MINUTE:
        return f"{whole} s"
    if whole < 2 * _HOUR:
        return f"{whole // _MINUTE} min"
    return f"{round(whole / _HOUR)} h" if whole < 2 * _DAY else f"{whole // _DAY} d"


def clock(stamp: float, now: float) -> str:
    """Local time of day; with the day of the week from half a day away, with the date from six."""
    there = datetime.fromtimestamp(stamp, tz=timezone.utc).astimezone()
    away = abs(stamp - now)
    if away < _DAY / 2:
        return there.strftime("%H:%M:%S" if away < _MINUTE else "%H:%M")
    return there.strftime("%a %H:%M" if away < 6 * _DAY else "%Y-%m-%d %H:%M")


def amount(number: float) -> str:
    """A count with at most four digits to read: ``812``, ``12,345``, ``3.14 M``."""
    size = abs(number)
    if size < 100:  # noqa: PLR2004 - small rates keep a digit
        return f"{number:.1f}".removesuffix(".0")
    if size < 1e6:  # noqa: PLR2004
        return f"{number:,.0f}"
    return f"{number / 1e6:,.2f} M" if size < 1e9 else f"{number / 1e9:,.2f} G"  # noqa: PLR2004


def one_line(text: str, longest: int = 240) -> str:
    """Words that others wrote, fit for a terminal: no control characters, no new lines, no end."""
    shown = "".join(letter if letter.isprintable() else "?" for letter in text)
    return shown if len(shown) <= longest else f"{shown[: longest - 1]}…"
