"""Adapter for backends whose sandboxes keep what a command leaves: each command gets a new one.

A fresh sandbox promises that nothing of a command is there for the next one. A container without
rights and a vendor's cloud make no namespaces for a command, so the whole sandbox is replaced
instead. The next one is made once it is needed, never ahead: a vendor's costs money.
"""

import asyncio
import contextlib
import shutil
import tempfile
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path

from Daddy.core.errors import SandboxError
from Daddy.core.name_validation import new_token
from Daddy.sandbox.guarded_folder import GuardedFolder
from Daddy.sandbox.runner_client import FILES
from Daddy.sandbox.sandbox_interfaces import (
    MIB,
    Command,
    Limits,
    OnLine,
    Outcome,
    Sandbox,
    SandboxSpec,
)

_DEFAULT_LIMITS = Limits()


def check_target(target: str) -> None:
    """Raise SandboxError unless `target` is a path below ``/files``, without ``..``."""
    inside = target.startswith(f"{FILES}/")
    if not inside or not {"", ".", ".."}.isdisjoint(target.split("/")[1:]):
        raise SandboxError(
            f"{target!r} cannot be written in a fresh sandbox", f"name a path below {FILES}"
        )


class RenewedSandbox:
    """A fresh sandbox over persistent ones. `make` returns one that lives as its spec says."""

    def __init__(
        self, first: Sandbox, spec: SandboxSpec, make: Callable[[SandboxSpec], Awaitable[Sandbox]]
    ) -> None:
        self._inner: Sandbox | None = first
        self._spec, self._make = spec, make
        self._ends_at = asyncio.get_running_loop().time() + spec.lifetime_s
        self._copies: GuardedFolder | None = None
        self._targets: list[str] = []
        self._busy, self._closed = False, False

    async def run(
        self, command: Command, limits: Limits = _DEFAULT_LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command in a sandbox of its own, which ends with it."""
        with self._turn():
            inner = await self._unused()
            try:
                return await inner.run(command, limits, on_line)
            finally:
                self._inner = None
                await asyncio.shield(inner.close())

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host below ``/files``, for each command to come."""
        check_target(target)
        with self._turn():
            await (await self._unused()).put(source, target)
            if not self._copies:
                folder = Path(tempfile.gettempdir(), f"sandbox-files-{new_token()}")
                self._copies = GuardedFolder(folder)
            copy = self._copies.path / str(len(self._targets))
            await asyncio.to_thread(_copy, source, copy)
            self._targets.append(target)

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        """Raise SandboxError: a fresh sandbox keeps no files."""
        del target, max_bytes
        raise SandboxError(
            f"a fresh sandbox keeps no files, so {source!r} cannot be copied from it",
            "use a persistent sandbox, or let the command write its result",
        )

    async def close(self) -> None:
        """End the sandbox. A second call does nothing."""
        self._closed = True
        inner, self._inner = self._inner, None
        try:
            if inner:
                await inner.close()
        finally:
            if self._copies:
                await asyncio.shield(asyncio.to_thread(self._copies.remove))

    @contextlib.contextmanager
    def _turn(self) -> Iterator[None]:
        if self._busy:
            raise SandboxError("the sandbox is busy with another command", "wait for its outcome")
        self._busy = True
        try:
            yield
        finally:
            self._busy = False

    async def _unused(self) -> Sandbox:
        """Return a sandbox that has run no command and holds all files."""
        left_s = self._ends_at - asyncio.get_running_loop().time()
        if self._closed or left_s <= 0:
            raise SandboxError("this sandbox has ended", "make another one")
        if self._inner is None:
            inner = await self._make(replace(self._spec, lifetime_s=left_s))
            try:
                for number, target in enumerate(self._targets):
                    assert self._copies
                    await inner.put(self._copies.path / str(number), target)
            except BaseException:
                await asyncio.shield(inner.close())
                raise
            self._inner = inner
        return self._inner


def _copy(source: Path, target: Path) -> None:
    """Copy what was accepted before, in case its owner changes or removes it."""
    if source.is_dir():
        shutil.copytree(source, target, symlinks=True)
    else:
        shutil.copy(source, target, follow_symlinks=False)
