import os

import pytest

from Daddy.core import files
from Daddy.core.errors import FileError


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "a" / "b"
    files.write_atomic(path, b"old")
    files.write_atomic(path, b"new")
    assert path.read_bytes() == b"new"
    assert [one.name for one in path.parent.iterdir()] == ["b"]


def test_only_the_first_creates_and_nothing_is_left_behind(tmp_path):
    path = tmp_path / "name"
    assert files.create_exclusive(path, b"first")
    assert not files.create_exclusive(path, b"second")
    assert path.read_bytes() == b"first"
    assert [one.name for one in tmp_path.iterdir()] == ["name"]


def test_a_link_that_worked_although_it_reported_an_error_counts_as_won(tmp_path, monkeypatch):
    real = os.link

    def lossy(source, target):
        real(source, target)
        raise FileExistsError(target)

    monkeypatch.setattr(os, "link", lossy)
    assert files.create_exclusive(tmp_path / "name", b"mine")


def test_reading_is_bounded_and_follows_no_link(tmp_path):
    big = tmp_path / "big"
    big.write_bytes(b"x" * 100)
    with pytest.raises(FileError, match="larger than 99"):
        files.read_bounded(big, 99)
    (tmp_path / "link").symlink_to(big)
    with pytest.raises(FileError):
        files.read_bounded(tmp_path / "link", 1000)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(FileError, match="not a regular file"):
        files.read_bounded(tmp_path / "pipe", 1000)


@pytest.mark.parametrize("data", [b"", b"[]", b'{"a":1,"a":2}', b"[" * 100_000, b"\xff"])
def test_bad_json_is_an_error_that_names_the_file(data):
    with pytest.raises(FileError, match="the-name"):
        files.parse_json(data, "the-name")


def test_equal_values_have_equal_bytes():
    assert files.to_json({"b": 1, "a": 2}) == files.to_json({"a": 2, "b": 1})
