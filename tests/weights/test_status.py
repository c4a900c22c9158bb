"""The state of shared weights on one screen: newest version, peers, pending, refusals."""

import io
import json
import os
import shutil
from types import SimpleNamespace

import pytest
from rich.console import Console

from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.run_paths import RunPaths
from Daddy.core.shared_weights_paths import SharedPaths
from Daddy.weights import status
from Daddy.weights import weights_status_record as report_module
from Daddy.weights.exchange_settings import SILENCE_S
from Daddy.weights.status import MOST_PEERS, render_status
from Daddy.weights.weights_status_record import folder_usage, report_run
from tests.weights.helpers import ManualClock
from tests.weights.lineage_run import LineageRun, everything_below


@pytest.fixture
def run(tmp_path):
    run = LineageRun(tmp_path)
    run.play(4)
    return run


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    run = LineageRun(tmp_path_factory.mktemp("made"))
    run.play(4)
    return run


@pytest.fixture
def still(made, tmp_path):
    """A separate run to read and damage, in which no process is active."""
    copy = RunPaths(tmp_path / "still")
    shutil.copytree(made.run.root, copy.root)
    return SimpleNamespace(run=copy, shared=copy.shared_weights, clock=ManualClock(made.clock.time))


def read(run) -> dict:
    return report_run(SharedPaths(run.shared), run.clock.now())


def screen(capsys, *typed) -> str:
    run_entry(status.main, [str(entry) for entry in typed])
    return capsys.readouterr().out


def of(report, peer) -> dict:
    (item,) = [entry for entry in report["peers"] if entry["peer"] == peer]
    return item


def test_the_record_tells_the_newest_version_its_age_its_proof_and_the_rate(still):
    still.clock.pass_by(90)
    report = read(still)
    record = json.loads(SharedPaths(still.shared).version(report["version"]).read_text())
    assert report["version"] == report["readable"] > 2
    assert report["age_s"] == pytest.approx(still.clock.now() - record["ts"], abs=0.2)
    assert report["fleet_steps"] == record["fleet_steps"]
    assert report["verified"]
    first = json.loads(SharedPaths(still.shared).version(0).read_text())
    hours = (record["ts"] - first["ts"]) / 3600
    assert report["versions_per_hour"] == pytest.approx(report["version"] / hours, rel=0.01)
    assert report["flaws"] == []


def test_who_beats_lives_who_said_goodbye_left_and_who_stands_still_is_silent(run):
    run.peers["slot-1"].exchange.leave_fleet("wall time")
    beat = next(run.shared.glob("peers/slot-2/*/hb.json"))
    now = beat.stat().st_mtime
    os.utime(beat, (now - SILENCE_S - 5, now - SILENCE_S - 5))
    report = report_run(SharedPaths(run.shared), now)
    assert {entry["peer"]: entry["state"] for entry in report["peers"]} == {
        "slot-0": "lives",
        "slot-1": "left",
        "slot-2": "silent",
    }
    assert of(report, "slot-2")["beat_s"] == pytest.approx(SILENCE_S + 5, abs=1)


def test_of_a_peers_processes_the_newest_counts(run):
    for path in run.shared.glob("peers/slot-0/*/hb.json"):
        os.utime(path, (1.0, 1.0))  # its predecessor was killed long ago
    successor = run._job(0)
    successor.exchange.adopt(successor.weights)
    now = max(path.stat().st_mtime for path in run.shared.glob("peers/slot-0/*/hb.json"))
    assert of(report_run(SharedPaths(run.shared), now), "slot-0")["state"] == "lives"


def test_a_laptop_is_known_by_what_it_did_and_one_that_was_only_refused_too(run):
    run.contribute("anna-mac", scale=0.02)
    run.contribute("bert-pc", bad=True)
    run.play(2)
    report = read(run)
    assert of(report, "anna-mac")["state"] == "laptop"
    assert of(report, "anna-mac")["steps"] == 200
    assert 0 < of(report, "anna-mac")["share"] < 0.2
    assert of(report, "bert-pc")["refused"] == 1
    (refused,) = report["refused"]
    assert refused["peer"] == "bert-pc"
    assert "truncated" in refused["reason"]


def test_pending_contributions_and_what_lies_in_the_boxes_are_counted_and_left_alone(run):
    run.contribute("anna-mac", scale=0.02)
    peer = run.peers["slot-0"]
    peer.learn(99, steps=300)
    with run.shut_lease():  # nobody merges it
        peer.publish()
    before = everything_below(run.root)
    report = read(run)
    pending = {each["peer"]: each for each in report["pending"]}
    assert pending["slot-0"]["env_steps"] == 300
    assert pending["slot-0"]["base_version"] == peer.version
    (box,) = report["inbox"]
    assert (box["peer"], box["waiting"]) == ("anna-mac", 1)
    sizes = [path.stat().st_size for path in run.shared.glob("inbox/anna-mac/*")]
    assert box["bytes"] == sum(sizes) > 0
    assert everything_below(run.root) == before


def test_the_screen_says_it_in_words(run, capsys):
    run.contribute("bert-pc", bad=True)
    run.play(1)
    said = screen(capsys, run.run.root)
    report = read(run)
    assert f"● test: v{report['version']}, merged" in said
    assert "3 jobs at work" in said
    assert "its file has the right hash" in said
    assert "bert-pc/1: the file has" in said
    assert "(offered again)" in said
    assert len(said.splitlines()) <= 24


def test_nobody_at_work_is_said(run, capsys):
    for peer in run.peers.values():
        peer.exchange.leave_fleet("done")
    assert "nobody is at work" in screen(capsys, run.run.root)


def test_a_state_that_does_not_verify_is_a_flaw_with_exit_code_six(still, capsys):
    newest = read(still)
    record = json.loads(SharedPaths(still.shared).version(newest["version"]).read_text())
    blob = SharedPaths(still.shared).blob(record["state"])
    blob.chmod(0o644)
    blob.write_bytes(blob.read_bytes()[:-1])
    assert run_entry(status.main, [str(still.run.root)]) == ExitCode.WEIGHTS
    verdict, flaw, *_ = capsys.readouterr().out.splitlines()
    assert verdict.startswith("◐")
    assert flaw.strip().startswith("passed over:")
    assert blob.name in flaw
    assert "do not have the hash in its name" in flaw  # on one line, however long


def test_a_torn_newest_record_leaves_the_one_before_it_to_be_told(still, capsys):
    newest = read(still)["version"]
    SharedPaths(still.shared).version(newest + 1).write_text("{ torn")
    assert run_entry(status.main, [str(still.run.root), "--json"]) == ExitCode.WEIGHTS
    report = json.loads(capsys.readouterr().out)
    assert (report["version"], report["readable"]) == (newest, newest)
    assert f"v{newest + 1:08d}.json" in report["flaws"][0]
    assert report["exit_code"] == ExitCode.WEIGHTS


@pytest.mark.parametrize("lost", ["RUN.json", "peers", "inbox", "wan", "lease", "blobs"])
def test_what_is_not_there_stops_nothing(still, capsys, lost):
    path = still.shared / lost
    shutil.rmtree(path) if path.is_dir() else path.unlink()
    code = run_entry(status.main, [str(still.run.root)])
    said = capsys.readouterr()
    assert said.err == ""
    assert f"v{read(still)['version']}" in said.out
    assert code == (ExitCode.WEIGHTS if lost in ("RUN.json", "blobs") else ExitCode.DONE)


def test_a_lost_record_in_the_middle_is_told_once(still):
    lost = SharedPaths(still.shared).version(read(still)["version"] - 1)
    lost.unlink()
    assert read(still)["flaws"] == [f"{lost} is missing"]


def test_only_late_versions_are_read(still, monkeypatch):
    monkeypatch.setattr(report_module, "RECENT", 2)
    SharedPaths(still.shared).version(1).unlink()
    report = read(still)
    assert report["version"] > 2
    assert report["flaws"] == []


def test_a_laptops_folder_tells_its_version_its_receipts_and_its_outbox(run, capsys):
    local = run.laptop("bert-pc")
    run.contribute("bert-pc", bad=True)
    run.play(1)
    exchange, weights, _ = run.laptops["bert-pc"]
    exchange.publish({name: tensor + 1 if tensor.is_floating_point() else tensor
                      for name, tensor in weights.items()}, 9000, 900)  # fmt: skip
    assert run_entry(status.main, [str(local), "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["kind"] == "laptop"
    assert report["version"] == read(run)["version"]
    assert (report["outbox"], report["accepted"], len(report["refused"])) == (1, 0, 1)
    said = screen(capsys, local)
    assert "1 to push" in said
    assert "0 counted, 1 refused" in said


def test_a_laptop_that_pulled_nothing_yet_has_lost_nothing(tmp_path, capsys):
    (tmp_path / "outbox").mkdir()
    assert run_entry(status.main, [str(tmp_path)]) == ExitCode.DONE
    assert capsys.readouterr().out.startswith(f"● {tmp_path}: no version was pulled yet")


def test_a_damaged_pull_is_told_by_name(still, capsys, tmp_path):
    local = tmp_path / "pulled"
    shutil.copytree(still.shared / "wan", local / "wan")
    newest = json.loads((local / "wan" / "HEAD.json").read_text())
    (local / "wan" / newest["name"]).chmod(0o644)
    (local / "wan" / newest["name"]).write_bytes(b"short")
    assert run_entry(status.main, [str(local)]) == ExitCode.WEIGHTS
    assert f"{newest['name']} has 5 of {newest['size']} bytes" in capsys.readouterr().out


def test_more_peers_than_a_screen_has_room_for_are_counted(still):
    report = read(still)
    many = [{**report["peers"][0], "peer": f"friend-{number}"} for number in range(40)]
    console = Console(width=160, file=io.StringIO())
    console.print(render_status({**report, "peers": many}, still.clock.now()))
    assert f"and {40 - MOST_PEERS} more" in console.file.getvalue()


def test_the_disk_is_what_the_files_add_up_to(still):
    told = folder_usage(still.shared)
    whole = sum(path.stat().st_size for path in still.shared.rglob("*") if path.is_file())
    assert sum(message["bytes"] for message in told.values()) == whole
    assert told["blobs"]["files"] == len(list(still.shared.glob("blobs/*/*")))


@pytest.mark.parametrize("width", [40, 60, 80, 120])
def test_a_narrow_screen_has_fewer_columns_and_whole_numbers(made, width):
    report = read(made)
    for peer in report["peers"]:
        peer["steps"] = 123_456_789
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as text:
        console.print(render_status(report, made.clock.now(), width))
    shown = text.get().splitlines()
    rows = [
        line for line in shown for peer in report["peers"] if line.startswith(f"  {peer['peer']} ")
    ]
    assert len(rows) == len(report["peers"])
    assert max(len(row.rstrip()) for row in rows) <= width
    assert all("…" not in row for row in rows)
    assert all("123,456,789" in row for row in rows)
