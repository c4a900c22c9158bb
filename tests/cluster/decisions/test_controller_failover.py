"""The job that makes the controller's pass while no controller does: a table."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.controller_types import Mode
from Daddy.cluster.orchestrator.decisions.controller_failover import (
    ControllerState,
    JobView,
    should_make_pass,
)

OURS = JobView(
    mode=Mode.RUN,
    daemon=True,
    controller=ControllerState.DEAD,
    unchanged_s=100.0,
    holds_slot=True,
    pass_wait_s=0.0,
    lower_jobs=0,
    next_pass_in_s=0.0,
    slot_changed=False,
)
PASSING = {"controller": ControllerState.PASSING, "pass_wait_s": 60.0}
ENDED = {"controller": ControllerState.ENDED}


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({}, True, "gone"),
        ({"controller": ControllerState.SILENT, "unchanged_s": 0.0}, True, "has stopped"),
        ({"controller": ControllerState.BUSY}, False, "makes a pass"),
        ({"controller": ControllerState.ALIVE, "unchanged_s": 0.0}, False, "lives"),
        ({"controller": ControllerState.BLIND, "unchanged_s": 0.0}, True, "cannot read the queue"),
        ({"controller": ControllerState.PASSING, "unchanged_s": 0.0}, True, "jobs make"),
        ({**ENDED, "unchanged_s": 20.0}, False, "20 of 90"),
        ({**ENDED, "unchanged_s": 0.0, "daemon": False}, True, "no controller"),
        ({"lower_jobs": 1}, False, "lower slot"),
        ({"lower_jobs": 1, "unchanged_s": 134.0}, False, "lower slot"),
        ({"lower_jobs": 1, "unchanged_s": 136.0}, True, "gone"),
        ({"lower_jobs": 2, "unchanged_s": 136.0}, False, "lower slot"),
        ({**PASSING, "lower_jobs": 1, "unchanged_s": 104.0}, False, "lower slot"),
        ({**PASSING, "lower_jobs": 1, "unchanged_s": 106.0}, True, "jobs make"),
        ({"holds_slot": False}, False, "no slot"),
        ({"mode": Mode.PAUSED}, False, "paused"),
        ({"mode": Mode.STOPPED}, False, "stopped"),
        ({"mode": Mode.DRAIN}, False, "drain"),
        ({"next_pass_in_s": 40.0}, False, "in 40 s"),
        ({"next_pass_in_s": 40.0, "slot_changed": True}, True, "gone"),
    ],
)
def test_a_job_makes_the_pass_only_when_nobody_else_will(changes, now, reason):
    ours, why = should_make_pass(replace(OURS, **changes), grace_s=90.0, job_s=3600.0)
    assert ours is now
    assert reason in why


def test_no_wait_is_longer_than_a_third_of_a_job():
    view = replace(OURS, lower_jobs=3, unchanged_s=34.0)
    assert not should_make_pass(view, grace_s=15.0, job_s=60.0)[0]
    assert should_make_pass(replace(view, unchanged_s=36.0), grace_s=15.0, job_s=60.0)[0]
