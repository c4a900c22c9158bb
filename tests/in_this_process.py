"""Runs a program's `main` in the test's own process, which has loaded torch already."""

import contextlib
import io
import logging
import os
import signal
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from Daddy.core.entry_point import run_entry
from Daddy.core.stop_conditions import SIGNALS


class Ended(NamedTuple):
    """Holds exit code and output of a program; the names are those of `CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def run_here(
    main: Callable[[Sequence[str] | None], int],
    argv: Sequence[str],
    folder: Path,
    environ: Mapping[str, str] = os.environ,
) -> Ended:
    """Run `main` in `folder` with exactly `environ`, as a shell starts it; put all back after."""
    out, err = io.StringIO(), io.StringIO()
    with (
        _process_restored(),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        given = dict(environ)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(given)
        try:
            code = run_entry(main, argv)
        except SystemExit as error:  # argparse
            code = int(str(error.code))
    return Ended(code, out.getvalue(), err.getvalue())


@contextlib.contextmanager
def _process_restored() -> Iterator[None]:
    """Put back folder, environment, signal handlers and log after the `with` block."""
    folder, environ, log = Path.cwd(), dict(os.environ), logging.getLogger()
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    kept = log.handlers[:], log.level, logging.raiseExceptions
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        log.handlers[:], log.level, logging.raiseExceptions = kept
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environ)
