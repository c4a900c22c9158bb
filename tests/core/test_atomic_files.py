import os
import sys
from pathlib import Path

import pytest

from Daddy.core import atomic_files, run_subprocess
from Daddy.core.errors import FileError


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a" / "b"
    atomic_files.write_atomic(path, b"old")
    atomic_files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [path.name for path in path.parent.iterdir()] == ["b"]


def test_only_the_first_creates_and_nothing_is_left_behind(tmp_path):
    path = tmp_path / "name"
    assert atomic_files.create_exclusive(path, b"first")
    assert not atomic_files.create_exclusive(path, b"second")
    assert path.read_bytes() == b"first"
    assert [path.name for path in tmp_path.iterdir()] == ["name"]


def test_a_link_that_worked_although_it_reported_an_error_counts_as_won(tmp_path, monkeypatch):
    real = os.link

    def lossy(source, target):
        real(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", lossy)
    assert atomic_files.create_exclusive(tmp_path / "name", b"mine")


def test_reading_is_bounded_and_follows_no_link(tmp_path):
    big = tmp_path / "big"
    big.write_bytes(b"x" * 100)
    with pytest.raises(FileError, match="larger than 99"):
        atomic_files.read_bounded(big, 99)
    (tmp_path / "link").symlink_to(big)
    with pytest.raises(FileError):
        atomic_files.read_bounded(tmp_path / "link", 1000)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        atomic_files.read_bounded(tmp_path / "pipe", 1000)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1,"a":2}', b"[" * 100_000, b"\xff"])
def test_bad_json_is_an_error_that_names_the_file(data):
    with pytest.raises(FileError, match="the-name"):
        atomic_files.parse_json(data, "the-name")


def test_equal_values_have_equal_bytes():
    assert atomic_files.canonical_json({"b": 1, "a": 2}) == atomic_files.canonical_json(
        {"a": 2, "b": 1}
    )


def test_a_folder_in_the_place_of_a_file_is_an_error_and_leaves_nothing_open(tmp_path):
    before = len(list(Path("/dev/fd").iterdir()))
    for _ in range(5):
        with pytest.raises(FileError, match="not a regular file"):
            atomic_files.read_bounded(tmp_path, 100)
    assert len(list(Path("/dev/fd").iterdir())) == before


_NO_ROOM = """
import pathlib, resource, sys
from Daddy.core import atomic_files
from Daddy.core.entry_point import run_entry
path = pathlib.Path(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (100, resource.RLIM_INFINITY))
def line(_):
    atomic_files.append_line(path, "x" * 60)
    atomic_files.append_line(path, "y" * 60)
def whole(_):
    atomic_files.write_atomic(path, b"z" * 200)
raise SystemExit(run_entry({"line": line, "whole": whole}[sys.argv[2]], []))
"""


@pytest.mark.parametrize("how", ["line", "whole"])
def test_a_disk_without_room_is_told_in_two_lines_that_name_the_place(tmp_path, how):
    path = tmp_path / "log"
    done = run_subprocess.run_command([sys.executable, "-c", _NO_ROOM, str(path), how], 20)
    assert done.returncode == 9, done.stderr
    assert "Traceback" not in done.stderr
    assert str(tmp_path) in done.stderr


def test_a_line_that_was_torn_does_not_swallow_the_next(tmp_path):
    path = tmp_path / "log"
    run_subprocess.run_command([sys.executable, "-c", _NO_ROOM, str(path), "line"], 20)
    assert path.stat().st_size == 100  # the second line did not fit
    atomic_files.append_line(path, "later")
    assert path.read_text().split("\n")[-2:] == ["later", ""]


def test_what_fails_after_the_name_stands_does_not_hide_who_won(tmp_path, monkeypatch):
    real = os.open

    def no_folders(path, flags, *rest):
        if Path(path).is_dir():
            raise OSError(5, "Input/output error")
        return real(path, flags, *rest)

    monkeypatch.setattr(os, "open", no_folders)
    assert atomic_files.create_exclusive(tmp_path / "name", b"mine")
