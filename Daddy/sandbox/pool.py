"""Adapter for backends: keeps a bounded number of sandboxes and runs commands in them.

Commands wait in a queue, first come, first served; a sandbox never runs two at once. A sandbox that
died is replaced, and its command fails with SandboxError: the pool never runs a command twice.
`SandboxPool.close` ends all sandboxes, also when it is cancelled.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from Daddy.core.errors import DaddyError, SandboxError, UsageError
from Daddy.sandbox.interfaces import (
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
from Daddy.sandbox.pool_plan import (
    CreationPace,
    PoolState,
    Usage,
    judge_age,
    judge_return,
    plan_step,
)

_T = TypeVar("_T")
_CHECK_S = 10.0
_CLOSE_S = 30.0
"""Longest wait for one sandbox to end; after it the pool reports the sandbox and goes on."""
_DEFAULT_SPEC, _DEFAULT_LIMITS = SandboxSpec(), Limits()


@dataclass(eq=False)
class _Member:
    """A sandbox of the pool with its number and the loop's time at which it was made."""

    sandbox: Sandbox
    number: int
    made_at: float
    expiry: asyncio.TimerHandle | None = None


@dataclass(eq=False)
class _Caller:
    """A caller that waits for a sandbox which lives for `need_s` more seconds."""

    need_s: float
    member: "asyncio.Future[_Member]"


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
        outcome = await self._call(lambda sandbox: sandbox.run(command, limits, on_line))
        if outcome.ending != "exited":
            self._usage = replace(self._usage, killed=outcome.ending)
        return outcome

    async def put(self, source: Path, target: str) -> None:
        """Copy a file or folder of the host into the sandbox, which is not used again after it."""
        self._usage = replace(self._usage, kept_files=True)
        await self._call(lambda sandbox: sandbox.put(source, target))

    async def get(self, source: str, target: Path, max_bytes: int = 16 * MIB) -> None:
        """Copy a file or folder of a persistent sandbox to the host."""
        await self._call(lambda sandbox: sandbox.get(source, target, max_bytes))

    async def close(self) -> None:
        """End the sandbox before the lease ends."""
        if sandbox := self._sandbox:
            self._sandbox = None
            self._usage = replace(self._usage, failed="its caller closed it")
            await sandbox.close()

    def end_lease(self) -> Usage:
        """Refuse further calls and return how the sandbox was used."""
        self._sandbox = None
        return self._usage

    async def _call(self, call: Callable[[Sandbox], Awaitable[_T]]) -> _T:
        async with self._turn:
            if self._sandbox is None:
                raise SandboxError("this sandbox was given back", "lease another one")
            self._usage = replace(self._usage, interrupted=True)
            try:
                result = await call(self._sandbox)
            except SandboxError as error:
                self._usage = replace(self._usage, failed=error.message)
                raise
            self._usage = replace(self._usage, interrupted=False)
            return result


class SandboxPool:
    """At most `size` live sandboxes of one backend.

    `warm` of them are made by `start` and kept ready; further ones are made when callers wait.
    `prepare` is awaited with each new sandbox, to put files into it. `report` gets a sentence when
    a sandbox is replaced, or creation fails or waits.
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
    ) -> None:
        if size < 1:
            raise UsageError(f"a pool of {size} sandboxes can run nothing", "ask for at least 1")
        self._backend, self._spec, self._size, self._warm = backend, spec, size, min(warm, size)
        self._prepare, self._report = prepare, report
        self._callers: deque[_Caller] = deque()
        self._idle: deque[_Member] = deque()
        self._members: set[_Member] = set()
        self._leased: set[_Member] = set()
        self._ending: set[_Member] = set()
        self._creations: set[asyncio.Task[None]] = set()
        self._checks: set[asyncio.Task[None]] = set()
        self._closings: set[asyncio.Task[None]] = set()
        self._pace, self._made = CreationPace(), 0
        self._last_error: DaddyError | None = None
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
            ending=len(self._ending),
        )

    async def start(self) -> None:
        """Make the warm sandboxes, and wait until each has answered. Raises SandboxError."""
        taken = await asyncio.gather(
            *(self._acquire(0.0) for _ in range(self._warm)), return_exceptions=True
        )
        for member in taken:
            if isinstance(member, _Member):
                self._give_back(member, Usage())
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
        member = await self._acquire(need_s)
        usage = Usage(persistent=self._spec.persistent)
        leased = LeasedSandbox(member.sandbox, member.number, usage)
        try:
            yield leased
        finally:
            self._give_back(member, leased.end_lease())

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

    async def _acquire(self, need_s: float) -> _Member:
        if self._closed:
            raise _closed_error()
        caller = _Caller(need_s, asyncio.get_running_loop().create_future())
        self._callers.append(caller)
        self._advance()
        try:
            return await caller.member
        except asyncio.CancelledError:
            if caller in self._callers:
                self._callers.remove(caller)
            elif not caller.member.cancelled() and not caller.member.exception():
                self._give_back(caller.member.result(), Usage())
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
                self._spawn(self._creations, self._create())
            elif step.action == "give up":
                self._fail_callers(step.reason)
            else:
                if step.again_in_s:
                    self._wake = loop.call_later(step.again_in_s, self._advance)
                return

    def _hand_out(self, now: float) -> None:
        if self._callers[0].member.done():  # cancelled, and not yet awake
            self._callers.popleft()
            return
        member, need_s = self._idle.popleft(), self._callers[0].need_s
        fit = judge_age(now - member.made_at, self._spec.lifetime_s, need_s)
        if fit.action == "replace":
            self._end(member, fit.reason)
            return
        self._leased.add(member)
        self._callers.popleft().member.set_result(member)

    def _give_back(self, member: _Member, usage: Usage) -> None:
        """Keep, check or replace a sandbox after its lease."""
        self._leased.discard(member)
        if self._closed or member not in self._members:
            return
        judgement = judge_return(usage)
        if judgement.action == "keep":
            self._idle.append(member)
        elif judgement.action == "check":
            self._ending.add(member)
            self._spawn(self._checks, self._check(member))
        else:
            self._end(member, judgement.reason)
        self._advance()

    async def _create(self) -> None:
        loop, began = asyncio.get_running_loop(), asyncio.get_running_loop().time()
        try:
            sandbox = await self._make()
        except CreationRefusedError as error:
            self._pace = self._pace.after_refusal(began, loop.time(), error.retry_after_s)
            self._last_error = error
            self._report(f"no sandbox now: {error.message}")
            return
        except Exception as error:  # noqa: BLE001 - of a vendor's library; callers get it
            self._pace = self._pace.after_failure(began, loop.time())
            self._last_error = error if isinstance(error, DaddyError) else SandboxError(repr(error))
            self._report(f"a sandbox could not be made: {self._last_error.message}")
            return
        self._made += 1
        member = _Member(sandbox, self._made, began)
        member.expiry = loop.call_later(self._spec.lifetime_s, self._expire, member)
        self._pace = self._pace.after_success()
        self._members.add(member)
        self._idle.append(member)

    async def _make(self) -> Sandbox:
        sandbox = await self._backend.create(self._spec)
        if self._prepare:
            try:
                await self._prepare(sandbox)
            except BaseException:
                await sandbox.close()
                raise
        return sandbox

    async def _check(self, member: _Member) -> None:
        """Use a sandbox again if it runs a command, else replace it."""
        found = ""
        try:
            run = member.sandbox.run(Command(argv=("true",)), Limits(time_s=_CHECK_S))
            outcome = await asyncio.wait_for(run, 2 * _CHECK_S)
            if (outcome.ending, outcome.exit_code) != ("exited", 0):
                found = f"`true` {outcome.ending} with {outcome.exit_code}"
        except (SandboxError, asyncio.TimeoutError) as error:
            found = str(error) or "no answer"
        if found:
            self._end(member, f"it failed its check: {found}")
        elif member in self._members:
            self._ending.discard(member)
            self._idle.append(member)

    def _expire(self, member: _Member) -> None:
        if member in self._idle:
            self._idle.remove(member)
        self._leased.discard(member)
        self._end(member, f"its lifetime of {self._spec.lifetime_s:g} s is over")
        self._advance()

    def _end(self, member: _Member, reason: str) -> None:
        """Close a sandbox; until it is closed it takes a place."""
        if member in self._members:
            self._members.discard(member)
            self._ending.add(member)
            self._report(f"sandbox {member.number} is replaced: {reason}")
            self._spawn(self._closings, self._close_member(member))

    async def _close_member(self, member: _Member) -> None:
        if member.expiry:
            member.expiry.cancel()
        try:
            await asyncio.wait_for(member.sandbox.close(), _CLOSE_S)
        except (DaddyError, OSError, asyncio.TimeoutError) as error:
            self._report(f"sandbox {member.number} could not be closed: {error!r}")
        finally:
            self._ending.discard(member)

    def _fail_callers(self, reason: str) -> None:
        last, self._pace = self._last_error, self._pace.after_giving_up()
        error: DaddyError = SandboxError(reason)
        if isinstance(last, SandboxError):
            error = SandboxError(f"{reason}: {last.message}", last.fix)
        elif last:
            error = last
        while self._callers:
            caller = self._callers.popleft()
            if not caller.member.done():
                caller.member.set_exception(error)

    def _spawn(self, tasks: set[asyncio.Task[None]], work: Coroutine[Any, Any, None]) -> None:
        """Run `work` as a task of the pool, which takes its next step after it."""

        def finish(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            self._advance()

        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(finish)

    async def _close_all(self) -> None:
        while self._callers:
            caller = self._callers.popleft()
            if not caller.member.done():
                caller.member.set_exception(_closed_error())
        if self._wake:
            self._wake.cancel()
        unfinished = [*self._creations, *self._checks]
        for task in unfinished:
            task.cancel()
        await asyncio.gather(*unfinished, return_exceptions=True)
        closing = [self._close_member(member) for member in self._members]
        await asyncio.gather(*closing, *self._closings, return_exceptions=True)


def _closed_error() -> SandboxError:
    return SandboxError("the pool of sandboxes is closed", "make a new pool")
