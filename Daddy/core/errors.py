"""Pure. The exceptions of the project: each has a message, a remedy and an exit code.

Entry points call :func:`run_entry`, which alone prints errors and chooses exit codes. It also makes
their output safe: a letter that the terminal's encoding lacks ends no command.
"""

from __future__ import annotations

import codecs
import errno
import signal
import sys
import unicodedata
from collections.abc import Callable, Sequence
from enum import IntEnum


class ExitCode(IntEnum):
    """Every exit code of our commands (meanings: ``docs/exit-codes.md``)."""

    DONE = 0
    BUG = 1
    USAGE = 2
    CONFIGURATION = 3
    SCHEDULER = 4
    CONTROLLER_ALIVE = 5
    WEIGHTS = 6
    ROM = 7
    NETWORK = 8
    FILES = 9
    DRAINED = 10
    NOT_NEEDED = 11
    NOT_LEARNT = 15
    DEGRADED = 20
    DOWN = 21
    UNKNOWN = 22
    NO_RELAY = 30
    REFUSED = 31
    DO_NOT_RESTART = 93
    INTERRUPTED = 130


class DaddyError(Exception):
    """An error that a person can mend: ``message`` says what happened, ``fix`` what to do next."""

    exit_code = ExitCode.BUG

    def __init__(self, message: str, fix: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.fix = fix

    def __str__(self) -> str:
        return f"{self.message}\n  what to do: {self.fix}" if self.fix else self.message


class UsageError(DaddyError):
    """The command line cannot be carried out as typed."""

    exit_code = ExitCode.USAGE


class ConfigError(DaddyError):
    """A setting is wrong, unknown, or cannot be met on this machine."""

    exit_code = ExitCode.CONFIGURATION


class SchedulerError(DaddyError):
    """The scheduler refused a request or gives no answer."""

    exit_code = ExitCode.SCHEDULER


class ControllerAliveError(DaddyError):
    """Another controller holds the lease of this run."""

    exit_code = ExitCode.CONTROLLER_ALIVE


class WeightsError(DaddyError):
    """Shared weights are missing, damaged or refused."""

    exit_code = ExitCode.WEIGHTS


class RomError(DaddyError):
    """The ROM or a save state is missing, wrong or refused."""

    exit_code = ExitCode.ROM


class NetworkError(DaddyError):
    """A host or a port cannot be used."""

    exit_code = ExitCode.NETWORK


class FileError(DaddyError):
    """A file or a folder cannot be read or written."""

    exit_code = ExitCode.FILES


_PLAIN = {
    **dict(zip("●◐○━─·×→–▁▂▃▄▅▆▇█", "*!o=-|x>-_.:-=+*#", strict=True)),
    "±": "+-",
}
"""Letter of our screens → what stands for it where the encoding lacks it."""
_HANDLER = "daddy-plain"


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace letters that cannot be encoded: é becomes e, one without a likeness ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or _ascii_of(letter) for letter in letters), error.end


def _ascii_of(letter: str) -> str:
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


codecs.register_error(_HANDLER, _plain)


def make_output_safe() -> None:
    """Replace what the encoding of stdout and stderr lacks (ISO-8859-1, ASCII) by plain letters."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):  # not a stream of a test or a GUI
            reconfigure(errors=_HANDLER)


def run_entry(
    main: Callable[[Sequence[str] | None], int], argv: Sequence[str] | None = None
) -> int:
    """Call ``main`` and turn its exception into a message on stderr and an exit code.

    A :class:`DaddyError` or a disk error is printed in two lines; any other exception is a bug and
    shows its traceback. Until here Ctrl-C ended the process at once (``Daddy/__init__.py``).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    make_output_safe()
    try:
        return int(main(argv))
    except DaddyError as error:
        print(f"error: {error}", file=sys.stderr)
        return int(error.exit_code)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        sys.stderr.close()
        return int(ExitCode.DONE)
    except OSError as error:
        return _report_os_error(error)


_DISK_ERRORS = frozenset(
    {errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EIO, errno.EFBIG, errno.ESTALE}
)
"""Errors of a disk, which the system often raises without the name of a file."""


def _report_os_error(error: OSError) -> int:
    """Print a disk error, such as a full disk, with its path; raise any other error again."""
    if error.filename is None and error.errno not in _DISK_ERRORS:
        raise error
    where = "" if error.filename is None else f": {error.filename}"
    print(f"error: {error.strerror}{where}", file=sys.stderr)
    print("  what to do: check that the path exists, is writable and has space", file=sys.stderr)
    return int(ExitCode.FILES)
