"""The rules that the settings come to."""

from __future__ import annotations

from pathlib import Path

from Daddy.cluster.orchestrator.control_parameters import make_policy
from Daddy.cluster.orchestrator.decisions.capacity import choose_chaining
from Daddy.cluster.orchestrator.records import Chaining, Site
from tests.cluster.conftest import config_of


def test_prequeue_never_means_late(tmp_path: Path) -> None:
    polite = config_of(tmp_path, controller={"prequeue": "never"})
    assert choose_chaining(Site(), make_policy(polite, "slurm"))[0] is Chaining.LATE
