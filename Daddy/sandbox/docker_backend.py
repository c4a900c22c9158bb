"""Adapter for Docker: makes sandboxes of containers, through its command line ``docker``.

A container's first process is the runner; its pipes are those of ``docker start``. When the host
dies, the input ends, the runner with it, and the engine removes the container. It has no network,
no capability, no right to gain one, a read-only root, and bounded memory, processes and scratch.
A container cannot make namespaces for each command, so a fresh sandbox is a new one each time.
"""

import asyncio
import contextlib
import os
from collections.abc import Mapping

from Daddy.core.errors import ConfigError, DaddyError, SandboxError
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_token
from Daddy.core.run_subprocess import (
    Completed,
    ProcessTimeoutError,
    ProgramMissingError,
    run_command,
)
from Daddy.sandbox.renewed_sandbox import RenewedSandbox
from Daddy.sandbox.runner_client import RUNNER, RunnerSandbox, runner_argv, start_runner
from Daddy.sandbox.sandbox_interfaces import Isolation, Sandbox, SandboxSpec

LABEL, RUN_LABEL = "made-by-daddy", "daddy-run"
DEFAULT_IMAGE = "python:3-slim"
"""The engine's image in place of ``host``: a container cannot have this machine's /usr."""
USER = "64000:64000"
MEMORY_MB, PROCESSES, SCRATCH_MB, SCRATCH_FILES = 2048, 256, 256, 20_000
"""Bounds of a whole container; the runner bounds each command, as its limits say."""
_TIMEOUT_S = 60
_INSIDE = "/run/sandbox"
_GONE = ("No such container", "already in progress")
"""Errors of a removal that the engine has done, or is doing, by itself."""
_MISSING = (
    "read-only files: a command may change its copy",
    "scratch of a command: bounded for the whole container",
    "an engine: this project's own tests have none and use a stand-in",
)
_REMEDY = "start Docker, or use this machine without it: --backend bubblewrap"


def container_argv(spec: SandboxSpec, name: str, run: str) -> list[str]:
    """Return the arguments of ``docker`` that create a confined container with a runner."""
    scratch = f"size={SCRATCH_MB}m,nr_inodes={SCRATCH_FILES},mode=1777,nosuid,nodev,exec"
    runner = f"type=bind,source={RUNNER},target={_INSIDE}/{RUNNER.name},readonly"
    python, *inside = runner_argv("python3", _INSIDE, "plain", spec.lifetime_s)
    argv = ["create", "--name", name, "--label", f"{LABEL}=yes", "--label", f"{RUN_LABEL}={run}"]
    argv += ["--interactive", "--rm", "--pull", "never", "--log-driver", "none", "--user", USER]
    argv += ["--network", "none", "--ipc", "private", "--read-only", "--mount", runner]
    argv += ["--tmpfs", f"/tmp:{scratch}", "--tmpfs", f"/files:{scratch}"]  # noqa: S108
    argv += ["--shm-size", f"{SCRATCH_MB}m", "--pids-limit", str(PROCESSES)]
    argv += ["--memory", f"{MEMORY_MB}m", "--memory-swap", f"{MEMORY_MB}m"]
    argv += ["--cap-drop", "ALL", "--security-opt", "no-new-privileges:true"]
    argv += ["--workdir", "/tmp", "--entrypoint", python]  # noqa: S108 - of the container
    return [*argv, "--", _image(spec), *inside]


class DockerBackend:
    """Makes sandboxes of containers, labelled with the name of a run."""

    name = "docker"

    def __init__(self, run: str = "", environ: Mapping[str, str] = os.environ) -> None:
        self._run, self._environ = run, environ

    def isolation(self) -> Isolation:
        """Return what confines. Raises ConfigError without ``docker`` or engine, SandboxError."""
        told = self._docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}")
        address = told.stdout.strip()
        if told.returncode or not address.startswith("unix://"):
            said = printable_line(address or told.stderr, 80)
            raise ConfigError(
                f"--backend docker: the engine of this account is at {said!r}",
                "use an engine at a local socket: DOCKER_HOST=unix:///PATH",
            )
        told = self._docker("version", "--format", "{{.Server.Version}}")
        if told.returncode:
            raise ConfigError(f"--backend docker: no engine answers: {_said(told)}", _REMEDY)
        return Isolation("partly", _MISSING)

    async def create(self, spec: SandboxSpec) -> Sandbox:
        """Make a sandbox whose runner has answered. Raises ConfigError, SandboxError."""
        _refuse(spec)
        await asyncio.to_thread(self.isolation)
        first = await self._make(spec)
        return first if spec.persistent else RenewedSandbox(first, spec, self._make)

    async def delete_leftovers(self, run: str | None = None) -> int:
        """Remove the containers of a run, or of all runs on this engine; return their number."""
        label = f"{LABEL}=yes" if run is None else f"{RUN_LABEL}={run}"
        wanted = ("ps", "--all", "--quiet", "--no-trunc", "--filter", f"label={label}")
        listed = await asyncio.to_thread(self._docker, *wanted)
        if listed.returncode:
            raise SandboxError(f"Docker: {_said(listed)}", _REMEDY)
        names = listed.stdout.split()
        for name in names:
            await asyncio.to_thread(self.remove, name)
        return len(names)

    async def _make(self, spec: SandboxSpec) -> Sandbox:
        name = f"daddy-{new_token()}"
        # The program makes a container or none: a cancelled caller waits for it, then removes.
        creation = asyncio.ensure_future(asyncio.to_thread(self._create, spec, name))
        try:
            await asyncio.shield(creation)
            argv = ["docker", "start", "--attach", "--interactive", name]
            return _Container(await start_runner(argv, "plain", env=self._environ), self, name)
        except BaseException:
            await asyncio.shield(self._undo(creation, name))  # also if it is cancelled again
            raise

    async def _undo(self, creation: "asyncio.Future[None]", name: str) -> None:
        await asyncio.gather(creation, return_exceptions=True)
        with contextlib.suppress(DaddyError):
            await asyncio.to_thread(self.remove, name)

    def _create(self, spec: SandboxSpec, name: str) -> None:
        told = self._docker(*container_argv(spec, name, self._run))
        if "No such image" in told.stderr:
            pull = f"type: docker pull {printable_line(_image(spec), 80)}"
            raise ConfigError(f"Docker: {_said(told)}", pull)
        if told.returncode:
            raise SandboxError(f"Docker: {_said(told)}", _REMEDY)

    def remove(self, name: str) -> None:
        """End and remove a container, if it is there. Raises SandboxError."""
        told = self._docker("rm", "--force", "--volumes", name)
        if told.returncode and not any(word in told.stderr for word in _GONE):
            raise SandboxError(f"Docker: {_said(told)}", _REMEDY)

    def _docker(self, *arguments: str) -> Completed:
        try:
            return run_command(["docker", *arguments], _TIMEOUT_S, env=self._environ)
        except ProgramMissingError as error:
            raise ConfigError(f"--backend docker: {error.message}", _REMEDY) from None
        except ProcessTimeoutError as error:
            raise SandboxError(f"--backend docker: {error.message}", _REMEDY) from None


class _Container:
    """A runner in a container; its end removes the container, whatever a command left there."""

    def __init__(self, runner: RunnerSandbox, backend: DockerBackend, name: str) -> None:
        self._runner, self._backend, self._name = runner, backend, name
        self.run, self.put, self.get = runner.run, runner.put, runner.get

    async def close(self) -> None:
        try:
            await self._runner.close()
        finally:
            await asyncio.shield(asyncio.to_thread(self._backend.remove, self._name))


def _image(spec: SandboxSpec) -> str:
    return DEFAULT_IMAGE if spec.image == "host" else spec.image


def _refuse(spec: SandboxSpec) -> None:
    """Raise ConfigError for what only this machine has."""
    if spec.image.startswith(("dir:", "debian:")) or spec.read_only:
        asked = str(spec.read_only[0]) if spec.read_only else spec.image
        raise ConfigError(
            f"a container has its own image and cannot use {printable_line(asked, 80)!r}",
            "name an image of the engine, or use --backend bubblewrap",
        )


def _said(told: Completed) -> str:
    """Return the first line of a program's error: its last ones name the help."""
    lines = told.stderr.strip().splitlines()
    return printable_line(lines[0], 300) if lines else f"exit {told.returncode}"
