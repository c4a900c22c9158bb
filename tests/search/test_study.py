"""The trials of a sweep: suggested alike in every process, durable, repeated once, never half."""

import os
import subprocess
import sys
from math import log10
from pathlib import Path

import pytest

from Daddy.core import atomic_files
from Daddy.core.errors import ConfigError, FileError
from Daddy.search.search_space import Choices, Range, Space
from Daddy.search.study import Study, importance, read_study
from Daddy.search.study_plan import StudyPlan, Trial
from tests.patience import PATIENCE_S

RATE, EPOCHS, HORIZON = "training.learning_rate", "training.update_epochs", "training.horizon"
SPACE: Space = {
    RATE: Range(1e-4, 1e-1, log=True),
    EPOCHS: Range(1, 8, integer=True),
    HORIZON: Choices((64, 128)),
}
BOTH = ("score", "cost")


def plan(sampler: str = "tpe", objectives: tuple[str, ...] = BOTH, **changes: object) -> StudyPlan:
    given = {"prune": False, "space": SPACE, "seed": 3, **changes}
    return StudyPlan(sampler=sampler, objectives=objectives, **given)  # type: ignore[arg-type]


def values_of(trial: Trial) -> tuple[float, float]:
    return -log10(float(trial.settings[RATE])), float(trial.settings[EPOCHS])


def run_trials(study: Study, count: int, values: int = 2) -> list[Trial]:
    """Ask for trials and tell their values; return them as they were asked for."""
    asked = []
    for _ in range(count):
        trial = study.ask(f"s.r.{len(study.trials()) + 1}")
        study.start_attempt(trial.number)
        study.tell(trial.number, values_of(trial)[:values])
        asked.append(trial)
    return asked


@pytest.mark.parametrize(
    ("sampler", "objectives"), [("random", BOTH), ("tpe", BOTH), ("gp", BOTH[:1])]
)
def test_a_process_that_continues_suggests_as_the_one_before(
    tmp_path: Path, sampler: str, objectives: tuple[str, ...]
) -> None:
    path, mine, values = tmp_path / "a.jsonl", plan(sampler, objectives), len(objectives)
    whole = run_trials(Study(tmp_path / "b.jsonl", mine), 11, values)
    run_trials(Study(path, mine), 6, values)
    run_trials(Study(path, mine), 4, values)
    assert Study(path, mine).ask("s.r.11").settings == whole[10].settings
    assert len({repr(trial.settings) for trial in whole}) == 11
    another = Study(tmp_path / "c.jsonl", plan(sampler, objectives, seed=4)).ask("s.r.1")
    assert another.settings != whole[0].settings


@pytest.mark.parametrize("sampler", ["tpe", "gp"])
def test_a_running_trial_counts_for_a_suggestion_and_a_failed_one_does_not(
    tmp_path: Path, sampler: str
) -> None:
    running, failed = tmp_path / "running.jsonl", tmp_path / "failed.jsonl"
    mine = plan(sampler, ("score",))
    study = Study(running, mine)
    run_trials(study, 10, 1)
    number = study.ask("s.r.11").number
    failed.write_bytes(running.read_bytes())
    Study(failed, mine).fail(number, "loss is nan")
    first, second = (Study(path, mine).ask("s.r.12") for path in (running, failed))
    assert first.number == second.number
    assert first.settings != second.settings


def test_a_trial_has_the_types_of_its_space_and_names_its_run(tmp_path: Path) -> None:
    study = Study(tmp_path / "study.jsonl", plan())
    trial = study.ask("s.r.7")
    assert (trial.number, trial.run_id, trial.state) == (0, "s.r.7", "running")
    assert isinstance(trial.settings[RATE], float)
    assert isinstance(trial.settings[EPOCHS], int)
    assert trial.settings[HORIZON] in (64, 128)
    assert [study.start_attempt(0), study.start_attempt(0)] == [1, 2]
    with pytest.raises(ValueError, match="nan"):
        study.tell(0, (float("nan"), 1.0))
    with pytest.raises(ValueError, match="did not match"):
        study.tell(0, (1.0,))
    study.tell(0, (0.5, 20.0))
    told = study.trials()[0]
    assert (told.state, told.values, told.attempts) == ("complete", (0.5, 20.0), 2)


def test_a_failed_trial_is_repeated_once_also_by_the_next_process(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    study = Study(path, plan())
    first = study.ask("s.r.1")
    study.fail(0, "rank 1 was killed", repeat=True)
    again = Study(path, plan()).ask("s.r.2")
    assert (again.settings, again.repeats, again.number) == (first.settings, 0, 1)
    study = Study(path, plan())
    study.fail(1, "rank 1 was killed again", repeat=True)
    other = study.ask("s.r.3")
    assert (other.repeats, other.settings == first.settings) == (None, False)
    study.fail(2, "no space left")
    assert study.ask("s.r.4").repeats is None
    assert [trial.state for trial in study.trials()] == ["failed", "failed", "failed", "running"]
    assert [trial.reason for trial in study.trials()][1:3] == [
        "rank 1 was killed again",
        "no space left",
    ]


def test_a_trial_far_behind_is_pruned_and_one_ahead_is_not(tmp_path: Path) -> None:
    study = Study(tmp_path / "study.jsonl", plan(objectives=("score",), prune=True))
    for score in range(5):
        number = study.ask("s.r.1").number
        assert not study.report(number, 1000, float(score)), "too few trials are complete"
        study.tell(number, (float(score),))
    ahead, behind = study.ask("s.r.6").number, study.ask("s.r.7").number
    assert not study.report(ahead, 1000, 3.0)
    assert study.report(behind, 1000, 1.0)
    study.prune(behind)
    assert (study.trials()[behind].state, study.trials()[behind].values) == ("pruned", ())


def test_a_plan_that_cannot_be_carried_out_is_refused() -> None:
    with pytest.raises(ConfigError, match="behind in score may be ahead in cost"):
        plan(prune=True)
    with pytest.raises(ConfigError, match="no sampler 'protein'"):
        plan("protein")
    with pytest.raises(ConfigError, match="'cost' cannot be searched for"):
        plan(objectives=("cost",))


def test_a_study_continues_with_its_own_plan_alone(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    Study(path, plan()).ask("s.r.1")
    before = path.read_bytes()
    wider = {**SPACE, RATE: Range(1e-4, 1.0, log=True), "training.clip": Choices((0.1, 0.2))}
    with pytest.raises(ConfigError) as caught:
        Study(path, plan("gp", seed=4, space=wider))
    assert caught.value.message.endswith(
        "has sampler tpe, not gp; seed 3, not 4; training.clip not searched, not 0.1 or 0.2; "
        "training.learning_rate 0.0001 to 0.1 log, not 0.0001 to 1 log"
    )
    assert path.read_bytes() == before


def test_importance_names_the_setting_that_matters(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    study = Study(path, plan("random"))
    run_trials(study, 7)
    assert importance(path) == {}
    run_trials(study, 23)
    shares = importance(path)
    assert [max(shares[name], key=shares[name].__getitem__) for name in BOTH] == [RATE, EPOCHS]
    assert sum(shares["cost"].values()) == pytest.approx(1)


def test_a_torn_line_is_cut_off_and_a_reader_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    run_trials(Study(path, plan()), 2)
    whole = path.read_bytes()
    for torn in (b'{"op_code":4,"wor', bytes(4096)):
        path.write_bytes(whole + torn)
        assert [trial.state for trial in read_study(path)[1]] == ["complete"] * 2
        assert path.read_bytes() == whole + torn
        Study(path, plan())
        assert path.read_bytes() == whole


def test_every_beginning_of_a_journal_can_be_continued(tmp_path: Path) -> None:
    """A power cut may leave any of them: trials are whole or absent, and their numbers go on."""
    path = tmp_path / "study.jsonl"
    study = Study(path, plan())
    run_trials(study, 1)
    study.ask("s.r.2")
    study.fail(1, "x", repeat=True)
    study.ask("s.r.3")
    lines = path.read_bytes().splitlines(keepends=True)
    for count in range(len(lines) + 1):
        path.write_bytes(b"".join(lines[:count]))
        trials = Study(path, plan()).trials()
        assert [len(trial.settings) for trial in trials] == [3] * len(trials)
        assert Study(path, plan()).ask("s.r.9").number == len(trials)
    path.write_bytes(lines[0])
    alone = Study(path, plan(objectives=("score",)))
    alone.tell(alone.ask("s.r.1").number, (1.0,))


@pytest.mark.parametrize(
    "line", [b"{]", b"[]", b'{"op_code":99}', b'{"op_code":4,"study_id":0}', b"\x00", b""]
)
def test_a_damaged_journal_is_named(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "study.jsonl"
    run_trials(Study(path, plan()), 1)
    path.write_bytes(path.read_bytes() + line + b"\n")
    for use in (read_study, importance, lambda path: Study(path, plan())):
        with pytest.raises(FileError, match=str(path)):
            use(path)


def test_where_no_study_is_the_reader_says_so(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no study in"):
        read_study(tmp_path / "study.jsonl")
    assert [*tmp_path.iterdir()] == []


def test_a_second_writer_is_noticed_before_it_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "study.jsonl"
    frozen = Study(path, plan())
    Study(path, plan()).ask("s.r.1")
    with pytest.raises(FileError, match="end the other process"):
        frozen.ask("s.r.2")


def test_a_full_disk_leaves_the_journal_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "study.jsonl"
    study = Study(path, plan())
    number, whole, write = study.ask("s.r.1").number, path.read_bytes(), os.write
    monkeypatch.setattr(atomic_files.os, "write", lambda fd, data: write(fd, data[:9]))
    with pytest.raises(OSError, match="No space left"):
        study.tell(number, (1.0, 2.0))
    assert path.read_bytes() == whole
    monkeypatch.undo()
    study.tell(number, (1.0, 2.0))
    assert [trial.values for trial in read_study(path)[1]] == [(1.0, 2.0)]


DRIVER = """
import sys
from pathlib import Path
from tests.search.test_study import plan, values_of
from Daddy.search.study import Study
study = Study(Path(sys.argv[1]), plan())
while True:
    trial = study.ask(f"s.r.{len(study.trials()) + 1}")
    study.tell(trial.number, values_of(trial))
    print(trial.number, flush=True)
"""


def test_a_driver_killed_while_it_writes_loses_no_value(tmp_path: Path) -> None:
    path, seen = tmp_path / "study.jsonl", -1
    for kills_at in (3, 9, 14):
        with subprocess.Popen(
            [sys.executable, "-c", DRIVER, path], stdout=-1, stderr=-1, text=True
        ) as driver:
            assert driver.stdout
            assert driver.stderr
            while seen < kills_at:
                seen = int(driver.stdout.readline())
            driver.kill()
            seen = int(([seen, *driver.stdout])[-1])
            driver.wait(PATIENCE_S)
            assert driver.stderr.read() == ""
        states = [trial.state for trial in read_study(path)[1]]
        assert states[: seen + 1] == ["complete"] * (seen + 1)
        study = Study(path, plan())
        for trial in study.trials():
            if trial.state == "running":
                study.tell(trial.number, values_of(trial))
    told = len(study.trials())
    unbroken = run_trials(Study(tmp_path / "unbroken.jsonl", plan()), told + 1)
    assert [trial.settings for trial in study.trials()] == [
        trial.settings for trial in unbroken[:-1]
    ]
    assert study.ask("s.r.9").settings == unbroken[-1].settings
