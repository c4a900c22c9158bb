"""Who makes the controller's pass when no controller does: a table."""

from dataclasses import replace

import pytest

from Daddy.cluster.orchestrator.controller_records import Mode
from Daddy.cluster.orchestrator.decisions.sidecar_takeover import Helm, Sight, turn

OURS = Sight(
    mode=Mode.RUN,
    daemon=True,
    helm=Helm.GONE,
    still_s=100.0,
    mine=True,
    lower=False,
    pass_in_s=0.0,
    news=False,
)


@pytest.mark.parametrize(
    ("changes", "now", "reason"),
    [
        ({}, True, "gone"),
        ({"helm": Helm.SILENT}, True, "stands still"),
        ({"helm": Helm.SILENT, "still_s": 89.0}, False, "89 of 90"),
        ({"helm": Helm.LIVES, "still_s": 0.0}, False, "lives"),
        ({"helm": Helm.LEFT, "still_s": 20.0}, False, "20 of 90"),
        ({"helm": Helm.LEFT, "still_s": 0.0, "daemon": False}, True, "no controller"),
        ({"lower": True}, False, "lower slot"),
        ({"mine": False}, False, "no slot"),
        ({"mode": Mode.PAUSED}, False, "paused"),
        ({"mode": Mode.STOPPED}, False, "stopped"),
        ({"mode": Mode.DRAIN}, False, "drain"),
        ({"pass_in_s": 40.0}, False, "in 40 s"),
        ({"pass_in_s": 40.0, "news": True}, True, "gone"),
    ],
)
def test_a_job_makes_the_pass_only_when_nobody_else_will(changes, now, reason):
    ours, why = turn(replace(OURS, **changes), silence_s=90.0, grace_s=90.0)
    assert ours is now
    assert reason in why
