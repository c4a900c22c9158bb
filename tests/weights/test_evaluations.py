from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path

import pytest

from Daddy.core.errors import FileError, WeightsError
from Daddy.core.shared_paths import SharedPaths
from Daddy.weights import offers
from Daddy.weights.revert.evaluations import (
    BOX_EVALUATIONS,
    PAIRS_LIMIT,
    Evaluation,
    box_file,
    evaluations_in_boxes,
    evaluations_of_jobs,
    fixed_starts,
    read_evaluation,
    write_evaluation,
)
from Daddy.weights.store.store import Store
from Daddy.weights.store.strict_json import LIMIT

STARTS = fixed_starts("run", PAIRS_LIMIT)
ONE = Evaluation(
    run_id="run",
    peer="anna",
    incarnation="01234567",
    sequence=1,
    version=7,
    state="ab" * 32,
    reference=3,
    reference_state="cd" * 32,
    pairs=((STARTS[0], 1.5, 2.0), (STARTS[1], 0.0, 0.0)),
    episode_steps=2048,
)


def of_job(number: int = 1) -> Evaluation:
    return dataclasses.replace(ONE, peer="slot-0", sequence=number)


def drop(store: Store, name: str, data: bytes, box: str = "anna") -> Path:
    folder = store.paths.inbox / box
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_bytes(data)
    return folder / name


def test_the_fixed_starts_are_the_runs_own_and_all_different():
    assert STARTS[:40] == fixed_starts("run", 40)
    assert len(set(STARTS)) == PAIRS_LIMIT
    assert not set(STARTS) & set(fixed_starts("other run", PAIRS_LIMIT))


def test_a_full_record_of_awkward_numbers_still_fits_into_the_limit():
    pairs = tuple((seed, -1.2345678901234567e-300, 1.2345678901234567e300) for seed in STARTS)
    full = dataclasses.replace(ONE, pairs=pairs)
    assert len(full.to_bytes()) <= LIMIT
    assert read_evaluation(full.to_bytes(), "it") == full


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"pairs": []}, "0 pairs"),
        ({"pairs": [[STARTS[0], 1.0, 2.0]] * 2}, "stands twice"),
        ({"pairs": [[5, 1.0, 2.0]]}, "no fixed start"),
        ({"pairs": [[STARTS[0], 1.0]]}, "pairs"),
        ({"pairs": [[STARTS[0], 1.0, 1e999]]}, "Infinity"),
        ({"run_id": "other run"}, "no fixed start"),
        ({"reference": 7}, "not older"),
        ({"reference_state": "../x"}, "reference_state"),
        ({"episode_steps": -1}, "episode_steps"),
    ],
)
def test_anything_else_is_refused_and_says_what_is_wrong(changes, said):
    data = json.dumps({**json.loads(ONE.to_bytes()), **changes}).encode()
    with pytest.raises(WeightsError, match=said):
        read_evaluation(data, "eval-1.json")


def test_a_jobs_evaluations_are_read_back_in_order_and_never_overwritten(tmp_path):
    store = Store(SharedPaths(tmp_path))
    for number in (2, 1):
        write_evaluation(store, of_job(number))
    assert [one.sequence for _, one in evaluations_of_jobs(store)] == [1, 2]
    with pytest.raises(FileError, match="exists already"):
        write_evaluation(store, of_job(2))
    assert offers.pending_of_jobs(store, {}) == []


def test_a_jobs_evaluation_in_anothers_folder_is_passed_over(tmp_path):
    store = Store(SharedPaths(tmp_path))
    folder = store.paths.peer("slot-1", "01234567")
    folder.mkdir(parents=True)
    (folder / "eval-000001.json").write_bytes(of_job().to_bytes())
    (folder / "eval-000002.json").write_bytes(b"{")
    assert evaluations_of_jobs(store) == []


def test_a_laptops_evaluation_is_left_alone_by_the_reader_of_contributions(tmp_path):
    store = Store(SharedPaths(tmp_path))
    path = drop(store, box_file(ONE), ONE.to_bytes())
    assert offers.pending(store, {}) == []
    assert evaluations_in_boxes(store) == [(path, ONE)]
    assert not store.paths.quarantine.exists()


def test_what_is_no_evaluation_in_a_box_is_set_aside_and_hides_nothing(tmp_path):
    store = Store(SharedPaths(tmp_path))
    drop(store, "eval-00000000-000001.json", ONE.to_bytes())  # under another's number
    drop(store, "eval-x.json", b"\x80\x04pickle")
    drop(store, "eval-big.json", b" " * (LIMIT + 1))
    os.link(drop(store, "linked", ONE.to_bytes()), store.paths.inbox / "anna" / "eval-y.json")
    (store.paths.inbox / "anna" / "eval-z.json").symlink_to("/etc/passwd")
    os.mkfifo(store.paths.inbox / "anna" / "eval-pipe.json")
    drop(store, box_file(of_job()), of_job().to_bytes(), box="slot-0")
    drop(store, box_file(ONE), ONE.to_bytes(), box="berta")
    good = drop(store, box_file(ONE), ONE.to_bytes())
    assert evaluations_in_boxes(store) == [(good, ONE)]
    assert sorted(path.name for path in store.paths.inbox.rglob("eval-*")) == [good.name]


def test_a_flood_in_a_box_is_read_a_handful_at_a_time(tmp_path):
    store = Store(SharedPaths(tmp_path))
    for number in range(1, 40):
        one = dataclasses.replace(ONE, sequence=number)
        drop(store, box_file(one), one.to_bytes())
    found = evaluations_in_boxes(store)
    assert [one.sequence for _, one in found] == list(range(1, BOX_EVALUATIONS + 1))
