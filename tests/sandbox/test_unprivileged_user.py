"""A reserved user id belongs to one sandbox and to nobody else."""

import os
import pwd
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.errors import SandboxError
from Daddy.sandbox import unprivileged_user
from Daddy.sandbox.unprivileged_user import release_user, reserve_user

RANGE = range(63000, 63004)
HOLD = """
import sys
from pathlib import Path
from Daddy.sandbox.unprivileged_user import reserve_user
print(reserve_user(Path(sys.argv[1]), range(63000, 63004)), flush=True)
sys.stdin.read()
"""

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def test_ids_are_given_once_until_they_are_given_back(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    users = [reserve_user(lock, RANGE) for _ in RANGE]
    try:
        assert users == list(RANGE)
        with pytest.raises(SandboxError, match="free"):
            reserve_user(lock, RANGE)
        release_user(users[2], lock)
        release_user(users[2], lock)
        assert reserve_user(lock, RANGE) == users[2]
    finally:
        for user in users:
            release_user(user, lock)


def test_another_process_gets_another_id_and_its_death_frees_it(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(lock)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).resolve().parents[2],
    ) as other:
        try:
            assert other.stdout
            assert other.stdout.readline() == b"63000\n"
            assert reserve_user(lock, RANGE) == 63001
        finally:
            release_user(63001, lock)
            other.kill()
    assert reserve_user(lock, RANGE) == 63000
    release_user(63000, lock)


def test_an_id_with_an_owner_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    lock, subordinate = tmp_path / "lock", tmp_path / "subuid"
    subordinate.write_text("student:62990:11\nbroken line\n")  # 62990 to 63000
    monkeypatch.setattr(unprivileged_user, "_SUBORDINATE", (subordinate, tmp_path / "none"))
    known = pwd.getpwuid

    def account(user: int) -> pwd.struct_passwd:
        return known(0 if user == 63001 else user)

    monkeypatch.setattr(pwd, "getpwuid", account)
    user = reserve_user(lock, RANGE)
    release_user(user, lock)
    assert user == 63002


def test_an_id_with_a_process_is_left_alone(tmp_path: Path) -> None:
    mine = os.getuid()
    with pytest.raises(SandboxError):
        reserve_user(tmp_path / "lock", [mine])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can start a process of another user")
def test_a_process_that_starts_before_the_lock_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another host takes an id, starts a sandbox and dies, all before this one takes its lock."""
    started: list[subprocess.Popen[bytes]] = []
    lock = unprivileged_user._lock

    def lock_late(path: Path, user: int) -> bool:
        if not started:
            started.append(subprocess.Popen(["sleep", "600"], user=user, group=user, cwd="/"))
        return lock(path, user)

    monkeypatch.setattr(unprivileged_user, "_lock", lock_late)
    try:
        user = reserve_user(tmp_path / "lock", RANGE)
        release_user(user, tmp_path / "lock")
        assert user == RANGE[1]
    finally:
        for process in started:
            process.kill()
            process.wait()
