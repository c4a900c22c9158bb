"""Adapter for backends: keeps a bounded number of sandboxes and runs commands in them.

Commands wait in a queue, first come, first served; a sandbox never runs two at once. A sandbox that
died is replaced, and its command fails with SandboxError: the pool never runs a command twice.
`SandboxPool.close` ends all sandboxes, also when it is cancelled. A sandbox ends by itself at its
lifetime.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from Daddy.core.errors import DaddyError, SandboxError, UsageError
from Daddy.sandbox.pool_plan import (
    CreationPace,
    PoolState,
    Usage,
    decide_reuse,
    lives_long_enough,
    plan_step,
)
from Daddy.sandbox.sandbox_interfaces import (
    MIB,
    Backend,
    Command,
    CreationRefusedError,
    Limits,
    OnLine,
    Outcome,
    Sandbox,
    SandboxSpec,
)

_T = TypeVar("_T")
CREATE_S = 600.0
"""Longest creation of a sandbox; the first one of an image of Debian downloads its packages."""
CLOSE_S = 30.0
"""Longest wait for one sandbox to end; after it the pool reports the sandbox and goes on."""
_DEFAULT_SPEC, _DEFAULT_LIMITS = SandboxSpec(), Limits()


@dataclass(eq=False)
class PooledSandbox:
    """A sandbox of the pool with its number and the loop's time at which its creation began."""

    sandbox: Sandbox
    number: int
    made_at: float


@dataclass(eq=False)
class _Caller:
    """A caller that waits for a sandbox which lives for `need_s` more seconds."""

    need_s: float
    pooled: "asyncio.Future[PooledSandbox]"


class LeasedSandbox:
    """A sandbox of a pool that belongs to one caller; calls of several tasks take turns.

    Every method raises SandboxError after the lease.
    """

    def __init__(self, sandbox: Sandbox, number: int, usage: Usage) -> None:
        self.number = number
        self._sandbox: Sandbox | None = sandbox
        self._usage = usage
        self._turn = asyncio.Lock()

    async def run(
        self, command: Command, limits: Limits = _DEFAULT_LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command to its end."""
        return await self._call(lambda sandbox: sandbox.run(command, limits, on_line))

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host into the sandbox, which is not used again after it."""
        self._usage.kept_files = True
        await self._call(lambda sandbox: sandbox.put(source, target))

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        """Copy a file or folder of a persistent sandbox to the host."""
        await self._call(lambda sandbox: sandbox.get(source, target, max_bytes))

    async def close(self) -> None:
        """End the sandbox before the lease ends."""
        if sandbox := self._sandbox:
            self._sandbox = None
            self._usage.unfinished += 1
            await sandbox.close()

    def end_lease(self) -> Usage:
        """Refuse further calls and return how the sandbox was used."""
        self._sandbox = None
        return self._usage

    async def _call(self, call: Callable[[Sandbox], Awaitable[_T]]) -> _T:
        async with self._turn:
            if self._sandbox is None:
                raise SandboxError("this sandbox was given back", "lease another one")
            self._usage.unfinished += 1
            result = await call(self._sandbox)
            self._usage.unfinished -= 1
            return result


class SandboxPool:
    """At most `size` live sandboxes of one backend.

    `warm` of them are made by `start` and kept ready; further ones are made when callers wait.
    `prepare` is awaited with each new sandbox, to put files into it. `report` gets a sentence when
    creation fails or waits, or a sandbox does not end. A creation that takes `create_s` seconds has
    failed; a sandbox that it makes later is closed.
    """

    def __init__(
        self,
        backend: Backend,
        spec: SandboxSpec = _DEFAULT_SPEC,
        size: int = 10,
        *,
        warm: int = 0,
        prepare: Callable[[Sandbox], Awaitable[None]] | None = None,
        report: Callable[[str], None] = lambda _sentence: None,
        create_s: float = CREATE_S,
        close_s: float = CLOSE_S,
    ) -> None:
        if size < 1:
            raise UsageError(f"a pool of {size} sandboxes can run nothing", "ask for at least 1")
        self._backend, self._spec, self._size, self._warm = backend, spec, size, min(warm, size)
        self._prepare, self._report = prepare, report
        self._create_s, self._close_s = create_s, close_s
        self._callers: deque[_Caller] = deque()
        self._idle: deque[PooledSandbox] = deque()
        self._leased: set[PooledSandbox] = set()
        self._creations: set[asyncio.Task[Sandbox]] = set()
        self._late: set[asyncio.Task[Sandbox]] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._pace, self._made = CreationPace(), 0
        self._last_error = DaddyError("")
        self._wake: asyncio.TimerHandle | None = None
        self._closed: asyncio.Task[None] | None = None

    def state(self) -> PoolState:
        """Count the callers and the sandboxes."""
        return PoolState(
            size=self._size,
            warm=self._warm,
            waiting=len(self._callers),
            idle=len(self._idle),
            leased=len(self._leased),
            creating=len(self._creations),
            ending=len(self._closings),
        )

    async def start(self) -> None:
        """Make the warm sandboxes, and wait until each has answered. Raises SandboxError."""
        taken = await asyncio.gather(
            *(self._acquire(0.0) for _ in range(self._warm)), return_exceptions=True
        )
        for pooled in taken:
            if isinstance(pooled, PooledSandbox):
                self._give_back(pooled, Usage())
        if errors := [error for error in taken if isinstance(error, BaseException)]:
            raise errors[0]

    async def run(
        self, command: Command, limits: Limits = _DEFAULT_LIMITS, on_line: OnLine | None = None
    ) -> Outcome:
        """Run a command in the next free sandbox, at its turn.

        Raises SandboxError if the sandbox ended: the command may have run, in part or whole.
        """
        async with self.lease(limits.time_s) as sandbox:
            return await sandbox.run(command, limits, on_line)

    @contextlib.asynccontextmanager
    async def lease(self, need_s: float = 0.0) -> AsyncIterator[LeasedSandbox]:
        """Lend a sandbox that lives for `need_s` more seconds, for several commands and files."""
        if need_s > self._spec.lifetime_s:
            raise SandboxError(
                f"{need_s:g} s are longer than a sandbox lives ({self._spec.lifetime_s:g} s)",
                "give the command less time, or its sandbox a longer lifetime",
            )
        pooled = await self._acquire(need_s)
        usage = Usage(persistent=self._spec.persistent)
        leased = LeasedSandbox(pooled.sandbox, pooled.number, usage)
        try:
            yield leased
        finally:
            self._give_back(pooled, leased.end_lease())

    async def close(self) -> None:
        """End all sandboxes, and fail all callers with SandboxError.

        A cancelled call still waits for the end of the sandboxes.
        """
        if self._closed is None:
            self._closed = asyncio.ensure_future(self._close_all())
        cancelled = False
        while not self._closed.done():
            try:
                await asyncio.wait({self._closed})
            except asyncio.CancelledError:
                cancelled = True
        if cancelled:
            raise asyncio.CancelledError

    async def __aenter__(self) -> "SandboxPool":
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _acquire(self, need_s: float) -> PooledSandbox:
        if self._closed:
            raise _closed_error()
        caller = _Caller(need_s, asyncio.get_running_loop().create_future())
        self._callers.append(caller)
        self._advance()
        try:
            return await caller.pooled
        except asyncio.CancelledError:
            if caller in self._callers:
                self._callers.remove(caller)
            elif not caller.pooled.exception():  # raises CancelledError for a cancelled one
                self._give_back(caller.pooled.result(), Usage())
            raise

    def _advance(self) -> None:
        """Take all steps that are possible now, and plan the next look."""
        loop = asyncio.get_running_loop()
        if self._wake:
            self._wake.cancel()
        while not self._closed:
            step = plan_step(self.state(), self._pace, loop.time())
            if step.action == "lease":
                self._hand_out(loop.time())
            elif step.action == "create":
                self._create()
            elif step.action == "give up":
                self._pace = self._pace.after_giving_up()
                self._fail_callers(_name_failures(step.reason, self._last_error))
            else:
                if step.again_in_s:
                    self._wake = loop.call_later(step.again_in_s, self._advance)
                return

    def _hand_out(self, now: float) -> None:
        caller = self._callers[0]
        if caller.pooled.done():  # cancelled, and not yet awake
            self._callers.popleft()
            return
        pooled = self._idle.popleft()
        if not lives_long_enough(now - pooled.made_at, self._spec.lifetime_s, caller.need_s):
            self._close_soon(pooled.sandbox)
            return
        self._leased.add(pooled)
        self._callers.popleft().pooled.set_result(pooled)

    def _give_back(self, pooled: PooledSandbox, usage: Usage) -> None:
        """Keep or replace a sandbox after its lease."""
        if self._closed:  # which ends it
            return
        self._leased.discard(pooled)
        if decide_reuse(usage):
            self._idle.append(pooled)
        else:
            self._close_soon(pooled.sandbox)
        self._advance()

    def _create(self) -> None:
        loop = asyncio.get_running_loop()
        began, making = loop.time(), asyncio.create_task(self._make())
        self._creations.add(making)
        limit = loop.call_later(self._create_s, self._give_up_creation, making, began)

        def finish(_making: "asyncio.Task[Sandbox]") -> None:
            limit.cancel()
            self._end_creation(making, began)

        making.add_done_callback(finish)

    async def _make(self) -> Sandbox:
        sandbox = await self._backend.create(self._spec)
        if self._prepare:
            try:
                await self._prepare(sandbox)
            except BaseException:
                self._close_soon(sandbox)
                raise
        return sandbox

    def _give_up_creation(self, making: "asyncio.Task[Sandbox]", began: float) -> None:
        """Count a creation over its time as failed, and give its place to another."""
        self._creations.discard(making)
        self._late.add(making)
        making.cancel()
        text = f"the backend {self._backend.name} has not answered in {self._create_s:g} s"
        self._count_failure(SandboxError(text, "try: python -m Daddy.sandbox probe"), began)
        self._advance()

    def _end_creation(self, making: "asyncio.Task[Sandbox]", began: float) -> None:
        """Take a new sandbox or count a failure; close a sandbox that came too late."""
        wanted = making in self._creations and not self._closed
        self._creations.discard(making)
        self._late.discard(making)
        error = asyncio.CancelledError() if making.cancelled() else making.exception()
        if wanted and error:
            self._count_failure(error, began)
        elif wanted:
            self._made += 1
            self._pace = self._pace.after_success()
            self._idle.append(PooledSandbox(making.result(), self._made, began))
        elif not error:
            self._close_soon(making.result())
        self._advance()

    def _count_failure(self, error: BaseException, began: float) -> None:
        now = asyncio.get_running_loop().time()
        self._last_error = error if isinstance(error, DaddyError) else SandboxError(repr(error))
        if isinstance(error, CreationRefusedError):
            self._pace = self._pace.after_refusal(began, now, error.retry_after_s)
            self._report(f"no sandbox now: {error.message}")
        else:
            self._pace = self._pace.after_failure(began, now)
            self._report(f"a sandbox could not be made: {self._last_error.message}")

    def _close_soon(self, sandbox: Sandbox) -> None:
        """Close a sandbox; until it is closed it takes a place."""

        def finish(task: "asyncio.Task[None]") -> None:
            self._closings.discard(task)
            self._advance()

        closing = asyncio.create_task(self._close_sandbox(sandbox))
        self._closings.add(closing)
        closing.add_done_callback(finish)

    async def _close_sandbox(self, sandbox: Sandbox) -> None:
        closing = asyncio.ensure_future(sandbox.close())
        await asyncio.wait({closing}, timeout=self._close_s)
        if not closing.done():
            closing.cancel()
            self._report(f"a sandbox could not be closed: no answer in {self._close_s:g} s")
        elif error := closing.exception():
            said = error.message if isinstance(error, DaddyError) else repr(error)
            self._report(f"a sandbox could not be closed: {said}")

    def _fail_callers(self, error: DaddyError) -> None:
        while self._callers:
            caller = self._callers.popleft()
            if not caller.pooled.done():
                caller.pooled.set_exception(error)

    async def _close_all(self) -> None:
        self._fail_callers(_closed_error())
        if self._wake:
            self._wake.cancel()
        if making := self._creations | self._late:
            for task in making:
                task.cancel()
            await asyncio.wait(making, timeout=self._close_s)
        for pooled in (*self._idle, *self._leased):
            self._close_soon(pooled.sandbox)
        while self._closings:
            await asyncio.wait(self._closings)


def _name_failures(reason: str, last: DaddyError) -> DaddyError:
    """Return the error for callers; one of another kind keeps its kind and exit code."""
    if isinstance(last, SandboxError):
        return SandboxError(f"{reason}: {last.message}", last.fix)
    return last


def _closed_error() -> SandboxError:
    return SandboxError("the pool of sandboxes is closed", "make a new pool")
