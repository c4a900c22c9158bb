"""The program from its command line to its files: results, errors, resume, Ctrl-C."""

import contextlib
import errno
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from subprocess import PIPE
from typing import Any

import psutil
import pytest

from Daddy import train_codegen
from Daddy.codegen.grade_outcome import Grade
from Daddy.codegen.grader import Grader
from Daddy.core.atomic_files import append_line
from Daddy.core.entry_point import run_entry
from Daddy.core.stop_conditions import SIGNALS, StopSignal
from Daddy.grpo.training_records import parse_seed_list
from tests.components import absent, program
from tests.patience import PATIENCE_S, until

SMALL = ["--max-steps", "2", "--num-generations", "4", "--max-completion-length", "8"]

OWN_TASK = """
TASKS = {
    "double": {
        "prompt": "def double(xs):\\n",
        "func_name": "double",
        "banned_patterns": [],
        "tests": ["[1]"],
        "reference": "xs + xs",
    }
}
"""


@pytest.fixture
def words(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """A small training in a folder of its own."""
    program("bwrap", "bubblewrap")
    if Path(sys.prefix).is_relative_to("/tmp"):
        pytest.skip("sandboxes have a /tmp of their own, which hides this Python environment")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    monkeypatch.setattr(os, "environ", {**os.environ})
    handlers = {number: signal.getsignal(number) for number in SIGNALS}
    yield ["--model", str(tiny_model), "--sandbox-pool-size", "3", *SMALL]
    for number, handler in handlers.items():
        signal.signal(number, handler)


def train(words: Sequence[str]) -> int:
    return run_entry(train_codegen.main, words)


def rows(name: str) -> list[dict[str, Any]]:
    lines = Path("training_results", name).read_text().splitlines()
    return [json.loads(line) for line in lines]


def test_a_training_leaves_model_metrics_completions_and_picture(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path(".env").write_text("MAX_STEPS=2\nDAYTONA_API_KEY=secret-value\n")
    Path("errors.log").write_text("of an earlier run\n")
    words = [word for word in words if word not in ("--max-steps", "2")]
    assert train(words) == 0
    said = capsys.readouterr().out
    assert said.startswith("backend bubblewrap: confined (")
    assert "--backend daytona runs there" in said
    assert "secret" not in said
    metrics = rows("metrics.jsonl")
    assert [(row["step"], "reward" in row) for row in metrics] == [
        (0, False),
        (1, True),
        (2, True),
        (2, False),
    ]
    assert metrics[0]["eval_new_inputs/sort_numbers"] == 3
    assert "eval_greedy_pass_rate/sort_numbers" in metrics[0]
    assert {"fully_correct", "not_graded", "reward_seconds", "sandbox_share"} <= metrics[1].keys()
    completions = rows("completions.jsonl")
    assert [row["step"] for row in completions] == [1] * 8 + [2] * 8
    told = {"step", "task", "code", "grade", "reason", "tests", "seconds", "mb"}
    assert completions[0].keys() == told
    assert Path("assets/rewards-plot.png").read_bytes().startswith(b"\x89PNG")
    assert not Path("errors.log").exists()
    from transformers import AutoModelForCausalLM, AutoTokenizer

    assert AutoModelForCausalLM.from_pretrained("training_results", local_files_only=True)
    assert AutoTokenizer.from_pretrained("training_results", local_files_only=True)
    assert train(["--show", "2"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("step 2, best: ")
    assert "step 2, worst: " in said
    assert train(["--show", "9"]) == 3
    assert "has no step 9" in capsys.readouterr().err


def test_ctrl_c_leaves_a_checkpoint_and_the_run_goes_on(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(_self: StopSignal) -> str | None:
        graded = Path("training_results/completions.jsonl").exists()
        return "signal SIGINT" if graded and rows("completions.jsonl") else None

    with monkeypatch.context() as patch:
        patch.setattr(StopSignal, "stop_reason", stop)
        assert train(words) == 130
    assert Path("training_results/checkpoint-1").is_dir()
    append_line(Path("training_results/metrics.jsonl"), '{"step": 2, "reward": 0}')
    other = ["--beta", "0.5", "--seeds", "3", "--max-timeout-seconds", "0.5"]
    assert train([*words, "--resume", *other]) == 3
    assert "differs in beta, seeds, time_s" in capsys.readouterr().err
    assert train(["--resume"]) == 0
    assert [row["step"] for row in rows("metrics.jsonl")] == [0, 1, 2, 2]
    assert [row["step"] for row in rows("completions.jsonl")] == [1] * 8 + [2] * 8


SLOW_TASK = """
from pathlib import Path

def seconds():
    if not Path("slow").exists():
        return 0
    Path("waiting").touch()
    return 3600

TASKS = {
    "one": {
        "prompt": 'def wait(function):\\n'
            '    return lambda xs: __import__("time").sleep(xs) or function(xs)\\n\\n'
            '@wait\\ndef one(xs):\\n    \"\"\"Return one.\"\"\"\\n',
        "func_name": "one",
        "banned_patterns": [],
        "tests": ["seconds()"],
        "reference": "xs",
    }
}
"""


@contextlib.contextmanager
def running(words: Sequence[str]) -> Iterator[subprocess.Popen[str]]:
    """Start the program in a process of its own, which is killed at the end."""
    command = [sys.executable, "-m", "Daddy.train_codegen", *words]
    with subprocess.Popen(command, stdout=PIPE, stderr=PIPE, text=True, env=os.environ) as child:
        try:
            yield child
        finally:
            child.kill()


def test_a_second_ctrl_c_ends_a_long_step_at_once_and_leaves_nothing(words: list[str]) -> None:
    Path("tasks.py").write_text(SLOW_TASK)
    words += ["--max-steps", "64", "--max-timeout-seconds", "600", "--max-completion-length", "9"]
    with running(words) as child:
        assert child.stdout
        assert child.stderr
        assert any(line.startswith("step  1/64: reward") for line in child.stdout)
        Path("slow").touch()
        assert until(Path("waiting").exists)
        this = psutil.Process(child.pid)
        assert until(lambda: this.children(recursive=True))
        below = this.children(recursive=True)
        child.send_signal(signal.SIGINT)
        line = next(line for line in child.stderr if line.startswith("stopping"))
        assert re.fullmatch(r"stopping after step \d+; Ctrl-C again ends at once\n", line)
        assert child.poll() is None
        child.send_signal(signal.SIGINT)
        assert child.wait(PATIENCE_S) == 130
        assert child.stderr.read() == "interrupted\n"
        assert until(lambda: not any(map(psutil.Process.is_running, below)))


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="all tests run with TRL 1.16 here")
def test_a_step_with_the_trl_and_numpy_of_later_pythons(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = Path(__file__).parents[2] / "runs" / "trl"
    if not folder.is_dir():
        absent("TRL 1.16", "./scripts/sandbox_components")
    monkeypatch.setenv("PYTHONPATH", str(folder))
    show = "import numpy, trl; print(trl.__version__, numpy.__version__)"
    versions = subprocess.check_output([sys.executable, "-c", show], env=os.environ, text=True)
    assert versions == "1.16.0 2.2.6\n"
    with running([*words, "--max-steps", "1"]) as child:
        out, err = child.communicate(timeout=PATIENCE_S)
    assert child.returncode == 0, err
    assert "step 1/1: reward" in out
    assert rows("metrics.jsonl")[1]["loss"] is not None


@pytest.mark.parametrize("more", [[], ["--resume"], ["--show"]])
def test_a_folder_named_training_results_stays_as_it_is(
    words: list[str], more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    Path("training_results").mkdir()
    Path("training_results/model").touch()
    assert train([*words, *more]) == 3
    assert "training_results" in capsys.readouterr().err
    assert [*map(str, Path().rglob("*"))] == ["training_results", "training_results/model"]


def test_after_its_folder_was_deleted_a_run_is_missed_and_a_new_one_begins(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(words) == 0
    shutil.rmtree(Path("training_results").resolve())
    capsys.readouterr()
    for more in (["--resume"], ["--show"]):
        assert train(more) == 3
        assert "there is no run at " in capsys.readouterr().err
    assert train(words) == 0
    assert len(rows("metrics.jsonl")) == 4


def test_a_run_whose_last_step_is_done_is_evaluated_and_not_trained(words: list[str]) -> None:
    assert train(words) == 0
    metrics = Path("training_results/metrics.jsonl")
    metrics.write_text("".join(metrics.read_text().splitlines(keepends=True)[:-1]))
    state = Path("training_results/checkpoint-2/trainer_state.json")
    many_steps = {**json.loads(state.read_text()), "log_history": [{"step": 1}] * 10_000}
    state.write_text(json.dumps(many_steps))
    assert train(["--resume", "--backend", "process", "--allow-unsafe"]) == 0
    assert [row["step"] for row in rows("metrics.jsonl")] == [0, 1, 2, 2]
    assert [path.name for path in Path("training_results").glob("check*")] == ["checkpoint-2"]
    assert json.loads(Path("training_results/codegen.json").read_text())["unsafe"]


def test_what_could_not_be_graded_is_listed_and_the_exit_code_tells(
    words: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    grade = Grader.grade

    async def fail_first(self: Grader, *given: Any) -> list[Grade]:
        return [Grade(None, "not graded: it died"), *(await grade(self, *given))[1:]]

    monkeypatch.setattr(Grader, "grade", fail_first)
    Path("own.py").write_text(OWN_TASK)
    more = ["--tasks", "own.py", "--seeds", "2", "--max-completion-length", "30"]
    assert train([*words, *more]) == 13
    listed = Path("errors.log").read_text().splitlines()
    assert "step 1, double: not graded: it died" in listed
    assert rows("seed-1/metrics.jsonl")[1]["not_graded"] == 1


def test_a_task_that_fails_its_check_is_mended_and_typed_again(
    words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    more = ["--tasks", "own.py", "--run-dir", "run"]
    Path("own.py").write_text(OWN_TASK.replace("xs + xs", "xs.missing"))
    assert train([*words, *more]) == 3
    assert "double" in capsys.readouterr().err
    Path("own.py").write_text(OWN_TASK)
    assert train([*words, *more]) == 0


def test_a_full_disk_ends_with_its_code_and_loses_nothing_finished(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fill(path: Path, text: str) -> None:
        if json.loads(text).get("step") == 2:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
        append_line(path, text)

    monkeypatch.setattr(train_codegen, "append_line", fill)
    assert train(words) == 9
    assert "No space left" in capsys.readouterr().err
    assert [row["step"] for row in rows("metrics.jsonl")] == [0, 1]


def test_a_missing_extra_is_told_before_anything_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    assert train([]) == 14
    assert "-e '.[grpo]'" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("text", "seeds"), [("3", (0, 1, 2)), ("4,7", (4, 7)), ("5,", (5,))])
def test_seeds_are_a_number_or_a_list(text: str, seeds: tuple[int, ...]) -> None:
    assert parse_seed_list(text) == seeds


def test_an_option_of_the_command_line_wins_over_its_variable() -> None:
    parser = train_codegen.make_parser({"MAX_STEPS": "7", "BETA": "0.5", "MODEL_NAME": ""})
    args = parser.parse_args(["--max-steps", "9"])
    assert (args.max_steps, args.beta, args.model_name) == (9, 0.5, None)
    with pytest.raises(SystemExit):
        train_codegen.make_parser({"LOSS_TYPE": "other"}).parse_args([])
