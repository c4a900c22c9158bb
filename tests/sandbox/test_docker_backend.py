"""Docker's adapter with a stand-in for the program ``docker``; its flags by the real one."""

import asyncio
import json
import shutil
import socketserver
import threading
from pathlib import Path
from typing import Any, ClassVar

import psutil
import pytest

from Daddy.core.errors import ConfigError, ExitCode, SandboxError
from Daddy.core.run_subprocess import run_command
from Daddy.sandbox import docker_backend
from Daddy.sandbox.docker_backend import DockerBackend, container_argv
from Daddy.sandbox.sandbox_interfaces import Command, Limits, SandboxSpec
from tests.components import program
from tests.patience import PATIENCE_S, until
from tests.sandbox.fake_docker import FakeDocker

LONG = Limits(time_s=PATIENCE_S)
ECHO = Command(argv=("echo", "hello"))
HELD = Command(argv=("sh", "-c", "echo up; sleep 1000000"))
KEPT = SandboxSpec(persistent=True, lifetime_s=600.0)


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeDocker:
    program("bwrap", "bubblewrap")
    docker = FakeDocker(tmp_path / "docker")
    monkeypatch.setenv("PATH", docker.environ["PATH"])
    monkeypatch.delenv("DOCKER_HOST", raising=False)
    return docker


def run_once(spec: SandboxSpec = KEPT) -> bytes:
    async def whole() -> bytes:
        sandbox = await DockerBackend("run-7").create(spec)
        try:
            return (await sandbox.run(ECHO, LONG)).stdout
        finally:
            await sandbox.close()

    return asyncio.run(whole())


def test_a_container_is_confined_used_and_removed(fake: FakeDocker) -> None:
    assert run_once() == b"hello\n"
    (made,) = fake.made()
    confined = {
        "network": "none",
        "ipc": "private",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "memory": "2048m",
        "memory_swap": "2048m",
        "shm_size": "256m",
        "pids_limit": "256",
        "user": "64000:64000",
        "interactive": True,
        "rm": True,
        "label": ["made-by-daddy=yes", "daddy-run=run-7"],
    }
    assert {name: made[name] for name in confined} == confined
    assert {words.partition(":")[0] for words in made["tmpfs"]} == {"/tmp", "/files"}
    assert all("size=256m" in words and "nr_inodes" in words for words in made["tmpfs"])
    assert [mount.rpartition(",")[2] for mount in made["mount"]] == ["readonly"]
    assert fake.live() == set()


class Engine(socketserver.BaseRequestHandler):
    """Answers the real ``docker create`` and keeps the body of its request."""

    asked: ClassVar[list[dict[str, Any]]] = []

    def handle(self) -> None:
        stream = self.request.makefile("rwb")
        while line := stream.readline():
            size = 0
            while header := stream.readline().strip().lower():
                size = int(header.split()[1]) if header.startswith(b"content-length") else size
            body, answer = stream.read(size), b'{"Id": "a-name"}'
            if b"/containers/create" in line:
                self.asked.append(json.loads(body))
            head = "HTTP/1.1 200 OK\r\nApi-Version: 1.44\r\nContent-Type: application/json\r\n"
            stream.write(f"{head}Content-Length: {len(answer)}\r\n\r\n".encode() + answer)
            stream.flush()


def test_the_real_docker_asks_its_engine_for_a_confined_container(tmp_path: Path) -> None:
    if not (docker := shutil.which("docker")):
        pytest.skip("no program docker; an engine is not needed")
    environ = {"PATH": "/usr/bin:/bin", "DOCKER_HOST": f"unix://{tmp_path}/engine.sock"}
    argv = [docker, *container_argv(SandboxSpec(), "a-name", "run-7")]
    with socketserver.ThreadingUnixStreamServer(f"{tmp_path}/engine.sock", Engine) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        told = run_command(argv, PATIENCE_S, env=environ)
        server.shutdown()
    assert told.returncode == 0, told.stderr
    config = Engine.asked.pop()
    host = config["HostConfig"]
    assert config["OpenStdin"]
    assert config["StdinOnce"], "the container's input ends with that of docker start"
    assert (config["User"], config["Entrypoint"]) == ("64000:64000", ["python3"])
    assert (host["NetworkMode"], host["IpcMode"], host["CapDrop"]) == ("none", "private", ["ALL"])
    assert host["ReadonlyRootfs"]
    assert host["AutoRemove"]
    assert not host["Privileged"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert host["Memory"] == host["MemorySwap"] == 2048 << 20
    assert (host["PidsLimit"], host["ShmSize"]) == (256, 256 << 20)
    assert set(host["Tmpfs"]) == {"/tmp", "/files"}
    assert all(mount["ReadOnly"] for mount in host["Mounts"])


def test_an_image_is_never_read_as_a_flag() -> None:
    argv = container_argv(SandboxSpec(image="--privileged"), "a-name", "run-7")
    assert argv.index("--privileged") == argv.index("--") + 1


def test_each_command_of_a_fresh_sandbox_gets_a_new_container(fake: FakeDocker) -> None:
    async def whole() -> None:
        sandbox = await DockerBackend().create(SandboxSpec())
        for _ in range(2):
            assert (await sandbox.run(ECHO, LONG)).stdout == b"hello\n"
        assert len(fake.made()) == 2
        assert fake.live() == set()
        await sandbox.close()

    asyncio.run(whole())


def test_a_container_ends_with_its_program(fake: FakeDocker) -> None:
    """The end of a host that was killed ends ``docker start`` and with it the runner's input."""

    async def whole() -> None:
        sandbox: Any = await DockerBackend().create(KEPT)
        up = asyncio.Event()
        task = asyncio.create_task(sandbox.run(HELD, LONG, lambda _line: up.set()))
        await up.wait()
        for child in psutil.Process().children():
            child.kill()
        with pytest.raises(SandboxError):
            await task
        assert await asyncio.to_thread(until, lambda: fake.live() == set())
        await sandbox.close()

    asyncio.run(whole())


def test_a_cancelled_creation_leaves_nothing(fake: FakeDocker) -> None:
    async def whole() -> None:
        task = asyncio.create_task(DockerBackend().create(KEPT))
        assert await asyncio.to_thread(until, fake.live)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert fake.live() == set()

    asyncio.run(whole())


def test_a_creation_that_is_cancelled_twice_leaves_nothing(fake: FakeDocker) -> None:
    async def whole() -> None:
        task = asyncio.create_task(DockerBackend().create(KEPT))
        assert await asyncio.to_thread(until, fake.live)
        for _ in range(2):
            task.cancel()
            await asyncio.sleep(0)
        with pytest.raises(asyncio.CancelledError):
            await task
        assert await asyncio.to_thread(until, lambda: fake.live() == set())

    asyncio.run(whole())


def put_program(folder: Path, script: str) -> None:
    (folder / "docker").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "docker").chmod(0o755)


def test_without_docker_or_its_engine_nothing_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ConfigError, match="docker is not installed") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.CONFIGURATION == 3
    assert "--backend bubblewrap" in caught.value.fix
    put_program(
        tmp_path,
        '[ "$1" = context ] && echo unix:///absent.sock && exit\n'
        "printf 'Cannot \\033[1mconnect\\n\\nRun docker --help\\n' >&2; exit 1",
    )
    with pytest.raises(ConfigError, match=r"no engine answers: Cannot") as caught:
        run_once()
    assert caught.value.message.endswith("connect"), "the first line alone"
    assert "\033" not in caught.value.message
    assert "--backend bubblewrap" in caught.value.fix


def test_an_engine_that_gives_no_answer_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_program(tmp_path, "exec sleep 1000000")
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    monkeypatch.setattr(docker_backend, "_TIMEOUT_S", 0.2)
    with pytest.raises(SandboxError, match="no answer") as caught:
        run_once()
    assert caught.value.exit_code == ExitCode.NOT_CONFINED == 12
    assert "--backend bubblewrap" in caught.value.fix


def test_an_engine_elsewhere_is_refused(fake: FakeDocker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", "tcp://192.0.2.1:2376")
    with pytest.raises(ConfigError, match=r"tcp://192\.0\.2\.1"):
        run_once()
    assert fake.made() == []


def test_an_image_that_the_engine_lacks_is_named_with_the_line_that_pulls_it(
    fake: FakeDocker,
) -> None:
    with pytest.raises(ConfigError, match="no-such-image") as caught:
        run_once(SandboxSpec(image="no-such-image", persistent=True))
    assert caught.value.fix == "type: docker pull no-such-image"
    assert fake.live() == set()


def test_this_machines_images_and_folders_are_refused(fake: FakeDocker, tmp_path: Path) -> None:
    for spec in (SandboxSpec(image="debian:13+tmux"), SandboxSpec(read_only=(tmp_path,))):
        with pytest.raises(ConfigError, match="its own image"):
            run_once(spec)
    assert fake.made() == []


def test_leftovers_are_removed_by_label(fake: FakeDocker) -> None:
    async def whole() -> None:
        mine, others = DockerBackend("mine"), DockerBackend("others")
        made = [await backend.create(KEPT) for backend in (mine, others, mine)]
        assert await mine.delete_leftovers("mine") == 2
        (left,) = fake.live()
        (label,) = [made["label"] for made in fake.made() if made["name"] == left]
        assert "daddy-run=others" in label
        assert await mine.delete_leftovers() == 1
        for sandbox in made:
            await sandbox.close()

    asyncio.run(whole())
    assert fake.live() == set()


def test_an_untried_engine_is_never_called_confined(fake: FakeDocker) -> None:
    isolation = DockerBackend().isolation()
    assert isolation.level == "partly"
    assert isolation.missing
