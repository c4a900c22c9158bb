"""Logging of the programs that write log files: UTC time stamp, level, module and message.

A program calls `log_to` once, at its start; modules call ``logging.getLogger(__name__)``. A child
process logs at the level of its parent, which travels in the environment.
"""

import argparse
import logging
import os
import sys
import time
from typing import Any, TextIO

from Daddy.core.humanize import printable_line

LEVEL = "DADDY_LOG_LEVEL"
"""Environment variable: the level of a parent process, as one of logging's names."""
_LONGEST = 8192
_FORMAT = "%(asctime)s %(levelname)-7s %(module)s: %(message)s"


class _OneLine(logging.Formatter):
    """Formats a message as one line: text from another machine adds no line and no escape code."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - logging's name
        """Return the line; a character that cannot be printed becomes a question mark."""
        return printable_line(super().formatMessage(record), _LONGEST)

    def formatException(self, ei: Any) -> str:  # noqa: N802 - logging's name
        """Return the traceback indented, so that no text in it passes for a line of the log."""
        lines = super().formatException(ei).splitlines()
        return "\n".join(f"  {printable_line(line, _LONGEST)}" for line in lines)


def add_log_flags(parser: argparse.ArgumentParser) -> None:
    """Add ``-v`` and ``-q``; the parsed ``log_level`` is None where neither is given."""
    flag = parser.add_mutually_exclusive_group().add_argument
    kept = {"action": "store_const", "dest": "log_level"}
    flag("-v", "--verbose", const="DEBUG", help="log debug messages too", **kept)  # type: ignore[arg-type]
    flag("-q", "--quiet", const="WARNING", help="log warnings and errors only", **kept)  # type: ignore[arg-type]


def log_to(stream: TextIO | None = None, level: str | None = None) -> None:
    """Log to `stream` (stderr) from `level` on (the parent's, else INFO).

    Other libraries' loggers keep to warnings. A full disk or a closed stderr costs lines, never the
    program.
    """
    chosen = level or os.environ.get(LEVEL, "")
    os.environ[LEVEL] = chosen = chosen if chosen in {"DEBUG", "WARNING"} else "INFO"
    output = stream or sys.stderr
    if output and not output.isatty() and (reconfigure := getattr(output, "reconfigure", None)):
        reconfigure(encoding="utf-8", errors="backslashreplace")  # `logs` reads UTF-8
    handler = logging.StreamHandler(output)
    formatter = _OneLine(_FORMAT, "%Y-%m-%dT%H:%M:%SZ")
    formatter.converter = time.gmtime
    handler.setFormatter(formatter)
    logging.raiseExceptions = False
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    for name in ("Daddy", "__main__"):
        logging.getLogger(name).setLevel(chosen)
