"""The program from its command line to its files: results, errors, resume, Ctrl-C."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import pytest

from Daddy import train_terminal
from Daddy.core.entry_point import run_entry
from Daddy.core.errors import SandboxError
from Daddy.core.stop_conditions import SIGNALS, StopSignal
from Daddy.terminal.terminal_gym import AsyncTerminalGymEnv
from tests.patience import PATIENCE_S, until
from tests.terminal.episodes import COUNT, TASKS, backend, copy_task

torch = pytest.importorskip("torch")

ROWS = json.loads((TASKS.parents[3] / "commands.json").read_text())
TYPED = [row["line"] for row in ROWS if "terminal_rl/train.py" in row["line"]]
SMALL = ["--image", "host", "--group-size", "2", "--lora-rank", "0", "--max-turns", "2"]
SMALL += ["--pane", "80x5", "--max-tokens", "24", "--num-batches", "2", "--log-path", "run"]


@pytest.fixture
def words(
    terminal_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """A small training in a folder of its own."""
    backend()
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    environ = {name: text for name, text in os.environ.items() if not name.endswith("_API_KEY")}
    monkeypatch.setattr(os, "environ", environ)
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield ["--task-dir", str(COUNT), "--model", str(terminal_model), *SMALL]
    for number, handler in handlers.items():
        signal.signal(number, handler)


def train(words: Sequence[str]) -> int:
    return run_entry(train_terminal.main, words)


def rows(folder: str = "run") -> list[dict[str, Any]]:
    return [json.loads(line) for line in Path(folder, "metrics.jsonl").read_text().splitlines()]


def test_a_training_leaves_model_metrics_episodes_and_picture(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train([*words, "--eval-every", "2", "--renderer-name", "qwen3"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("backend bubblewrap: confined")
    assert "renderer qwen3: the model's own chat template" in said
    assert "batch 2/2: reward" in said
    metrics = rows()
    assert [(row["step"], "reward" in row) for row in metrics] == [
        (0, False),
        (1, True),
        (2, True),
        (2, False),
    ]
    assert metrics[0].keys() == {"step", "eval_reward/count_lines", "eval_turns/count_lines"}
    own = {"turns", "parse_success", "json_ok", "num_commands", "too_long", "dropped"}
    seconds = {"sampling_seconds", "terminal_seconds", "update_seconds", "step_time"}
    assert own | seconds | {"reward", "fully_correct", "loss", "grad_norm"} <= metrics[1].keys()
    assert Path("run/rewards-plot.png").read_bytes().startswith(b"\x89PNG")
    assert len([*Path("run/episodes").glob("00000[12]/*/terminal.cast")]) == 5
    assert not Path("run/errors.log").exists()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained("run", local_files_only=True)
    assert AutoTokenizer.from_pretrained("run", local_files_only=True).chat_template
    assert train(words) == 3
    assert "holds a run" in capsys.readouterr().err


def test_a_stopped_training_goes_on_as_if_it_had_not_stopped(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(_self: StopSignal) -> str | None:
        return "signal SIGINT" if Path("run/episodes/000001").exists() else None

    with monkeypatch.context() as patch:
        patch.setattr(StopSignal, "stop_reason", stop)
        assert train(words) == 130
    assert Path("run/checkpoint-1").is_dir()
    left = [child.name() for child in psutil.Process().children(recursive=True)]
    assert [name for name in left if name in ("bwrap", "tmux", "bash")] == []
    Path("run/episodes/000002").mkdir()
    assert train([*words, "--resume", "--temperature", "0.5", "--seeds", "2"]) == 3
    assert "differs in temperature, seeds" in capsys.readouterr().err
    assert train(["--resume", "--log-path", "run"]) == 0
    assert train([*words[:-1], "straight"]) == 0
    names = {"step", "reward", "turns", "loss", "grad_norm", "entropy", "json_ok"}
    resumed, straight = (
        [{name: row[name] for name in names & row.keys()} for row in rows(folder)]
        for folder in ("run", "straight")
    )
    for row, expected in zip(resumed, straight, strict=True):  # sums differ in their last bits
        assert row == pytest.approx(expected, rel=1e-5)
    assert train(["--resume", "--log-path", "run"]) == 0


def test_a_second_ctrl_c_ends_a_batch_at_once_and_leaves_nothing(words: list[str]) -> None:
    more = ["--eval-every", "0", "--group-size", "8", "--num-batches", "1000"]
    command = [sys.executable, "-m", "Daddy.train_terminal", *words, *more]
    with subprocess.Popen(command, stdout=-1, stderr=-1, text=True, env=os.environ) as child:
        try:
            assert child.stdout
            assert child.stderr
            assert any(line.startswith("batch    1/1000: reward") for line in child.stdout)
            child.send_signal(signal.SIGINT)
            line = next(line for line in child.stderr if line.startswith("stopping"))
            assert re.fullmatch(r"stopping after batch \d+; Ctrl-C again ends at once\n", line)
            below = psutil.Process(child.pid).children(recursive=True)
            child.send_signal(signal.SIGINT)
            assert child.wait(PATIENCE_S) == 130
            assert child.stderr.read() == "interrupted\n"
            assert until(lambda: not any(map(psutil.Process.is_running, below)))
        finally:
            child.kill()


def test_a_stop_leaves_out_the_evaluation(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    os.environ["TINKER_API_KEY"] = "secret"
    monkeypatch.setattr(StopSignal, "stop_reason", lambda _self: "signal SIGINT")
    assert train([*words, "--allow-unsafe"]) == 130
    assert "TINKER_API_KEY is set and not used" in capsys.readouterr().out
    assert not Path("run/episodes").exists()
    record = json.loads(Path("run/terminal.json").read_text())
    assert (record["unsafe"], record["max_tokens"]) == (True, 24)


def test_adapters_whose_last_batch_is_done_are_loaded_and_saved(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kill between the last checkpoint and the saved model, which is then the same one."""
    from safetensors.torch import load_file

    from Daddy.grpo.grpo_trainer import GrpoLearner

    save = GrpoLearner.save

    def save_elsewhere(learner: GrpoLearner, _folder: Path) -> None:
        save(learner, Path("expected"))
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(GrpoLearner, "save", save_elsewhere)
        more = ["--lora-rank", "4", "--eval-every", "0", "--learning-rate", "0.05"]
        assert train([*words, *more]) == 130
    assert Path("run/checkpoint-2/adapter_config.json").is_file()
    assert train(["--resume", "--log-path", "run"]) == 0
    found, expected = (load_file(f"{name}/model.safetensors") for name in ("run", "expected"))
    assert found.keys() == expected.keys()
    assert all(torch.equal(found[name], expected[name]) for name in expected)


def test_each_rate_and_seed_is_a_training_of_its_own(words: list[str]) -> None:
    more = ["--learning-rate", "1e-3", "2e-3", "--seeds", "4,5", "--eval-every", "0"]
    assert train([*words, *more, "--num-batches", "1"]) == 0
    folders = [f"run/lr-{rate}/seed-{seed}" for rate in ("0.001", "0.002") for seed in (4, 5)]
    first, *others = [rows(folder) for folder in folders]
    assert [len(each) for each in (first, *others)] == [1] * 4
    assert others[1][0]["reward"] == first[0]["reward"], "same seed, and no update before"
    assert [row[0]["learning_rate"] for row in (first, *others)] == [1e-3, 1e-3, 2e-3, 2e-3]


def test_dropped_episodes_are_listed_and_the_exit_code_tells(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reset, begun = AsyncTerminalGymEnv.reset, []

    async def fail_third(self: AsyncTerminalGymEnv) -> Any:
        begun.append(self)
        if len(begun) == 3:
            raise SandboxError("the sandbox ended", "try again")
        return await reset(self)

    monkeypatch.setattr(AsyncTerminalGymEnv, "reset", fail_third)
    assert train([*words, "--group-size", "3", "--num-batches", "1"]) == 13
    assert Path("run/errors.log").read_text() == "batch 1, count_lines: the sandbox ended\n"
    assert [row["dropped"] for row in rows() if "reward" in row] == [1]
    said = capsys.readouterr().out
    assert ", dropped 1, " in said
    assert "1 episodes were dropped: errors.log tells why" in said


@pytest.mark.parametrize("line", TYPED, ids=lambda line: line.split("--env ")[1].split()[0])
def test_a_line_of_the_document_without_its_engine_names_what_to_add(
    words: list[str], line: str, capsys: pytest.CaptureFixture[str], monkeypatch: Any
) -> None:
    """That is then added, with a test's sizes."""
    with monkeypatch.context() as patch:
        patch.chdir(TASKS.parents[3])
        typed = shlex.split(line)[2:]
        assert train(typed) == 3
        args = vars(train_terminal.make_parser().parse_args(typed))
    assert (args["num_batches"], args["group_size"], args["save_every"]) == (25, 8, 10)
    assert (args["max_tokens"], args["temperature"], args["lora_rank"]) == (4096, 0.7, 32)
    said = capsys.readouterr().err
    assert "--env daytona needs a key" in said or "--env docker: no Docker engine" in said
    added, _, left_out = said.partition("what to do: add ")[2].partition(", and leave ")
    assert (added, left_out) == ("--env bubblewrap --model-name tiny", "--learning-rate out\n")
    at = typed.index("--learning-rate")
    local = [*typed[:at], *typed[at + 2 :], *shlex.split(added)]
    Path("tinker_cookbook").symlink_to(TASKS.parents[2])
    more = [*words[2:4], *SMALL[:-2], "--num-batches", "1", "--eval-every", "0"]
    more += ["--max-tokens", "9999"]
    assert train([*local, *more]) == 0
    (folder,) = Path("runs").iterdir()
    assert folder.name == "devops_qwen3_lr4e-5_r32_nb25"
    assert [row["step"] for row in rows(str(folder))] == [1]
    assert json.loads((folder / "terminal.json").read_text())["max_tokens"] == 4096
    assert train([*local, *more, "--resume"]) == 0, "9999 mean 4096 again"


@pytest.mark.parametrize(
    ("more", "code", "told"),
    [
        (["--task-dir", "missing"], 3, "is no task"),
        (["--env", "other"], 2, "there is no backend 'other'"),
        (["--model", "./missing"], 3, "there is no model ./missing"),
        (["--group-size", "1"], 2, "not a whole number from 2"),
        (["--pane", "big"], 2, "'big' is no size such as 160x40"),
        (["--seeds", "0"], 2, "'0' names no training"),
        (["--seed", "3"], 2, "did you mean --seeds"),
        (["--task-dir", str(COUNT)], 2, "two tasks are called count_lines"),
        (["--resume"], 3, "there is no run at"),
    ],
)
def test_bad_input_ends_with_its_code(
    words: list[str], more: list[str], code: int, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        found = train([*words, *more])
    except SystemExit as error:  # argparse
        found = int(str(error.code))
    assert found == code
    assert told in capsys.readouterr().err


def test_a_task_that_cannot_be_built_is_mended_and_typed_again(
    words: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    task = copy_task(COUNT, tmp_path / "count_lines")
    recipe, words[1] = task / "environment/Dockerfile", str(task)
    text = recipe.read_text()
    recipe.write_text(f"{text}\nRUN false\n")
    words += ["--num-batches", "1", "--eval-every", "0", "--learning-rate", "1e-4", "0.0001"]
    assert train(words) == 3
    recipe.write_text(text)
    assert train(words) == 0
    assert "reward:" in capsys.readouterr().out
    assert len(rows()) == 1, "one rate, one training"


def test_a_run_needs_a_task_and_a_resumed_one_its_folder(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train([]) == 2
    assert "name its folder: --task-dir" in capsys.readouterr().err
    assert train(["--resume"]) == 2
    assert "name its folder: --log-path" in capsys.readouterr().err
