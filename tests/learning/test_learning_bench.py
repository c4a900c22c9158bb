"""Tests of the bench `learning`: its counts, its resumed and finished runs, its figures."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from Daddy.core.errors import UsageError
from Daddy.core.event_log import read_events
from Daddy.learning.checkpoint import load_newest
from scripts.benches import _learning_random, learning
from scripts.benches._learning_pool import Pool, StoppedError
from scripts.benches._learning_runs import (
    PPO,
    PPO_ARCHIVE,
    RANDOM,
    WON,
    Arm,
    Run,
    RunProgress,
    lean_game,
)
from scripts.benches.learning import Result, ratio, summarise
from tests.patience import until


@pytest.fixture(name="game")
def _game(tmp_path: Path) -> Path:
    return lean_game(tmp_path)


def event(kind: str, step: int, **data: Any) -> dict[str, Any]:
    return {"event": kind, "step": step, "data": data}


def result(reached: int | None, limit: int = 1000, **firsts: int) -> Result:
    return Result(1, reached, reached or limit, limit, 2.0, firsts)


def test_a_victory_is_an_episode_that_ended_before_its_length() -> None:
    progress = RunProgress(100)
    progress.add_events([event("result", 64, lengths=[100, 100])])
    assert progress.firsts == {}
    progress.add_events(
        [event("result", 128, lengths=[100, 99]), event("result", 192, lengths=[5])]
    )
    assert progress.firsts == {WON: 128}


def test_a_milestone_told_again_after_a_kill_counts_once_and_at_its_earliest() -> None:
    progress = RunProgress(100)
    steps = (128, 64, 256)
    progress.add_events(
        [event("progress", step, milestone="met_elder", assists=[]) for step in steps]
    )
    assert (progress.firsts, progress.step, progress.milestones) == ({"met_elder": 64}, 256, 1)


def test_other_settings_are_another_run_and_the_same_ones_are_found_again(tmp_path: Path) -> None:
    def folder(arm: Arm = PPO, seed: int = 1, limit: int = 1000) -> Path:
        return Run(tmp_path, tmp_path / "game.gb", arm, seed, limit).folder

    others = [folder(seed=2), folder(arm=RANDOM), folder(arm=PPO_ARCHIVE), folder(limit=2000)]
    assert folder() == folder()
    assert len({folder(), *others}) == 5


def test_a_run_is_over_at_its_goal_unless_its_final_policy_counts(tmp_path: Path) -> None:
    won = RunProgress(100, 640, {WON: 640})
    evaluated, plain = (Run(tmp_path, tmp_path, arm, 1, 1000) for arm in (PPO_ARCHIVE, PPO))
    assert (evaluated.is_over(won), plain.is_over(won)) == (False, True)
    assert not plain.is_over(RunProgress(100, 640))


def test_what_did_not_get_there_makes_a_bound_and_never_a_figure() -> None:
    there, never = [result(200), result(400)], [result(None), result(800)]
    assert ratio(there, there).startswith("1.00 [")
    assert ratio(there, never) == "0.33 [0.20, 0.50] or less"
    assert ratio(never, there).endswith("or more")
    assert ratio(never, never).startswith("unknown")
    figures = summarise(never)
    assert figures["reached"].startswith("1 of 2, 50 %")
    assert figures["steps_mean"] == "900 [0, 2,171] or more"
    assert figures["steps"] == [None, 800]


def test_random_keys_go_on_where_they_stopped_to_the_letter(tmp_path: Path, game: Path) -> None:
    straight = played(tmp_path / "straight", game, 128)
    played(tmp_path / "stopped", game, 64)
    assert played(tmp_path / "stopped", game, 128) == straight
    assert played(tmp_path / "other", game, 128, seed=2) != straight


def played(folder: Path, game: Path, steps: int, seed: int = 1) -> list[bytes]:
    """Return the states of the environments after `steps` random steps."""
    small = {"num_envs": 2, "horizon": 32, "batch_size": 64, "episode_steps": 40}
    run = Run(folder, game, RANDOM, seed, steps, small)
    settings = {**run.settings, "run_dir": str(folder / "run")}
    config = folder / "config.json"
    folder.mkdir(exist_ok=True)
    config.write_text(json.dumps(settings))
    assert _learning_random.main(["--config", str(config)]) == 0
    loaded = load_newest(folder / "run" / "slots" / "0" / "checkpoints")
    assert loaded is not None
    assert loaded.checkpoint.step == steps
    return [tensor.numpy().tobytes() for _, tensor in sorted(loaded.checkpoint.tensors.items())]


def test_an_interrupted_run_goes_on_and_an_ended_one_is_not_repeated(
    tmp_path: Path, game: Path
) -> None:
    """Real child processes: the first is stopped, the second resumes and finishes the run."""
    small = {"num_envs": 2, "horizon": 8, "batch_size": 16, "episode_steps": 5_000}
    run, messages = Run(tmp_path, game, RANDOM, 1, 1_600, small), list[str]()
    impatient = Pool(1, messages.append)
    threading.Thread(target=stop_once_it_plays, args=(impatient, run)).start()
    with pytest.raises(StoppedError):
        list(impatient.play([run]))
    assert not run.done.exists()
    begun = run.read_progress().step
    assert begun < run.limit
    for _ in range(2):
        assert list(Pool(1, messages.append).play([run])) == [run]
    steps = [event["step"] for event in read_events(run.paths.events)]
    assert max(steps) == run.read_progress().step == run.limit
    assert len(list(run.paths.events.glob("*.jsonl"))) == 2
    progress = f" of {run.limit:,} steps, "
    assert sum(progress not in message for message in messages) == 1
    assert "won" not in run.read_progress().firsts


def test_a_learner_as_users_run_it_is_measured_and_its_final_policy_judged(
    tmp_path: Path, game: Path
) -> None:
    small = {"num_envs": 2, "horizon": 32, "batch_size": 32, "episode_steps": 50}
    run = Run(tmp_path, game, PPO_ARCHIVE, 1, 128, small)
    assert list(Pool(2, print).play([run])) == [run]
    result = learning.read_result(run)
    assert (result.reached, result.steps, result.won) == (None, 128, (0, 2))
    assert result.wall_s > 0.0
    evaluation = json.loads(run.evaluation.read_text())
    assert [episode["steps"] for episode in evaluation["episodes"]] == [50, 50]
    assert evaluation["weights"] == "checkpoint at step 128"


def stop_once_it_plays(pool: Pool, run: Run) -> None:
    until(lambda: run.read_progress().step > 0)
    pool.stop.set()


def test_an_unknown_arm_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no arm 'qest'"):
        learning.run(quick=True, state=tmp_path, only="qest")
