"""Daytona's adapter against a local server made of its SDK's own classes."""

import asyncio
import base64
import logging
from collections.abc import Iterator
from typing import Any

import pydantic
import pytest

from Daddy.core.errors import ConfigError, ExitCode, ExtraMissingError, SandboxError
from Daddy.sandbox import daytona_backend
from Daddy.sandbox.daytona_backend import DaytonaBackend, read_retry_after, translate_error
from Daddy.sandbox.pool import SandboxPool
from Daddy.sandbox.sandbox_interfaces import Command, CreationRefusedError, Limits, SandboxSpec
from tests.components import program
from tests.patience import PATIENCE_S
from tests.sandbox.sdk_packages import use_sdk

LONG = Limits(time_s=PATIENCE_S)
ECHO = Command(argv=("echo", "hello"))
KEPT = SandboxSpec(persistent=True, lifetime_s=600.0)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    program("bwrap", "bubblewrap")
    use_sdk("daytona")
    from tests.sandbox.fake_daytona import KEY, FakeDaytona

    server = FakeDaytona()
    monkeypatch.setenv("DAYTONA_API_KEY", KEY)
    monkeypatch.setenv("DAYTONA_API_URL", f"{server.url}/api")
    yield server
    server.close()
    assert server.errors == []


def run_once(spec: SandboxSpec = KEPT, command: Command = ECHO) -> bytes:
    async def whole() -> bytes:
        sandbox = await DaytonaBackend("run-7").create(spec)
        try:
            return (await sandbox.run(command, LONG)).stdout
        finally:
            await sandbox.close()

    return asyncio.run(whole())


def test_a_sandbox_is_made_with_its_limits_used_and_deleted(fake: Any) -> None:
    assert run_once() == b"hello\n"
    (machine,) = fake.made
    asked = machine.request
    assert (asked.auto_stop_interval, asked.auto_delete_interval, asked.ttl_minutes) == (10, 30, 10)
    assert asked.network_block_all
    assert asked.labels.items() >= {"made-by-daddy": "yes", "daddy-run": "run-7"}.items()
    assert fake.machines == {}


def test_each_command_of_a_fresh_sandbox_gets_a_new_one(fake: Any) -> None:
    async def whole() -> list[bytes]:
        sandbox = await DaytonaBackend().create(SandboxSpec())
        shell = Command(argv=("sh", "-c", "ls -A; echo x > left"))
        outcomes = [await sandbox.run(shell, LONG) for _ in range(2)]
        assert len(fake.made) == 2
        assert fake.machines == {}
        await sandbox.close()
        return [outcome.stdout for outcome in outcomes]

    assert asyncio.run(whole()) == [b"", b""]


def test_a_wrong_key_is_told_and_ends_with_3(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "wrong-key")
    with pytest.raises(ConfigError, match="Invalid credentials") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.CONFIGURATION == 3
    assert "DAYTONA_API_KEY" in caught.value.fix
    assert "wrong-key" not in str(caught.value)


def test_without_a_key_nothing_starts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(daytona_backend, "_load_sdk", lambda: pytest.fail("the SDK was loaded"))
    for value in ("", " "):
        monkeypatch.setenv("DAYTONA_API_KEY", value)
        with pytest.raises(ConfigError, match="DAYTONA_API_KEY is not set") as caught:
            run_once()
        assert "--backend bubblewrap" in caught.value.fix
        with pytest.raises(ConfigError):
            DaytonaBackend().isolation()


def test_without_the_sdk_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAYTONA_API_KEY", "x")
    monkeypatch.setattr(daytona_backend.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ExtraMissingError, match=r"daytona") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.PACKAGES_MISSING
    assert "[daytona]" in caught.value.fix


def test_the_wait_that_a_rate_limit_names_reaches_the_pool(fake: Any) -> None:
    fake.refusals.append((429, {"Retry-After": "7"}, "Rate limit exceeded"))
    with pytest.raises(CreationRefusedError, match="Rate limit exceeded") as caught:
        run_once()
    assert caught.value.retry_after_s == 7.0
    assert fake.made == []


def test_a_pool_waits_as_long_as_the_vendor_asks_and_goes_on(fake: Any) -> None:
    fake.refusals.append((429, {"Retry-After-sandbox-create": "1.5"}, "slow down"))
    said: list[str] = []

    async def whole() -> float:
        pool = SandboxPool(DaytonaBackend(), KEPT, 1, report=said.append)
        started = asyncio.get_running_loop().time()
        try:
            assert (await pool.run(ECHO, LONG)).stdout == b"hello\n"
            return asyncio.get_running_loop().time() - started
        finally:
            await pool.close()

    assert asyncio.run(whole()) >= 1.5
    assert any("slow down" in sentence for sentence in said)
    assert len(fake.made) == 1
    assert fake.machines == {}


def test_a_used_up_quota_is_no_wrong_key(fake: Any) -> None:
    fake.refusals.append((403, {}, "Total CPU limit exceeded. Maximum allowed: 10."))
    with pytest.raises(CreationRefusedError, match="Total CPU limit") as caught:
        run_once()
    assert caught.value.retry_after_s is None


def test_leftovers_are_deleted_by_label(fake: Any) -> None:
    async def whole() -> None:
        mine, others = DaytonaBackend("mine"), DaytonaBackend("others")
        made = [await backend.create(KEPT) for backend in (mine, others, mine)]
        assert await mine.delete_leftovers("mine") == 2
        (left,) = fake.machines.values()
        assert left.request.labels["daddy-run"] == "others"
        assert await mine.delete_leftovers() == 1
        assert await mine.delete_leftovers() == 0
        for sandbox in made:  # the vendor's are gone: closing says nothing of it
            await sandbox.close()

    asyncio.run(whole())
    assert fake.machines == {}


def test_a_cancelled_creation_leaves_nothing(fake: Any) -> None:
    fake.creatable.clear()

    async def whole() -> None:
        task = asyncio.create_task(DaytonaBackend().create(KEPT))
        await asyncio.to_thread(fake.creating.wait)
        task.cancel()
        await asyncio.sleep(0)
        fake.creatable.set()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(whole())
    assert len(fake.made) == 1
    assert fake.machines == {}


def test_a_sandbox_that_the_vendor_took_away_raises(fake: Any) -> None:
    async def whole() -> None:
        sandbox = await DaytonaBackend().create(KEPT)
        up = asyncio.Event()
        held = Command(argv=("sh", "-c", "echo up; sleep 1000000"))
        task = asyncio.create_task(sandbox.run(held, LONG, lambda _line: up.set()))
        await up.wait()
        fake.take_away()
        with pytest.raises(SandboxError):
            await task
        with pytest.raises(SandboxError):
            await sandbox.run(ECHO, LONG)
        await sandbox.close()

    asyncio.run(whole())


def test_the_key_is_in_no_log_and_no_error(
    fake: Any, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    from tests.sandbox.fake_daytona import KEY

    caplog.set_level(logging.DEBUG)
    fake.refusals.append((500, {}, f"no \x1b[31mplace for Bearer {KEY}"))
    with pytest.raises(SandboxError) as caught:
        run_once()
    assert run_once() == b"hello\n"
    told = capfd.readouterr()
    text = f"{caught.value}{caught.value!r}{caplog.text}{told.out}{told.err}"
    assert "place for Bearer" in text
    assert KEY not in text
    assert base64.b64encode(KEY.encode()).decode() not in text
    assert "\x1b" not in str(caught.value)


def test_this_machines_images_and_folders_are_refused(fake: Any, tmp_path: Any) -> None:
    for spec in (SandboxSpec(image="dir:/some/where"), SandboxSpec(read_only=(tmp_path,))):
        with pytest.raises(ConfigError, match="cannot see"):
            run_once(spec)
    assert fake.made == []


def test_it_is_the_vendors_promise_and_never_confined(fake: Any) -> None:
    isolation = DaytonaBackend().isolation()
    assert isolation.level == "vendor"
    assert isolation.missing


@pytest.mark.parametrize("model", ["Sandbox", "CreateSandbox"])
def test_a_renamed_attribute_of_the_sdk_fails_the_fake(fake: Any, model: str) -> None:
    """The fake refuses what the SDK's own classes do not know, so drift cannot hide behind it."""
    from tests.sandbox import fake_daytona

    known = getattr(fake_daytona.api, model)
    with pytest.raises(AssertionError, match="auto_stop_minutes"):
        fake_daytona.build(known, auto_stop_minutes=10)
    if model == "CreateSandbox":
        with pytest.raises(AssertionError, match="autoStopMinutes"):
            fake_daytona.parse(known, b'{"autoStopMinutes": 10}')


def test_a_new_mandatory_attribute_of_the_sdk_fails_the_fake(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tests.sandbox import fake_daytona

    newer = pydantic.create_model("Sandbox", __base__=fake_daytona.api.Sandbox, tier=(str, ...))
    monkeypatch.setattr(fake_daytona.api, "Sandbox", newer)
    with pytest.raises(SandboxError, match="the fake failed"):
        run_once()
    assert "tier" in fake.errors.pop()


@pytest.mark.parametrize(
    ("headers", "wait_s"),
    [
        ({}, None),
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": "2", "Retry-After-sandbox-create": "9"}, 9.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, None),
        ({"Retry-After": "inf"}, None),
        ({"X-Limit": "4"}, None),
    ],
)
def test_the_wait_is_read_from_the_headers(headers: dict[str, str], wait_s: float | None) -> None:
    assert read_retry_after(headers) == wait_s


def test_an_error_of_the_network_names_the_network() -> None:
    class DaytonaConnectionError(Exception):
        pass

    error = translate_error(DaytonaConnectionError("no route"))
    assert error.exit_code == ExitCode.NETWORK
