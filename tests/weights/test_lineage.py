"""The log of versions: shares, refusals with reasons, adoptions; as text and as a picture."""

import dataclasses
import json
import shutil
import threading

import matplotlib.image
import numpy as np
import pytest

from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import log, status
from Daddy.weights.lineage_plot import LAPTOPS
from Daddy.weights.store.weight_records import Refusal
from Daddy.weights.store.weight_store import Store
from tests.weights.lineage_run import LineageRun, everything_below


@pytest.fixture(scope="module")
def told(tmp_path_factory):
    """A run with three jobs, one of them slow, and laptops with good, truncated and huge deltas."""
    run = LineageRun(tmp_path_factory.mktemp("told"))
    for number in range(8):
        run.play(1, kl=number >= 4)
        run.contribute("anna-mac", scale=0.02)
        if number == 4:
            run.contribute("bert-pc", scale=0.02, bad=True)
            run.contribute("mallory", scale=50.0)
    run.poison(1)
    run.play(2, kl=True)
    return run


@pytest.fixture
def copied(told, tmp_path):
    shutil.copytree(told.run.root, tmp_path / "run")
    return tmp_path / "run"


def said(capsys, *typed) -> tuple[int, list[str]]:
    code = run_entry(log.main, [str(entry) for entry in typed])
    return code, capsys.readouterr().out.splitlines()


def as_json(capsys, *typed) -> list[dict]:
    return [json.loads(line) for line in said(capsys, *typed, "--json")[1]]


def test_there_is_a_line_per_version_newest_last_with_everybody_who_moved_it(told, capsys):
    code, (_, *rows) = said(capsys, told.run.root)
    assert code == 0
    numbers = [int(row.split()[0].removeprefix("v")) for row in rows]
    assert numbers == list(range(len(rows)))
    assert len(rows) > 6
    assert "slot-0/" in rows[0]  # who began
    for row, step in zip(rows, as_json(capsys, told.run.root), strict=True):
        assert all(entry["peer"] in row for entry in step["parts"])
        assert f"{step['fleet_steps']:,}" in row


def test_a_narrow_terminal_gets_fewer_columns_and_whole_numbers(told, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "60")
    _, (heading, *rows) = said(capsys, told.run.root)
    assert heading.split()[:2] == ["version", "steps"] or "merged" in heading
    assert "KL" not in heading
    assert len(heading) <= 60
    for row, step in zip(rows, as_json(capsys, told.run.root), strict=True):
        assert f"{step['fleet_steps']:,}" in row[: len(heading)]


def test_shares_and_totals_are_those_of_the_commit_records(told, capsys):
    steps = as_json(capsys, told.run.root)
    paths = SharedPaths(told.shared)
    for step in steps:
        record = json.loads(paths.version(step["version"]).read_text())
        shares = [(entry["peer"], entry["share"], entry["staleness"]) for entry in record["inputs"]]
        assert [(p["peer"], p["share"], p["staleness"]) for p in step["parts"]] == shares
        assert step["totals"] == record["contributors"]
    assert steps[-1]["totals"]["anna-mac"] > 0


def test_every_refusal_is_there_with_its_reason_and_what_becomes_of_the_work(told, capsys):
    lines = "\n".join(said(capsys, told.run.root)[1])
    assert "bert-pc/1: the file has" in lines
    assert "(truncated?) (offered again)" in lines
    assert "mallory/1: its norm" in lines
    assert "it holds values that are not finite (dropped)" in lines


def test_a_kl_is_told_where_a_learner_recorded_one_and_a_dash_where_none_did(told, capsys):
    steps = as_json(capsys, told.run.root)
    told_kl = [any(entry["kl"] is not None for entry in step["adopted"]) for step in steps]
    assert {True, False} <= set(told_kl)
    _, (heading, *rows) = said(capsys, told.run.root)
    column = heading.index("KL")
    for row, has in zip(rows, told_kl, strict=True):
        assert (row[column:].split()[0] != "-") == has


def test_hostile_or_half_written_events_are_passed_over(copied, capsys):
    before = as_json(capsys, copied)
    lines = ['{"v":1,"adopted"', '{"v":1,"data":{"state":"adopted","version":"x"}}',
             '{"v":1,"data":{"state":"adopted","version":1,"kl":"NaN"},"source":7,"ts":null}',
             '{"v":1,"data":["adopted"]}']  # fmt: skip
    (copied / "events" / "learner-odd-0.jsonl").write_text("\n".join(lines))
    after = as_json(capsys, copied)
    assert len(after[1]["adopted"]) == len(before[1]["adopted"]) + 1
    assert after[2:] == before[2:]


def test_the_limit_keeps_the_newest(told, capsys):
    everything = as_json(capsys, told.run.root)
    assert as_json(capsys, told.run.root, "--limit", 3) == everything[-3:]
    pulled = as_json(capsys, told.root / "anna-mac")
    assert as_json(capsys, told.root / "anna-mac", "--limit", 2) == pulled[-2:]
    assert len(pulled) > 2


@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_a_limit_that_is_no_number_from_one_on_is_a_usage_error(told, capsys, count):
    with pytest.raises(SystemExit) as left:
        log.main([str(told.run.root), "--limit", count])
    assert left.value.code == ExitCode.USAGE
    assert "is not a whole number from 1 " in capsys.readouterr().err


def test_a_picture_that_is_no_png_is_a_usage_error_before_anything_is_read(tmp_path, capsys):
    typed = [str(tmp_path / "nowhere"), "--picture", "a.jpg"]
    assert run_entry(log.main, typed) == ExitCode.USAGE
    assert "a.jpg is no name of a PNG" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["torn", "gone", "another's number"])
def test_a_damaged_record_is_passed_over_by_name_and_the_others_are_told(copied, capsys, damage):
    path = SharedPaths(copied / "shared_weights").version(3)
    other = SharedPaths(copied / "shared_weights").version(4).read_bytes()
    path.unlink()
    if damage != "gone":
        path.write_bytes(b"{ torn" if damage == "torn" else other)
    code = run_entry(log.main, [str(copied)])
    shown = capsys.readouterr()
    assert code == ExitCode.WEIGHTS
    (row,) = [line for line in shown.out.splitlines() if line.startswith("v3 ")]
    assert "v3" in row
    assert "passed over" in row
    assert "v00000003.json" in row
    assert "v00000003.json" in shown.err
    assert any(line.startswith("v4 ") and "slot-" in line for line in shown.out.splitlines())


def test_a_record_that_was_changed_breaks_the_chain_and_is_named(copied, capsys):
    path = SharedPaths(copied / "shared_weights").version(2)
    changed = path.read_text().replace('"fleet_steps": ', '"fleet_steps": 9')
    path.chmod(0o644)
    path.write_text(changed)
    code = run_entry(log.main, [str(copied)])
    assert code == ExitCode.WEIGHTS
    assert "v00000003.json names another parent" in capsys.readouterr().err


def test_a_laptop_sees_what_became_of_its_own_work(told, capsys):
    code, (_, *rows) = said(capsys, told.root / "mallory")
    assert code == 0
    assert any("mallory/1: its norm" in row for row in rows)
    assert not any("slot-" in row or "anna" in row for row in rows)
    newest = as_json(capsys, told.run.root)[-1]
    assert rows[-1].startswith(f"v{newest['version']} ")
    assert f"{newest['fleet_steps']:,}" in rows[-1]


@pytest.mark.parametrize("entry", [log, status])
def test_an_empty_or_missing_folder_is_said_with_what_to_do(tmp_path, capsys, entry):
    for folder, what in ((tmp_path, "holds no shared weights yet"),
                         (tmp_path / "nowhere", "does not exist")):  # fmt: skip
        assert run_entry(entry.main, [str(folder)]) == ExitCode.WEIGHTS
        error = capsys.readouterr().err
        assert f"{folder} {what}" in error
        assert "what to do: name a run" in error


@pytest.mark.parametrize("entry", [log, status])
def test_the_run_of_the_configuration_is_meant_when_none_is_named(told, capsys, entry):
    assert run_entry(entry.main, ["--run-dir", str(told.run.root)]) == 0
    assert "slot-0" in capsys.readouterr().out


def test_a_run_that_keeps_its_weights_elsewhere_says_so_in_its_config(told, tmp_path, capsys):
    from Daddy.core.load_config import config_to_json, load_config

    elsewhere = {"run_dir": str(tmp_path), "collaboration.shared_dir": str(told.shared)}
    (tmp_path / "config.json").write_bytes(config_to_json(load_config(overrides=elsewhere)))
    assert as_json(capsys, tmp_path)[-1]["parts"]


def test_looking_changes_nothing_not_even_what_is_wrong(copied, capsys):
    """A laptop's faulty file stays for the merger, and a read-only copy is enough."""
    odd = copied / "shared_weights" / "inbox" / "anna-mac" / "x.json"
    odd.parent.mkdir(parents=True, exist_ok=True)
    odd.write_text("{}")
    before = everything_below(copied)
    for entry in (log, status):
        for how in ([], ["--json"]):
            run_entry(entry.main, [str(copied), *how])
    assert everything_below(copied) == before


def test_both_work_while_the_run_goes_on(tmp_path, capsys):
    run = LineageRun(tmp_path)
    run.play(1)
    training = threading.Thread(target=run.play, args=(25,))
    training.start()
    seen = []
    while training.is_alive():
        seen.append(as_json(capsys, run.run.root)[-1]["version"])
        assert run_entry(status.main, [str(run.run.root), "--json"]) == 0
        capsys.readouterr()
    training.join()
    assert seen == sorted(seen)
    assert as_json(capsys, run.run.root)[-1]["version"] >= 25


def colours_in(path) -> set[tuple[int, int, int]]:
    pixels = (matplotlib.image.imread(path)[:, :, :3] * 255).round().astype(int).reshape(-1, 3)
    return {tuple(entry) for entry in np.unique(pixels, axis=0)}


def test_the_picture_shows_those_who_were_there(told, tmp_path, capsys):
    alone = LineageRun(tmp_path / "alone", jobs=2)
    alone.play(4)
    laptop = tuple(int(LAPTOPS[0][place : place + 2], 16) for place in (1, 3, 5))
    found = {}
    for name, run in (("told", told), ("alone", alone)):
        path = tmp_path / f"{name}.png"
        assert said(capsys, run.run.root, "--picture", path) == (0, [str(path)])
        found[name] = colours_in(path)
    assert laptop in found["told"]
    assert laptop not in found["alone"]


def test_a_picture_of_a_damaged_chain_and_of_a_laptops_folder_is_drawn_too(copied, told, tmp_path):
    SharedPaths(copied / "shared_weights").version(3).unlink()
    picture = str(tmp_path / "x.png")
    assert run_entry(log.main, [str(copied), "--picture", picture]) == ExitCode.WEIGHTS
    assert matplotlib.image.imread(picture).shape[0] > 500
    assert run_entry(log.main, [str(told.root / "anna-mac"), "--picture", picture]) == 0
    assert matplotlib.image.imread(picture).shape[0] < 700  # what nobody told is left out


def test_what_a_stranger_wrote_commands_neither_the_terminal_nor_the_picture(tmp_path, capsys):
    run = LineageRun(tmp_path, jobs=2)
    run.play(1)
    store = Store(SharedPaths(run.shared))
    head = store.version(store.newest())
    evil = "belongs to run \x1b[2J\nv99 [/b] $\\frac{$ all is well"  # of the release before
    refusal = Refusal("mallory", "0a" * 4, 1, "values", evil)
    record = head.next_record(version=head.version + 1, base=head.version, refused=(refusal,))
    assert store.commit(dataclasses.replace(record, parent=store.record_hash(head.version)))
    run.play(2)
    for entry in (log, status):
        assert run_entry(entry.main, [str(run.run.root)]) == 0
        shown = capsys.readouterr().out
        assert "belongs to run ?[2J?v99" in shown
        assert "\x1b" not in shown
    assert run_entry(log.main, [str(run.run.root), "--picture", str(tmp_path / "x.png")]) == 0
