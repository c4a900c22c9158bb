"""A backend of plain child processes: the fan-out's tests need no confinement."""

import asyncio
import contextlib
import os
import shutil
import signal
import tempfile
from pathlib import Path

from Daddy.core.errors import SandboxError
from Daddy.sandbox.choose_backend import BackendChoice, BackendFacts
from Daddy.sandbox.sandbox_interfaces import (
    Command,
    Isolation,
    Limits,
    OnLine,
    Outcome,
    SandboxSpec,
)


def no_facts() -> BackendFacts:
    """Spare a test the trial of this machine's own means."""
    return BackendFacts()


def choose_child(wish: str, *_: object, **__: object) -> BackendChoice:
    """Choose the stand-in, or the backend that the command line names."""
    name = "child" if wish == "auto" else wish
    return BackendChoice(name, "a test asks for it")


class ChildSandbox:
    """Runs each command as a child process, with the files that were put."""

    def __init__(self) -> None:
        self.files = Path(tempfile.mkdtemp(prefix="daddy-test-"))
        self.child: asyncio.subprocess.Process | None = None
        self.closed = False

    async def run(
        self, command: Command, limits: Limits | None = None, on_line: OnLine | None = None
    ) -> Outcome:
        if self.closed:
            raise SandboxError("the sandbox has ended")
        argv = [word.replace("/files/", f"{self.files}/") for word in command.argv]
        pipe = asyncio.subprocess.PIPE
        env = {"PATH": os.environ["PATH"], **command.env}
        self.child = await asyncio.create_subprocess_exec(
            *argv, stdout=pipe, stderr=pipe, env=env, start_new_session=True
        )
        assert self.child.stdout
        assert self.child.stderr
        errors = asyncio.create_task(self.child.stderr.read())
        try:
            async for line in self.child.stdout:
                if on_line:
                    on_line(line.decode(errors="replace").rstrip("\n"))
            code = await self.child.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.child.pid, signal.SIGKILL)
        if self.closed:
            raise SandboxError("the sandbox was killed")
        return Outcome("exited", code, stderr=await errors)

    async def put(self, source: Path, target: str) -> None:
        shutil.copy(source, self.files / Path(target).name)

    async def get(self, source: str, target: Path, max_bytes: int = 0) -> None:
        raise SandboxError("a fresh sandbox keeps no files")

    async def close(self) -> None:
        self.closed = True
        if self.child and self.child.returncode is None:
            self.child.kill()
            await self.child.wait()
        shutil.rmtree(self.files, ignore_errors=True)


class ChildBackend:
    """Makes sandboxes of plain child processes and keeps them all for tests to look at."""

    name, level = "child", "partly"

    def __init__(self) -> None:
        self.made: list[ChildSandbox] = []
        self.opened: list[tuple[str, str]] = []

    def open(self, name: str, run: str = "") -> "ChildBackend":
        """Stand for the opened backend; keep the label of its sandboxes."""
        self.name = name
        self.opened.append((name, run))
        return self

    def isolation(self) -> Isolation:
        return Isolation(self.level)

    async def create(self, spec: SandboxSpec) -> ChildSandbox:
        self.made.append(ChildSandbox())
        return self.made[-1]
