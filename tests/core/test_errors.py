"""Entry points: output that the terminal's encoding lacks letters for ends no command."""

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from Daddy.core.entry_point import make_output_safe, run_entry
from Daddy.core.errors import ExitCode
from Daddy.core.load_config import config_to_json
from Daddy.core.run_paths import RunPaths
from tests.cluster.commands.test_status_screen import run as slots  # noqa: F401 - a fixture
from tests.cluster.conftest import config_of
from tests.patience import PATIENCE_S

CONTROLLER = "Daddy.cluster.orchestrator.run_controller"


@pytest.fixture
def finished_run(slots: RunPaths) -> RunPaths:  # noqa: F811 - the fixture
    """Provide a run with slots, an attempt that crashed, and a log with letters beyond ASCII."""
    slots.logs.mkdir(exist_ok=True)
    (slots.logs / "controller.log").write_text("played Pokémon · 3 episodes\n", encoding="utf-8")
    slots.config.write_bytes(config_to_json(config_of(slots.root)))
    return slots


@pytest.mark.parametrize("encoding", ["ascii", "iso-8859-1", "utf-8"])
@pytest.mark.parametrize("words", ["Daddy.dashboard --once", f"{CONTROLLER} status",
                                   f"{CONTROLLER} logs"])  # fmt: skip
def test_screens_and_logs_are_printed_in_any_encoding(
    finished_run: RunPaths, encoding: str, words: str
) -> None:
    folder = ["--run-dir", str(finished_run.root)] if "dashboard" in words else []
    done = subprocess.run(
        [sys.executable, "-m", *words.split(), *folder],
        env={
            **os.environ,
            "PYTHONIOENCODING": encoding,
            "DADDY_RUN_DIR": str(finished_run.root),
        },
        capture_output=True,
        timeout=PATIENCE_S,
        check=False,
    )
    text = done.stdout.decode(encoding)
    assert done.stderr == b""
    assert "\x1b" not in text
    if "logs" in words:
        assert ("Pokemon | 3" if encoding == "ascii" else "Pokémon · 3") in text
    else:
        assert "slots train" in text or "slots have a heartbeat" in text
        assert "crashed" in text


@pytest.mark.parametrize(
    ("encoding", "shown"),
    [
        ("ascii", "* slot 3 | Pokemon ... 95 % +-2 ?"),
        ("latin-1", "* slot 3 · Pokémon ... 95 % ±2 ?"),
        ("utf-8", "● slot 3 · Pokémon … 95 % ±2 \N{SNOWMAN}"),
    ],
)
def test_a_letter_that_cannot_be_encoded_is_printed_as_a_plain_one(
    monkeypatch: pytest.MonkeyPatch, encoding: str, shown: str
) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, encoding))

    def main(_: object) -> int:
        print("● slot 3 · Pokémon … 95 % ±2 \N{SNOWMAN}", flush=True)
        return 0

    assert run_entry(main) == 0
    assert output.getvalue().decode(encoding) == f"{shown}\n"


def test_a_path_that_is_no_text_can_be_printed_in_utf_8(monkeypatch: pytest.MonkeyPatch) -> None:
    output = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(output, "utf-8"))
    make_output_safe()
    print(Path(os.fsdecode(b"/runs/caf\xe9")), flush=True)
    assert output.getvalue() == b"/runs/caf?\n"


@pytest.mark.parametrize("stderr", ["2>/dev/full", "2>&-"])
def test_an_error_that_cannot_be_printed_keeps_its_exit_code(tmp_path: Path, stderr: str) -> None:
    typed = f"{sys.executable} -m {CONTROLLER} status --config {tmp_path}/absent {stderr}"
    done = subprocess.run(["sh", "-c", typed], timeout=PATIENCE_S, check=False)
    assert done.returncode == ExitCode.CONFIGURATION


def test_a_program_may_log_to_a_closed_stderr() -> None:
    code = "from Daddy.core.log_setup import log_to; log_to(); import logging; logging.error('x')"
    typed = f'{sys.executable} -c "{code}" 2>&-'
    assert subprocess.run(["sh", "-c", typed], timeout=PATIENCE_S, check=False).returncode == 0
