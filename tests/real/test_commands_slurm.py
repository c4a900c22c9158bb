"""Tests commands on a real Slurm: the checks of ``start``."""

import re

from Daddy.core.lease import Lease
from Daddy.core.load_config import load_release_config
from tests.cluster.conftest import show_as_red
from tests.pokemon.lookalike import lookalike
from tests.real.conftest import Student


def test_partition_and_limit_are_judged_by_what_slurm_says_of_itself(student: Student) -> None:
    student.configure(partition="gpu-linuxlap", time_limit="9:00:00")
    said = student.run_controller("start")
    assert said.returncode == 4
    assert "there is no partition gpu-linuxlap; Slurm lists: gpu-linuxlab" in said.stderr
    student.configure(time_limit="9:00:00")
    assert (
        "over the 4:00:00 that partition gpu-linuxlab allows"
        in student.run_controller("start").stderr
    )
    student.configure(qos="nosuch")
    assert student.run_controller("start").returncode == 4
    assert not student.run.intent.exists()


def test_the_real_game_on_cuda_is_started_with_the_tuned_recipe(student: Student) -> None:
    student.config = student.checkout / "Daddy" / "cluster" / "cluster_config.json"
    typed = {"RUN_DIR": str(student.run.root), "TRAINING__STREAM": "0"}
    typed |= {"TRAINING__TOTAL_STEPS": "5000000", "SLURM__MAX_RUNNING": "2"}
    student.env |= {f"DADDY_{name}": value for name, value in typed.items()}
    show_as_red(student, lookalike())
    lease = Lease.acquire(student.run.slot(0).lease, {"host": "n1"})
    assert lease is not None
    lease.beat({"steps_per_second": 2_500.0})
    lease.release("test")
    said = student.run_controller("start")
    assert said.returncode == 0, said.stderr
    print(said.stdout)
    tuned = load_release_config(student.run.config)
    assert (tuned.training.device, tuned.training.profile, tuned.archive.mode) == (
        "cuda",
        "gpu",
        "swarm",
    )
    assert (tuned.training.num_envs, tuned.training.total_steps) == (96, 5_000_000)
    for shown in ("training.num_envs +8 +96", "training.batch_size +64 +2,048",
                  "archive.mode +off +swarm", "training.episode_steps +2,048 +1,000,000,000",
                  r"training.total_steps +5,000,000 +0 \(no end\) +stays: you set it",
                  "last 16 min at 5,000 steps/s"):  # fmt: skip
        assert re.search(shown, said.stdout), shown
