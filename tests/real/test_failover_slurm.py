"""Tests failover on a real Slurm: without a controller running jobs submit their successors.

Here the controller ends by a signal; ``tests/cluster/test_sidecar.py`` tests a killed controller on
another host, which takes 90 s to be noticed, with a simulated clock.
"""

from __future__ import annotations

import os
import signal

import pytest

from Daddy.cluster.orchestrator.control_files import read_probe
from Daddy.core.lease import read_lease
from tests.patience import until
from tests.real.conftest import Cluster, Student


@pytest.mark.timeout(900)
def test_where_no_controller_is_left_jobs_submit_and_hand_over_by_themselves(
    cluster: Cluster, student: Student
) -> None:
    student.wants(max_runtime_s=25, time_limit="0:01:00", max_running=2)
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.training == 2, 40)
    os.kill(student.controller, signal.SIGTERM)
    last = max(entry["number"] for entry in student.ledger("intent"))
    assert until(
        lambda: sum(1 for entry in student.ledger("intent") if entry["number"] > last) >= 3, 120
    ), (student.run.logs / "failover.log").read_text()
    probe = read_probe(student.run)
    assert probe is not None
    assert probe.may_submit
    assert "test-only" in probe.why
    tokens = cluster.out("squeue", "--noheader", "--states=all", "--format=%k").splitlines()
    ours = [token for token in tokens if "daddy/tiny-" in token]
    assert len(ours) == len(set(ours))
    handovers = len(student.fleet.handovers())
    assert until(lambda: len(student.fleet.handovers()) >= handovers + 2, 90)

    assert student.says("start").returncode == 0
    view = read_lease(student.run.controller_lease)
    assert view is not None
    assert not view.holder["passing"]
    assert until(lambda: student.sees()["exit_code"] == 0, 30)
