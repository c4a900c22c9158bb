"""Runs a command's ``main``: prints its error and returns its exit code.

Every entry point calls :func:`run_entry`. Characters that the output's encoding lacks are replaced.
"""

import codecs
import contextlib
import errno
import os
import signal
import sys
import unicodedata
from collections.abc import Callable, Sequence

from Daddy.core.errors import DaddyError, ExitCode

_PLAIN = {
    **dict(zip("●◐○━─·×→–▁▂▃▄▅▆▇█", "*!o=-|x>-_.:-=+*#", strict=True)),
    "±": "+-",
}
"""Character of our screens → its replacement where the encoding lacks it."""
_HANDLER = "daddy-plain"


def _plain(error: UnicodeError) -> tuple[str, int]:
    """Replace characters that cannot be encoded: é by e, others by ?."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter) or _ascii_of(letter) for letter in letters), error.end


def _ascii_of(letter: str) -> str:
    return unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode() or "?"


codecs.register_error(_HANDLER, _plain)


def make_output_safe() -> None:
    """Replace what the encoding of stdout and stderr lacks (ISO-8859-1, ASCII) by ASCII."""
    for stream in (sys.stdout, sys.stderr):
        if reconfigure := getattr(stream, "reconfigure", None):  # not a stream of a test or a GUI
            reconfigure(errors=_HANDLER)


def run_entry(
    main: Callable[[Sequence[str] | None], int],
    argv: Sequence[str] | None = None,
    *,
    private: bool = False,
) -> int:
    """Call ``main`` and turn its exception into a message on stderr and an exit code.

    ``private``: other accounts cannot read the files that this process and its children make.

    A :class:`DaddyError` or a disk error is printed in two lines; any other exception is a bug and
    shows its traceback. Until here Ctrl-C ended the process at once (``Daddy/__init__.py``).
    """
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    make_output_safe()
    if private:
        os.umask(0o077)
    try:
        return int(main(argv))
    except DaddyError as error:
        _print(f"error: {error}")
        return int(error.exit_code)
    except KeyboardInterrupt:
        _print("interrupted")
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
    _print(f"error: {error.strerror}{where}")
    _print("  what to do: check that the path exists, is writable and has space")
    return int(ExitCode.FILES)


def _print(line: str) -> None:
    """Print to stderr, if it is open and its disk has room: the exit code stays the same."""
    with contextlib.suppress(OSError, ValueError):
        print(line, file=sys.stderr, flush=True)
