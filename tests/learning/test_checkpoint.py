import errno
import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from Daddy.cluster.orchestrator.read_slots import newest_checkpoint
from Daddy.core.errors import FileError
from Daddy.learning.checkpoint import (
    Checkpoint,
    FencedError,
    bytes_to_tensor,
    checkpoints_to_delete,
    list_manifests,
    load_newest,
    save_checkpoint,
    tensor_to_bytes,
)


def checkpoint(step, term=1):
    tensors = {"policy.w": torch.full((3, 2), float(step)), "random": torch.arange(4)}
    return Checkpoint(term, step, tensors, {"env_steps": step, "ratio": 0.1 + 0.2})


def test_what_is_loaded_is_what_was_saved(tmp_path):
    save_checkpoint(tmp_path, checkpoint(5), 3)
    found = load_newest(tmp_path)
    assert found.checkpoint.step == 5
    assert found.checkpoint.facts == {"env_steps": 5, "ratio": 0.1 + 0.2}
    assert torch.equal(found.checkpoint.tensors["policy.w"], torch.full((3, 2), 5.0))
    assert found.checkpoint.tensors["random"].dtype == torch.int64
    assert found.refused == ()


def test_a_second_one_of_a_step_comes_after_the_first_and_leaves_it_whole(tmp_path):
    save_checkpoint(tmp_path, checkpoint(5), 3)
    first = {path: path.read_bytes() for path in tmp_path.iterdir()}
    later = replace(checkpoint(5), facts={"offered": 1})
    second = save_checkpoint(tmp_path, later, 3)
    assert load_newest(tmp_path).checkpoint.facts == {"offered": 1}
    assert {path: path.read_bytes() for path in first} == first, "a kill here would tear neither"
    second.with_suffix(".safetensors").write_bytes(b"torn")
    assert load_newest(tmp_path).checkpoint.facts == checkpoint(5).facts
    assert newest_checkpoint(tmp_path) == (1, 5)  # as the controller reads it


def test_a_slot_without_checkpoints_begins_anew(tmp_path):
    assert load_newest(tmp_path) is None
    assert load_newest(tmp_path / "never made") is None


def test_what_a_zombie_of_an_older_term_would_write_is_refused(tmp_path):
    save_checkpoint(tmp_path, checkpoint(100, term=2), 9)
    with pytest.raises(FencedError, match="term 1"):
        save_checkpoint(tmp_path, checkpoint(900, term=1), 9)
    assert load_newest(tmp_path).checkpoint.step == 100
    assert len(list(tmp_path.iterdir())) == 2


def test_the_newest_is_of_the_newest_term_whatever_a_zombie_wrote(tmp_path):
    save_checkpoint(tmp_path, checkpoint(900, term=1), 9)
    save_checkpoint(tmp_path, checkpoint(100, term=2), 9)
    assert load_newest(tmp_path).checkpoint.step == 100


@pytest.mark.parametrize("damage", ["truncated", "flipped", "missing", "manifest"])
def test_a_damaged_checkpoint_falls_back_to_the_one_before_and_says_so(tmp_path, damage):
    save_checkpoint(tmp_path, checkpoint(1), 9)
    manifest = save_checkpoint(tmp_path, checkpoint(2), 9)
    blob = manifest.with_suffix(".safetensors")
    data = blob.read_bytes()
    if damage == "truncated":
        blob.write_bytes(data[:-7])
    elif damage == "flipped":
        blob.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    elif damage == "missing":
        blob.unlink()
    else:
        manifest.write_bytes(manifest.read_bytes()[:20])
    found = load_newest(tmp_path)
    assert found.checkpoint.step == 1
    assert len(found.refused) == 1
    assert "s000000000002" in found.refused[0]


@pytest.mark.parametrize(("number", "steps"), [(errno.ESTALE, None), (errno.EIO, 1)])
def test_a_disk_in_trouble_is_no_reason_to_go_back_but_a_bad_sector_is(
    tmp_path, monkeypatch, number, steps
):
    save_checkpoint(tmp_path, checkpoint(1), 9)
    newest, real = save_checkpoint(tmp_path, checkpoint(2), 9), os.open

    def failing(path, *rest):
        if path == newest.with_suffix(".safetensors"):
            raise OSError(number, os.strerror(number), str(path))
        return real(path, *rest)

    monkeypatch.setattr(os, "open", failing)
    if steps is None:
        with pytest.raises(FileError, match=os.strerror(number)):
            load_newest(tmp_path)
    else:
        assert load_newest(tmp_path).checkpoint.step == steps
    monkeypatch.undo()
    assert load_newest(tmp_path).checkpoint.step == (steps or 2)


def test_a_damaged_checkpoint_is_kept_for_a_look_and_judged_once(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1), 9)
    manifest = save_checkpoint(tmp_path, checkpoint(2), 9)
    manifest.with_suffix(".safetensors").write_bytes(b"short")
    load_newest(tmp_path)
    assert manifest.with_suffix(".json.broken").exists()
    assert manifest.with_suffix(".safetensors").read_bytes() == b"short"
    assert load_newest(tmp_path).refused == ()


def test_when_all_are_damaged_nothing_is_touched_and_the_error_says_what_to_do(tmp_path):
    for step in (1, 2):
        save_checkpoint(tmp_path, checkpoint(step), 9).with_suffix(".safetensors").write_bytes(b"")
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(FileError, match="none of the 2 checkpoints") as caught:
        load_newest(tmp_path)
    assert caught.value.exit_code == 9
    assert "backup" in caught.value.fix
    assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_newer_format_is_refused_by_name(tmp_path):
    manifest = save_checkpoint(tmp_path, checkpoint(1), 9)
    record = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**record, "v": 2}))
    with pytest.raises(FileError, match="format 2"):
        load_newest(tmp_path)


def test_a_blob_without_manifest_was_never_committed(tmp_path):
    save_checkpoint(tmp_path, checkpoint(1), 9)
    (tmp_path / "t000001-s000000000002.safetensors").write_bytes(b"torn by a kill")
    assert load_newest(tmp_path).checkpoint.step == 1


def test_the_newest_are_kept_and_the_rest_goes(tmp_path):
    for step in range(1, 8):
        save_checkpoint(tmp_path, checkpoint(step), 3)
    assert [path.name[-6:] for path in list_manifests(tmp_path)] == ["7.json", "6.json", "5.json"]
    assert len(list(tmp_path.glob("*.safetensors"))) == 3
    assert load_newest(tmp_path).checkpoint.step == 7


def test_bytes_survive_as_tensors():
    for data in (b"", b"\x00", bytes(range(256))):
        assert tensor_to_bytes(bytes_to_tensor(data)) == data


def test_of_older_ones_the_first_of_every_hour_is_kept_for_some_hours():
    minutes = range(600, 0, -5)  # ten hours of one every five minutes, the newest first
    stamped = [(Path(f"m{minute:04d}"), 60.0 * minute) for minute in minutes]
    gone = set(checkpoints_to_delete(stamped, max_keep=3, keep_hours=4))
    kept = [path.name for path, _ in stamped if path not in gone]
    assert kept == ["m0600", "m0595", "m0590", "m0540", "m0480", "m0420", "m0360"]
    assert len(checkpoints_to_delete(stamped, max_keep=3, keep_hours=0)) == len(stamped) - 3


def test_retention_goes_on_well_when_it_is_applied_after_every_checkpoint():
    """Retention is applied repeatedly, as in a run: a deleted checkpoint cannot come back."""
    held: list[tuple[Path, float]] = []
    for minute in range(0, 600, 5):
        held.insert(0, (Path(f"m{minute:04d}"), 60.0 * minute))
        gone = set(checkpoints_to_delete(held, max_keep=3, keep_hours=4))
        held = [entry for entry in held if entry[0] not in gone]
    ages = [(600 - stamp / 60.0) / 60.0 for _, stamp in held]
    assert len(held) == 7
    assert max(ages) >= 3.9
    assert checkpoints_to_delete([], 3, 4) == []
