"""``clean``: lists first, removes only with --yes, and never what is needed."""

import os
from pathlib import Path

import pytest

from Daddy.cluster.orchestrator.commands.clean import (
    DAY_S,
    InUse,
    StaleFile,
    find_leftovers,
    run_clean,
)
from Daddy.cluster.orchestrator.commands.run_selection import Request
from Daddy.cluster.orchestrator.control_files import DesiredRun, write_intent
from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.ledger_file import LedgerFile
from Daddy.cluster.orchestrator.ledger_replay import LedgerEntry
from Daddy.core.lease import Lease
from Daddy.core.run_paths import RunPaths

OLD_S = 1_600_000_000.0


@pytest.fixture
def run(tmp_path: Path) -> RunPaths:
    """Provide a run whose job 17 lives and whose job 16 ended long ago."""
    run = RunPaths(tmp_path / "run")
    write_intent(run, DesiredRun(Mode.RUN, 1, "local", "wanted", "x"), 0.0)
    ledger = LedgerFile(run.ledger, 1)
    for number, token in ((1, "00000000000a"), (2, "00000000000b")):
        ledger.append(LedgerEntry("intent", 1.0, token, {"number": number, "release": "old"}))
        ledger.append(LedgerEntry("submitted", 1.0, token, {"job_id": 15 + number}))
    ended = {"outcome": "drained", "reason": "wall time", "exit_code": 10}
    ledger.append(LedgerEntry("ended", 2.0, "00000000000a", ended))
    Lease.acquire(run.controller_lease, {"host": "elsewhere", "release": "controllers"})
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
    return run_clean(Request(config, None, {}), days=7.0, yes=yes)


def test_it_shows_first_and_removes_nothing(run: RunPaths, tmp_path: Path, capsys) -> None:
    before = files(run)
    assert cleaned(run, tmp_path, yes=False) == 0
    assert files(run) == before
    told = capsys.readouterr().out
    assert "output of an ended job: logs/slurm-16.out" in told
    assert "a release that nothing runs: releases/forgotten" in told
    assert "type `run_controller clean --yes`" in told


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
    assert capsys.readouterr().out.strip() == "nothing to remove: every file is in use or recent"


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


NOW = 100 * DAY_S
USE = InUse(
    releases=frozenset({"wanted", "proven"}),
    jobs=frozenset({"17"}),
    attempts=frozenset({"3"}),
    keep_checkpoints=2,
)


def going(*paths: str, age_days: float = 30.0) -> list[str]:
    listed = [StaleFile(path, 10, NOW - age_days * DAY_S) for path in paths]
    return [
        file.path
        for removable in find_leftovers(listed, USE, NOW, 7.0).values()
        for file in removable
    ]


def checkpoint(number: int, slot: int = 0) -> list[str]:
    name = f"slots/{slot}/checkpoints/t000001-s{number:012d}"
    return [f"{name}.json", f"{name}.safetensors"]


def test_output_and_scripts_of_ended_jobs_go_and_those_of_living_ones_stay() -> None:
    assert going("logs/slurm-16.out", "logs/slurm-17.out", "logs/controller.log") == [
        "logs/slurm-16.out"
    ]
    assert going("scripts/attempt-2.sbatch", "scripts/attempt-3.sbatch") == [
        "scripts/attempt-2.sbatch"
    ]


def test_young_output_stays() -> None:
    assert going("logs/slurm-16.out", age_days=6.0) == []


def test_releases_that_something_runs_or_may_fall_back_to_stay() -> None:
    assert going("releases/wanted", "releases/old", "releases/proven") == ["releases/old"]


def test_a_release_that_was_just_made_stays_until_it_is_used() -> None:
    assert going("releases/new", age_days=0.01) == []


def test_the_newest_checkpoints_of_every_slot_stay() -> None:
    paths = [*checkpoint(1), *checkpoint(2), *checkpoint(3), *checkpoint(1, slot=1)]
    assert going(*paths, age_days=0.0) == checkpoint(1)


def test_a_blob_without_its_manifest_does_not_count_as_a_checkpoint() -> None:
    half = checkpoint(9)[1]
    assert going(*checkpoint(1), *checkpoint(2), half, age_days=0.0) == []


def test_what_a_crash_left_goes_once_nobody_can_still_be_writing_it() -> None:
    assert going("logs/.tmp-1-ab", "releases/.tmp-cd", age_days=1.0) == [
        "logs/.tmp-1-ab",
        "releases/.tmp-cd",
    ]
    assert going("controller/.tmp-1-ab", age_days=0.01) == []


def test_what_readers_need_is_never_among_it() -> None:
    assert (
        going(
            "events/learner-slot-0-ab.jsonl",
            "controller/ledger.jsonl",
            "controller/intent.json",
            "shared_weights/merged/v00000001.json",
            "slots/0/lease/term-000001.json",
            "config.json",
        )
        == []
    )


def test_set_aside_checkpoints_and_ended_local_jobs_go_when_old() -> None:
    paths = ("slots/0/checkpoints/t000001-s000000000001.json.broken", "queue/ended/000004")
    assert going(*paths) == list(paths)
    assert going(*paths, age_days=1.0) == []
