"""A laptop's files take a bounded place, in its box and in quarantine."""

import json
import os
import shutil
from pathlib import Path

import pytest

from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights.laptop import key_receiver
from Daddy.weights.merge import cleanup, contributions
from Daddy.weights.merge.cleanup import choose_old_evidence
from Daddy.weights.merge.contributions import BoxFile, choose_excess
from Daddy.weights.status import _run_rows
from Daddy.weights.weights_status_record import report_run
from tests.weights.helpers import ManualClock, perturbed
from tests.weights.test_contributions import Cluster
from tests.weights.test_step_counts import next_version

BIG = 20_000_000


@pytest.fixture
def cluster(tmp_path):
    made = Cluster(tmp_path, ManualClock())
    for _ in range(2):
        next_version(made)
    return made


def bytes_below(folder: Path) -> int:
    return sum(path.lstat().st_size for path in folder.rglob("*") if path.is_file())


def offer(cluster, name: str, count: int, size: int) -> Path:
    """Push contributions whose files have another size than their records say."""
    for number in range(count):
        laptop, weights = cluster.laptop(name)
        laptop.publish(perturbed(weights, number), 100, 10)
    box = cluster.push(name)
    for path in box.glob("*.st"):
        os.truncate(path, size)
    return box


def test_oversize_files_are_deleted_unread(cluster):
    offer(cluster, "mallory", 20, BIG)
    offer(cluster, "anna", 1, BIG)
    for _ in range(3):
        next_version(cluster)
    assert bytes_below(cluster.root / "inbox") < BIG
    assert bytes_below(cluster.root / "quarantine") < BIG


def test_a_file_with_a_name_of_254_bytes_does_not_stop_its_box(cluster):
    laptop, weights = cluster.laptop("anna")
    laptop.publish(perturbed(weights, 1), 100, 10)
    box = cluster.push("anna")
    (box / ("0" * 249 + ".json")).write_text("{}")
    version = next_version(cluster)
    assert "anna" in {merged.peer for merged in version.inputs}


def test_folders_in_a_box_go(cluster):
    box = offer(cluster, "anna", 1, 0)
    (box / "deep" / "deeper").mkdir(parents=True)
    (box / "deep" / "deeper" / "file.st").write_bytes(b"x")
    (box / "trap").symlink_to(cluster.root / "wan")
    next_version(cluster)
    assert not (box / "deep").exists()
    assert (cluster.root / "wan" / "HEAD.json").exists()


def files(*sizes: int, name: str = "{}.st") -> list[BoxFile]:
    return [BoxFile(Path(name.format(n)), size, float(n)) for n, size in enumerate(sizes)]


@pytest.mark.parametrize(
    ("sizes", "taken", "gone"),
    [
        ((10, 10), 0, []),
        ((10, 101, 10), 0, [1]),
        ((100,) * 5, 0, [4]),
        ((100,) * 5, 1600 - 250, [2, 3, 4]),
    ],
)
def test_excess_of_a_box_is_its_newest_files(monkeypatch, sizes, taken, gone):
    monkeypatch.setattr(contributions, "BOX_BYTES", 400)
    found = files(*sizes)
    excess, kept = choose_excess(found, 100, taken)
    assert excess == [found[number] for number in gone]
    assert kept == sum(sizes) - sum(file.size for file in excess)


def test_old_evidence_goes_first_and_no_laptop_takes_all_the_room(monkeypatch):
    monkeypatch.setattr(cleanup, "EVIDENCE_BYTES", 1000)
    monkeypatch.setattr(cleanup, "SENDER_BYTES", 300)
    mallory = files(*(100,) * 9, name="mallory.{}.st")
    anna = [BoxFile(Path("anna.0.st"), 100, -1.0)]
    gone = choose_old_evidence([*anna, *mallory])
    assert sorted(gone) == sorted(file.path for file in mallory[:6])


def test_the_limits_here_and_in_the_keys_command_are_the_same():
    ours = (contributions.BOX_BYTES, contributions.BOX_FILES, contributions.BOXES)
    assert ours == (key_receiver.BOX_BYTES, key_receiver.MOST_FILES, key_receiver.BOXES)


def test_status_tells_the_quota_and_what_a_key_was_refused(cluster):
    offer(cluster, "anna", 1, 100)
    notes = cluster.root / "inbox" / ".keys"
    notes.mkdir()
    note = {"day": "1970-01-01", "bytes": 5, "refused": 3, "last": "no\x1b[2Jname"}
    (notes / "anna.json").write_text(json.dumps(note))
    report = report_run(SharedPaths(cluster.root), 5.0)
    (box,) = report["inbox"]
    assert (box["limit"], box["refused"], box["last"]) == (contributions.BOX_BYTES, 3, "no?[2Jname")
    shown = dict(_run_rows(report, 5.0))["inbox"]
    assert "of 268" in shown
    assert shown.endswith("3 requests of its key refused today: no?[2Jname")
    (later,) = report_run(SharedPaths(cluster.root), 90_000.0)["inbox"]
    assert later["refused"] == 0
    shutil.rmtree(notes)
