"""A run with scripted helps, as a person starts it: what it writes down, and who may use it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy import play, playback_setup, run_actors_only
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import ExitCode, WeightsError
from Daddy.core.event_log import read_events
from Daddy.core.run_paths import RunPaths
from Daddy.weights import model

ROOT = Path(__file__).resolve().parents[1]
HELPS = ["no_wild", "money"]


def learn(run: Path, steps: int, *flags: str) -> subprocess.CompletedProcess[str]:
    """`train_slim` on the cartridge until so many steps."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("DADDY", "SLURM"))}
    kept |= {"DADDY_TRAINING__VECTOR_BACKEND": "serial", "DADDY_TRAINING__TENSORBOARD": "false"}
    typed = ["--cartridge", "--run-dir", str(run), "--device", "cpu", "--num-envs", "2"]
    typed += ["--total-steps", str(steps), "--batch-size", "64", "--no-stream", *flags]
    return subprocess.run(
        [sys.executable, "-m", "Daddy.train_slim", *typed],
        cwd=ROOT, env=kept, capture_output=True, text=True, timeout=200, check=False,
    )  # fmt: skip


@pytest.fixture(scope="module")
def helped(tmp_path_factory: pytest.TempPathFactory) -> RunPaths:
    """The run directory of a learner that took 512 steps with helps."""
    run = RunPaths(tmp_path_factory.mktemp("helped") / "run")
    done = learn(run.root, 512, "--assists", ",".join(HELPS))
    assert done.returncode == 0, done.stderr
    return run


@pytest.fixture(autouse=True)
def _own_game(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DADDY_ROM", raising=False)


def test_the_run_says_what_helped_it(helped: RunPaths) -> None:
    wanted = ["money", "no_wild"]
    card = json.loads((helped.shared_weights / "RUN.json").read_text())
    head = json.loads((helped.shared_weights / "wan" / "HEAD.json").read_text())
    manifest = next(helped.slot(0).checkpoints.glob("*.json"))
    facts = json.loads(manifest.read_text())["facts"]
    assert [card["assists"], head["assists"], facts["assists"]] == [wanted] * 3
    events = list(read_events(helped.events))
    reached = [event["data"] for event in events if event["event"] == "progress"]
    assert {tuple(facts["assists"]) for facts in reached} == {tuple(wanted)}
    rows = [event["data"] for event in events if event["event"] == "metric"]
    assert (rows[-1]["milestones"], rows[-1]["milestones_assisted"]) == (0, len(reached))


@pytest.mark.parametrize(
    ("slot", "said", "fix"),
    [
        ("0", "no_wild, which are not in use here", "to money,no_wild, or use another run"),
        ("1", "money, no_wild; this learner has money", "to money, no_wild, or give this run"),
    ],
)
def test_a_learner_without_these_helps_goes_on_neither_from_a_checkpoint_nor_from_the_others(
    helped: RunPaths, slot: str, said: str, fix: str
) -> None:
    done = learn(helped.root, 768, "--assists", "money", "--job-rank", slot)
    assert done.returncode == ExitCode.WEIGHTS
    assert f"learnt with the assists {said}" in done.stderr
    assert f"set training.assists {fix}" in done.stderr


def test_nobody_plays_these_weights_without_these_helps(
    helped: RunPaths, capsys: pytest.CaptureFixture[str]
) -> None:
    blob = next(helped.shared_weights.glob("blobs/*/*.st"))
    keyframe = next((helped.shared_weights / "wan").glob("kf-*.st"))
    for place in (helped.root, helped.slot(0).checkpoints, blob, keyframe):
        typed = ["evaluate", "--cartridge", "--weights", str(place)]
        assert run_entry(play.main, typed) == ExitCode.WEIGHTS
        assert "learnt with the assists money, no_wild" in capsys.readouterr().err
        with pytest.raises(WeightsError, match="the assists no_wild, which are not in use"):
            playback_setup.find_weights(place, ["money"])
        assert playback_setup.find_weights(place, ["flash", *HELPS]).weights


def test_a_file_of_them_says_so_wherever_it_was_copied_to(helped: RunPaths, tmp_path: Path) -> None:
    made, copied = tmp_path / "made.safetensors", tmp_path / "far" / "away.safetensors"
    assert model.main(["export", str(made), str(helped.root)]) == 0
    copied.parent.mkdir()
    made.rename(copied)
    with pytest.raises(WeightsError, match="the assists no_wild, which are not in use here"):
        playback_setup.find_weights(copied, ["money"])
    found = playback_setup.find_weights(copied, HELPS)
    assert found.label.startswith("v")
    assert found.weights


def test_whoever_plays_them_with_these_helps_is_told_what_was_reached_with_help(
    helped: RunPaths, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    written = tmp_path / "result.json"
    typed = ["--weights", str(helped.root), "--episodes", "1", "--episode-steps", "60"]
    flags = ["--assists", "money,no_wild", "--json", str(written)]
    assert play.main(["evaluate", "--cartridge", *typed, *flags]) == 0
    told, result = capsys.readouterr().out, json.loads(written.read_text())
    assert "assists: money, no_wild" in told
    assert result["assists"] == ["money", "no_wild"]
    (episode,) = result["episodes"]
    assert episode["assisted"] == list(episode["reached"])
    assert all(row["assisted"] == row["reached"] for row in result["milestones"].values())


@pytest.mark.parametrize(
    ("flags", "code", "said"),
    [
        ([], ExitCode.WEIGHTS, "pass --assists money,no_wild"),
        (["--assists", "money"], ExitCode.WEIGHTS, "the assists no_wild, which are not in use"),
        (["--assists", "peers", "--contribute"], ExitCode.WEIGHTS, "the assists no_wild"),
        (["--assists", "peers,no_wild", "--contribute"], ExitCode.USAGE, "would refuse what is"),
        (["--assists", "mony"], ExitCode.CONFIGURATION, "the nearest is money"),
    ],
)
def test_a_laptop_with_other_helps_is_refused_before_anything_is_measured(
    helped: RunPaths, flags: list[str], code: int, said: str, tmp_path: Path, capsys
) -> None:
    where = ["--shared-dir", str(helped.shared_weights), "--run-dir", str(tmp_path)]
    typed = [*where, "--cartridge", "--num-envs", "1", "--max-steps", "8", *flags]
    assert run_entry(run_actors_only.main, typed) == code
    assert said in capsys.readouterr().err
