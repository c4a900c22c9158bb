"""A closed home is said by name, with the line to type; what is open is left in peace."""

import os
from pathlib import Path

import pytest

from Daddy.core.errors import WeightsError
from Daddy.core.friend_accounts import (
    Friend,
    acl_commands,
    check_run_readable,
    close_run,
    make_readable_folder,
    permission_commands,
    record_joined_run,
    resolve_joined,
    write_friends,
)
from Daddy.core.run_paths import RunPaths
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
    assert told(home, shared) == [f"chmod go+x {home}"]
    (shared / "RUN.json").chmod(0o600)
    lines = told(home, shared)
    assert lines == [f"chmod go+x {home}", f"chmod -R go+rX {shared}"]
    for line in lines:
        assert os.system(line) == 0
    assert told(home, shared) == []


def test_the_owners_group_must_pass_too(home: Path) -> None:
    home.chmod(0o701)  # shuts out a friend in the owner's group
    assert told(home, home / "run" / "shared_weights") == [f"chmod go+x {home}"]


def modes_below(folder: Path) -> dict[str, int]:
    return {path.name: path.lstat().st_mode & 0o7777 for path in sorted(folder.rglob("*"))}


def test_a_run_is_closed_but_for_a_persons_files_and_for_links(home: Path, tmp_path: Path) -> None:
    run = RunPaths(home / "run")
    for folder in ("events", "archive", "notes"):
        (run.root / folder).mkdir(mode=0o755)
        (run.root / folder / f"{folder}.txt").touch(mode=0o644)
    (run.archive / "archive.txt").chmod(0o444)
    run.logs.symlink_to(run.root / "notes")
    run.archive.chmod(0o2775)
    run.root.chmod(0o2755)
    assert close_run(run, SharedPaths(run.shared_weights)) == []
    link = run.logs.lstat().st_mode & 0o7777
    assert modes_below(run.root) == {
        "archive": 0o2700, "archive.txt": 0o400, "events": 0o700, "events.txt": 0o600,
        "notes": 0o755, "notes.txt": 0o644, "logs": link,
        "shared_weights": 0o700, "merged": 0o700, "RUN.json": 0o600,
    }  # fmt: skip
    assert run.root.stat().st_mode & 0o7777 == 0o2700
    assert close_run(RunPaths(tmp_path / "new"), SharedPaths(tmp_path / "new")) == []


@pytest.mark.parametrize("kind", ["home", "above the home", "checkout"])
def test_a_home_or_a_checkout_is_not_closed_as_a_run(
    home: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    if kind == "checkout":
        (home / ".git").mkdir(mode=0o755)
    else:
        monkeypatch.setenv("HOME", str(home if kind == "home" else home / "anna"))
    (home / "scripts").mkdir(mode=0o755)
    before = modes_below(home)
    (note,) = close_run(RunPaths(home), SharedPaths(home / "shared_weights"))
    assert note.startswith(f"{home} holds more than the run")
    assert modes_below(home) == before
    assert home.stat().st_mode & 0o777 == 0o755


def test_with_friends_the_shared_weights_keep_their_modes_and_others_pass(home: Path) -> None:
    run = RunPaths(home / "run")
    shared, elsewhere = SharedPaths(run.shared_weights), SharedPaths(home / "shared")
    write_friends(shared, [Friend("anna", "/home/anna/shared_weights", 12345)])
    before = modes_below(shared.root)
    assert close_run(run, shared) == []
    assert modes_below(shared.root) == before
    assert run.root.stat().st_mode & 0o777 == 0o711
    shared.friends.unlink()
    assert close_run(run, joined_paths(shared.root, home / "closed")) == []  # we are the friend
    assert modes_below(shared.root)["RUN.json"] == 0o644
    elsewhere.root.mkdir()
    write_friends(elsewhere, [Friend("anna", "/home/anna/shared_weights", 12345)])
    assert close_run(run, elsewhere) == []  # the friend need not pass
    assert run.root.stat().st_mode & 0o777 == 0o700
    assert elsewhere.root.stat().st_mode & 0o777 == 0o755


def test_the_same_for_one_account_alone() -> None:
    lines = acl_commands(["chmod go+x /home/you", "chmod -R go+rX /home/you/run"], "anna")
    assert lines == ["setfacl -m u:anna:x /home/you", "setfacl -R -m u:anna:rX /home/you/run"]


def test_a_path_with_a_space_can_be_typed_as_it_is_said(home: Path) -> None:
    odd = home / "my run; rm x"
    odd.mkdir(mode=0o700)
    assert f"chmod -R go+rX '{odd}'" in told(home, odd)


@pytest.mark.parametrize("umask", [0o022, 0o077])
def test_a_folder_that_is_made_for_others_is_open_whatever_the_umask(
    home: Path, umask: int
) -> None:
    before = os.umask(umask)
    try:
        home.chmod(0o2755)
        make_readable_folder(home / "mine")
    finally:
        os.umask(before)
    assert (home / "mine").stat().st_mode & 0o7777 == 0o2755
    (home / "mine").chmod(0o700)
    make_readable_folder(home / "mine")
    assert (home / "mine").stat().st_mode & 0o777 == 0o700  # whose it is decides


def test_a_run_that_has_not_begun_is_told_apart_from_a_closed_one(home: Path) -> None:
    mine = home.parent / "mine"
    check_run_readable(joined_paths(mine, home / "run" / "shared_weights"))
    with pytest.raises(WeightsError, match="holds no shared weights yet"):
        check_run_readable(joined_paths(mine, home / "elsewhere"))
