"""Prints screens: redrawn in place on a terminal, as plain lines where none can be redrawn.

A terminal without cursor movement (``TERM=dumb``), a pipe and a file get each screen as text.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console, RenderableType

UNLIMITED_WIDTH = 10_000
"""Columns where there is no terminal, so that grep finds whole paths and reasons."""
_DEFAULT_COLUMNS, _DEFAULT_LINES = 80, 24
"""Columns and lines of a terminal that does not know its size."""

Screen = Callable[[int], "RenderableType"]
"""Draws a screen of that many columns."""


def output_width() -> int:
    """Return the columns of the terminal, or of ``COLUMNS``; if there is none `UNLIMITED_WIDTH`."""
    if _is_terminal():
        return shutil.get_terminal_size((_DEFAULT_COLUMNS, _DEFAULT_LINES)).columns
    asked = os.environ.get("COLUMNS", "")
    return int(asked) if asked.isdecimal() and int(asked) else UNLIMITED_WIDTH


def can_redraw() -> bool:
    """Return True if standard output is a terminal whose cursor can be moved."""
    return _is_terminal() and os.environ.get("TERM", "") not in ("", "dumb", "unknown")


def _is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()  # None: the shell closed it (>&-)


def make_console() -> Console:
    """Return rich's console; where nothing can be redrawn, as wide as `output_width`."""
    from rich.console import Console

    if can_redraw():
        return Console(highlight=False)
    return Console(highlight=False, width=output_width(), height=_DEFAULT_LINES)  # rich: 80 if dumb


def print_screen(draw: Screen) -> None:
    """Print a screen, in colour on a terminal that has any; no line ends with spaces."""
    console = make_console()
    with console.capture() as text:
        console.print(draw(console.width))
    print("\n".join(line.rstrip() for line in text.get().splitlines()), flush=True)


def show_screens(screens: Iterable[Screen]) -> None:
    """Redraw each screen in place until there are no more; print all where that is impossible."""
    if not can_redraw():
        for draw in screens:
            print_screen(draw)
        return
    from rich.live import Live

    console = make_console()
    with Live(console=console, screen=True, auto_refresh=False) as live:
        for draw in screens:
            live.update(draw(console.width), refresh=True)
