"""Processes are killed at every instant that has a name; nothing is lost and everything goes on."""

from __future__ import annotations

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
    reached = {one["point"] for one in outcomes if one["killed"]}
    assert reached == {one["point"] for one in outcomes}


@pytest.mark.parametrize(
    "promise",
    ["readable", "never_older", "chained", "once", "none_lost", "went_on", "heads_mended"],
)
def test_after_each_kill(outcomes, promise):
    assert [one for one in outcomes if not one[promise]] == []
