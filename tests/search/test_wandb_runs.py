"""Trials as runs of W&B, with the real package; no test reaches W&B."""

import json
import os
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.metadata import PackageNotFoundError

import pytest

from Daddy import sweep_node
from Daddy.core.errors import ConfigError, ExitCode, ExtraMissingError
from Daddy.search import wandb_runs
from Daddy.search.study import read_study
from Daddy.search.study_plan import Trial
from Daddy.search.trial_rules import Training, Verdict
from Daddy.search.wandb_runs import MOST_POINTS, WandbRuns, check_wandb
from tests.patience import PATIENCE_S

KEY = "0123456789" * 4
PROJECT = {"id": "p", "name": "daddy", "entity": {"id": "e", "name": "me"}}
BUCKET = {"id": "x", "name": "test.r.1", "historyLineCount": 0, "project": PROJECT}
ANSWER = {
    "upsertBucket": {"bucket": BUCKET, "inserted": True},
    "createRunFiles": {"runID": "x", "uploadHeaders": [], "files": []},
}
"""W&B's answer to all that an upload asks."""


def records_of(path):
    """Return the records of a run's file: a log in blocks of 32 KiB, after 7 bytes of its own."""
    from wandb.proto.wandb_internal_pb2 import Record

    data, at, record, found = path.read_bytes(), 7, b"", []
    while at < len(data):
        if (left := 32_768 - at % 32_768) < 7:
            at += left
            continue
        size, kind = int.from_bytes(data[at + 4 : at + 6], "little"), data[at + 6]
        record += data[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in {1, 4}:  # a whole record, or its last part
            found.append(Record.FromString(record))
            record = b""
    return found


def items_of(items):
    named = {each.key or each.nested_key[0]: json.loads(each.value_json) for each in items}
    return {name: value for name, value in named.items() if name[0] != "_"}


def read_run(path):
    """Return a run's id, name, group, config, summary and history."""
    summary, history = {}, []
    for record in records_of(path):
        match record.WhichOneof("record_type"):
            case "run":
                run = record.run
            case "summary":
                summary |= items_of(record.summary.update)
            case "history":
                row = items_of(record.history.item)
                history.append((row["steps"], row["return"]))
    config = items_of(run.config.update)
    return (run.run_id, run.display_name, run.run_group), config, summary, history


def runs_of(sweep):
    """Return the files of the runs of a sweep, by trial."""
    return sorted(sweep.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.name)


def test_each_trial_of_a_sweep_is_a_run(tmp_path):
    words = (
        "run=test",
        "+hardware=cpu",
        "trainer.total_timesteps=50",
        "--max-rollouts=2",
        "--jobs=2",
    )
    home, argv = {"HOME": str(tmp_path)}, [sys.executable, "-m", "Daddy.sweep_node", *words]
    done = subprocess.run(
        [*argv, "--wandb=offline"], cwd=tmp_path, env={**os.environ, **home}, text=True,
        stdout=-1, stderr=-2, timeout=PATIENCE_S, check=False,
    )  # fmt: skip
    assert done.returncode == ExitCode.DONE, done.stdout
    assert "wandb" not in done.stdout
    sweep = tmp_path / "runs/sweeps/test"
    assert [each.name for each in tmp_path.iterdir()] == ["runs"]
    for trial, path in zip(read_study(sweep / "study.jsonl")[1], runs_of(sweep), strict=True):
        names, config, summary, history = read_run(path)
        assert names == (trial.run_id, trial.run_id, "test")
        assert config == trial.settings
        assert (summary["score"], summary["cost"]) == trial.values
        assert summary["state"] == "complete"
        assert "episodes" in summary["reason"]
        assert history


class StandIn(BaseHTTPRequestHandler):
    """Takes the uploads of a run, as W&B does."""

    def do_POST(self):
        self.server.taken += self.rfile.read(int(self.headers["Content-Length"]))
        answer = json.dumps({"data": ANSWER}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_):
        pass


@pytest.fixture
def server():
    with ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        server.taken = b""
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_trial_that_ends_twice_is_one_run_and_an_outage_is_told_once(
    tmp_path, monkeypatch, server
):
    said, trial = [], Trial(0, "test.r.1", {"training.gamma": 0.9}, "running")
    environ = {
        **os.environ,
        "WANDB_API_KEY": KEY,
        "WANDB_BASE_URL": f"http://127.0.0.1:{server.server_port}",
    }
    runs, episodes = WandbRuns(tmp_path, "online", environ, said.append), range(3 * MOST_POINTS)
    monkeypatch.setattr(wandb_runs, "_WRITE_S", PATIENCE_S)
    monkeypatch.setattr(wandb_runs, "_UPLOAD_S", PATIENCE_S)
    runs.record(trial, Training([(1, 7.5)], 1, 0.5), Verdict("failed", "exit code 7"))
    assert said == []
    assert b"wandb-history.jsonl" in server.taken
    server.shutdown()
    server.server_close()
    monkeypatch.setattr(wandb_runs, "_UPLOAD_S", 1.0)
    pruned = Verdict("pruned", "its score is low")
    runs.record(trial, Training([(step, step) for step in episodes], 3000, 1.5), pruned)
    (path,) = runs_of(tmp_path)
    _, config, summary, history = read_run(path)
    assert config == trial.settings
    ended = {"state": "pruned", "reason": "its score is low", "steps": 3000, "cost": 1.5}
    assert {key: summary.get(key) for key in ended} == ended
    assert "score" not in summary
    assert (len(history), history[0], history[-1]) == (MOST_POINTS, (2, 1.0), (2999, 2998.0))
    assert [line.partition(" … ")[0] for line in said] == [
        f"warning: --wandb: test.r.1: {sys.executable} -m wandb"
    ]
    assert "gave no answer within 1 s; later: wandb sync" in said[0]
    kept = b"".join(each.read_bytes() for each in tmp_path.rglob("*") if each.is_file())
    assert KEY.encode() not in kept


@pytest.mark.parametrize("logins", ["machine example.org login a password b", "nonsense", None])
def test_online_without_a_key_is_refused_before_anything_starts(tmp_path, monkeypatch, logins):
    monkeypatch.setattr(wandb_runs, "version", lambda name: "0.31.0")
    for name in ("WANDB_API_KEY", "WANDB_BASE_URL", "NETRC", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    if logins:
        (tmp_path / ".netrc").write_text(logins)
    words = ["run=test", "--wandb=online", f"--run-dir={tmp_path}/runs"]
    with pytest.raises(ConfigError, match="WANDB_API_KEY") as caught:
        sweep_node.main(words)
    assert caught.value.exit_code == 3
    assert "--wandb offline" in caught.value.fix
    assert not (tmp_path / "runs").exists()
    (tmp_path / ".netrc").write_text(f"machine api.wandb.ai login user password {KEY}")
    check_wandb("online", os.environ)


def test_without_the_extra_it_is_refused(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(wandb_runs, "version", missing)
    with pytest.raises(ExtraMissingError, match="wandb") as caught:
        check_wandb("offline", {})
    assert "[wandb]" in caught.value.fix
