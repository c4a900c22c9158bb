"""Tests the controller's parameters of a configuration."""

import pytest

from Daddy.cluster.orchestrator.control_parameters import derive_policy
from Daddy.core.errors import ConfigError
from Daddy.core.load_config import load_config


@pytest.mark.parametrize("limit", ["0", "0:00:00"])
def test_a_job_without_any_time_is_refused(limit: str) -> None:
    config = load_config(None, {"slurm.time_limit": limit})
    with pytest.raises(ConfigError, match="gives a job no time"):
        derive_policy(config, "slurm")
