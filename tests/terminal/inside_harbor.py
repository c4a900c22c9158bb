"""Checks of Harbor's environment that need its Python; ``test_harbor.py`` runs them there."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from harbor.models.task.config import EnvironmentConfig
from harbor.models.trial.paths import TrialPaths

from Daddy.core.errors import ConfigError
from Daddy.sandbox.bubblewrap import BubblewrapBackend
from Daddy.sandbox.sandbox_interfaces import Command, Limits, Outcome, SandboxSpec
from Daddy.terminal import harbor_adapter
from Daddy.terminal.harbor_adapter import BubblewrapEnvironment
from tests.patience import PATIENCE_S, until
from tests.sandbox import escapes
from tests.sandbox.escape_rows import ROWS

DOCKERFILE = "FROM debian:12\nWORKDIR /app\nENV GREETING=hello\n"
Story = Callable[[BubblewrapEnvironment], Awaitable[Any]]


def _runs(word: str) -> bool:
    """Return whether the host has a process `cat WORD`."""
    return any(found.info["cmdline"] == ["cat", word] for found in psutil.process_iter(["cmdline"]))


def make(folder: Path, name: str = "task", **options: Any) -> BubblewrapEnvironment:
    context = folder / name / "environment"
    context.mkdir(parents=True, exist_ok=True)
    (context / "Dockerfile").write_text(DOCKERFILE)
    (context.parent / "task.toml").write_text(options.pop("settings", ""))
    limits = EnvironmentConfig(cpus=0.5, memory_mb=256, storage_mb=64)
    trial = TrialPaths(folder / "trial")
    ids = options.pop("session_id", "task__x__env")
    return BubblewrapEnvironment(context, "task", ids, trial, limits, image="host", **options)


def play(folder: Path, story: Story, **options: Any) -> Any:
    async def whole() -> Any:
        environment = make(folder, **options)
        await environment.start(force_build=False)
        try:
            return await story(environment)
        finally:
            await environment.stop(delete=True)

    return asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


def test_a_command_has_its_folder_variables_and_exit_code(tmp_path: Path) -> None:
    async def story(environment: BubblewrapEnvironment) -> None:
        told = await environment.exec(
            "pwd; echo $GREETING $NAME; id -u; exit 3", env={"NAME": "you"}
        )
        assert (told.stdout, told.return_code) == ("/app\nhello you\n0\n", 3)
        assert (await environment.exec("pwd", cwd="/usr", user="root")).stdout == "/usr\n"
        assert (await environment.exec("kill -9 $$")).return_code == 137
        with pytest.raises(ConfigError, match="no user 'agent'"):
            await environment.exec("true", user="agent")
        with pytest.raises(RuntimeError, match="timed out after 1 s"):
            await environment.exec("sleep 600", timeout_sec=1)

    play(tmp_path, story)


def test_an_agent_over_its_time_is_stopped_and_what_it_left_is_graded(tmp_path: Path) -> None:
    async def story(environment: BubblewrapEnvironment) -> None:
        line = "mkfifo waits-for-ever; echo 29 > answer; cat waits-for-ever; echo > late"
        running = asyncio.ensure_future(environment.exec(line))
        assert await asyncio.to_thread(until, lambda: _runs("waits-for-ever"))
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
        assert (await environment.exec("cat answer; ls late")).stdout == "29\n"

    play(tmp_path, story)


def test_no_process_of_the_agent_sees_the_tests(tmp_path: Path) -> None:
    tests = tmp_path / "tests"
    tests.mkdir()
    (tests / "test.sh").write_text("true")
    line = "echo kept > /app/file; mkdir -p /tests; echo mine > /tests/conftest.py;"
    line += "setsid sleep 4321 > /dev/null 2>&1 & echo"
    look = "cat /app/file; ls /tests; grep -al 432[1] /proc/[0-9]*/cmdline"

    async def story(environment: BubblewrapEnvironment) -> str:
        await environment.exec(line)
        await environment.upload_dir(tests, "/tests")
        return str((await environment.exec(look)).stdout)

    assert play(tmp_path, story) == "kept\ntest.sh\n"
    beside = {"settings": "[verifier]\nenvironment_mode = 'shared'"}, {"in_place": True}
    for options in (*beside, {"session_id": "task__x__verifier__trial"}):
        told = play(tmp_path, story, **options)
        assert "conftest.py" in told
        assert "/proc/" in told


def test_folders_with_links_go_in_and_come_back_without_links(tmp_path: Path) -> None:
    source, target = tmp_path / "source", tmp_path / "target"
    (source / "below").mkdir(parents=True)
    (source / "below/file").write_text("text")
    (source / "link").symlink_to("below/file")

    async def story(environment: BubblewrapEnvironment) -> None:
        await environment.upload_dir(source, "/app/data")
        await environment.exec("cd data; ln -s /etc/passwd out; ln -s ../../.. up; mkfifo pipe")
        await environment.exec("printf '#!/bin/sh\nyes' > /usr/bin/tar; chmod +x /usr/bin/tar")
        await environment.download_dir("/app/data", target)
        await environment.download_file("/app/data/below/file", tmp_path / "one")
        assert (await environment.exec("ls /*.tar")).return_code

    play(tmp_path, story)
    assert sorted(path.name for path in target.rglob("*")) == ["below", "file"]
    assert (target / "below/file").read_text() == (tmp_path / "one").read_text() == "text"


class ByExec:
    """A sandbox for the table of escapes, in which each snippet is a line of Harbor's exec."""

    def __init__(self, environment: BubblewrapEnvironment) -> None:
        self.environment = environment

    async def run(self, command: Command, limits: Limits = escapes.PLAIN_LIMITS) -> Outcome:
        self.environment._sandboxes.limits = lambda *_: limits  # type: ignore[method-assign]
        source = self.environment.environment_dir / f"{id(self)}.py"
        source.write_text(command.python)
        await self.environment.upload_file(source, "/attempt.py")
        try:
            told = await self.environment.exec("exec python3 -I -S /attempt.py", cwd="/tmp")
        except RuntimeError:
            return Outcome("timed out", -9)
        ending = "out of memory" if "out of memory" in told.stderr else "exited"
        code = 128 - told.return_code if told.return_code > 128 else told.return_code
        return Outcome(ending, code, told.stdout.encode(), told.stderr.encode())

    async def close(self) -> None:
        await self.environment.stop(delete=True)


def test_nothing_gets_out_through_exec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All rows but those on memory and on get; /etc/passwd names a root of its own."""
    monkeypatch.setattr(harbor_adapter, "_OUTPUT_BYTES", escapes.PLAIN_LIMITS.output_bytes)

    async def start(_: SandboxSpec) -> Any:
        environment = make(tmp_path)
        await environment.start(force_build=False)
        return ByExec(environment)

    rows = [row for row in ROWS if "persistent" in row.modes and not row.alone]
    rows = [row for row in rows if row.play is not escapes.play_get and "passwd" not in row.attempt]
    host = escapes.Host()
    host.make = BubblewrapBackend().create  # of neighbours
    try:
        results = asyncio.run(escapes._play_rows(start, host, "persistent", rows, 2))
    finally:
        host.close()
    assert len(results) == len(rows) > 60
    assert [f"{result}: {result.text}" for result in results if not result.held] == []
