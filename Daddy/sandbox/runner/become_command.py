"""Adapter for a process that becomes a command: takes its place, its limits and its filter."""

from __future__ import annotations

import _signal  # type: ignore[import-not-found]
import atexit
import gc
import json
import os
import resource
import sys
import types

from . import kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

_MOST_DESCRIPTORS = 1024
_NOT_RUN = 127
ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108


def replace_process(
    specification: int, descriptors: list[int], limits: dict[str, int], program: bytes | None
) -> NoReturn:
    """Run the command that the file `specification` describes."""
    command = _read_json(specification)
    confine(descriptors, limits, program)
    kernel.set_open_to_others(is_open=True)
    try:
        os.environ.update(command["env"])
        os.chdir(command["folder"])
        if command["argv"]:
            _execute(command["argv"])
    except (OSError, ValueError) as error:
        what = command["argv"][:1] or command["folder"]
        os.write(2, f"sandbox: cannot run {what!r}: {error}\n".encode(errors="replace"))
        os._exit(_NOT_RUN)
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    os._exit(run_source(command["python"]))


def _read_json(descriptor: int) -> dict[str, Any]:
    chunks = iter(lambda: os.read(descriptor, 1 << 20), b"")
    found: dict[str, Any] = json.loads(b"".join(chunks))
    return found


def confine(descriptors: list[int], limits: dict[str, int], program: bytes | None) -> None:
    """Set resource limits and the filter; then make `descriptors` 0 and up, and close all others.

    Until the end an error can be told to the runner.
    """
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (bound, bound))
    if program:
        kernel.enter_filter(program)
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
    os.closerange(len(descriptors), _MOST_DESCRIPTORS)


def _execute(argv: list[str]) -> None:
    for number in (_signal.SIGPIPE, _signal.SIGXFSZ):
        _signal.signal(number, _signal.SIG_DFL)
    os.execvp(argv[0], argv)  # noqa: S606


def run_source(source: str) -> int:
    """Run Python source as ``__main__`` of this interpreter, and what Python does at its end.

    Returns the exit code.
    """
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv[:] = ["-c"]
    _signal.signal(_signal.SIGINT, _signal.default_int_handler)
    gc.enable()
    code = 0
    try:
        exec(compile(source, "<command>", "exec"), main.__dict__)  # noqa: S102
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:  # noqa: BLE001
        code = 1
        trace = error.__traceback__
        error = error.with_traceback(trace.tb_next if trace else None)
        sys.excepthook(type(error), error, error.__traceback__)
    return _finish(code)


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _finish(code: int) -> int:
    """Join threads, call exit handlers and flush."""
    try:
        if threading := sys.modules.get("threading"):
            threading._shutdown()  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001
        return code or 120  # as Python when it cannot flush
    return code
