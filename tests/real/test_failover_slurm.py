"""No controller on a real Slurm: running jobs submit, and the fleet goes on by itself.

The controller leaves by a signal here: that a killed one on another host is noticed by its silence
takes a minute and a half, and is shown with a told clock in ``tests/cluster/test_sidecar.py``.
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
    last = max(one["number"] for one in student.ledger("intent"))
    assert until(
        lambda: sum(1 for one in student.ledger("intent") if one["number"] > last) >= 3, 120
    ), (student.run.logs / "failover.log").read_text()
    probe = read_probe(student.run)
    assert probe is not None
    assert probe.may_submit
    assert "test-only" in probe.why
    tokens = cluster.out("squeue", "--noheader", "--states=all", "--format=%k").splitlines()
    ours = [one for one in tokens if "daddy/tiny-" in one]
    assert len(ours) == len(set(ours))
    handovers = len(student.fleet.handovers())
    assert until(lambda: len(student.fleet.handovers()) >= handovers + 2, 90)

    assert student.says("start").returncode == 0
    view = read_lease(student.run.controller_lease)
    assert view is not None
    assert not view.holder["passing"]
    assert until(lambda: student.sees()["exit_code"] == 0, 30)
