"""Tests the README's first command, shortened: every part runs and ends."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]


def start(run_dir, *options):
    argv = [sys.executable, "-m", "scripts.demonstration", "--run-dir", str(run_dir), *options]
    log = (run_dir.parent / "demo.log").open("wb")
    return subprocess.Popen(argv, cwd=ROOT, stdout=log, stderr=subprocess.STDOUT)


def end(demo):
    """Send SIGINT to a running demo, so that it ends its parts, then kill it."""
    demo.terminate()
    try:
        demo.wait(300)
    finally:
        demo.kill()


def left_behind(folder):
    """Return the command lines with the demo's folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "status"]):
        line = " ".join(process.info["cmdline"] or [])
        if str(folder) in line and process.info["status"] != psutil.STATUS_ZOMBIE:
            found.append(line)
    return found


def wait_for(what, condition, seconds):
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not happen within {seconds} s"
        time.sleep(0.2)


@pytest.mark.timeout(1800)
def test_the_whole_chain_runs_and_its_summary_is_read_from_the_run_directory(tmp_path):
    run_dir = tmp_path / "demo"
    demo = start(run_dir, "--steps", "6000", "--handovers", "0", "--no-window")
    try:
        code = demo.wait(1500)
    finally:
        end(demo)
    log = (tmp_path / "demo.log").read_text()
    assert code in (0, 15), log  # so few steps seldom show learning, and the last line says so
    assert ("The agents learnt" if code == 0 else "6,") in log
    summary = json.loads((run_dir / "summary.json").read_text())
    assert summary["slots"] == 4
    assert summary["backend"] == "local"
    assert summary["versions"]["chained"] is True
    assert summary["versions"]["contributors"] == [f"slot-{slot}" for slot in range(4)]
    assert summary["laptop"]["transport"] == "rsync+ssh"
    assert summary["laptop"]["versions_played"] >= 1
    assert summary["viewer"]["transport"] == "ssh-R"
    assert summary["viewer"]["frames"] > 0
    assert summary["viewer"]["agents"] >= 2
    assert summary["returns"]["random"] > 0
    assert (run_dir / "report.png").read_bytes().startswith(b"\x89PNG")
    assert left_behind(tmp_path) == []


@pytest.mark.timeout(1800)
def test_an_interrupt_in_the_middle_leaves_no_process(tmp_path):
    run_dir = tmp_path / "demo"
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as under nohup, or in a script's "&"
    demo, log = start(run_dir, "--steps", "6000", "--no-window"), tmp_path / "demo.log"
    signal.signal(signal.SIGINT, before)
    try:
        wait_for("the first claim of a slot", lambda: list(run_dir.glob("slots/*/lease/*")), 900)
        os.kill(demo.pid, signal.SIGINT)
        wait_for("a word on the end", lambda: "interrupted: ending" in log.read_text(), 300)
        os.kill(demo.pid, signal.SIGINT)  # an impatient second one leaves nothing running either
        assert demo.wait(300) == 130
    finally:
        end(demo)
    wait_for("the end of every process", lambda: left_behind(tmp_path) == [], 300)
