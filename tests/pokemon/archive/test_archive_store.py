import os
import random
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from Daddy.core.atomic_files import sha256_hex
from Daddy.core.errors import FileError
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.archive_store import Archive, archive_folder
from Daddy.pokemon.archive.file_names import first_rank_name
from Daddy.pokemon.archive.state_format import Compatibility, encode_state
from tests.patience import PATIENCE_S
from tests.pokemon.archive.states import KIN, provenance

RULES = ArchiveRules(per_key=3, tries=2)


@pytest.fixture
def archive(tmp_path: Path) -> Archive:
    return Archive(tmp_path / "states", KIN, RULES)


def again(archive: Archive, rules: ArchiveRules = RULES) -> Archive:
    """Open the same folder a second time, as another process does."""
    return Archive(archive.folder, KIN, rules)


def test_what_was_put_is_found_by_everybody_with_its_provenance(archive: Archive) -> None:
    facts = provenance("met_elder", step=12)
    entry = archive.keep_state(facts, b"a state")
    seen = again(archive).list_states()
    assert seen.entries == (entry,)
    assert again(archive).read_state(seen.entries[0]) == (facts, b"a state")
    assert entry.file_name.endswith(f"{sha256_hex(encode_state(facts, b'a state'))}.state")


def test_a_state_put_twice_is_one_state(archive: Archive) -> None:
    facts = provenance("met_elder")
    assert archive.keep_state(facts, b"same") == again(archive).keep_state(facts, b"same")
    assert len(archive.list_states().entries) == 1


def test_two_who_first_know_a_place_at_once_both_write_it_down_and_the_least_counts(
    archive: Archive,
) -> None:
    late, early = again(archive), again(archive)
    late.list_states(), early.list_states()
    less = early.keep_state(provenance("met_elder"), b"with one")
    more = late.keep_state(provenance("met_elder", "got_stone"), b"with two, by who saw none")
    assert (more.place, more.rank, less.rank) == (less.place, 2, 1)
    assert all((archive.folder / first_rank_name(less.place, n)).exists() for n in (1, 2))
    assert again(archive).list_states().first == {less.place: 1}


def test_another_process_sees_what_comes_and_goes_at_its_next_look(archive: Archive) -> None:
    other = again(archive)
    assert other.list_states().entries == ()
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    assert other.list_states().entries == (entry,)
    archive.mark_try(entry.sha256, "dry")
    archive.mark_try(entry.sha256, "gain")
    assert (other.list_states().dry, other.list_states().gains) == (
        {entry.sha256: 1},
        {entry.sha256: 1},
    )


def test_a_look_lists_the_folder_only_after_a_change(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    archive.keep_state(provenance("met_elder"), b"a state")
    archive.list_states()
    archive.list_states()
    listed = []
    monkeypatch.setattr(os, "listdir", lambda folder: listed.append(folder) or [])
    for _ in range(25):
        assert len(archive.list_states().entries) == 1
    assert listed == []


def test_beyond_the_bound_of_a_key_states_go_with_their_marks(archive: Archive) -> None:
    entries = [
        archive.keep_state(provenance("met_elder", step=n), bytes([n + 1])) for n in range(3)
    ]
    archive.mark_try(entries[1].sha256, "dry")
    archive.mark_try(entries[1].sha256, "dry")
    newest = archive.keep_state(provenance("met_elder", step=9), b"new")
    assert archive.list_states().entries == (entries[0], entries[2], newest)
    left = {path.name for path in archive.folder.iterdir()}
    kept = {entry.file_name for entry in (entries[0], entries[2], newest)}
    assert left == kept | {first_rank_name(newest.place, 1)}, "where one was stays known"


def test_the_fewest_milestones_a_place_was_known_with_stay_known(archive: Archive) -> None:
    at_cave = [provenance(*("met_elder", "got_map")[:rank], "at_cave") for rank in range(3)]
    place = archive.keep_state(at_cave[2], b"late").place
    assert again(archive).list_states().first == {place: 2}
    entry = archive.keep_state(at_cave[1], b"early")
    archive.keep_state(at_cave[2], b"later")
    assert again(archive).list_states().first == {place: 1}
    (archive.folder / entry.file_name).unlink()
    assert again(archive).list_states().first == {place: 1}
    assert len(list(archive.folder.glob("*.first-*"))) == 2


def test_who_comes_by_is_counted_where_states_are_kept_and_nowhere_else(archive: Archive) -> None:
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    for _ in range(3):
        archive.count_visit(entry.key)
    archive.count_visit("0" * 16)
    assert archive.list_states().visits == {entry.key: 3}
    archive.keep_state(provenance("got_stone"), b"another")
    assert archive.list_states().visits == {entry.key: 3}, "a new listing forgets none"
    assert again(archive).list_states().visits == {}, "every process counts its own"


def test_every_mark_counts_once_whoever_sets_it(archive: Archive) -> None:
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    first, second = again(archive), again(archive)
    first.list_states(), second.list_states()
    for _ in range(3):
        first.mark_try(entry.sha256, "dry")
        second.mark_try(entry.sha256, "dry")
    assert archive.list_states().dry == {entry.sha256: 6}


def test_marks_are_bounded(archive: Archive) -> None:
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    for _ in range(70):
        archive.mark_try(entry.sha256, "gain")
    assert archive.list_states().gains == {entry.sha256: 64}


def _flip(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.chmod(0o644)
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.chmod(0o644)
    path.write_bytes(path.read_bytes()[:20])


def _link(path: Path) -> None:
    away = path.with_name("away")
    path.rename(away)
    path.symlink_to(away)


@pytest.mark.parametrize("harm", [_flip, _cut, _link, Path.unlink])
def test_a_damaged_state_is_passed_over_by_name(archive: Archive, harm) -> None:
    good = archive.keep_state(provenance("met_elder"), b"good")
    bad = archive.keep_state(provenance("met_elder", "got_map"), b"bad")
    harm(archive.folder / bad.file_name)
    other = again(archive)
    known = other.list_states()
    if bad in known.entries:
        with pytest.raises(FileError, match=bad.sha256):
            other.read_state(bad)
        assert bad.sha256 in other.refused
    assert other.list_states().entries == (good,)


def test_a_trouble_that_passes_refuses_no_state(archive: Archive) -> None:
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, hard))
    try:
        with pytest.raises(FileError, match="Too many open files"):
            archive.read_state(entry)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert archive.list_states().entries == (entry,)
    assert archive.read_state(entry)[1] == b"a state"


def test_a_state_under_another_ones_name_is_refused(archive: Archive) -> None:
    """A state copied to a name of a higher rank is refused."""
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    forged = entry.file_name.replace("r001", "r099")
    (archive.folder / forged).write_bytes((archive.folder / entry.file_name).read_bytes())
    highest = archive.list_states().entries[-1]
    assert highest.rank == 99
    with pytest.raises(FileError, match="holds another state than its name says"):
        archive.read_state(highest)


def test_a_state_of_another_user_is_not_loaded(
    archive: Archive, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = archive.keep_state(provenance("met_elder"), b"a state")
    me = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: me + 1)
    with pytest.raises(FileError, match=f"belongs to user {me}"):
        archive.read_state(entry)


def test_states_of_another_game_or_emulator_lie_elsewhere(tmp_path: Path) -> None:
    folders = {
        archive_folder(tmp_path, Compatibility(rom, version))
        for rom in ("a", "b")
        for version in "12"
    }
    assert len(folders) == 4


def test_strangers_files_are_left_alone(archive: Archive) -> None:
    archive.keep_state(provenance("met_elder"), b"a state")
    (archive.folder / "notes.txt").write_text("mine")
    archive.remove_leftovers()
    assert (archive.folder / "notes.txt").exists()
    assert len(archive.list_states().entries) == 1


def test_what_killed_writers_left_yesterday_is_taken_away(archive: Archive) -> None:
    archive.keep_state(provenance("met_elder"), b"a state")
    torn, young = archive.folder / ".tmp-1-aa", archive.folder / ".tmp-1-bb"
    orphan = archive.folder / ("e" * 64 + ".dry-01")
    for path in (torn, young, orphan):
        path.write_bytes(b"half")
    for path in (torn, orphan):
        os.utime(path, (time.time() - 90_000,) * 2)
    archive.remove_leftovers()
    assert (torn.exists(), young.exists(), orphan.exists()) == (False, True, False)


def test_a_missing_folder_is_an_empty_archive(archive: Archive) -> None:
    archive.remove_leftovers()
    assert archive.list_states().entries == ()


WRITER = """
import sys
from pathlib import Path
from Daddy.pokemon.archive.archive_decisions import ArchiveRules
from Daddy.pokemon.archive.archive_store import Archive
from tests.pokemon.archive.states import KIN, provenance
archive = Archive(Path(sys.argv[1]), KIN, ArchiveRules(per_key=int(sys.argv[3])))
for n in range(int(sys.argv[4])):
    facts = provenance("met_elder", *["got_map"][: n % 2], step=4 * n + int(sys.argv[2]))
    print(archive.keep_state(facts, b"%d" % n * 2000).file_name, flush=True)
"""


def writer(archive: Archive, number: int, per_key: int, count: int) -> subprocess.Popen[str]:
    argv = [sys.executable, "-c", WRITER, str(archive.folder), str(number)]
    return subprocess.Popen([*argv, str(per_key), str(count)], stdout=subprocess.PIPE, text=True)


def test_four_writers_at_once_neither_spoil_nor_lose_each_others_states(archive: Archive) -> None:
    writers = [writer(archive, number, 8, 40) for number in range(4)]
    names_by_writer = [process.communicate(timeout=PATIENCE_S)[0].split() for process in writers]
    assert [len(names) for names in names_by_writer] == [40] * 4
    by_key: dict[str, list[str]] = {}
    for name in sorted(name for names in names_by_writer for name in names):
        by_key.setdefault(name.split("-")[1], []).append(name)
    newest = {name for names in by_key.values() for name in names[-8:]}
    found = again(archive, ArchiveRules(per_key=8))
    assert {entry.file_name for entry in found.list_states().entries} == newest
    assert all(found.read_state(entry)[1] for entry in found.list_states().entries)


def test_a_writer_killed_at_any_moment_loses_nothing_it_had_committed(archive: Archive) -> None:
    dice, names_by_writer = random.Random(4), []
    for number in range(4):
        child = writer(archive, number, 10_000, 10_000)
        assert child.stdout is not None
        names_by_writer += [child.stdout.readline().strip() for _ in range(dice.randint(2, 30))]
        time.sleep(dice.uniform(0, 0.005))
        os.kill(child.pid, signal.SIGKILL)
        names_by_writer += child.stdout.read().split("\n")[:-1]
        child.stdout.close()
        child.wait()
    found = again(archive)
    names = {entry.file_name for entry in found.list_states().entries}
    assert names >= set(names_by_writer)
    assert all(found.read_state(entry) for entry in found.list_states().entries)
