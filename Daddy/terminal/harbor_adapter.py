"""Adapter for Harbor: plays its trials in sandboxes of bubblewrap, without Docker.

``harbor run -p TASK -a oracle -e Daddy.terminal.harbor_adapter:BubblewrapEnvironment``

Harbor's verifier begins by copying ``/tests``. By then no process of the agent lives any more:
grading goes on in a new sandbox with the files that the agent changed.
"""

import asyncio
import contextlib
import os
import shlex
import shutil
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Final

from harbor.environments.base import BaseEnvironment, ExecResult
from harbor.environments.capabilities import (
    EnvironmentCapabilities,
    EnvironmentResourceCapabilities,
)
from harbor.environments.options import EnvironmentOptions

from Daddy.core.errors import ConfigError, CopyFailedError, FileError
from Daddy.core.name_validation import new_token
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.image import images_folder
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import MIB, Outcome
from Daddy.terminal.task_folder import read_context, read_grading
from Daddy.terminal.task_sandboxes import VERIFIER_MB, TaskSandboxes, open_terminal_backend

_TESTS: Final = "/tests"
_LONGEST_S = 6 * 3600.0
_OUTPUT_BYTES = 4 * MIB
_KEYS = ("build_timeout_sec", "docker_image", "workdir")
_SIGNAL = 128
_SHELL: Final = ("sh", "-c", 'cd "$0" 2>/dev/null || $2; exec bash -c "$1"')
"""Runs a line in the task's folder, if the agent left one, or in the one that is asked for."""


class _Options(EnvironmentOptions):  # type: ignore[misc]
    """Options of ``--ek``: an image instead of the Dockerfile's, and grading beside the agent."""

    image: str = ""
    in_place: bool = False


@cache
def _open_backend() -> BubblewrapBackend:
    return open_terminal_backend("bubblewrap")[0]


class BubblewrapEnvironment(BaseEnvironment):  # type: ignore[misc]
    """A trial's sandbox. Commands run one at a time, as root inside, without a network."""

    options_model = _Options
    _building = asyncio.Lock()
    _sandbox: RunnerSandbox
    _more_mb = 0

    @staticmethod
    def type() -> str:
        """Return the name that Harbor shows."""
        return "bubblewrap"

    @property
    def capabilities(self) -> EnvironmentCapabilities:
        """Return what tasks may ask for: no network."""
        return EnvironmentCapabilities(disable_internet=True)

    @classmethod
    def resource_capabilities(cls) -> EnvironmentResourceCapabilities:
        """Return the limits that hold: memory, and any number of cores that the machine has."""
        return EnvironmentResourceCapabilities(memory_limit=True, fractional_cpus=True)

    def _validate_definition(self) -> None:
        """Read the task's environment. Raises ConfigError for what cannot be met here."""
        asked = {
            "cpus": self._effective_cpus,
            "memory_mb": self._effective_memory_mb,
            "storage_mb": self._effective_storage_mb,
            **{key: getattr(self.task_env_config, key) for key in _KEYS},
        }
        given = {key: value for key, value in asked.items() if value is not None}
        task = read_context(self.environment_dir, given)
        cache_folder = images_folder(os.environ, Path.home(), os.geteuid()).parent
        backend, image = _open_backend(), self.options.image
        self._sandboxes = TaskSandboxes(task, backend, cache_folder / "layers", image)
        mode, self._artifacts = read_grading(task.folder / "task.toml")
        # Harbor names the agent's environment TRIAL__env, and a separate one for its verifier, in
        # which no agent runs, TRIAL__verifier__KEY.
        without_agent = "__verifier__" in self.session_id and not self.session_id.endswith("__env")
        forgeable = self.options.in_place or mode == "shared"
        if forgeable:
            self.logger.warning("graded beside the agent's processes: its reward can be forged")
        self._grades_in_place = forgeable or without_agent
        self._folder = task.recipe.folder
        self._command_lock = asyncio.Lock()

    async def start(self, force_build: bool) -> None:
        """Make the sandbox that the agent finds; of trials of one task only one builds."""
        async with self._building:
            archive = await self._sandboxes.build(force=force_build)
        self._sandbox = await self._sandboxes.open_with(archive)
        if not self._enable_environment_dir_upload:  # an image of a verifier, with its tests
            await self._sandbox.restore_changes(archive, (_TESTS.strip("/"),))
        await self.ensure_dirs(self._mount_targets(writable_only=True))
        await self._upload_environment_dir_after_start()

    async def stop(self, delete: bool) -> None:
        """End the sandbox, of which nothing can be kept."""
        del delete
        if "_sandbox" in vars(self):
            await self._sandbox.close()

    async def exec(
        self,
        command: str,
        cwd: str | None = None,
        env: dict[str, str] | None = None,
        timeout_sec: float | None = None,
        user: str | int | None = None,
    ) -> ExecResult:
        """Run a line of bash. A cancelled call ends its command, and the sandbox goes on."""
        if (user := self._resolve_user(user)) not in (None, 0, "0", "root"):
            raise ConfigError(f"there is no user {user!r}", "commands run as root: name no other")
        variables = self._merge_env(env) or {}
        argv = (*_SHELL, cwd or self._folder, command, "exit 1" if cwd else "true")
        given = self._sandboxes.command(*argv, env=variables)
        limits = self._sandboxes.limits(timeout_sec or _LONGEST_S, self._more_mb)
        limits = replace(limits, output_bytes=_OUTPUT_BYTES)
        async with self._command_lock:
            running = asyncio.ensure_future(self._sandbox.run(given, limits))
            try:
                outcome = await asyncio.shield(running)
            except asyncio.CancelledError:
                self._sandbox.stop_command()
                while not running.done():  # a second cancellation finds it busy else
                    with contextlib.suppress(asyncio.CancelledError):
                        await asyncio.wait([running])
                raise
        if outcome.ending == "timed out":
            raise RuntimeError(f"Command timed out after {timeout_sec} seconds")
        return _make_result(outcome)

    async def upload_file(self, source_path: Path | str, target_path: str) -> None:
        """Copy a file of the host."""
        try:
            await self._put(Path(source_path), target_path)
        except CopyFailedError:  # a folder is there
            await self._put(Path(source_path), f"{target_path}/{Path(source_path).name}")

    async def upload_dir(self, source_dir: Path | str, target_dir: str) -> None:
        """Copy a folder of the host; ``/tests`` into a sandbox in which the agent never ran."""
        if target_dir == _TESTS and not self._grades_in_place:
            await self._enter_verifier_sandbox()
        try:
            await self._put(Path(source_dir), target_dir)
        except FileError:  # a link, which put refuses
            inside, target = f"/{new_token()}.tar", shlex.quote(target_dir)
            with tempfile.TemporaryDirectory() as folder:
                packed = shutil.make_archive(f"{folder}/links", "tar", source_dir)
                await self._put(Path(packed), inside)
            await self._run_checked(
                f"mkdir -p {target} && tar xf {inside} -C {target} && rm {inside}"
            )

    async def download_file(self, source_path: str, target_path: Path | str) -> None:
        """Copy a file to the host."""
        await self._get(source_path, Path(target_path))

    async def download_dir(self, source_dir: str, target_dir: Path | str) -> None:
        """Copy a folder to the host, without links, devices and FIFOs."""
        await self._get(source_dir, Path(target_dir), regular_only=True)

    async def _enter_verifier_sandbox(self) -> None:
        """Go on in a new sandbox, with what was changed in this one but the verifier's folders."""
        async with self._command_lock:
            with tempfile.TemporaryDirectory() as folder:
                changes = Path(folder, "changes.tar")
                if not await self._sandbox.save_changes(changes, self._most_bytes()):
                    raise CopyFailedError("the agent's files are too large", "raise storage_mb")
                await self._sandbox.close()
                logs = [path.strip("/") for path in self._mount_targets(writable_only=True)]
                only = self._artifacts and (*self._artifacts, *logs)
                self._sandbox = await self._sandboxes.open_verifier(changes, only)
            self._more_mb = VERIFIER_MB
        await self.ensure_dirs(self._mount_targets(writable_only=True))

    async def _run_checked(self, line: str) -> None:
        done = await self.exec(line, user="root")
        if done.return_code:
            raise CopyFailedError(f"the copy failed: {done.stderr}", "check the path")

    async def _put(self, source: Path, target: str) -> None:
        async with self._command_lock:
            await self._sandbox.put(source, os.path.join(self._folder, target))  # noqa: PTH118

    async def _get(self, source: str, target: Path, *, regular_only: bool = False) -> None:
        with tempfile.TemporaryDirectory() as folder:
            got = Path(folder, "got")
            async with self._command_lock:
                await self._sandbox.get(source, got, self._most_bytes(), regular_only=regular_only)
            await asyncio.to_thread(_copy, got, target)

    def _most_bytes(self) -> int:
        return 2 * MIB * self._sandboxes.limits(0, self._more_mb).scratch_mb


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target, dirs_exist_ok=True)
    else:
        shutil.copy(source, target)


def _make_result(outcome: Outcome) -> ExecResult:
    stdout, stderr = (text.decode(errors="replace") for text in (outcome.stdout, outcome.stderr))
    if outcome.ending != "exited":
        stderr += f"\nsandbox: {outcome.ending}"
    code = outcome.exit_code
    return ExecResult(
        stdout=stdout, stderr=stderr, return_code=_SIGNAL - code if code < 0 else code
    )
