"""The file system of the random schedules: it lags as promised, else behaves like a real one."""

import errno
import os
import random
from pathlib import Path

import pytest

from scripts.soaks.fs_patch import mounted
from scripts.soaks.interleaver import Interleaver, Odds
from scripts.soaks.lagging_fs import LaggingFiles


class Still:
    """Nothing happens by itself: processes act in the order of the test."""

    time, actor = 0.0, "one"

    def step(self, what: str) -> None:
        self.time += 1.0

    def answer(self, what: str) -> None:
        pass

    def between(self, low: float, high: float) -> float:
        return low

    def by_chance(self, probability: float) -> bool:
        return True


def test_a_new_name_is_seen_by_its_maker_at_once_and_by_others_later():
    moment, root = Still(), Path("/lagging")
    with mounted(LaggingFiles("/lagging", moment, 60.0, lambda path, inode: None)):
        for moment.actor in ("one", "other"):
            assert list(root.iterdir()) == []
        moment.actor = "one"
        (root / "new").mkdir()
        assert list(root.iterdir()) == [root / "new"]
        moment.actor = "other"
        assert list(root.iterdir()) == []
        assert not (root / "new").exists()
        with pytest.raises(FileExistsError):  # names are made by the server
            (root / "new").mkdir()
        assert (root / "new").exists()
        moment.time += 60.0
        assert list(root.iterdir()) == [root / "new"]


def test_what_is_gone_may_look_as_if_it_were_there_until_it_is_opened():
    moment, path = Still(), Path("/lagging/file")
    with mounted(LaggingFiles("/lagging", moment, 60.0, lambda path, inode: None)):
        make(path)
        moment.time += 100.0
        moment.actor = "other"
        assert path.exists()
        moment.actor = "one"
        path.unlink()
        moment.actor = "other"
        assert path.exists()
        with pytest.raises(OSError, match="Stale file handle"):
            look(path)
        assert not path.exists()


@pytest.mark.parametrize("seed", range(5))
def test_without_lag_the_files_in_memory_answer_as_real_ones_do(tmp_path, seed):
    """The same random calls, in memory and on a real disk."""
    files = LaggingFiles("/lagging", Interleaver(0, Odds(0.0, 0.0)), 0.0, lambda path, inode: None)
    with mounted(files):
        there = calls(Path("/lagging"), random.Random(seed))
        here = calls(tmp_path, random.Random(seed))
    assert there == here
    assert all(answer in here for answer in ("ok", errno.ENOENT, errno.EEXIST, errno.EISDIR))


def calls(root: Path, chance: random.Random) -> list[object]:
    names = [root / name for name in ("a", "b", "folder/a", "folder/b")]
    answers: list[object] = []
    for _ in range(300):
        entry, other = chance.sample(names, 2)
        call = chance.choice([make, look, link, rename, Path.unlink])
        if chance.random() < 0.2:
            entry = root / "folder"
            call = chance.choice([Path.mkdir, Path.mkdir, Path.rmdir, Path.unlink, names_in])
        try:
            said = call(entry, other) if call in (link, rename) else call(entry)
            answers.append("ok" if said is None else said)
        except OSError as error:
            answers.append(error.errno)
    return answers


def make(path: Path) -> None:
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL), "wb") as stream:
        stream.write(path.name.encode())


def look(path: Path) -> object:
    facts, descriptor = path.stat(), os.open(path, os.O_RDONLY)
    try:
        return facts.st_nlink, b"".join(iter(lambda: os.read(descriptor, 3), b""))
    finally:
        os.close(descriptor)


def names_in(path: Path) -> object:
    return sorted(entry.name for entry in path.iterdir())


def link(source: Path, target: Path) -> None:
    os.link(source, target)


def rename(source: Path, target: Path) -> None:
    source.replace(target)
