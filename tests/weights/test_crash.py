"""Processes are killed at every kill point; nothing is lost and the run continues."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def outcomes():
    command = [sys.executable, "-m", "tests.weights.crash_driver"]
    done = subprocess.run(
        command, cwd=CHECKOUT, capture_output=True, text=True, timeout=280, check=False
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_every_named_instant_was_reached_and_killed_at_least_once(outcomes):
    reached = {outcome["point"] for outcome in outcomes if outcome["killed"]}
    assert reached == {entry["point"] for entry in outcomes}


@pytest.mark.parametrize(
    "promise",
    ["readable", "never_older", "chained", "once", "none_lost", "went_on", "heads_mended"],
)
def test_after_each_kill(outcomes, promise):
    assert [outcome for outcome in outcomes if not outcome[promise]] == []
