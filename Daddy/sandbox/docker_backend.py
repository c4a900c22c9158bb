"""Adapter for Docker: makes sandboxes of containers, through its SDK (extra ``docker``).

A container's first process is the runner, and our attachment its only input: when the host dies
the input ends, the runner with it, and the engine removes the container. It has no network, no
capability, no right to gain one, a read-only root, and bounded memory, processes and scratch.
A container cannot make namespaces for each command, so a fresh sandbox is a new one each time.
"""

import asyncio
import contextlib
import importlib.util
import os
import socket
import struct
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from Daddy.core.errors import ConfigError, DaddyError, ExtraMissingError, SandboxError, needs_extra
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_token
from Daddy.sandbox.far_runner import PIECE, FarRunner
from Daddy.sandbox.renewed_sandbox import RenewedSandbox
from Daddy.sandbox.runner_client import RUNNER, RunnerSandbox, runner_argv
from Daddy.sandbox.sandbox_interfaces import Isolation, Sandbox, SandboxSpec

LABEL, RUN_LABEL = "made-by-daddy", "daddy-run"
DEFAULT_IMAGE = "python:3-slim"
"""The engine's image in place of ``host``: a container cannot have this machine's /usr."""
USER = "64000:64000"
MEMORY_MB, PROCESSES, SCRATCH_MB, SCRATCH_FILES = 2048, 256, 256, 20_000
"""Bounds of a whole container; the runner bounds each command, as its limits say."""
_TIMEOUT_S = 60
_FRAME, _STDOUT = 8, 1
_GONE = (404, 409)
"""Status of a removal that the engine has done, or is doing, by itself."""
_FOLDER = "/run/sandbox"
_MISSING = (
    "read-only files: a command may change its copy",
    "scratch of a command: bounded for the whole container",
    "an engine: this project's own tests have none and use a fake",
)
_REMEDY = "start Docker, or use this machine without it: --backend bubblewrap"


def _load_sdk() -> Any:
    with needs_extra("docker"):
        import docker
    return docker


def translate_error(error: Exception) -> DaddyError:
    """Return an error of ours for one of the SDK's, without control characters."""
    if isinstance(error, DaddyError):
        return error
    told = printable_line(str(getattr(error, "explanation", None) or error), 300)
    if type(error).__name__ == "ImageNotFound":
        return ConfigError(f"Docker: {told}", f"type: docker pull {DEFAULT_IMAGE} (or its name)")
    if getattr(error, "status_code", None) is None:
        return ConfigError(f"--backend docker: no engine answers: {told}", _REMEDY)
    return SandboxError(f"Docker: {told}", _REMEDY)


def host_settings() -> dict[str, Any]:
    """Return the arguments of the SDK's `create_host_config` that confine a container."""
    scratch = f"size={SCRATCH_MB}m,nr_inodes={SCRATCH_FILES},mode=1777,nosuid,nodev,exec"
    return {
        "network_mode": "none",
        "read_only": True,
        "tmpfs": {"/tmp": scratch, "/files": scratch},  # noqa: S108
        "shm_size": f"{SCRATCH_MB}m",
        "ipc_mode": "private",
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges:true"],
        "pids_limit": PROCESSES,
        "mem_limit": f"{MEMORY_MB}m",
        "memswap_limit": f"{MEMORY_MB}m",
        "auto_remove": True,
        "binds": {str(RUNNER): {"bind": f"{_FOLDER}/{RUNNER.name}", "mode": "ro"}},
        "log_config": {"Type": "none"},
    }


class DockerBackend:
    """Makes sandboxes of containers, labelled with the name of a run."""

    name = "docker"

    def __init__(self, run: str = "", environ: Mapping[str, str] = os.environ) -> None:
        self._run, self._environ = run, environ

    def isolation(self) -> Isolation:
        """Return what confines. Raises ConfigError without an engine, ExtraMissingError."""
        found = importlib.util.find_spec("docker")
        if found is None or found.origin is None:  # a mere folder of that name has no origin
            raise ExtraMissingError("docker", "docker")
        with contextlib.closing(self._connect()) as engine:
            _call(engine.ping)
        return Isolation("partly", _MISSING)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox whose runner has answered.

        Raises ConfigError for an absent engine or image, ExtraMissingError, SandboxError.
        """
        _refuse(spec)
        await asyncio.to_thread(self.isolation)
        first = await self._make(spec)
        return first if spec.persistent else RenewedSandbox(first, spec, self._make)

    async def delete_leftovers(self, run: str | None = None) -> int:
        """Remove the containers of a run, or of all runs on this engine; return their number."""
        label = f"{LABEL}=yes" if run is None else f"{RUN_LABEL}={run}"
        with contextlib.closing(self._connect()) as engine:
            listed = await asyncio.to_thread(_call, engine.containers, filters={"label": label})
            for container in listed:
                await asyncio.to_thread(_call, engine.remove_container, container["Id"], force=True)
        return len(listed)

    def _connect(self) -> Any:
        """Return a client of the engine's interface. Raises ConfigError for one over TLS."""
        address = self._environ.get("DOCKER_HOST") or "unix:///var/run/docker.sock"
        if not address.startswith("unix://"):
            raise ConfigError(
                f"--backend docker: DOCKER_HOST is {printable_line(address, 80)!r}",
                "use an engine at a local socket: unix:///PATH",
            )
        return _call(_load_sdk().APIClient, base_url=address, version="auto", timeout=_TIMEOUT_S)

    async def _make(self, spec: SandboxSpec) -> RunnerSandbox:
        container = _Container(self._connect, self._run)
        try:
            return await container.start(spec)
        except BaseException:
            with contextlib.suppress(DaddyError):
                await container.runner.wait()
            raise


def _refuse(spec: SandboxSpec) -> None:
    """Raise ConfigError for what only this machine has."""
    if spec.image.startswith(("dir:", "debian:")) or spec.read_only:
        asked = str(spec.read_only[0]) if spec.read_only else spec.image
        raise ConfigError(
            f"a container has its own image and cannot use {printable_line(asked, 80)!r}",
            "name an image of the engine, or use --backend bubblewrap",
        )


def _call(method: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call the SDK; its errors become ours. A name that it does not know stays a TypeError."""
    try:
        return method(*args, **kwargs)
    except (TypeError, AttributeError):
        raise
    except Exception as error:  # noqa: BLE001 - of the SDK
        raise translate_error(error) from None


class _Container:
    """A container with a runner as its first process, attached to ours."""

    def __init__(self, connect: Callable[[], Any], run: str) -> None:
        self._connect, self._run = connect, run
        self._name = f"daddy-{new_token()}"
        self._engine: Any = None
        self._attachment: socket.socket | None = None
        self.runner = FarRunner(self._remove)

    async def start(self, spec: SandboxSpec) -> RunnerSandbox:
        await self.runner.open()
        # A call of the SDK cannot be cancelled: its thread ends first, then the container goes.
        await _finish(asyncio.to_thread(self._create_and_start, spec))
        assert self._attachment
        self._attachment.setblocking(False)
        reader, writer = await asyncio.open_connection(sock=self._attachment)
        self.runner.pump(self._carry_requests(writer), self._carry_replies(reader))
        return await self.runner.greet()

    def _create_and_start(self, spec: SandboxSpec) -> None:
        self._engine = self._connect()
        engine = self._engine
        _call(
            engine.create_container,
            DEFAULT_IMAGE if spec.image == "host" else spec.image,
            runner_argv("python3", _FOLDER, "plain", spec.lifetime_s),
            name=self._name,
            user=USER,
            stdin_open=True,
            network_disabled=True,
            working_dir="/tmp",  # noqa: S108 - of the container
            entrypoint=[],
            labels={LABEL: "yes", RUN_LABEL: self._run},
            host_config=_call(engine.create_host_config, **host_settings()),
        )
        # Attached before the start, so that the SDK's reader of HTTP takes no byte of the runner.
        params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
        found = _call(engine.attach_socket, self._name, params)
        self._attachment = socket.socket(fileno=os.dup(found.fileno()))
        _call(engine.start, self._name)

    async def _carry_requests(self, writer: asyncio.StreamWriter) -> None:
        while data := await self.runner.next_request():
            writer.write(data)
            await writer.drain()
        writer.close()

    async def _carry_replies(self, reader: asyncio.StreamReader) -> None:
        """Take the engine's frames apart: a byte for the stream, four for the size, the data."""
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                stream, left = struct.unpack(">BxxxL", await reader.readexactly(_FRAME))
                while left:
                    data = await reader.readexactly(min(left, PIECE))
                    left -= len(data)
                    if stream == _STDOUT:
                        await self.runner.take_reply(data)
                    else:
                        self.runner.take_error(data)

    async def _remove(self) -> None:
        if self._engine:
            await asyncio.to_thread(self._remove_now)

    def _remove_now(self) -> None:
        try:
            self._engine.remove_container(self._name, force=True)
        except Exception as error:  # noqa: BLE001 - of the SDK
            if getattr(error, "status_code", None) not in _GONE:
                raise translate_error(error) from None
        finally:
            self._engine.close()


async def _finish(work: Awaitable[None]) -> None:
    """Await something to its end also when this task is cancelled."""
    task = asyncio.ensure_future(work)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
