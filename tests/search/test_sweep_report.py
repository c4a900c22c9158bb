"""The report of a sweep: table, picture, and the best trial's configuration, which trains."""

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib.image
import pytest

from Daddy.cluster.orchestrator.commands.run_selection import Request
from Daddy.core.atomic_files import canonical_json
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.load_config import config_to_json, load_config, with_values
from Daddy.core.settings import Config
from Daddy.search.search_space import DEFAULT_SPACES, Choices
from Daddy.search.study import Study
from Daddy.search.study_plan import StudyPlan, plan_to_json
from Daddy.search.sweep_files import SweepPaths, sweep_paths
from Daddy.search.sweep_loop import sweep_config, trial_config
from Daddy.search.sweep_request import SweepRequest, frozen_fields
from Daddy.sweep_report import main, portable_settings
from tests.patience import PATIENCE_S

_NAMES = ("clip", "entropy", "gae_lambda", "gamma", "learning_rate", "update_epochs")
SPACE = {key: DEFAULT_SPACES["cartpole"][key] for key in (f"training.{name}" for name in _NAMES)}
SPACE["training.batch_size"] = Choices((32, 64))
PLAN = StudyPlan("random", ("score", "cost"), False, SPACE, 0)
SOUGHT = {"training.value_clip": 0.2, "training.bptt": 16}
"""Settings that all trials of the sweep have; the second is usual."""
RESULTS = [(20, 9), (50, 9), (90, 30), (70, 20), (60, 25), (55, 22), (40, 8), (10, 40), (80, 31)]
"""Score and cost of the trials from 1 on; 1 is beaten by 2."""


def start(runs_folder: Path, name: str, plan: StudyPlan = PLAN) -> tuple[SweepPaths, Study]:
    paths, request = sweep_paths(runs_folder, name), SweepRequest(name, fixed=SOUGHT)
    paths.root.mkdir(parents=True)
    record = {**frozen_fields(request), "study": plan_to_json(plan)}
    paths.request.write_bytes(canonical_json(record))
    paths.config.write_bytes(config_to_json(sweep_config(load_config(), request)))
    return paths, Study(paths.journal, plan)


def start_trial(paths: SweepPaths, study: Study, number: int) -> int:
    trial = study.ask(f"{paths.root.name}.r.{number}")
    folder = paths.trial(trial.run_id)
    folder.mkdir(parents=True)
    request = SweepRequest(paths.root.name, device="cpu", fixed=SOUGHT)
    config = trial_config(sweep_config(load_config(), request), trial, folder)
    (folder / "config.json").write_bytes(config_to_json(config))
    study.start_attempt(trial.number)
    return trial.number


@pytest.fixture(scope="module")
def runs_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sweep `full`, whose driver goes on, and `young` without complete trials."""
    folder = tmp_path_factory.mktemp("runs")
    paths, study = start(folder, "full")
    for number, result in enumerate(RESULTS, start=1):
        study.tell(start_trial(paths, study, number), result)
    for number, why in enumerate(("diverged: loss nan at 17", "diverged: loss nan at 4,100")):
        study.fail(start_trial(paths, study, number + 10), why)
    start_trial(paths, study, 12)
    start(folder, "young")
    return folder


def told(
    capsys: pytest.CaptureFixture[str], runs_folder: Path, *words: object
) -> tuple[int, str, str]:
    code = run_entry(main, [*map(str, words), "--run-dir", str(runs_folder)])
    return code, *capsys.readouterr()


def test_table_and_picture_come_while_a_driver_writes_half_a_line(
    runs_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The front comes first; on a narrow screen less important settings are left out."""
    journal, picture = sweep_paths(runs_folder, "full").journal, tmp_path / "a.png"
    complete = journal.read_bytes()
    torn = complete + b'{"op_code":4,"worker'
    monkeypatch.setenv("COLUMNS", "80")
    try:
        journal.write_bytes(torn)
        code, out, _ = told(capsys, runs_folder, "run=full", "--limit", 5, "--picture", picture)
        assert journal.read_bytes() == torn, "a reader changed the journal"
    finally:
        journal.write_bytes(complete)
    lines = out.splitlines()
    assert code == 0
    assert max(len(line) for line in lines if not line.startswith("picture")) <= 80
    assert "12 trials: 9 complete, 1 running, 2 failed" in lines
    assert "  2 failed: diverged: loss nan at 4,100" in lines
    assert "4 more complete trials: --limit 0 shows all" in lines
    head = next(at for at, line in enumerate(lines) if "trial  score" in line)
    rows = [line.split() for line in lines[head + 1 : head + 6]]
    assert [row[0] for row in rows] == ["3*", "4*", "2*", "7*", "9"]
    assert [float(row[2]) for row in rows] == [30, 20, 9, 8, 31]
    importance = out.partition("importance")[2]
    assert all(key.partition(".")[2] in importance for key in SPACE)
    assert "█" in importance
    assert len(rows[0]) == 3 + len(SPACE)
    height, width, _ = matplotlib.image.imread(picture).shape
    assert (width, height > width) == (1320, True)

    monkeypatch.setenv("COLUMNS", "50")
    _, out, _ = told(capsys, runs_folder, "run=full", "--best", tmp_path / "best.json")
    narrow = out[out.index("3*") :].splitlines()[0].split()
    assert rows[0][: len(narrow)] == narrow
    assert 3 < len(narrow) < len(rows[0])


def test_with_one_objective_the_best_comes_first_and_few_trials_tell_no_importance(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths, study = start(tmp_path, "solo", replace(PLAN, objectives=("score",), prune=True))
    for number, score in enumerate((1.0, 3.0, 2.0), start=1):
        study.tell(start_trial(paths, study, number), [score])
    study.prune(start_trial(paths, study, 4))
    _, out, _ = told(capsys, tmp_path, "run=solo")
    table = out[out.index("trial ") :].splitlines()
    assert [row.split()[:2] for row in table[1:4]] == [
        ["2", "3.000"],
        ["3", "2.000"],
        ["1", "1.000"],
    ]
    assert "4 trials: 3 complete, 1 pruned" in out
    assert "too few trials to tell (8 complete" in out
    assert (paths.root / "report.png").stat().st_size > 10_000


def test_the_best_trial_becomes_a_configuration_without_the_sweeps_own(
    runs_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    best, other = tmp_path / "best.json", tmp_path / "other.json"
    assert told(capsys, runs_folder, "run=full", "--best", best)[0] == 0
    written = json.loads(best.read_text())
    assert written.keys() == {"training"}
    named = {f"training.{key}" for key in written["training"]}
    assert named == {*SPACE, *SOUGHT, "training.workload", "training.device"}
    was = load_config(sweep_paths(runs_folder, "full").trial("full.r.3") / "config.json")
    config, usual = Request(best, None, {}).load_settings(begins=True), Config()
    assert config.training.model_copy(update={"seed": was.training.seed}) == (
        was.training.model_copy(update={"total_steps": 5_000_000, "stream": True})
    )
    assert (config.collaboration, config.run_dir) == (usual.collaboration, usual.run_dir)

    assert told(capsys, runs_folder, "run=full", "--best", best)[0] == 0, "the same bytes"
    code, _, error = told(capsys, runs_folder, "run=full", "--best", best, "--trial", 2)
    assert (code, json.loads(best.read_text())) == (ExitCode.FILES, written)
    assert "exists already" in error
    assert told(capsys, runs_folder, "run=full", "--best", other, "--trial", 2)[0] == 0
    assert json.loads(other.read_text()) != written

    steps = ["--total-steps", "50", "--run-dir", str(tmp_path / "run")]
    done = subprocess.run(
        [sys.executable, "-m", "Daddy.train_slim", "--config", str(best), *steps],
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_values_that_a_profile_or_the_recipe_would_replace_are_written(tmp_path: Path) -> None:
    values: dict[str, Any] = {"training.profile": "gpu", "training.clip": 0.2}
    config = with_values(load_config(), values, "test")
    assert config.training.num_envs == 96
    path = tmp_path / "best.json"
    path.write_bytes(canonical_json(portable_settings(config, set())))
    assert load_config(path) == config
    assert json.loads(path.read_text())["archive"] == {"mode": "off"}


def test_each_error_has_its_exit_code(
    runs_folder: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    code, _, error = told(capsys, runs_folder, "run=ful")
    assert (code, "did you mean full?" in error, "full, young" in error) == (3, True, True)
    code, _, error = told(capsys, runs_folder, "run=young", "--best", tmp_path / "b.json")
    assert (code, "no trial of the sweep young is complete" in error) == (3, True)
    code, _, error = told(capsys, runs_folder, "run=full", "--best", tmp_path / "b", "--trial", 10)
    assert (code, "is failed" in error, "3, 9, 4" in error) == (3, True, True)
    code, out, error = told(capsys, runs_folder, "run=full", "--picture", Path(__file__) / "a.png")
    assert (code, "* Pareto front" in out) == (ExitCode.FILES, True), "the table comes first"
    assert "a.png cannot be written: " in error
    damaged, _ = start(tmp_path, "damaged")
    damaged.journal.write_bytes(b"{}\n" + damaged.journal.read_bytes())
    assert told(capsys, tmp_path, "run=damaged")[0] == ExitCode.FILES
    monkeypatch.setitem(sys.modules, "optuna", None)
    monkeypatch.delitem(sys.modules, "Daddy.search.study")
    code, _, error = told(capsys, runs_folder, "run=full")
    assert (code, "[search]" in error) == (ExitCode.PACKAGES_MISSING, True)
