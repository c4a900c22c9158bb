"""A persistent sandbox may have a writable root, whose changes go into another sandbox."""

import asyncio
import resource
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import CopyFailedError, FileError
from Daddy.sandbox.runner_client import RunnerSandbox
from Daddy.sandbox.sandbox_interfaces import Limits, SandboxSpec
from tests.patience import PATIENCE_S
from tests.sandbox.machines import accounts, as_account, bubblewrap, shell
from tests.sandbox.weakened import without

LIMITS = Limits(time_s=PATIENCE_S, scratch_mb=8, processes=200)
SPEC = SandboxSpec(persistent=True, writable_root=True)
MOUNTS = """
while read -r _ _ _ _ point options rest; do
  case "$options $rest" in
    rw*size=*|rw*" devpts "*max=*|ro*) ;;
    rw*" overlay "*upperdir=/tmp/upper/*) ;;
    *) echo "$point $options $rest" ;;
  esac
done < /proc/self/mountinfo
grep -E '^Cap(Eff|Prm|Bnd)' /proc/self/status | cut -f2 | sort -u
"""
CHANGES = """
mkdir -p /app/deep /tests && echo made > /app/deep/file && chmod 750 /app/deep/file
ln -s deep/file /app/link && ln /app/deep/file /app/twin && chmod 000 /app/deep
echo new > /usr/bin/added && rm -r /usr/games && mkdir /usr/games && echo x > /usr/games/only
echo 1 > /tests/planted; mkfifo /app/pipe; sleep 1000 &
"""
SEEN = """
cd /app; chmod 700 deep; cat link; stat -c '%A %h' twin; cat /usr/bin/added
ls /usr/games /app /tests 2>&1
"""


def play(*stories: Callable[[RunnerSandbox], Awaitable[Any]]) -> list[Any]:
    """Run stories one after another, each in a sandbox of its own."""

    async def whole() -> list[Any]:
        told, backend = [], bubblewrap()
        for story in stories:
            sandbox = await backend.create(SPEC)
            try:
                told.append(await story(sandbox))
            finally:
                await sandbox.close()
        return told

    return asyncio.run(asyncio.wait_for(whole(), PATIENCE_S))


async def output(sandbox: RunnerSandbox, line: str) -> str:
    outcome = await sandbox.run(shell(line), LIMITS)
    return (outcome.stdout + outcome.stderr).decode()


@accounts
def test_every_mount_of_it_is_bounded_and_user_0_has_no_right(user: int) -> None:
    def work() -> None:
        (told,) = play(lambda sandbox: output(sandbox, f"{MOUNTS} id -u"))
        assert told.split() == ["0" * 16, "0"]

    as_account(user, work)


def test_all_changes_but_the_excluded_ones_are_made_again(tmp_path: Path) -> None:
    archive = tmp_path / "changes"

    async def change(sandbox: RunnerSandbox) -> str:
        told = await output(sandbox, CHANGES)
        assert await sandbox.save_changes(archive)
        return told + await output(sandbox, "pgrep sleep")

    async def look(sandbox: RunnerSandbox) -> str:
        await sandbox.restore_changes(archive, without=("tests",))
        return await output(sandbox, SEEN)

    async def look_at_a_part(sandbox: RunnerSandbox) -> str:
        await sandbox.restore_changes(archive, only=("app",))
        return await output(sandbox, "ls /app /usr/bin/added")

    told, seen, part = play(change, look, look_at_a_part)
    assert told == "", "its processes have ended"
    assert seen.splitlines() == [
        "made", "-rwxr-x--- 2", "new", "ls: cannot access '/tests': No such file or directory",
        "/app:", "deep", "link", "twin", "", "/usr/games:", "only",
    ]  # fmt: skip
    assert "cannot access '/usr/bin/added'" in part
    assert "twin" in part


def test_what_is_written_anywhere_counts_as_scratch() -> None:
    fill = "for f in /a /usr/bin/b /tmp/c /dev/shm/d; do head -c 6M /dev/zero > $f; done"

    async def story(sandbox: RunnerSandbox) -> str:
        return await output(sandbox, f"exec 2>&1; {fill}; df -m --output=used / | tail -1")

    (told,) = play(story)
    assert "No space left" in told
    assert int(told.split()[-1]) <= 8


def test_processes_that_outlive_their_kills_end_the_save_and_not_the_host(tmp_path: Path) -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        await output(sandbox, "setsid sleep 1000 > /dev/null 2>&1 &")
        with pytest.raises(CopyFailedError, match="processes go on"):
            await sandbox.save_changes(tmp_path / "changes")

    with without("kill before a save"):
        play(story)


def test_a_sparse_file_costs_the_host_nothing_and_is_made_again_whole(tmp_path: Path) -> None:
    archive = tmp_path / "changes"

    async def change(sandbox: RunnerSandbox) -> None:
        await output(sandbox, "echo a > /sparse; truncate -s 5M /sparse; echo b >> /sparse")
        assert await sandbox.save_changes(archive)

    async def look(sandbox: RunnerSandbox) -> str:
        await sandbox.restore_changes(archive)
        return await output(sandbox, "stat -c %s /sparse; tr -d '\\0' < /sparse")

    assert play(change, look)[1] == f"{(5 << 20) + 2}\na\nb\n"
    assert archive.stat().st_size > 5 << 20
    assert archive.stat().st_blocks * 512 < 1 << 20


def test_a_host_without_room_is_no_fault_of_the_sandbox(tmp_path: Path) -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        await output(sandbox, "head -c 1M /dev/urandom > /big")
        before = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 19, before[1]))
        try:
            with pytest.raises(FileError, match="cannot be written"):
                await sandbox.save_changes(tmp_path / "changes")
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    play(story)


def test_an_archive_over_its_bound_is_told(tmp_path: Path) -> None:
    async def story(sandbox: RunnerSandbox) -> None:
        await output(sandbox, "head -c 1M /dev/urandom > /big")
        assert not await sandbox.save_changes(tmp_path / "changes", max_bytes=1 << 19)
        assert await output(sandbox, "ls /big") == "/big\n"

    play(story)
