"""A closed home is said by name, with the line to type; what is open is left in peace."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from Daddy.core.errors import WeightsError
from Daddy.core.friend_accounts import (
    acl_commands,
    check_run_readable,
    make_readable_folder,
    permission_commands,
    record_joined_run,
    resolve_joined,
)
from Daddy.core.shared_weights_paths import SharedPaths, joined_paths


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A home with a shared folder, all of it open; what is above it is not ours to judge."""
    shared = tmp_path / "home" / "run" / "shared_weights"
    (shared / "merged").mkdir(parents=True)
    (shared / "RUN.json").write_text("{}")
    for path in (tmp_path / "home", *(tmp_path / "home").rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    return tmp_path / "home"


def told(home: Path, folder: Path) -> list[str]:
    """The lines that speak of the home: pytest's own folders are closed, too."""
    return [line for line in permission_commands(folder) if str(home) in line]


def test_whose_run_it_is_is_written_down_when_it_changes(tmp_path: Path) -> None:
    for owner in ("one", "other"):
        paths = joined_paths(tmp_path / "mine", tmp_path / owner)
        record_joined_run(paths)
        written = paths.joined.stat().st_ino
        record_joined_run(paths)
        assert paths.joined.stat().st_ino == written
        assert resolve_joined(SharedPaths(paths.root)) == paths


def test_an_open_home_needs_nothing(home: Path) -> None:
    assert told(home, home / "run" / "shared_weights") == []


def test_a_closed_home_is_named_with_the_line_that_opens_it(home: Path) -> None:
    shared = home / "run" / "shared_weights"
    home.chmod(0o700)
    assert told(home, shared) == [f"chmod o+x {home}"]
    (shared / "RUN.json").chmod(0o600)
    lines = told(home, shared)
    assert lines == [f"chmod o+x {home}", f"chmod -R o+rX {shared}"]
    for line in lines:
        assert os.system(line) == 0
    assert told(home, shared) == []


def test_the_same_for_one_account_alone() -> None:
    lines = acl_commands(["chmod o+x /home/you", "chmod -R o+rX /home/you/run"], "anna")
    assert lines == ["setfacl -m u:anna:x /home/you", "setfacl -R -m u:anna:rX /home/you/run"]


def test_a_path_with_a_space_can_be_typed_as_it_is_said(home: Path) -> None:
    odd = home / "my run; rm x"
    odd.mkdir(mode=0o700)
    assert f"chmod -R o+rX '{odd}'" in told(home, odd)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_folder_that_is_made_for_others_is_open_whatever_the_umask(
    home: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        make_readable_folder(home / "mine")
    finally:
        os.umask(before)
    assert (home / "mine").stat().st_mode & 0o777 == 0o755
    (home / "mine").chmod(0o700)
    make_readable_folder(home / "mine")
    assert (home / "mine").stat().st_mode & 0o777 == 0o700  # whose it is decides


def test_a_run_that_has_not_begun_is_told_apart_from_a_closed_one(home: Path) -> None:
    mine = home.parent / "mine"
    check_run_readable(joined_paths(mine, home / "run" / "shared_weights"))
    with pytest.raises(WeightsError, match="holds no shared weights yet"):
        check_run_readable(joined_paths(mine, home / "elsewhere"))
