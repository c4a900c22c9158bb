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
    lower_job_alive=False,
    next_pass_in_s=0.0,
    slot_changed=False,
)
ENDED = {"controller": ControllerState.ENDED}


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({}, True, "gone"),
        ({"controller": ControllerState.SILENT}, True, "has stopped"),
        ({"controller": ControllerState.SILENT, "unchanged_s": 89.0}, False, "89 of 90"),
        ({"controller": ControllerState.ALIVE, "unchanged_s": 0.0}, False, "lives"),
        ({"controller": ControllerState.BLIND, "unchanged_s": 0.0}, True, "cannot read the queue"),
        ({"controller": ControllerState.PASSING, "unchanged_s": 0.0}, True, "jobs make"),
        ({**ENDED, "unchanged_s": 20.0}, False, "20 of 90"),
        ({**ENDED, "unchanged_s": 0.0, "daemon": False}, True, "no controller"),
        ({"lower_job_alive": True}, False, "lower slot"),
        ({"holds_slot": False}, False, "no slot"),
        ({"mode": Mode.PAUSED}, False, "paused"),
        ({"mode": Mode.STOPPED}, False, "stopped"),
        ({"mode": Mode.DRAIN}, False, "drain"),
        ({"next_pass_in_s": 40.0}, False, "in 40 s"),
        ({"next_pass_in_s": 40.0, "slot_changed": True}, True, "gone"),
    ],
)
def test_a_job_makes_the_pass_only_when_nobody_else_will(changes, now, reason):
    ours, why = should_make_pass(replace(OURS, **changes), silence_s=90.0, grace_s=90.0)
    assert ours is now
    assert reason in why
