"""Each command line of the four documents has a row in the table, and does what its row says."""

import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from Daddy import docker_launch, run_demo, train_codegen, train_terminal
from Daddy.fanout.fanout_settings import settings_from
from Daddy.grpo.grpo_settings import OPTION_NAMES, DeviceFacts, choose_settings
from tests.components import program
from tests.patience import PATIENCE_S

CHECKOUT = Path(__file__).resolve().parents[2]
EXAMPLES = CHECKOUT / "scripts" / "examples"
ROWS: list[dict[str, Any]] = json.loads((EXAMPLES / "commands.json").read_text())
LINES = Path(__file__).with_name("document_lines.txt").read_text().splitlines()
CLASSES = {"run", "run small", "plan", "engine", "install"}
TYPED = [row for row in ROWS if row["class"] in ("run", "run small", "engine")]
ENGINE = [row for row in ROWS if row["class"] == "engine"]
PLANNED = [row for row in ROWS if row["class"] == "plan"]
KEYS = {"DAYTONA_API_KEY", "TINKER_API_KEY"}


def id_of(row: dict[str, Any]) -> str:
    return f"{row['document']} {row['line']}"


def test_every_line_of_the_documents_has_one_row_and_every_row_a_line() -> None:
    rows = [id_of(row) for row in ROWS]
    assert sorted(rows) == sorted(set(LINES))
    assert {line.partition(" ")[0] for line in LINES} == {"000", "001", "002", "004"}


def test_every_row_has_a_class_and_what_is_typed_begins_with_the_line() -> None:
    assert {row["class"] for row in ROWS} <= CLASSES
    lines = {row["typed"]: row["line"] for row in [*TYPED, *PLANNED] if row not in ENGINE}
    assert [typed for typed, line in lines.items() if not typed.startswith(line)] == [
        next(typed for typed, line in lines.items() if line == "git clone <repo-url>")
    ]
    assert [row for row in ROWS if not {"exit", "first"} <= row.keys()] == []


@pytest.mark.parametrize("row", [row for row in ROWS if "means" in row], ids=id_of)
def test_a_line_means_what_the_document_says(row: dict[str, Any]) -> None:
    words = shlex.split(row["line"])
    if words[0] == "./devops/docker_launch.py":
        meant = vars(docker_launch.make_parser().parse_args(words[1:]))
    elif "train.py" in words:  # on a machine such as the document's
        args = vars(train_codegen.make_parser({}).parse_args(words[words.index("train.py") + 1 :]))
        given = {name: args[name] for name in OPTION_NAMES if args.get(name) is not None}
        meant = asdict(choose_settings(DeviceFacts(gpu=True, vllm=True), given)[0])
    elif words[1].endswith("terminal_rl/train.py"):
        meant = vars(train_terminal.make_parser().parse_args(words[2:]))
    else:
        args = vars(run_demo.make_parser().parse_args(words[2:]))
        given = {name: args[name] for name in ("sandboxes", "episodes", "timesteps") if args[name]}
        meant = {**settings_from(given, None).as_json(), "workers": args["workers"]}
    assert {name: meant[name] for name in row["means"]} == row["means"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Provide a copy of the examples, in which runs leave their files."""
    program("bwrap", "bubblewrap")
    if Path(sys.prefix).is_relative_to("/tmp"):
        pytest.skip("sandboxes have a /tmp of their own, which hides this Python environment")
    return Path(shutil.copytree(EXAMPLES, tmp_path / "examples"))


def begin(line: str, folder: Path) -> subprocess.Popen[str]:
    """Type a line in a shell whose `python` is this one and which holds no key."""
    environment = {name: value for name, value in os.environ.items() if name not in KEYS}
    environment["CHECKOUT"] = str(CHECKOUT)
    environment["PATH"] = f"{Path(sys.executable).parent}:{environment['PATH']}"
    return subprocess.Popen(
        ["bash", "-c", line], cwd=folder, env=environment, stdout=-1, stderr=-2, text=True
    )


@pytest.mark.parametrize("row", TYPED, ids=id_of)
def test_a_line_ends_and_begins_as_the_table_says(row: dict[str, Any], folder: Path) -> None:
    with begin(row["typed"], folder) as shell:
        output = shell.communicate(timeout=PATIENCE_S)[0]
    assert shell.returncode == row["exit"], output
    assert output.startswith(row["first"])
    assert [text for text in row.get("prints", []) if text not in output] == []


@pytest.mark.parametrize("row", ENGINE, ids=id_of)
def test_a_line_for_docker_fails_by_itself_without_an_engine(
    row: dict[str, Any], folder: Path
) -> None:
    engine = "docker info >/dev/null 2>&1 && echo there is an engine"
    with begin(f"{row['line']}; code=$?; {engine}; exit $code", folder) as shell:
        output = shell.communicate(timeout=PATIENCE_S)[0]
    if "there is an engine" not in output:
        assert shell.returncode in (1, 127)
        assert "ocker" in output, "the message of Docker or of the shell"


def interrupt_at_first_result(line: str, folder: Path) -> tuple[int, str]:
    """Press Ctrl-C once a sandbox is done; return the exit code and the output so far."""
    with begin(f"exec {line}", folder) as shell:
        assert shell.stdout
        output = ""
        try:
            for text in shell.stdout:
                output += text
                if " done: " in text:
                    break
            shell.send_signal(signal.SIGINT)
            output += shell.communicate(timeout=PATIENCE_S)[0]
        finally:
            shell.kill()
    return shell.returncode, output


@pytest.mark.parametrize("row", PLANNED, ids=id_of)
def test_a_line_for_many_machines_begins_here_and_goes_on(
    row: dict[str, Any], folder: Path
) -> None:
    def results() -> int:
        return len(list(folder.glob("runs/*/results/*.json")))

    code, output = interrupt_at_first_result(row["typed"], folder)
    first = results()
    assert (code, first > 0) == (row["exit"], True), output
    assert output.startswith(row["first"])
    assert "25,000 x " in output, "the estimate"
    code, output = interrupt_at_first_result(f"{row['typed']} --resume", folder)
    assert (code, len(list(folder.glob("runs/*")))) == (row["exit"], 1), output
    assert results() > first
