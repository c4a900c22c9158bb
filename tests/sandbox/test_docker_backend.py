"""Docker's adapter against a local engine at a Unix socket."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import ConfigError, ExitCode, ExtraMissingError, SandboxError
from Daddy.sandbox import docker_backend
from Daddy.sandbox.docker_backend import DockerBackend
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.sandbox.sdk_packages import use_sdk

LONG = Limits(time_s=PATIENCE_S)
ECHO = Command(argv=("echo", "hello"))
KEPT = SandboxSpec(persistent=True, lifetime_s=600.0)


@pytest.fixture
def fake(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    program("bwrap", "bubblewrap")
    use_sdk("docker")
    from tests.sandbox.fake_docker import FakeEngine

    engine = FakeEngine()
    monkeypatch.setenv("DOCKER_HOST", engine.url)
    yield engine
    engine.close()
    assert engine.errors == []


def run_once(spec: SandboxSpec = KEPT) -> bytes:
    async def whole() -> bytes:
        sandbox = await DockerBackend("run-7").create(spec)
        try:
            return (await sandbox.run(ECHO, LONG)).stdout
        finally:
            await sandbox.close()

    return asyncio.run(whole())


def test_a_container_is_confined_used_and_removed(fake: Any) -> None:
    assert run_once() == b"hello\n"
    (container,) = fake.made
    config = container.config
    host = config["HostConfig"]
    assert config["NetworkDisabled"] is True
    assert host["NetworkMode"] == "none"
    assert host["ReadonlyRootfs"] is True
    assert host["CapDrop"] == ["ALL"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Memory"] == host["MemorySwap"] == 2048 << 20
    assert host["PidsLimit"] == 256
    assert host["AutoRemove"] is True
    assert host["IpcMode"] == "private"
    assert all(
        "size=256m" in options and "nr_inodes" in options for options in host["Tmpfs"].values()
    )
    assert set(host["Tmpfs"]) == {"/tmp", "/files"}
    assert all(bind.endswith(":ro") for bind in host["Binds"])
    assert config["User"] == "64000:64000"
    assert (config["OpenStdin"], config["StdinOnce"], config["Tty"]) == (True, True, False)
    assert config["Labels"] == {"made-by-daddy": "yes", "daddy-run": "run-7"}
    assert "Privileged" not in host
    assert fake.containers == {}


def test_each_command_of_a_fresh_sandbox_gets_a_new_container(fake: Any) -> None:
    async def whole() -> None:
        sandbox = await DockerBackend().create(SandboxSpec())
        for _ in range(2):
            assert (await sandbox.run(ECHO, LONG)).stdout == b"hello\n"
        assert len(fake.made) == 2
        assert fake.containers == {}
        await sandbox.close()

    asyncio.run(whole())


def test_a_container_ends_with_its_attachment(fake: Any) -> None:
    """The kernel closes the attachment of a host that was killed."""

    async def whole() -> None:
        sandbox: Any = await DockerBackend().create(KEPT)
        held = Command(argv=("sh", "-c", "echo up; sleep 1000000"))
        up = asyncio.Event()
        task = asyncio.create_task(sandbox.run(held, LONG, lambda _line: up.set()))
        await up.wait()
        fake.cut_attachments()
        with pytest.raises(SandboxError):
            await task
        assert await asyncio.to_thread(until, lambda: fake.containers == {})
        await sandbox.close()

    asyncio.run(whole())


def test_without_an_engine_nothing_starts(
    fake: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/absent.sock")
    with pytest.raises(ConfigError, match="no engine answers") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.CONFIGURATION == 3
    assert "--backend bubblewrap" in caught.value.fix


def test_an_engine_elsewhere_is_refused(fake: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
    with pytest.raises(ConfigError, match=r"tcp://192\.0\.2\.1"):
        run_once()


def test_without_the_sdk_its_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(docker_backend.importlib.util, "find_spec", lambda _name: None)
    with pytest.raises(ExtraMissingError, match="docker") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.PACKAGES_MISSING
    assert "[docker]" in caught.value.fix


def test_an_image_that_the_engine_lacks_is_named_with_the_line_that_pulls_it(fake: Any) -> None:
    with pytest.raises(ConfigError, match="no-such-image") as caught:
        run_once(SandboxSpec(image="no-such-image", persistent=True))
    assert "docker pull" in caught.value.fix
    assert fake.containers == {}


def test_this_machines_images_and_folders_are_refused(fake: Any, tmp_path: Path) -> None:
    for spec in (SandboxSpec(image="debian:13+tmux"), SandboxSpec(read_only=(tmp_path,))):
        with pytest.raises(ConfigError, match="its own image"):
            run_once(spec)
    assert fake.made == []


def test_leftovers_are_removed_by_label(fake: Any) -> None:
    async def whole() -> None:
        mine, others = DockerBackend("mine"), DockerBackend("others")
        made = [await backend.create(KEPT) for backend in (mine, others, mine)]
        assert await mine.delete_leftovers("mine") == 2
        (left,) = fake.containers.values()
        assert left.config["Labels"]["daddy-run"] == "others"
        assert await mine.delete_leftovers() == 1
        for sandbox in made:
            await sandbox.close()

    asyncio.run(whole())
    assert fake.containers == {}


def test_a_fake_or_untried_engine_is_never_called_confined(fake: Any) -> None:
    isolation = DockerBackend().isolation()
    assert isolation.level == "partly"
    assert isolation.missing


def test_a_limit_that_a_new_sdk_renames_fails_and_is_not_dropped(
    fake: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from docker.api import container

    known = container.HostConfig

    def newer(*args: Any, max_pids: int = 0, **kwargs: Any) -> Any:
        if "pids_limit" in kwargs:
            raise TypeError("unexpected keyword 'pids_limit'")
        return known(*args, **kwargs)

    monkeypatch.setattr(container, "HostConfig", newer)
    with pytest.raises(TypeError, match="pids_limit"):
        run_once()
    assert fake.containers == {}
