"""The pool of sandboxes: order, bounds, replacement of what died, and its end."""

import asyncio
import random
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from Daddy.core.errors import ConfigError, DaddyError, FileError, SandboxError, UsageError
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, CreationRefusedError, Sandbox, SandboxSpec
from tests.patience import PATIENCE_S
from tests.sandbox.fake_backend import FakeBackend

TRUE, HOLD, DIE, LOOP = (Command(argv=(word,)) for word in ("true", "hold", "die", "loop"))
Story = Callable[[FakeBackend], Awaitable[None]]


def play(story: Story) -> FakeBackend:
    """Run a story with a backend of its own; afterwards nothing of it may live or run."""

    async def whole() -> FakeBackend:
        backend = FakeBackend()
        await asyncio.wait_for(story(backend), PATIENCE_S)
        assert backend.live == set()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        return backend

    return asyncio.run(whole())


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until the condition holds; `play` bounds it."""
    while not condition():  # noqa: ASYNC110 - a count of the pool has no event
        await asyncio.sleep(0.001)


def test_five_hundred_commands_run_on_ten_sandboxes_each_alone_and_once() -> None:
    async def story(backend: FakeBackend) -> None:
        commands = [Command(argv=("true", str(index))) for index in range(500)]
        async with SandboxPool(backend, size=10) as pool:
            await asyncio.gather(*map(pool.run, commands))

    backend = play(story)
    assert backend.most_in_one == 1
    assert backend.most_live == backend.made == 10
    assert sorted(backend.ran.values()) == [1] * 500


def test_two_hundred_live_sandboxes_are_made_eight_at_a_time() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=200, warm=200) as pool:
            assert pool.state().idle == len(backend.live) == 200
            held = [asyncio.create_task(pool.run(HOLD)) for _ in range(200)]
            await until(lambda: backend.ran["hold",] == 200)
            backend.gate.set()
            await asyncio.gather(*held)

    backend = play(story)
    assert (backend.most_creating, backend.made) == (8, 200)


def test_callers_are_served_in_the_order_in_which_they_came() -> None:
    async def story(backend: FakeBackend) -> None:
        served: list[int] = []

        async def call(index: int) -> None:
            async with pool.lease():
                served.append(index)

        async with SandboxPool(backend, size=1) as pool:
            await asyncio.gather(*(call(index) for index in range(50)))
        assert served == list(range(50))

    play(story)


def test_warm_sandboxes_are_there_before_the_first_command() -> None:
    async def story(backend: FakeBackend) -> None:
        for warm in (3, 9):
            async with SandboxPool(backend, size=5, warm=warm) as pool:
                assert len(backend.live) == min(warm, 5)
                await pool.run(TRUE)
        assert backend.made == 3 + 5

    play(story)


def test_a_dead_sandbox_fails_its_command_once_and_is_replaced() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            with pytest.raises(SandboxError, match="sandbox 1 ended"):
                await pool.run(DIE)
            assert (await pool.run(TRUE)).stdout == b"2"
        assert backend.ran["die",] == 1

    play(story)


def test_a_warm_pool_makes_up_for_a_dead_sandbox_without_a_caller() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=2, warm=2) as pool:
            with pytest.raises(SandboxError):
                await pool.run(DIE)
            await until(lambda: pool.state().idle == 2)

    play(story)


def test_a_sandbox_that_ended_a_command_by_force_is_used_again() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            await asyncio.gather(*(pool.run(LOOP) for _ in range(30)))
            assert (await pool.run(TRUE)).stdout == b"1"

    assert play(story).most_in_one == 1


def test_files_of_a_caller_are_not_there_for_the_next_one(tmp_path: Path) -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease() as sandbox:
                await sandbox.put(tmp_path, "/files/x")
                assert (await sandbox.run(TRUE)).stdout == b"1"
            assert (await pool.run(TRUE)).stdout == b"2"

    play(story)


@pytest.mark.parametrize("call", ["put", "close"])
def test_a_sandbox_changed_during_a_command_is_not_there_for_the_next_one(call: str) -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease() as sandbox:
                running = asyncio.create_task(sandbox.run(HOLD))
                await until(lambda: backend.ran["hold",])
                change = sandbox.put(Path("x"), "/files/x") if call == "put" else sandbox.close()
                changing = asyncio.create_task(change)
                backend.closable.clear()
                await asyncio.sleep(0)
                backend.gate.set()
                await running
                backend.closable.set()
                await changing
            assert (await pool.run(TRUE)).stdout == b"2"

    play(story)


def test_a_call_that_failed_ends_its_sandbox_though_later_ones_succeed(tmp_path: Path) -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease() as sandbox:
                with pytest.raises(SandboxError, match="nothing to get"):
                    await sandbox.get("/tmp/x", tmp_path)
                await sandbox.run(TRUE)
            assert (await pool.run(TRUE)).stdout == b"2"

    play(story)


def test_prepared_files_are_put_once_into_each_sandbox_and_it_is_used_again() -> None:
    async def story(backend: FakeBackend) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            await sandbox.put(Path("task.py"), "/files/task.py")

        async with SandboxPool(backend, size=2, warm=2, prepare=prepare) as pool:
            await asyncio.gather(*(pool.run(TRUE) for _ in range(20)))
        assert backend.ran["put", "/files/task.py"] == backend.made == 2

    play(story)


def test_a_persistent_sandbox_is_never_lent_twice() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, SandboxSpec(persistent=True), size=1) as pool:
            numbers = [(await pool.run(TRUE)).stdout for _ in range(3)]
        assert numbers == [b"1", b"2", b"3"]

    play(story)


def test_a_lease_keeps_its_sandbox_and_refuses_calls_after_its_end() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease() as sandbox:
                other = asyncio.create_task(pool.run(TRUE))
                await asyncio.gather(*(sandbox.run(TRUE) for _ in range(20)))
                assert not other.done()
            await other
            with pytest.raises(SandboxError, match="given back"):
                await sandbox.run(TRUE)

    assert play(story).most_in_one == 1


def test_a_sandbox_that_its_caller_closed_is_replaced() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease() as sandbox:
                await sandbox.close()
                await sandbox.close()
                assert not backend.live
            assert (await pool.run(TRUE)).stdout == b"2"

    play(story)


def test_a_cancelled_command_ends_its_sandbox_and_a_cancelled_caller_leaves_the_queue() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            running = asyncio.create_task(pool.run(HOLD))
            await until(lambda: backend.ran["hold",])
            waiting = asyncio.create_task(pool.run(HOLD))
            last = asyncio.create_task(pool.run(TRUE))
            await until(lambda: pool.state().waiting == 2)
            waiting.cancel()
            await until(lambda: pool.state().waiting == 1)
            running.cancel()
            assert (await last).stdout == b"2"
        assert backend.ran["hold",] == 1

    play(story)


def test_a_caller_cancelled_as_a_sandbox_becomes_free_does_not_get_it() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            async with pool.lease():
                callers = [asyncio.create_task(pool.run(TRUE)) for _ in range(2)]
                await until(lambda: pool.state().waiting == 2)
                callers[0].cancel()
            assert (await callers[1]).stdout == b"1"
        assert backend.ran["true",] == 1

    play(story)


@pytest.mark.parametrize("turns", [0, 1, 2])
def test_a_caller_cancelled_as_the_pool_closes_is_cancelled(turns: int) -> None:
    """After one turn of the loop the closing is about to fail the caller, after two it has."""

    async def story(backend: FakeBackend) -> None:
        pool = SandboxPool(backend, size=1)
        async with pool.lease():
            caller = asyncio.create_task(pool.run(TRUE))
            await until(lambda: pool.state().waiting)
            closing = asyncio.create_task(pool.close())
            for _ in range(turns):
                await asyncio.sleep(0)
            caller.cancel()
            await closing
        with pytest.raises(asyncio.CancelledError):
            await caller

    play(story)


def test_callers_cancelled_at_any_moment_lose_no_sandbox() -> None:
    async def story(backend: FakeBackend) -> None:
        draw = random.Random(1)
        async with SandboxPool(backend, size=3) as pool:
            for _ in range(200):
                tasks = [asyncio.create_task(pool.run(TRUE)) for _ in range(4)]
                for _ in range(draw.randrange(8)):
                    await asyncio.sleep(0)
                draw.choice(tasks).cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
            await until(lambda: pool.state().ending == 0)
            assert pool.state().leased == pool.state().waiting == 0
            await asyncio.gather(*(pool.run(TRUE) for _ in range(10)))

    backend = play(story)
    assert backend.most_live <= 3
    assert backend.most_in_one == 1


def test_a_rate_limit_is_waited_out_and_no_command_fails() -> None:
    async def story(backend: FakeBackend) -> None:
        backend.failures = [CreationRefusedError("429", retry_after_s=0.01)] * 3
        told: list[str] = []
        async with SandboxPool(backend, size=8, report=told.append) as pool:
            await asyncio.gather(*(pool.run(TRUE) for _ in range(30)))
        assert told == ["no sandbox now: 429"] * 3

    play(story)


def test_a_pool_that_waits_has_one_timer_and_after_its_end_none() -> None:
    async def story(backend: FakeBackend) -> None:
        loop = asyncio.get_running_loop()

        def timers() -> list[float]:
            living = [h for h in loop._scheduled if not h.cancelled()]  # type: ignore[attr-defined]
            return [h.when() for h in living if getattr(h._callback, "__self__", None) is pool]

        backend.failures = [CreationRefusedError("429", retry_after_s=PATIENCE_S)]
        pool = SandboxPool(backend, size=1)
        callers = [asyncio.create_task(pool.run(TRUE)) for _ in range(5)]
        await until(lambda: not backend.failures and not backend.creating)
        callers.append(asyncio.create_task(pool.run(TRUE)))
        await until(lambda: pool.state().waiting == len(callers))
        (wake_at,) = timers()
        assert loop.time() < wake_at - PATIENCE_S / 2
        await pool.close()
        assert timers() == []
        await asyncio.gather(*callers, return_exceptions=True)

    play(story)


def test_failures_with_a_success_between_them_are_not_in_a_row() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1) as pool:
            for _ in range(2):
                backend.failures = [SandboxError("busy")] * 2
                with pytest.raises(SandboxError, match="ended"):
                    await pool.run(DIE)

    assert play(story).made == 2


def test_a_quota_below_the_size_slows_the_pool_and_fails_nothing() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=10, warm=2) as pool:
            backend.failures = [CreationRefusedError("limit reached (2)")] * 1000
            await asyncio.gather(*(pool.run(TRUE) for _ in range(100)))

    assert play(story).made == 2


def test_a_backend_that_cannot_make_any_fails_the_callers_with_its_reason() -> None:
    async def story(backend: FakeBackend) -> None:
        told: list[str] = []
        async with SandboxPool(backend, size=1, report=told.append) as pool:
            backend.failures = [SandboxError("no namespaces", "type this")] * 3
            done = await asyncio.gather(*(pool.run(TRUE) for _ in range(5)), return_exceptions=True)
            assert {type(error) for error in done} == {SandboxError}
            assert {error.fix for error in done} == {"type this"}
            assert "no namespaces" in str(done[0])
            assert told == ["a sandbox could not be made: no namespaces"] * 3
            assert (await pool.run(TRUE)).stdout == b"1"

    play(story)


@pytest.mark.parametrize(
    ("error", "words"),
    [(OSError(28, "No space left"), "No space left"), (asyncio.CancelledError(), "Cancelled")],
)
def test_a_pool_that_cannot_warm_up_raises_and_leaves_nothing(
    error: BaseException, words: str
) -> None:
    async def story(backend: FakeBackend) -> None:
        backend.failures = [error] * 3
        with pytest.raises(SandboxError, match=words):
            async with SandboxPool(backend, size=1, warm=1):
                raise AssertionError

    play(story)


@pytest.mark.parametrize("error", [ConfigError("no such image"), FileError("the disk is full")])
def test_an_error_of_another_kind_keeps_its_kind_and_exit_code(error: DaddyError) -> None:
    async def story(backend: FakeBackend) -> None:
        backend.failures = [error] * 3
        async with SandboxPool(backend, size=1) as pool:
            with pytest.raises(type(error), match=error.message):
                await pool.run(TRUE)

    play(story)


def test_a_pool_of_which_one_sandbox_cannot_be_made_leaves_none_of_the_others() -> None:
    async def story(backend: FakeBackend) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            if backend.made > 1:
                raise SandboxError("no space")

        pool = SandboxPool(backend, size=2, warm=2, prepare=prepare)
        entered = asyncio.create_task(pool.__aenter__())
        await until(lambda: pool.state().leased == 1)
        entered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await entered

    play(story)


def test_files_that_cannot_be_put_at_the_start_end_that_sandbox() -> None:
    async def story(backend: FakeBackend) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            raise SandboxError("no such file")

        with pytest.raises(SandboxError, match="no such file"):
            async with SandboxPool(backend, size=1, warm=1, prepare=prepare):
                raise AssertionError

    assert play(story).made == 3


def test_a_sandbox_ends_at_its_lifetime_also_in_the_middle_of_a_command() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, SandboxSpec(lifetime_s=0.05), size=1) as pool:
            async with pool.lease() as sandbox:
                with pytest.raises(SandboxError, match="ended"):
                    await sandbox.run(HOLD)
            async with pool.lease() as later:
                assert later.number > sandbox.number

    play(story)


def test_a_sandbox_too_old_for_a_command_is_replaced() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, SandboxSpec(lifetime_s=3600), size=1, warm=1) as pool:
            pool._idle[0].made_at -= 1800
            for need_s, number in ((1000, 1), (3600, 2), (3600, 2)):
                async with pool.lease(need_s) as sandbox:
                    assert sandbox.number == number

    assert play(story).most_live == 1


def test_a_command_longer_than_a_lifetime_is_refused_at_once() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, SandboxSpec(lifetime_s=5), size=1) as pool:
            with pytest.raises(SandboxError, match="longer than a sandbox lives"):
                await pool.run(TRUE)

    assert play(story).made == 0


def test_closing_ends_running_and_waiting_commands_with_an_error() -> None:
    async def story(backend: FakeBackend) -> None:
        pool = SandboxPool(backend, size=2)
        tasks = [asyncio.create_task(pool.run(HOLD)) for _ in range(5)]
        await until(lambda: backend.ran["hold",] == 2)
        await asyncio.gather(pool.close(), pool.close())
        await pool.close()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
        assert backend.closed == 2
        assert [type(end) for end in ends] == [SandboxError] * 5
        with pytest.raises(SandboxError, match="closed"):
            await pool.run(TRUE)

    play(story)


@pytest.mark.parametrize("ready", [True, False])
def test_closing_in_the_middle_of_creation_leaves_nothing(ready: bool) -> None:
    async def story(backend: FakeBackend) -> None:
        backend.creatable.clear()
        pool = SandboxPool(backend, size=20)
        tasks = [asyncio.create_task(pool.run(TRUE)) for _ in range(20)]
        await until(lambda: backend.creating == 8)
        if ready:
            backend.creatable.set()
        await asyncio.gather(pool.close(), *tasks, return_exceptions=True)
        assert pool.state().creating == backend.creating == 0

    play(story)


def test_a_cancelled_close_still_ends_everything() -> None:
    async def story(backend: FakeBackend) -> None:
        pool = SandboxPool(backend, size=5, warm=5)
        await pool.start()
        backend.closable.clear()
        closing = asyncio.create_task(pool.close())
        for _ in range(3):
            await asyncio.sleep(0)
            closing.cancel()
        await asyncio.sleep(0)
        assert len(backend.live) == 5
        backend.closable.set()
        with pytest.raises(asyncio.CancelledError):
            await closing

    play(story)


@pytest.mark.parametrize("answers", [True, False])
def test_a_sandbox_that_cannot_be_closed_is_reported_and_the_others_end(answers: bool) -> None:
    async def story(backend: FakeBackend) -> None:
        told: list[str] = []
        async with SandboxPool(backend, size=3, warm=3, report=told.append, close_s=0.01):
            stuck = next(iter(backend.live))

            async def fail() -> None:
                stuck.end()
                if not answers:
                    await asyncio.Event().wait()
                raise OSError("no such process")

            stuck.close = fail  # type: ignore[method-assign]
        (sentence,) = told
        assert ("no such process" if answers else "no answer in 0.01 s") in sentence

    play(story)


def test_a_sandbox_that_does_not_end_gives_its_place_away_in_the_end() -> None:
    async def story(backend: FakeBackend) -> None:
        async with SandboxPool(backend, size=1, close_s=0.01) as pool:
            backend.closable.clear()
            with pytest.raises(SandboxError):
                await pool.run(DIE)
            assert pool.state().ending == 1
            assert (await pool.run(TRUE)).stdout == b"2"
            backend.closable.set()

    play(story)


@pytest.mark.parametrize("stubborn", [False, True])
def test_a_creation_that_hangs_fails_its_callers_and_what_it_makes_later_ends(
    stubborn: bool,
) -> None:
    async def story(backend: FakeBackend) -> None:
        backend.creatable.clear()
        backend.stubborn = stubborn
        async with SandboxPool(backend, size=1, create_s=0.01) as pool:
            with pytest.raises(SandboxError, match=r"fake has not answered in 0\.01 s") as raised:
                await pool.run(TRUE)
            assert "3 sandboxes in a row" in raised.value.message
            assert raised.value.fix
            assert pool.state().live == 0
            assert backend.creating == (3 if stubborn else 0)
            backend.creatable.set()
            assert (await pool.run(TRUE)).exit_code == 0
            await until(lambda: len(backend.live) == 1 and not backend.creating)
            assert pool.state().live == 1
            assert not pool._late
        assert backend.made == (4 if stubborn else 1)

    play(story)


def test_files_that_are_never_put_end_their_sandbox() -> None:
    async def story(backend: FakeBackend) -> None:
        async def prepare(sandbox: Sandbox) -> None:
            await asyncio.Event().wait()

        async with SandboxPool(backend, size=1, prepare=prepare, create_s=0.01) as pool:
            with pytest.raises(SandboxError, match="has not answered"):
                await pool.run(TRUE)
            await until(lambda: not backend.live)

    assert play(story).made == 3


def test_closing_does_not_wait_for_ever_for_a_creation_that_hangs() -> None:
    async def story(backend: FakeBackend) -> None:
        backend.creatable.clear()
        backend.stubborn = True
        pool = SandboxPool(backend, size=1, close_s=0.01)
        caller = asyncio.create_task(pool.run(TRUE))
        await until(lambda: backend.creating)
        await pool.close()
        with pytest.raises(SandboxError, match="closed"):
            await caller
        backend.creatable.set()
        await until(lambda: backend.made and not backend.live)
        await until(lambda: pool.state().live == 0)

    play(story)


def test_closing_waits_for_the_end_of_a_creation_over_its_time() -> None:
    async def story(backend: FakeBackend) -> None:
        backend.creatable.clear()
        backend.stubborn = True
        pool = SandboxPool(backend, size=1, create_s=0.01)
        with pytest.raises(SandboxError, match="has not answered"):
            await pool.run(TRUE)
        closing = asyncio.create_task(pool.close())
        for _ in range(5):
            await asyncio.sleep(0)
        assert not closing.done()
        backend.creatable.set()
        await closing
        assert (backend.made, backend.live) == (3, set())

    play(story)


def test_a_pool_of_no_sandboxes_is_refused() -> None:
    with pytest.raises(UsageError, match="pool of 0 sandboxes"):
        SandboxPool(FakeBackend(), size=0)
