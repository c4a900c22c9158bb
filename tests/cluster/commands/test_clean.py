"""``clean``: shown first, removed when told so, and nothing that is needed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.clean import clean
from Daddy.cluster.orchestrator.commands.request import Request
from Daddy.cluster.orchestrator.history import Entry
from Daddy.cluster.orchestrator.intent import Intent, write_intent
from Daddy.cluster.orchestrator.ledger import LedgerFile
from Daddy.cluster.orchestrator.records import Mode
from Daddy.core.lease import Lease
from Daddy.core.paths import RunPaths

OLD_S = 1_600_000_000.0


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """A run whose job 17 lives; 16 ended long ago."""
    run = RunPaths(tmp_path / "run")
    write_intent(run, Intent(Mode.RUN, 1, "local", "wanted", "x"), 0.0)
    ledger = LedgerFile(run.ledger, 1)
    for number, token in ((1, "00000000000a"), (2, "00000000000b")):
        ledger.append(Entry("intent", 1.0, token, {"number": number, "release": "old"}))
        ledger.append(Entry("submitted", 1.0, token, {"job_id": 15 + number}))
    ended = {"outcome": "drained", "reason": "wall time", "exit_code": 10}
    ledger.append(Entry("ended", 2.0, "00000000000a", ended))
    Lease.claim(run.controller_lease, {"host": "elsewhere", "release": "controllers"})
    for name in (
        "logs/slurm-16.out",
        "logs/slurm-17.out",
        "logs/controller.log",
        "scripts/attempt-1.sbatch",
        "scripts/attempt-2.sbatch",
        "events/learner-slot-0-ab.jsonl",
        "releases/old/config.json",
        "releases/wanted/config.json",
        "releases/controllers/config.json",
        "releases/forgotten/Daddy/x.py",
    ):
        path = run.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("x" * 1000)
        os.utime(path, (OLD_S, OLD_S))
    for folder in run.releases.iterdir():
        os.utime(folder, (OLD_S, OLD_S))
    return run


def files(run: RunPaths) -> set[str]:
    return {str(path.relative_to(run.root)) for path in run.root.rglob("*") if path.is_file()}


def cleaned(run: RunPaths, tmp_path: Path, *, yes: bool) -> int:
    config = tmp_path / "config.json"
    config.write_text(f'{{"run_dir": "{run.root}"}}')
    return clean(Request(config, None, {}), days=7.0, yes=yes)


def test_it_shows_first_and_removes_nothing(run: RunPaths, tmp_path: Path, capsys) -> None:
    before = files(run)
    assert cleaned(run, tmp_path, yes=False) == 0
    assert files(run) == before
    told = capsys.readouterr().out
    assert "output of an ended job: logs/slurm-16.out" in told
    assert "a release that nothing runs: releases/forgotten" in told
    assert "say clean --yes" in told


def test_it_removes_what_it_showed_and_keeps_what_lives(run: RunPaths, tmp_path: Path) -> None:
    before = files(run)
    assert cleaned(run, tmp_path, yes=True) == 0
    assert before - files(run) == {
        "logs/slurm-16.out",
        "scripts/attempt-1.sbatch",
        "releases/forgotten/Daddy/x.py",
    }
    assert not (run.releases / "forgotten").exists()


def test_a_second_time_there_is_nothing_left(run: RunPaths, tmp_path: Path, capsys) -> None:
    cleaned(run, tmp_path, yes=True)
    capsys.readouterr()
    cleaned(run, tmp_path, yes=True)
    assert capsys.readouterr().out.strip() == "nothing is left over"


def test_a_link_is_removed_and_not_followed(run: RunPaths, tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "thesis").write_text("x")
    link = run.releases / "elsewhere"
    link.symlink_to(precious)
    os.utime(link, (OLD_S, OLD_S), follow_symlinks=False)
    cleaned(run, tmp_path, yes=True)
    assert not link.is_symlink()
    assert (precious / "thesis").exists()
