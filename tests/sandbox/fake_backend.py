"""A backend for tests of the pool: commands end when the test says so, sandboxes count."""

import asyncio
from collections import Counter
from pathlib import Path

from Daddy.core.errors import SandboxError
from Daddy.sandbox.sandbox_interfaces import (
    Command,
    Isolation,
    Limits,
    OnLine,
    Outcome,
    Sandbox,
    SandboxSpec,
)

LIMITS = Limits()


class FakeSandbox:
    """Runs the words of the test: ``hold``, ``die``, ``loop`` and ``true``."""

    def __init__(self, backend: "FakeBackend", number: int, lifetime_s: float) -> None:
        self.backend, self.number = backend, number
        self.ended = asyncio.Event()
        self.running = 0
        asyncio.get_running_loop().call_later(lifetime_s, self.end)

    async def run(
        self, command: Command, limits: Limits = LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        if self.ended.is_set():
            raise SandboxError(f"sandbox {self.number} ended")
        self.running += 1
        self.backend.most_in_one = max(self.backend.most_in_one, self.running)
        try:
            return await self.play(command)
        finally:
            self.running -= 1

    async def play(self, command: Command) -> Outcome:
        word = command.argv[0]
        self.backend.ran[command.argv] += 1
        await asyncio.sleep(0)
        if word == "hold":
            await self.wait_for_the_test()
        if word == "die":
            self.end()
            raise SandboxError(f"sandbox {self.number} ended")
        if word == "loop":
            return Outcome("timed out", -9)
        return Outcome("exited", 0, stdout=str(self.number).encode())

    async def wait_for_the_test(self) -> None:
        waits = [asyncio.ensure_future(e.wait()) for e in (self.backend.gate, self.ended)]
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
        if self.ended.is_set():
            raise SandboxError(f"sandbox {self.number} ended")

    async def put(self, source: Path, target: str) -> None:
        self.backend.ran["put", target] += 1

    async def get(self, source: str, target: Path, max_bytes: int = 0) -> None:
        raise SandboxError("nothing to get")

    def end(self) -> None:
        self.ended.set()
        self.backend.live.discard(self)

    async def close(self) -> None:
        self.backend.closed += 1
        await self.backend.closable.wait()
        self.end()


class FakeBackend:
    """Makes fake sandboxes; `gate` ends the held commands, `failures` are raised first.

    Until `creatable` no creation ends; a `stubborn` one does not end when it is cancelled either.
    """

    name = "fake"

    def __init__(self) -> None:
        self.gate, self.creatable, self.closable = (asyncio.Event() for _ in range(3))
        self.creatable.set()
        self.closable.set()
        self.stubborn = False
        self.failures: list[BaseException] = []
        self.live: set[FakeSandbox] = set()
        self.ran: Counter[tuple[str, ...]] = Counter()
        self.closed = self.made = self.most_live = self.most_in_one = self.creating = (
            self.most_creating
        ) = 0

    def isolation(self) -> Isolation:
        return Isolation("none", ("everything: it is a fake",))

    async def create(self, spec: SandboxSpec) -> Sandbox:
        self.creating += 1
        self.most_creating = max(self.most_creating, self.creating)
        try:
            await asyncio.sleep(0)
            while not self.creatable.is_set():
                try:
                    await self.creatable.wait()
                except asyncio.CancelledError:
                    if not self.stubborn:
                        raise
            if self.failures:
                raise self.failures.pop(0)
        finally:
            self.creating -= 1
        self.made += 1
        sandbox = FakeSandbox(self, self.made, spec.lifetime_s)
        self.live.add(sandbox)
        self.most_live = max(self.most_live, len(self.live))
        return sandbox
