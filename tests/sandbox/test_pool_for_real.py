"""The pool over real backends: bounds, order and replacement are counted around each call."""

import asyncio
import collections
from collections.abc import Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from Daddy.core.errors import SandboxError
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import (
    Backend,
    Command,
    Isolation,
    Limits,
    OnLine,
    Outcome,
    Sandbox,
    SandboxSpec,
)
from tests.patience import PATIENCE_S, until
from tests.sandbox.backends import BACKENDS

LONG = Limits(time_s=PATIENCE_S)
TRUE = Command(argv=("true",))


class Counted:
    """A real sandbox of a `Counter`."""

    def __init__(self, inner: Sandbox, counter: "Counter") -> None:
        self.inner, self.counter = inner, counter
        self.put, self.get = inner.put, inner.get

    async def run(
        self, command: Command, limits: Limits = LONG, on_line: OnLine | None = None
    ) -> Outcome:
        self.counter.running[self] += 1
        self.counter.most_in_one = max(self.counter.most_in_one, self.counter.running[self])
        self.counter.most_running = max(
            self.counter.most_running, sum(self.counter.running.values())
        )
        try:
            return await self.inner.run(command, limits, on_line)
        finally:
            self.counter.running[self] -= 1

    async def close(self) -> None:
        await self.inner.close()
        self.counter.live.discard(self)


class Counter:
    """A real backend, and the counts of its sandboxes and of the commands in each."""

    def __init__(self, inner: Backend) -> None:
        self.inner, self.name = inner, inner.name
        self.live: set[Counted] = set()
        self.running: collections.Counter[Counted] = collections.Counter()
        self.made = self.most_live = self.most_in_one = self.most_running = 0

    def isolation(self) -> Isolation:
        return self.inner.isolation()

    async def create(self, spec: SandboxSpec) -> Sandbox:
        sandbox = Counted(await self.inner.create(spec), self)
        self.made += 1
        self.live.add(sandbox)
        self.most_live = max(self.most_live, len(self.live))
        return sandbox


@pytest.fixture(params=["process", "bubblewrap"])
def counter(request: pytest.FixtureRequest) -> Counter:
    return Counter(BACKENDS[request.param]())


def children() -> set[int]:
    return {child.pid for child in psutil.Process().children(recursive=True)}


def play(counter: Counter, story: Callable[[SandboxPool], Awaitable[None]], size: int) -> None:
    """Run a story with a pool; afterwards none of its processes is left."""
    before = children()

    async def whole() -> None:
        async with SandboxPool(counter, size=size) as pool:
            await story(pool)

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))
    assert counter.live == set()
    assert until(lambda: children() <= before)


def test_five_hundred_commands_run_on_ten_sandboxes_each_alone(counter: Counter) -> None:
    async def story(pool: SandboxPool) -> None:
        code = "import os; os.write(3, b'{0}')"
        commands = [Command(python=code.format(index)) for index in range(500)]
        outcomes = await asyncio.gather(*(pool.run(command, LONG) for command in commands))
        assert [int(outcome.fd3_output) for outcome in outcomes] == list(range(500))

    play(counter, story, size=10)
    assert (counter.most_in_one, counter.most_running) == (1, 10)
    assert counter.most_live == counter.made == 10


def test_commands_that_are_killed_leave_sandboxes_that_go_on(counter: Counter) -> None:
    async def story(pool: SandboxPool) -> None:
        endless = Command(argv=("sh", "-c", "sleep 1000000 & sleep 1000000"))
        outcomes = await asyncio.gather(
            *(pool.run(endless, Limits(time_s=0.1)) for _ in range(4)),
            *(pool.run(TRUE, LONG) for _ in range(4)),
        )
        assert [outcome.ending for outcome in outcomes] == ["timed out"] * 4 + ["exited"] * 4

    play(counter, story, size=2)
    assert counter.made == 2, "a killed command costs no sandbox"
    assert counter.most_in_one == 1


def test_a_killed_sandbox_fails_one_command_and_the_others_run(counter: Counter) -> None:
    before = children()

    async def story(pool: SandboxPool) -> None:
        begun = asyncio.Event()
        held = Command(argv=("sh", "-c", "echo up; sleep 1000000"))
        doomed = asyncio.create_task(pool.run(held, LONG, lambda _line: begun.set()))
        await begun.wait()
        waiting = [asyncio.create_task(pool.run(TRUE, LONG)) for _ in range(20)]
        for child in psutil.Process().children():
            if child.pid not in before:
                child.kill()
        with pytest.raises(SandboxError):
            await doomed
        assert [outcome.exit_code for outcome in await asyncio.gather(*waiting)] == [0] * 20

    play(counter, story, size=1)
    assert (counter.made, counter.most_live) == (2, 1)


def test_a_lease_puts_runs_and_gets(counter: Counter, tmp_path: Path) -> None:
    (tmp_path / "task.sh").write_text("echo $1 > out\n")

    async def whole() -> None:
        spec = SandboxSpec(persistent=True)
        async with SandboxPool(counter, spec, size=1) as pool, pool.lease(60.0) as sandbox:
            await sandbox.put(tmp_path / "task.sh", "/tmp/work/task.sh")
            command = Command(argv=("sh", "task.sh", "seven"), folder="/tmp/work")
            done = await sandbox.run(command, LONG)
            assert (done.exit_code, done.stderr) == (0, b"")
            await sandbox.get("/tmp/work/out", tmp_path / "out")

    asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))
    assert (tmp_path / "out").read_text() == "seven\n"
    assert counter.live == set()
