"""Adapter for child processes: starts them without a shell.

:func:`run_command` waits for a short child with a timeout; :func:`start_background` leaves a child
running with its output in a log file; :func:`spawn_child` returns a handle of a job's process;
:func:`run_interactive` gives a child the terminal, :func:`spawn_connected` a connection of ours.
"""

import contextlib
import os
import signal
import subprocess
import threading
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from Daddy.core.errors import DaddyError
from Daddy.core.host_and_processes import ProcessId, identify_process, parent_death_hook
from Daddy.core.humanize import printable_line

_PIPE_CLOSE_S = 2.0
"""Seconds to wait for a killed child's pipes to close."""


@dataclass(frozen=True, slots=True)
class Completed:
    """The result of a finished child: exit status and both outputs as text."""

    returncode: int
    stdout: str
    stderr: str

    @property
    def fault(self) -> str:
        """The last line of its errors, printable; its exit code if there is none."""
        lines = self.stderr.strip().splitlines() or [f"exit code {self.returncode}"]
        return printable_line(lines[-1])


class ProcessTimeoutError(DaddyError):
    """A child process did not finish within its time limit and was killed."""


class ProgramMissingError(DaddyError):
    """The program is not installed on this machine."""


def run_command(
    argv: Sequence[str],
    timeout_s: float,
    *,
    env: Mapping[str, str] | None = None,
    stdin: str | None = None,
    cwd: Path | None = None,
    show_progress: bool = False,
    die_with_us: bool = False,
) -> Completed:
    """Run ``argv`` to its end and return its output; ``show_progress`` leaves stderr as it is.

    The child leads a process group of its own; the whole group is killed after ``timeout_s``
    seconds. With ``die_with_us`` the kernel kills the child when this process dies (Linux).
    Raises ProgramMissingError and ProcessTimeoutError.
    """
    with _installed(argv):
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=None if show_progress else subprocess.PIPE,
            env=env,
            cwd=cwd,
            text=True,
            errors="replace",
            start_new_session=True,
            preexec_fn=parent_death_hook(os.getpid()) if die_with_us else None,  # noqa: PLW1509
        )
    try:
        out, err = child.communicate(stdin, timeout=timeout_s)
    except BaseException as error:
        _end_group(child)
        if isinstance(error, subprocess.TimeoutExpired):
            raise ProcessTimeoutError(
                f"{' '.join(argv[:3])} … gave no answer within {timeout_s:g} s",
                "check that the host or service of the program answers, then try again",
            ) from error
        raise
    return Completed(child.returncode, out, err or "")


def run_interactive(argv: Sequence[str]) -> int:
    """Run ``argv`` on the terminal, without a time limit, and return its exit status.

    The child may ask the person for input. Raises ProgramMissingError.
    """
    with _installed(argv):
        return subprocess.run(argv, check=False).returncode


@contextlib.contextmanager
def _installed(argv: Sequence[str]) -> Iterator[None]:
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ProgramMissingError(f"{argv[0]} is not installed", f"install {argv[0]}") from error
    except PermissionError as error:  # also a folder of PATH that we may not enter
        fix = f"install {argv[0]}, or take folders that you may not enter from PATH"
        raise ProgramMissingError(f"{argv[0]} cannot be run: {error.strerror}", fix) from error


def _end_group(child: subprocess.Popen[str]) -> None:
    """Kill the child's group; close our pipes, since a process outside it may keep them open."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    with contextlib.suppress(subprocess.TimeoutExpired):
        child.communicate(timeout=_PIPE_CLOSE_S)
    for pipe in filter(None, (child.stdin, child.stdout, child.stderr)):
        with contextlib.suppress(OSError):
            pipe.close()


def start_background(
    argv: Sequence[str],
    *,
    log_path: Path,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    detach: bool = True,
    keep_open: Sequence[int] = (),
) -> ProcessId:
    """Start ``argv`` in the background, output appended to ``log_path``; return its identity.

    ``detach`` gives the child a session of its own, so that it survives a closed terminal;
    ``keep_open`` are descriptors that stay open in the child.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab") as log:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            env=env,
            cwd=cwd,
            start_new_session=detach,
            pass_fds=tuple(keep_open),
        )
    _reap_later(child)
    return identify_process(child.pid) or ProcessId(child.pid, 0.0)


class Child:
    """A running program that leads a session of its own; its caller waits for it and signals it."""

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        self._popen = popen
        self.pid = popen.pid

    def wait(self, seconds: float | None) -> bool:
        """Wait at most ``seconds`` (None: without limit); return True if the program has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._popen.wait(None if seconds is None else max(0.0, seconds))
        return self._popen.returncode is not None

    @property
    def exit_code(self) -> int | None:
        """Exit code as a shell reports it: 128 + n after signal n; None while it runs."""
        code = self._popen.returncode
        return code if code is None or code >= 0 else 128 - code

    def signal(self, number: int) -> None:
        """Send a signal to the program alone."""
        if self._popen.returncode is None:
            self._popen.send_signal(number)

    def signal_group(self, number: int) -> None:
        """Send a signal to every process of the program's group, also after the program's end."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)


def spawn_child(
    argv: Sequence[str],
    *,
    stdout: Path,
    stderr: Path,
    env: Mapping[str, str],
    cwd: Path,
    keep_open: Sequence[int] = (),
    die_with_us: bool = False,
) -> Child:
    """Start ``argv``, append outputs to the files, pass ``keep_open`` on. OSError on failure.

    With ``die_with_us`` the kernel kills the child when this thread dies (Linux).
    """
    with stdout.open("ab") as out, stderr.open("ab") as err:
        popen = subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            env=dict(env),
            cwd=cwd,
            start_new_session=True,
            pass_fds=tuple(keep_open),
            preexec_fn=parent_death_hook(os.getpid()) if die_with_us else None,  # noqa: PLW1509
        )
    return Child(popen)


def spawn_in_session(argv: Sequence[str], keep_open: Sequence[int]) -> Child:
    """Start ``argv`` in our session, with our outputs and with ``keep_open`` open. OSError.

    Linux may share cores by session: in its own session the child's niceness would do nothing.
    """
    popen = subprocess.Popen(list(argv), stdin=subprocess.DEVNULL, pass_fds=tuple(keep_open))
    return Child(popen)


def spawn_with_output(argv: Sequence[str], output: int) -> Child:
    """Start ``argv`` in a session of its own with both outputs in the descriptor ``output``.

    Raises ProgramMissingError.
    """
    with _installed(argv):
        return Child(
            subprocess.Popen(
                list(argv),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        )


class ConnectedChild(Child):
    """A child whose stdin and stdout are one socket; keeps the last 40 lines of its stderr."""

    _LINES, _LINE_BYTES = 40, 2000

    def __init__(self, popen: subprocess.Popen[bytes]) -> None:
        super().__init__(popen)
        self._errors: deque[str] = deque(maxlen=self._LINES)
        self._reader = threading.Thread(target=self._read_errors, daemon=True)
        self._reader.start()

    def error_lines(self) -> tuple[str, ...]:
        """Return the last 40 lines of the program's standard error."""
        return tuple(self._errors)

    def terminate(self, grace_s: float) -> None:
        """Send SIGTERM, ``grace_s`` seconds later SIGKILL, and read the rest of its stderr."""
        for number in (signal.SIGTERM, signal.SIGKILL):
            self.signal(number)
            if self.wait(grace_s):
                break
        self._reader.join(grace_s)  # a program that it left behind may keep the pipe

    def _read_errors(self) -> None:
        stream = self._popen.stderr
        assert stream is not None
        with stream:
            while line := stream.readline(self._LINE_BYTES):
                self._errors.append(line.decode(errors="replace").rstrip())


def spawn_connected(argv: Sequence[str], connection: int) -> ConnectedChild:
    """Start ``argv`` with the descriptor ``connection`` as its standard input and output.

    The child stays in our session, so it may ask the person at our terminal. ProgramMissingError.
    """
    with _installed(argv):
        return ConnectedChild(
            subprocess.Popen(argv, stdin=connection, stdout=connection, stderr=subprocess.PIPE)
        )


_CHILDREN: list[subprocess.Popen[bytes]] = []
_CHILDREN_LOCK = threading.Lock()


def _reap_later(child: subprocess.Popen[bytes]) -> None:
    """Keep ``child``, so that :func:`running_pids` can reap it after it has ended."""
    running_pids()
    with _CHILDREN_LOCK:
        _CHILDREN.append(child)


def running_pids() -> set[int]:
    """Reap the children of :func:`start_background` that ended; return the pids of the others."""
    with _CHILDREN_LOCK:
        _CHILDREN[:] = [child for child in _CHILDREN if child.poll() is None]
        return {child.pid for child in _CHILDREN}
