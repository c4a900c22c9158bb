"""Adapter for plain processes: a sandbox for trusted code, which confines nothing.

A command can do all that this account can. It has limits, a session of its own, and a private
folder in the place of ``/tmp``; its processes and this folder end with it, in a persistent sandbox
with the sandbox, and also when the host is killed.
"""

import asyncio
import os
import select
import shutil
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from Daddy.core.errors import ConfigError, SandboxError
from Daddy.sandbox import process_keeper
from Daddy.sandbox.runner_client import RUNNER, RunnerSandbox, runner_argv, start_runner
from Daddy.sandbox.sandbox_interfaces import (
    MIB,
    Command,
    Isolation,
    Limits,
    OnLine,
    Outcome,
    Sandbox,
    SandboxSpec,
)

TMP, FILES = "/tmp", "/files"  # noqa: S108 - names inside
_KEEPER = Path(process_keeper.__file__)
_CLEAN = f"""
import os, sys
sys.path.insert(0, {str(_KEEPER.parent)!r})
from process_keeper import empty_folder, end_descendants
end_descendants(os.getppid(), spared=os.getpid())
empty_folder(".")
"""
"""Runs after each command of a fresh sandbox, as a sibling of the processes that it left."""
_CLEAN_LIMITS = Limits(time_s=60.0, memory_mb=1024, open_files=256)
_DEFAULT_LIMITS = Limits()
_END_S = 30.0
_MISSING = (
    "all that confines: network, files and processes of this account are open",
    "paths: /tmp and /files have other names, but as a command's folder or argument",
    "fresh files: outside of the command's folder they remain",
    "read-only files: a command can change what was put",
)
_MISSING_ELSEWHERE = (
    "fresh processes: a process that lost its parent remains",
    "memory limit: counted for each process",
)
"""On systems without /proc."""


class ProcessSandbox:
    """A private folder and a runner without namespaces, both ended by their keeper."""

    def __init__(self, inner: RunnerSandbox, folder: Path, done: int, persistent: bool) -> None:
        self._inner, self._folder, self._done = inner, folder, done
        self._persistent, self._turn = persistent, asyncio.Lock()
        self._closed: asyncio.Task[None] | None = None

    async def run(
        self, command: Command, limits: Limits = _DEFAULT_LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command to its end; in a fresh sandbox, end and remove what it left."""
        async with self._turn:
            self._check_open()
            outcome = await self._inner.run(self._translate(command), limits, on_line)
            if not self._persistent:
                await self._clean()
            return outcome

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host into the sandbox's own folder."""
        if not self._persistent and not target.startswith(f"{FILES}/"):
            raise SandboxError(
                f"{target!r} is not below {FILES}", f"put files of a fresh sandbox below {FILES}"
            )
        async with self._turn:
            self._check_open()
            await self._inner.put(source, self._path(target))

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        """Copy a file or folder of a persistent sandbox to the host."""
        if not self._persistent:
            raise SandboxError(
                f"{source!r} cannot be copied from a fresh sandbox", "use a persistent sandbox"
            )
        async with self._turn:
            self._check_open()
            await self._inner.get(self._path(source), target, max_bytes)

    async def close(self) -> None:
        """Let the keeper end all processes and remove the folder."""
        self._closed = self._closed or asyncio.create_task(self._close())
        await asyncio.shield(self._closed)

    async def _close(self) -> None:
        await self._inner.close()
        await asyncio.to_thread(_await_end, self._done, self._folder)

    def _check_open(self) -> None:
        if self._closed:
            raise SandboxError("this sandbox is closed", "make another one")

    async def _clean(self) -> None:
        command = Command(python=_CLEAN, folder=self._path(TMP))
        outcome = await self._inner.run(command, _CLEAN_LIMITS)
        if outcome.exit_code:
            await self.close()
            raise SandboxError("the files or processes of a command could not be removed")

    def _translate(self, command: Command) -> Command:
        home = {"HOME": self._path(TMP), "TMPDIR": self._path(TMP)}
        return replace(
            command,
            argv=tuple(map(self._path, command.argv)),
            folder=self._path(command.folder),
            env={**home, **command.env},
        )

    def _path(self, word: str) -> str:
        """Return the path of the host for one below /tmp or /files; any other word as it is."""
        inside = any(word == name or word.startswith(f"{name}/") for name in (TMP, FILES))
        return f"{self._folder}{word}" if inside else word


class ProcessBackend:
    """Makes sandboxes of plain processes."""

    name = "process"

    def isolation(self) -> Isolation:
        """Return that nothing is confined."""
        elsewhere = () if sys.platform == "linux" else _MISSING_ELSEWHERE
        return Isolation("none", _MISSING + elsewhere)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox."""
        if spec.image != "host":
            raise ConfigError(
                f"the backend process has no image {spec.image!r}",
                "use the image host, or a backend that confines",
            )
        folder = _make_folder()
        ended, done = os.pipe()
        inside = runner_argv(sys.executable, str(RUNNER.parent), "plain", spec.lifetime_s)
        argv = [sys.executable, "-I", "-S", str(_KEEPER), str(done), str(folder), *inside]
        try:
            inner = await start_runner(argv, "plain", pass_fds=(done,))
        except BaseException:
            os.close(done)
            await asyncio.shield(asyncio.to_thread(_await_end, ended, folder))
            raise
        os.close(done)
        return ProcessSandbox(inner, folder, ended, spec.persistent)


def _await_end(done: int, folder: Path) -> None:
    """Wait for the keeper's end; remove what is left if it was killed."""
    select.select([done], [], [], _END_S)
    os.close(done)
    shutil.rmtree(folder, ignore_errors=True)


def _make_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="daddy-sandbox-")).resolve()
    for name in (TMP, FILES):
        Path(f"{folder}{name}").mkdir()
    return folder
