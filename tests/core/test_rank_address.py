import pytest

from Daddy.core.errors import ConfigError
from Daddy.core.rank_address import RankAddress, rank_environment, read_rank

STEP = {"SLURM_JOB_ID": "7", "SLURM_STEP_ID": "0", "SLURM_PROCID": "1", "SLURM_NTASKS": "2"}
STEP |= {"SLURM_STEP_NUM_TASKS": "2", "SLURM_LAUNCH_NODE_IPADDR": "10.0.0.1"}


def test_ranks_are_read_from_the_standard_variables():
    assert read_rank({}) is None
    assert read_rank({"WORLD_SIZE": "1", "RANK": "0"}) is None
    assert read_rank({"WORLD_SIZE": "2", "RANK": "1"}) == RankAddress(1, 2, "127.0.0.1", 29500)
    for wrong in ({"WORLD_SIZE": "2"}, {"WORLD_SIZE": "2", "RANK": "2"}, {"WORLD_SIZE": "x"}):
        with pytest.raises(ConfigError, match="and not a number"):
            read_rank(wrong)


def test_a_rank_reads_the_variables_that_its_address_gives():
    at = RankAddress(1, 3, "10.0.0.1", 4000)
    assert read_rank(rank_environment(at)) == at


def test_tasks_that_srun_started_are_ranks_without_a_port_if_asked_for():
    at = RankAddress(1, 2, "10.0.0.1", 0, restart="7.0.0")
    assert read_rank(STEP, slurm=True) == at
    assert read_rank(STEP) is None
    assert read_rank({**STEP, "WORLD_SIZE": "1"}, slurm=True) is None
    batch = {name: text for name, text in STEP.items() if name != "SLURM_STEP_ID"}
    assert read_rank(batch, slurm=True) is None, "a job's script is no task"
    shell = {**STEP, "SLURM_STEP_NUM_TASKS": "1", "SLURM_PROCID": "0"}
    assert read_rank(shell, slurm=True) is None, "an interactive shell trains alone"
    assert read_rank({**STEP, "SLURM_RESTART_COUNT": "1"}, slurm=True) != at
