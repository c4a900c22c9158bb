"""Tests single passes as real processes: the lease is released, a resumed holder does nothing."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from Daddy.cluster.orchestrator.control_files import read_probe
from Daddy.core.lease import read_lease
from tests.cluster.conftest import small_config, until
from tests.patience import PATIENCE_S


def release_of(person):
    (release,) = person.run.releases.iterdir()
    return release


def passes(person, *options, env=None):
    module = "Daddy.cluster.orchestrator.single_pass"
    return subprocess.run(
        [sys.executable, "-m", module, "--release", str(release_of(person)), *options],
        cwd=person.run.root,
        env={**person.env, "PYTHONPATH": str(release_of(person)), **(env or {})},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def without_failover(person, **changes):
    settings = {"controller": {"failover": False}, "training": {"max_runtime_seconds": 60}}
    person.config.write_text(json.dumps(small_config(person.run.root, **settings, **changes)))


def test_a_controller_that_was_suspended_wakes_up_powerless(person):
    """Fault 15: a second process takes over; the first notices it and changes nothing."""
    without_failover(person)
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2 and len(person.status_in_process["waiting"]) == 2)
    first = person.controller
    os.kill(first, signal.SIGSTOP)
    done = passes(person, "--watched")
    assert done.returncode == 0, done.stderr
    assert read_lease(person.run.controller_lease).term >= 2
    before = person.run.ledger.read_text()
    os.kill(first, signal.SIGCONT)
    until(lambda: not Path(f"/proc/{first}").exists() or _is_zombie(first), 30)
    assert person.run.ledger.read_text() == before
    assert "term 1 has ended" in (person.run.logs / "controller.log").read_text()
    assert person.training == 2


def _is_zombie(pid):
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] == "Z"


def test_a_pass_refuses_while_a_controller_lives_and_gives_the_lease_back(person):
    without_failover(person)
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    refused = passes(person)
    assert refused.returncode == 5
    assert "pid" in refused.stderr
    os.kill(person.controller, signal.SIGKILL)
    until(lambda: passes(person).returncode == 0, 20)
    view = read_lease(person.run.controller_lease)
    assert view.ended == "one pass was made"
    told = json.loads(passes(person).stdout.splitlines()[-1])
    assert told["final"] is None
    assert told["silence"].keys() == {"0", "1"}
    assert 0.0 <= told["wake_in_s"] <= 5.0


def test_a_start_waits_for_a_pass_that_is_being_made(person):
    """Else `start` would take a single pass for a daemon, and no daemon would be left."""
    without_failover(person)
    assert person.run_controller("start").returncode == 0
    until(lambda: person.training == 2)
    os.kill(person.controller, signal.SIGKILL)
    passing = subprocess.Popen(
        [sys.executable, "-c", _HOLD, str(person.run.root)], env=person.env, text=True
    )
    until(lambda: person.controller == passing.pid)
    began = time.monotonic()
    assert person.run_controller("start").returncode == 0
    assert time.monotonic() - began > 1.0
    assert passing.wait(PATIENCE_S) == 0
    assert person.controller not in (passing.pid, 0)
    until(lambda: person.status_in_process["exit_code"] == 0)


_HOLD = """
import sys, time
from pathlib import Path
from Daddy.cluster.orchestrator import controller_lease
from Daddy.core.clock import SystemClock
from Daddy.core.run_paths import RunPaths
lease = controller_lease.become_controller(RunPaths(Path(sys.argv[1])), SystemClock(), passing=True)
time.sleep(2.5)
lease.release("one pass was made")
"""

SHIM = """#!/bin/bash
case "$DADDY_TEST_SBATCH" in
  yes) echo "sbatch: Job 1 to start at 2026-01-01T00:00:00" >&2; exit 0;;
  no) echo "allocation failure: Access/permission denied" >&2; exit 1;;
  silent) echo "allocation failure: Unable to contact slurm controller" >&2; exit 1;;
esac
"""


def test_whether_jobs_may_submit_is_found_out_and_silence_is_no_answer(person, tmp_path):
    without_failover(person)
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("sbatch", "squeue", "scancel", "scontrol", "sinfo", "sacctmgr"):
        (programs / name).write_text(SHIM)
        (programs / name).chmod(0o755)
    config = small_config(person.run.root, controller={"executor": "slurm", "failover": True})
    config["training"]["cartridge"] = True
    person.config.write_text(json.dumps(config))
    from Daddy.cluster.release_build import freeze_release
    from Daddy.core.load_config import load_config

    freeze_release(person.run, load_config(person.config), person.checkout)
    env = {"PATH": f"{programs}:{os.environ['PATH']}"}
    silent = passes(person, "--probe", env={**env, "DADDY_TEST_SBATCH": "silent"})
    assert silent.returncode == 0, silent.stderr
    assert read_probe(person.run) is None
    assert passes(person, "--probe", env={**env, "DADDY_TEST_SBATCH": "no"}).returncode == 0
    assert read_probe(person.run).may_submit is False
    assert "denied" in read_probe(person.run).why
    assert passes(person, "--probe", env={**env, "DADDY_TEST_SBATCH": "yes"}).returncode == 0
    assert read_probe(person.run).may_submit is True
