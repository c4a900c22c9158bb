"""Helpers for tests that run commands in real sandboxes of bubblewrap, as root and as a user."""

import asyncio
import os
import sys
import traceback
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.interfaces import Command, Limits, Outcome, Sandbox, SandboxSpec
from tests.components import program
from tests.patience import PATIENCE_S

ORDINARY_USER = 63998
"""A user id without an account."""
LONG = Limits(time_s=PATIENCE_S)
Story = Callable[[Sandbox], Awaitable[Any]]


def bubblewrap() -> BubblewrapBackend:
    """Return the backend; skip or fail the test without it."""
    if sys.platform != "linux":
        pytest.skip("bubblewrap needs Linux")
    program("bwrap", "bubblewrap")
    return BubblewrapBackend()


def play(story: Story, *, persistent: bool = False, lifetime_s: float = 3600.0) -> Any:
    """Run a story in a sandbox of its own and return what it returns."""
    backend = bubblewrap()

    async def whole() -> Any:
        spec = SandboxSpec(persistent=persistent, lifetime_s=lifetime_s)
        sandbox = await backend.create(spec)
        try:
            return await story(sandbox)
        finally:
            await sandbox.close()

    return asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


def run(command: Command, limits: Limits = LONG, *, persistent: bool = False) -> Outcome:
    """Return the outcome of one command in a sandbox of its own."""
    return play(lambda sandbox: sandbox.run(command, limits), persistent=persistent)


def python(source: str, **more: Any) -> Command:
    return Command(python=source, **more)


def shell(line: str, **more: Any) -> Command:
    return Command(argv=("sh", "-c", line), **more)


def as_user(work: Callable[[], None], user: int) -> None:
    """Do `work` in a copy of this process that is `user`; fail if it fails."""
    if os.geteuid() == user:
        return work()
    if os.geteuid():
        pytest.skip("only root can become another user")
    readable, writable = os.pipe()
    pid = os.fork()
    if not pid:
        try:
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)
            work()
        except BaseException:
            os.write(writable, traceback.format_exc().encode()[-4000:])
        finally:
            os._exit(0)
    os.close(writable)
    with os.fdopen(readable) as told:
        failure = told.read()
    os.waitpid(pid, 0)
    assert failure == ""
    return None


accounts = pytest.mark.parametrize("user", [0, ORDINARY_USER], ids=["root", "user"])
"""Runs a test as root and as an ordinary user; one who is neither runs it as himself."""


def as_account(user: int, work: Callable[[], None]) -> None:
    """Do `work` as root or an ordinary user, whichever this process can be."""
    if os.geteuid() and user:
        work()
    else:
        as_user(work, user)
