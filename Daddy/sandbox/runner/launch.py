"""Adapter for a process that becomes a command: takes its place, its limits and its filter."""

from __future__ import annotations

import atexit
import gc
import json
import os
import resource
import signal
import sys
import threading
import types
from typing import Any

from . import kernel

_DESCRIPTORS = 4
"""Standard input, output and error, and the result."""
_NOT_FOUND = 127
_DEFAULT_ENVIRONMENT = {"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C.UTF-8"}  # noqa: S108


def become_command(
    specification: int, descriptors: list[int], limits: dict[str, int], program: bytes | None
) -> None:
    """Never return: run the command that the file `specification` describes.

    `descriptors` become 0 to 3; all others are closed. Rights must be dropped before.
    """
    command = _read_json(specification)
    for target, source in enumerate(descriptors):
        os.dup2(source, target)
    os.closerange(_DESCRIPTORS, 1024)
    os.environ.clear()
    os.environ.update({**_DEFAULT_ENVIRONMENT, **command["env"]})
    try:
        os.chdir(command["folder"])
    except OSError as error:
        _give_up(f"sandbox: cannot enter {command['folder']!r}: {error.strerror}")
    set_limits(limits)
    if program:
        kernel.enter_filter(program)
    if command["argv"]:
        _execute(command["argv"])
    run_source(command["python"])


def _read_json(descriptor: int) -> dict[str, Any]:
    chunks = iter(lambda: os.read(descriptor, 1 << 20), b"")
    found: dict[str, Any] = json.loads(b"".join(chunks))
    return found


def set_limits(limits: dict[str, int]) -> None:
    """Set resource limits by name, soft and hard, no higher than they are."""
    for name, value in limits.items():
        number = getattr(resource, f"RLIMIT_{name}", None)
        if number is not None:
            hard = resource.getrlimit(number)[1]
            bound = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(number, (bound, bound))


def _execute(argv: list[str]) -> None:
    for number in (signal.SIGPIPE, signal.SIGXFSZ):
        signal.signal(number, signal.SIG_DFL)
    try:
        os.execvp(argv[0], argv)  # noqa: S606
    except OSError as error:
        _give_up(f"sandbox: cannot run {argv[0]!r}: {error.strerror}")


def _give_up(message: str) -> None:
    os.write(2, message.encode(errors="replace") + b"\n")
    os._exit(_NOT_FOUND)


def run_source(source: str) -> None:
    """Run Python source as ``__main__`` of this interpreter and end the process as Python would."""
    for name in [name for name in sys.modules if name.partition(".")[0] == "runner"]:
        del sys.modules[name]
    main = types.ModuleType("__main__")
    sys.modules["__main__"] = main
    sys.argv = ["-c"]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    gc.enable()
    code = 0
    try:
        exec(compile(source, "<command>", "exec"), main.__dict__)  # noqa: S102
    except SystemExit as error:
        code = _exit_code(error)
    except BaseException as error:  # noqa: BLE001
        code = 1
        trace = error.__traceback__
        sys.excepthook(type(error), error, trace.tb_next if trace else None)
    os._exit(_finish(code))


def _exit_code(error: SystemExit) -> int:
    if error.code is None:
        return 0
    if isinstance(error.code, int):
        return error.code & 0xFF
    print(error.code, file=sys.stderr)
    return 1


def _finish(code: int) -> int:
    """Join threads, call exit handlers and flush, as an interpreter does at its end."""
    try:
        threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
        atexit._run_exitfuncs()  # noqa: SLF001
        sys.stdout.flush()
        sys.stderr.flush()
    except BaseException:  # noqa: BLE001
        return code or 120
    return code
