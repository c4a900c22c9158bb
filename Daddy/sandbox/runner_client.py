"""Adapter for a runner: speaks to the program inside a sandbox over its two pipes.

A message is one line of JSON with ``"bytes": n``, then n bytes. The runner's answers are claims of
untrusted code: headers, sizes and values are checked, and a runner that breaks the rules is killed.
"""

import asyncio
import contextlib
import json
import os
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from dataclasses import fields, replace
from pathlib import Path
from typing import IO, Any, Literal, get_args

from Daddy.core.errors import CopyFailedError, FileError, SandboxError
from Daddy.core.humanize import printable_line
from Daddy.sandbox.sandbox_interfaces import (
    LINE_BYTES,
    LINES_PER_S,
    MIB,
    Command,
    Ending,
    Limits,
    OnLine,
    Outcome,
)
from Daddy.sandbox.transfer import MAX_FILES, PIECE, PUT_BYTES, TarUnpacker, pack_tar

RUNNER = Path(__file__).parent / "runner"
FILES = "/files"
"""Folder of a fresh sandbox that `put` writes to."""
Mode = Literal["fresh", "persistent", "plain"]

_HEADER_BYTES = 16 * 1024
_PART_BYTES = 64 * 1024
_STREAMS = ("stdout", "stderr", "fd3_output")
_ANSWER_S = 60.0
"""Seconds over a command's time after which a runner that gives no outcome is killed."""
_START_S = 60.0
_CLOSE_S = 5.0
_DEFAULT_LIMITS = Limits()
_LIMITS = tuple(field.name for field in fields(Limits))
_COPY_MB = 64
"""Memory of the program that copies, at most."""
_COPY = Limits(time_s=120.0, memory_mb=256, scratch_mb=1 << 20)
_SLOWEST_COPY = 10 * MIB
"""Bytes a second of a slow disk."""
_TAR_OVERHEAD = MAX_FILES * 3 * 512 + MIB
"""Bytes of headers and padding in the largest archive."""
_MODULES = "import sys; sys.path.insert(0, sys.argv[1]); from runner.serve import main; "
_NUMBERS: dict[str, tuple[type, int]] = {
    "exit_code": (int, -64),
    "lost_bytes": (int, 0),
    "seconds": (float, 0),
    "cpu_seconds": (float, 0),
    "peak_mb": (int, 0),
}
"""Numbers of an outcome with their type and smallest value."""
_LARGEST = 1 << 62
_REMEDY = "make a new sandbox"


def _do_nothing() -> None:
    """Stand in for what is not asked for."""


def runner_argv(
    python: str,
    folder: str,
    mode: Mode,
    lifetime_s: float,
    *,
    count_processes: bool = False,
    shown: Sequence[str] = (),
    overlaid: Sequence[str] = (),
) -> list[str]:
    """Return the command line that starts a runner, whose modules lie in ``folder/runner``.

    With `count_processes` the runner counts a command's processes itself: before Linux 5.14 the
    kernel counts all of the user's. `overlaid` are the folders of an image with a writable root,
    and `shown` further paths that stay read-only.
    """
    settings = {
        "mode": mode,
        "lifetime_s": lifetime_s,
        "count_processes": count_processes,
        "shown": shown,
        "overlaid": overlaid,
    }
    start = f"{_MODULES}del sys.path[0]; main()"
    return [python, "-I", "-S", "-B", "-c", start, folder, json.dumps(settings)]


class LineSplitter:
    """Splits output into lines for `on_line`: bounded in length and in number a second."""

    def __init__(self, on_line: OnLine, clock: Callable[[], float]) -> None:
        self._on_line, self._clock = on_line, clock
        self._rest, self._second, self._count = bytearray(), 0, 0

    def feed(self, data: bytes) -> None:
        """Take output as it comes."""
        *lines, rest = data.split(b"\n")
        for line in lines:
            self._rest += line[: LINE_BYTES - len(self._rest)]
            self._emit()
        self._rest += rest[: LINE_BYTES - len(self._rest)]

    def finish(self) -> None:
        """Take the end of the output as the end of its last line."""
        if self._rest:
            self._emit()

    def _emit(self) -> None:
        second = int(self._clock())
        self._count = self._count + 1 if second == self._second else 1
        self._second = second
        if self._count <= LINES_PER_S:
            self._on_line(self._rest.decode(errors="replace"))
        self._rest.clear()


def read_outcome(claim: dict[str, Any], kept: dict[str, bytearray]) -> Outcome:
    """Return the outcome that a runner claims. Raises SandboxError for a value that cannot be."""
    numbers: dict[str, Any] = {name: claim.get(name) for name in _NUMBERS}
    sound = claim.get("ending") in get_args(Ending) and all(
        type(numbers[name]) is kind and least <= numbers[name] < _LARGEST
        for name, (kind, least) in _NUMBERS.items()
    )
    if not sound:
        raise SandboxError("the sandbox's answer makes no sense", _REMEDY)
    output: dict[str, Any] = {name: bytes(data) for name, data in kept.items()}
    return Outcome(claim["ending"], **output, **numbers)


class RunnerSandbox:
    """A sandbox whose process holds a runner. `on_close` is called when the process has ended."""

    def __init__(
        self,
        process: asyncio.subprocess.Process,
        mode: Mode = "fresh",
        on_close: Callable[[], None] = _do_nothing,
    ) -> None:
        assert process.stdin
        assert process.stdout
        self._process, self._mode, self._on_close = process, mode, on_close
        self._requests, self._replies = process.stdin, process.stdout
        self._busy, self._ended, self._last = False, "", _DEFAULT_LIMITS
        self._can_stop = False
        self.missing: tuple[str, ...] = ()

    async def run(
        self, command: Command, limits: Limits = _DEFAULT_LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command to its end. A cancelled call ends the sandbox."""
        specification = {name: getattr(command, name) for name in ("argv", "python", "folder")}
        unbuffered = {"PYTHONUNBUFFERED": "1"} if on_line else {}
        data = json.dumps({**specification, "env": {**unbuffered, **command.env}}).encode()
        sizes = {"command": len(data), "stdin": len(command.stdin), "lines": on_line is not None}
        kept = {name: bytearray() for name in _STREAMS}
        self._last = limits
        lines = LineSplitter(on_line, asyncio.get_running_loop().time) if on_line else None
        with self._turn(limits.time_s):
            self._can_stop = True
            await self._send({"do": "run", **sizes}, limits, data + command.stdin)
            async for stream, part in self._parts():
                kept[stream] += part[: limits.output_bytes - len(kept[stream])]
                if lines and stream == "stdout":
                    lines.feed(part)
            if lines:
                lines.finish()
            return read_outcome(self._claim, kept)

    def stop_command(self) -> None:
        """Kill the command that runs, if any: its `run` returns with the ending ``timed out``."""
        if self._can_stop:
            self._can_stop = False
            self._requests.write(b'{"do": "stop"}\n')

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host to the absolute path `target`."""
        below = f"{FILES}/" if self._mode == "fresh" else "/"
        if not target.startswith(below):
            raise SandboxError(f"{target!r} cannot be written here", f"name a path below {below}")
        with self._turn(_COPY.time_s):
            await self._send({"do": "put", "target": target}, self._copy_limits())
            outcome = await self._send_stream(pack_tar(source))
        _check_copy(outcome)

    async def get(
        self,
        source: str,
        target: Path,
        max_bytes: int = 16 * MIB,
        *,
        regular_only: bool = False,
    ) -> None:
        """Copy a file or folder of the sandbox to the new path `target` of the host.

        Raises CopyFailedError for a link, a device or a FIFO, which `regular_only` leaves out.
        """
        if self._mode == "fresh":
            raise SandboxError(
                "a fresh sandbox keeps no files", "use the result, or a persistent sandbox"
            )
        bound = max_bytes + _TAR_OVERHEAD
        limits = replace(self._copy_limits(max_bytes), output_bytes=bound)
        with TarUnpacker(target, max_bytes) as unpacker:
            with self._turn(limits.time_s):
                request = {"do": "get", "source": source, "regular_only": regular_only}
                await self._send(request, limits)
                outcome = await self._finish_copy(unpacker.feed_tar)
            _check_copy(outcome)
            unpacker.finish()

    async def save_changes(self, target: Path, max_bytes: int = PUT_BYTES) -> bool:
        """End all processes of a sandbox with a writable root; write all it changed to `target`.

        The new file is an archive for `restore_changes`, and for nothing else: it is untrusted.
        Return False if it would have more than `max_bytes`. Raises FileError.
        """
        limits = replace(self._copy_limits(max_bytes), output_bytes=max_bytes)
        with _writing(target), target.open("xb") as file, self._turn(limits.time_s):
            await self._send({"do": "save"}, limits)
            outcome = await self._finish_copy(lambda part: _write(file, part))
            file.truncate()
        if outcome.lost_bytes:
            return False
        _check_copy(outcome)
        return True

    async def restore_changes(
        self,
        source: Path,
        only: Sequence[str] = (),
        without: Sequence[str] = (),
        unlinked: Sequence[str] = (),
        *,
        readable: bool = False,
    ) -> None:
        """Make the changes of an archive again in a sandbox with a writable root.

        `only` are the paths, without their first slash, that are taken (default: all); `without`
        those that are not, and `unlinked` those that no link of the archive may pass. With
        `readable` their owner may read all files and change all folders.
        """
        with source.open("rb") as file:
            limits = self._copy_limits(os.fstat(file.fileno()).st_size)
            paths = {"only": [*only], "without": [*without], "unlinked": [*unlinked]}
            with self._turn(limits.time_s):
                await self._send({"do": "restore", "readable": readable, **paths}, limits)
                outcome = await self._send_stream(iter(lambda: file.read(PIECE), b""))
        _check_copy(outcome)

    def _copy_limits(self, size: int = 0) -> Limits:
        """Return limits for `size` bytes that leave what the last command could use as it is."""
        return replace(
            _COPY,
            time_s=max(_COPY.time_s, size / _SLOWEST_COPY),
            memory_mb=max(_COPY.memory_mb, self._last.memory_mb + _COPY_MB),
            scratch_files=self._last.scratch_files,
        )

    async def _send_stream(self, parts: Iterator[bytes]) -> Outcome:
        try:
            for part in parts:
                await self._send({"part": len(part)}, None, part)
        except FileError:
            await self._send({"part": -1})
            await self._finish_copy()
            raise
        await self._send({"part": 0})
        return await self._finish_copy()

    async def _finish_copy(self, feed: Callable[[bytes], None] = lambda _: None) -> Outcome:
        kept = {name: bytearray() for name in _STREAMS}
        async for stream, part in self._parts(CopyFailedError):
            if stream == "stdout":
                feed(part)
            else:
                kept[stream] += part[: _PART_BYTES - len(kept[stream])]
        return read_outcome(self._claim, kept)

    async def close(self) -> None:
        """End all its processes. A second call does nothing."""
        self._ended = self._ended or "it was closed"
        self._requests.close()
        try:
            await asyncio.wait_for(self._wait_for_end(), _CLOSE_S)
        except asyncio.TimeoutError:
            self._kill()
            await self._wait_for_end()
        except BaseException:
            self._kill()
            await self._wait_for_end()  # else its pipes outlive the loop
            raise
        finally:
            on_close, self._on_close = self._on_close, _do_nothing
            on_close()

    async def _wait_for_end(self) -> None:
        """Wait for the process and the end of its output, which a request may be reading."""
        while not self._busy and await self._replies.read(_PART_BYTES):
            pass
        await self._process.wait()

    async def start(self) -> None:
        """Wait for the runner's first answer."""
        with self._turn(_START_S):
            header = await self._header()
            missing = header.get("missing")
            if "ready" not in header or not isinstance(missing, list):
                raise SandboxError("the sandbox's first answer makes no sense", _REMEDY)
            self.missing = tuple(printable_line(str(name)) for name in missing)

    @contextlib.contextmanager
    def _turn(self, time_s: float) -> Iterator[None]:
        """Hold the sandbox for one request; kill it if that does not end as agreed."""
        if self._ended:
            raise SandboxError(f"the sandbox ended: {self._ended}", _REMEDY)
        if self._busy:
            raise SandboxError("the sandbox is busy with another command", "wait for its outcome")
        self._busy = True
        timer = asyncio.get_running_loop().call_later(
            time_s + _ANSWER_S, self._end, "it gave no answer in time"
        )
        try:
            yield
        except BaseException as error:
            if not isinstance(error, FileError):
                self._end(str(error) or "its command was cancelled")
            raise
        finally:
            timer.cancel()
            self._busy = self._can_stop = False

    def _end(self, reason: str) -> None:
        """Kill it unless it ended: asyncio warns of a process that ends while it is killed."""
        if not self._ended:
            self._ended = reason
            self._kill()

    def _kill(self) -> None:
        """Kill its process group, also where only children of the process are left.

        Until bubblewrap's child has asked to die with its parent, it outlives it with the pipes.
        """
        if self._process.returncode is None or not self._replies.at_eof():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    async def _send(
        self, header: dict[str, Any], limits: Limits | None = None, data: bytes = b""
    ) -> None:
        message = dict(header)
        if limits:
            message["limits"] = {name: getattr(limits, name) for name in _LIMITS}
        self._requests.write(json.dumps(message).encode() + b"\n" + data)
        try:
            await self._requests.drain()
        except ConnectionError:
            raise self._death() from None

    def _death(self) -> SandboxError:
        self._ended = self._ended or "its process died"
        return SandboxError(f"the sandbox ended: {self._ended}", _REMEDY)

    async def _parts(
        self, broken: type[SandboxError] = SandboxError
    ) -> AsyncIterator[tuple[str, bytes]]:
        """Yield parts of the output; then the outcome is in `_claim`, or `broken` is raised."""
        while "stream" in (header := await self._header()):
            size, stream = header.get("bytes"), header["stream"]
            if type(size) is not int or not 0 < size <= _PART_BYTES or stream not in _STREAMS:
                raise SandboxError("the sandbox's answer makes no sense", _REMEDY)
            try:
                yield stream, await self._replies.readexactly(size)
            except asyncio.IncompleteReadError:
                raise self._death() from None
        if "broken" in header:
            reason = printable_line(str(header["broken"]))
            raise broken(f"the sandbox cannot confine a command: {reason}", _REMEDY)
        self._claim = header

    async def _header(self) -> dict[str, Any]:
        try:
            line = await self._replies.readuntil(b"\n")
            header = json.loads(line) if len(line) <= _HEADER_BYTES else None
        except (asyncio.IncompleteReadError, ConnectionError):
            raise self._death() from None
        except (asyncio.LimitOverrunError, ValueError, RecursionError):
            header = None
        if not isinstance(header, dict):
            raise SandboxError("the sandbox's answer makes no sense", _REMEDY)
        return header


def _write(file: IO[bytes], part: bytes) -> None:
    """Write a part, with a hole for zeros: a sparse file costs an agent nothing."""
    if part.count(0) == len(part):
        file.seek(len(part), os.SEEK_CUR)
    else:
        file.write(part)


@contextlib.contextmanager
def _writing(target: Path) -> Iterator[None]:
    """Raise FileError where a file of the host cannot be written."""
    try:
        yield
    except OSError as error:
        raise FileError(f"{target} cannot be written: {error.strerror}", "make room") from error


def _check_copy(outcome: Outcome) -> None:
    if outcome.ending != "exited" or outcome.exit_code or outcome.lost_bytes:
        told = printable_line(outcome.stderr.decode(errors="replace"))
        raise CopyFailedError(f"the copy failed: {told or outcome.ending}", "check the path")


async def start_runner(
    argv: Sequence[str],
    mode: Mode = "fresh",
    on_close: Callable[[], None] = _do_nothing,
    **options: Any,
) -> RunnerSandbox:
    """Start the process that holds a runner and wait until it has answered.

    `options` are those of `subprocess.Popen`. Raises SandboxError with what the process printed.
    """
    with tempfile.TemporaryFile() as errors:
        try:
            process = await asyncio.create_subprocess_exec(
                *argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
                limit=_PART_BYTES,
                **options,
            )
        except BaseException as error:
            on_close()
            if isinstance(error, OSError):
                raise SandboxError(f"{argv[0]} cannot be started: {error.strerror}") from error
            raise
        sandbox = RunnerSandbox(process, mode, on_close)
        try:
            await sandbox.start()
        except BaseException as error:
            await asyncio.shield(sandbox.close())
            if isinstance(error, SandboxError):
                raise SandboxError(f"no sandbox was made: {_last_line(errors) or error}") from error
            raise
    return sandbox


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read(8192).decode(errors="replace").strip().splitlines()
    return printable_line(lines[-1]) if lines else ""
