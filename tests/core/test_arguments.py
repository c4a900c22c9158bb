"""Command lines: a mistyped word is answered with the nearest one, and help ends a command."""

import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

from Daddy.core.arguments import ArgumentParser, did_you_mean
from Daddy.core.errors import ConfigError
from Daddy.core.load_config import load_config
from tests.in_this_process import run_here
from tests.patience import PATIENCE_S

ROOT = Path(__file__).resolve().parents[2]
STARTED_BY_US = ("Daddy.sandbox.process_keeper", "Daddy.sandbox.text_relay")
"""Programs that ours start by their path: nobody types them."""
ENTRIES = [
    ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__main__")
    for path in sorted((ROOT / "Daddy").rglob("*.py"))
    if '\nif __name__ == "__main__":' in path.read_text(encoding="utf-8")
    and not ".".join(path.relative_to(ROOT).with_suffix("").parts).startswith(STARTED_BY_US)
]
CONTROLLER, PLAY = "Daddy.cluster.orchestrator.run_controller", "Daddy.play"


def run_entry_point(module: str, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "ignore", "-m", module, *words],
        cwd=ROOT,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


@pytest.mark.parametrize(
    ("module", "words", "near"),
    [
        (CONTROLLER, ["staus"], "status"),
        (CONTROLLER, ["status", "--wach"], "--watch"),
        (CONTROLLER, ["start", "--partitoin=gpu"], "--partition"),
        (CONTROLLER, ["start", "--executor", "slrum"], "slurm"),
        (CONTROLLER, ["plan", "--site", "testbd"], "testbed"),
        (PLAY, ["evalute", "--random"], "evaluate"),
        ("Daddy.streaming.tunnel_server", ["conect", "anna@login"], "connect"),
        ("Daddy.weights.sync", ["pul"], "pull"),
        ("Daddy.weights.friends", ["ad"], "add"),
        ("scripts.soaks.__main__", ["slrum"], "slurm"),
    ],
)
def test_a_mistyped_word_is_answered_with_the_nearest_one(
    module: str, words: list[str], near: str
) -> None:
    done = run_here(import_module(module).main, words, ROOT)
    assert f"did you mean {near}?" in done.stderr
    assert done.returncode in {2, 3}


def test_a_word_like_no_other_gets_no_suggestion() -> None:
    assert did_you_mean("xyzzy", ["start", "stop"]) == ""


def test_a_flag_of_another_command_is_refused_by_the_command_that_was_typed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    parser = ArgumentParser(prog="tool")
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("logs").add_argument("--lines")
    commands.add_parser("status")
    with pytest.raises(SystemExit):
        parser.parse_args(["status", "--lines", "3"])
    error = capsys.readouterr().err
    assert "tool status: error: unrecognized arguments: --lines 3" in error
    assert "did you mean" not in error


def test_an_unknown_site_of_the_environment_names_the_nearest_one() -> None:
    with pytest.raises(ConfigError, match="did you mean engr"):
        load_config(None, {}, {"DADDY_SITE": "enger"})


def test_all_entry_points_parse_by_the_parser_that_suggests() -> None:
    plain = [
        path
        for folder in ("Daddy", "scripts")
        for path in (ROOT / folder).rglob("*.py")
        if "= argparse.ArgumentParser(" in path.read_text(encoding="utf-8")
    ]
    without_ours = ROOT / "scripts" / "examples" / "cartpole_task.py"
    ignores_the_rest = ROOT / "scripts" / "soaks" / "learner.py"
    assert plain == [without_ours, ignores_the_rest]


@pytest.mark.parametrize("module", ENTRIES)
def test_help_of_every_entry_point_is_printed_also_in_ascii_and_ends(module: str) -> None:
    done = run_entry_point(module, "--help")
    assert (done.returncode, done.stderr) == (0, "")
    assert "usage: " in done.stdout
