"""Several growing files read as one."""

from __future__ import annotations

from pathlib import Path

from Daddy.cluster.orchestrator.commands.follow import Follower


def test_the_first_look_shows_the_last_lines_with_a_heading(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("one\ntwo\nthree\nhalf")
    follower = Follower(lambda: {"a": tmp_path / "a", "gone": tmp_path / "b"}, last=2)
    assert list(follower.first()) == ["── a ──", "two", "three"]
    with (tmp_path / "a").open("a") as stream:
        stream.write(" a line\nnext\n")
    assert list(follower.more()) == ["half a line", "next"]


def test_a_new_file_is_read_from_its_beginning_under_its_own_heading(tmp_path: Path) -> None:
    sources = {"job 1": tmp_path / "1"}
    (tmp_path / "1").write_text("old\n")
    follower = Follower(lambda: sources, last=5)
    assert list(follower.first()) == ["── job 1 ──", "old"]
    sources = {"job 2": tmp_path / "2"}
    (tmp_path / "2").write_text("begun\n")
    assert list(follower.more()) == ["", "── job 2 ──", "begun"]
    assert list(follower.more()) == []


def test_a_file_that_is_written_anew_is_read_anew(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("a long first text\n")
    follower = Follower(lambda: {"a": path}, last=5)
    list(follower.first())
    path.write_text("new\n")
    assert list(follower.more()) == ["new"]


def test_bytes_that_are_no_text_do_not_stop_it(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"\xff\xfe\n")
    assert len(list(Follower(lambda: {"a": tmp_path / "a"}, last=5).first())) == 2
