"""Makes the sandboxes of a task: its image, with the steps of its Dockerfile done once.

The steps' changes are kept as one archive, named by the hash of all that made it, and each new
sandbox begins with them.
"""

import asyncio
import hashlib
import platform
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from Daddy.core.errors import ConfigError, NetworkError
from Daddy.core.host_and_processes import memory_bytes, usable_cores
from Daddy.core.humanize import printable_line
from Daddy.core.name_validation import new_token
from Daddy.core.run_subprocess import run_command
from Daddy.sandbox.backend_facts import open_choice, read_backend_facts
from Daddy.sandbox.bubblewrap import BubblewrapBackend, can_use_disk
from Daddy.sandbox.choose_backend import choose_backend
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import MIB, Command, Limits, Outcome, SandboxSpec
from Daddy.terminal.dockerfile import BuildStep
from Daddy.terminal.task_folder import TerminalTask

ENVIRONMENT: Final = {
    "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
    "HOME": "/root",
    "TERM": "screen-256color",
    "LANG": "C.UTF-8",
}
PRIVATE: Final = ("tests", "solution", "logs/verifier")
"""Paths, without their first slash, that belong to the verifier and to nobody else."""
_UNLINKED: Final = (*PRIVATE, "proc")
"""Paths that no link may pass: one of /proc leads to another place for each process."""
_LIFETIME_S = 6 * 3600.0
_COMMAND_S = 60.0
_NOTHING: Mapping[str, str] = {}
VERIFIER_MB: Final = 64
"""Scratch that a verifier has over the agent's: an agent may have filled its own."""
_VERSION = "import sys; print('%d.%d' % sys.version_info[:2])"
_PIP = {
    "PIP_NO_INDEX": "1",
    "PIP_FIND_LINKS": "/run/wheels",
    "PIP_BREAK_SYSTEM_PACKAGES": "1",
    "PIP_ROOT_USER_ACTION": "ignore",
}
_PREPARE = """
mkdir -p /logs/agent /logs/verifier "$0"
[ -e /etc/passwd ] || echo "root:x:0:0:root:/root:/bin/bash" > /etc/passwd
"""


def open_terminal_backend(
    requested: str, *, allow_unsafe: bool = False
) -> tuple[BubblewrapBackend, str]:
    """Return the backend for terminals, and the line that tells which it is.

    Raises ConfigError for one that has no writable root, SandboxError where it confines only
    partly, unless the person allows that.
    """
    choice = choose_backend(requested, read_backend_facts(), allow_unsafe=allow_unsafe)
    if choice.name != BubblewrapBackend.name:  # said before its package is asked for
        raise ConfigError(
            f"the backend {choice.name} has no root folder that a terminal task can change",
            "install bubblewrap and use --backend bubblewrap",
        )
    backend, shown = open_choice(choice, generated=True, allow_unsafe=allow_unsafe)
    assert isinstance(backend, BubblewrapBackend)
    return backend, shown


class TaskSandboxes:
    """Makes sandboxes of one task. `image` replaces the image that its Dockerfile maps to."""

    def __init__(
        self, task: TerminalTask, backend: BubblewrapBackend, layers: Path, image: str = ""
    ) -> None:
        self.task, self.image = task, image or task.recipe.image
        self._backend, self._layers = backend, layers
        self._building = asyncio.Lock()
        _check_machine(task)

    @property
    def isolation(self) -> str:
        """The level to which its sandboxes are confined."""
        return self._backend.isolation().level

    @property
    def disk_mb(self) -> int:
        """Megabytes of disk for all that is written; with 0 it counts as memory."""
        asks = self.task.asks_for_disk and can_use_disk()
        return self.task.settings.environment.storage_mb if asks else 0

    def limits(self, time_s: float, more_mb: int = 0) -> Limits:
        """Return the limits of a command: the task's memory and storage."""
        asked = self.task.settings.environment
        scratch_mb = self.disk_mb or min(asked.storage_mb, asked.memory_mb)
        return Limits(
            time_s=time_s,
            memory_mb=asked.memory_mb + more_mb,
            scratch_mb=scratch_mb + more_mb,
            scratch_files=100_000,
            processes=512,
            open_files=1024,
        )

    def command(self, *argv: str, stdin: bytes = b"", env: Mapping[str, str] = _NOTHING) -> Command:
        """Return a command with the task's environment, in /: an agent may move its folder."""
        whole = {**ENVIRONMENT, **(self.task.recipe.env or {}), **env}
        return Command(argv, stdin=stdin, env=whole, folder="/")

    async def build(self, *, force: bool = False) -> Path:
        """Return the archive of the Dockerfile's steps, made first if it is not there."""
        async with self._building:
            archive = self._layers / f"{await asyncio.to_thread(self._hash)}.tar"
            if force or not archive.exists():
                await self._build(archive)
            return archive

    async def open(self) -> RunnerSandbox:
        """Make a sandbox in the state that the agent finds."""
        return await self.open_with(await self.build())

    async def open_with(
        self, archive: Path | None, without: tuple[str, ...] = (), *, verifies: bool = False
    ) -> RunnerSandbox:
        """Make a sandbox with the changes of an archive; the verifier's folders are made anew.

        One that `verifies` has more memory, and can read all files: user 0 inside cannot by itself.
        """
        more_mb = VERIFIER_MB if verifies else 0
        spec = SandboxSpec(self.image, persistent=True, writable_root=True, lifetime_s=_LIFETIME_S)
        if self.disk_mb:
            spec = replace(spec, disk=self._layers / "disk", disk_mb=self.disk_mb + more_mb)
        sandbox = await self._backend.create(spec)
        try:
            prepare = Command(("sh", "-c", _PREPARE, self.task.recipe.folder), env=ENVIRONMENT)
            first = await sandbox.run(prepare, self.limits(_COMMAND_S, more_mb))
            _check(first, "its first command")
            if archive:
                await sandbox.restore_changes(
                    archive, (), (*PRIVATE, *without), _UNLINKED, readable=verifies
                )
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def open_verifier(self, archive: Path, only: tuple[str, ...] = ()) -> RunnerSandbox:
        """Make a sandbox with what an agent changed, or with those paths only."""
        if not only:
            return await self.open_with(archive, verifies=True)
        sandbox = await self.open_with(await self.build(), only, verifies=True)
        try:
            await sandbox.restore_changes(archive, only, PRIVATE, _UNLINKED, readable=True)
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

    async def _build(self, archive: Path) -> None:
        sandbox = await self.open_with(None)
        part = archive.with_name(f".{new_token()}.part")
        try:
            for step in self.task.recipe.steps:
                await self._do_step(sandbox, step)
            self._layers.mkdir(parents=True, exist_ok=True)
            if not await sandbox.save_changes(part):
                raise ConfigError(
                    f"the files of {self.task.name} are too large", "make them smaller"
                )
            part.replace(archive)
        finally:
            part.unlink(missing_ok=True)
            await sandbox.close()

    async def _do_step(self, sandbox: RunnerSandbox, step: BuildStep) -> None:
        where = f"{self.task.context.name}/Dockerfile of {self.task.name}, line {step.line}"
        if step.kind == "copy":
            await self._copy(sandbox, step, where)
            return
        env = {**ENVIRONMENT, **step.env}
        if step.wheels:
            await self._put_wheels(sandbox, step.wheels, where)
            env.update(_PIP)
        line = f"({step.command}); code=$?; rm -rf /run/wheels; exit $code"
        command = Command(("sh", "-c", line), env=env, folder=step.folder)
        time_s = self.task.settings.environment.build_timeout_sec
        _check(await sandbox.run(command, self.limits(time_s)), where)

    async def _put_wheels(self, sandbox: RunnerSandbox, names: tuple[str, ...], where: str) -> None:
        """Download wheels for the image's Python, of which no code runs here."""
        told = await sandbox.run(Command(("python3", "-c", _VERSION)), self.limits(_COMMAND_S))
        version, machine = told.stdout.decode(errors="replace").strip(), platform.machine()
        tags = [f"--platform={kind}_{machine}" for kind in ("manylinux2014", "manylinux_2_28")]
        with tempfile.TemporaryDirectory() as folder:
            argv = [sys.executable, "-m", "pip", "download", "-q", "--only-binary=:all:", *tags]
            argv += [f"--python-version={version}", f"--dest={folder}/wheels", "--", *names]
            time_s = self.task.settings.environment.build_timeout_sec
            done = await asyncio.to_thread(run_command, argv, time_s)
            if done.returncode:
                said = printable_line((done.stderr.strip().splitlines() or ["no reason"])[-1])
                fix = "check the names and the network; only wheels can be installed"
                raise NetworkError(f"{where}: pip cannot download {', '.join(names)}: {said}", fix)
            await sandbox.put(Path(folder, "wheels"), "/run/wheels")

    async def _copy(self, sandbox: RunnerSandbox, step: BuildStep, where: str) -> None:
        for name in step.sources:
            source = self.task.context / name
            if not source.exists():
                raise ConfigError(f"{where}: there is no {source}", "correct the line")
            if source.is_dir():
                for child in sorted(source.iterdir()):
                    await sandbox.put(child, f"{step.target.rstrip('/')}/{child.name}")
            else:
                target = step.target + (source.name if step.target.endswith("/") else "")
                await sandbox.put(source, target)

    def _hash(self) -> str:
        """Hash the image's name and all files of the context, with names and modes."""
        digest = hashlib.sha256(f"{self.image}\n{self.task.recipe}\n".encode())
        for path in sorted(self.task.context.rglob("*")):
            name = path.relative_to(self.task.context)
            digest.update(f"{name}\n{path.stat().st_mode}\n".encode())
            digest.update(hashlib.sha256(path.read_bytes()).digest() if path.is_file() else b"")
        return digest.hexdigest()[:32]


def _check(outcome: Outcome, where: str) -> None:
    if outcome.ending != "exited" or outcome.exit_code:
        lines = (outcome.stderr or outcome.stdout).decode(errors="replace").strip().splitlines()
        said = printable_line(lines[-1]) if lines else f"exit {outcome.exit_code}"
        raise ConfigError(
            f"{where} failed ({outcome.ending}): {said}",
            "correct the line; a sandbox has no network, and apt-get install is done by the image",
        )


def _check_machine(task: TerminalTask) -> None:
    """Raise ConfigError for a limit that this machine cannot meet."""
    asked, memory_mb = task.settings.environment, memory_bytes()[0] // MIB
    for key, wanted, has in (
        ("cpus", asked.cpus, usable_cores()),
        ("memory_mb", asked.memory_mb, memory_mb),
    ):
        if wanted > has:
            raise ConfigError(
                f"{task.name}/task.toml: environment.{key} = {wanted:g}, this machine has {has}",
                "run it on a larger machine, or lower the limit",
            )
