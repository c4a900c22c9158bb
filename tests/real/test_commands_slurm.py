"""Tests commands on a real Slurm: the checks of ``start``, and a ``status`` that does not wait."""

import os
import re
import signal
import time

from Daddy.core.lease import Lease
from Daddy.core.load_config import load_release_config
from tests.cluster.conftest import Person, show_as_red
from tests.patience import until
from tests.pokemon.lookalike import lookalike
from tests.real.conftest import Cluster, Student

WAITED_S = 5.0
"""Longest ``status`` in seconds; squeue would wait for twenty. A bench measures the usual time."""


def quickest(person: Person, code: int, tries: int = 3) -> float:
    """Return the best of a few times of ``status``, in seconds."""
    took = []
    for _ in range(tries):
        began = time.monotonic()
        told = person.says("status")
        took.append(time.monotonic() - began)
        assert told.returncode == code, told.stdout + told.stderr
    return min(took)


def test_partition_and_limit_are_judged_by_what_slurm_says_of_itself(student: Student) -> None:
    student.wants(partition="gpu-linuxlap", time_limit="9:00:00")
    said = student.says("start")
    assert said.returncode == 4
    assert "there is no partition gpu-linuxlap; Slurm lists: gpu-linuxlab" in said.stderr
    student.wants(time_limit="9:00:00")
    assert "over the 4:00:00 that partition gpu-linuxlab allows" in student.says("start").stderr
    student.wants(qos="nosuch")
    assert student.says("start").returncode == 4
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
    said = student.says("start")
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


def test_status_does_not_wait_for_a_frozen_slurmctld(cluster: Cluster, student: Student) -> None:
    """A run under /tmp is accepted here, because the nodes have this host's boot time."""
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.training == 2, 60)
    healthy = quickest(student, 0)
    os.kill(student.controller, signal.SIGKILL)
    with cluster.frozen("slurmctld"):
        student.run.status.unlink()
        frozen = quickest(student, 22)
        text = student.says("status").stdout
    assert "2 of 2 slots have a heartbeat" in text
    assert frozen - healthy < WAITED_S, (healthy, frozen)


def test_one_slot_is_restarted_stopped_and_filled_again(student: Student) -> None:
    assert student.says("start").returncode == 0
    assert until(lambda: student.training == 2, 60)
    before = student.sees()["slots"][0]
    said = student.says("restart", "--slot", "0")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.sees()["slots"][0]["term"] > before["term"], 60)
    assert until(lambda: student.training == 2, 60)
    said = student.says("stop", "--slot", "1")
    assert said.returncode == 0, said.stderr
    assert until(lambda: "1 is stopped" in student.sees()["said"], 60)
    assert student.training == 1
    assert student.says("restart", "--slot", "1").returncode == 0
    assert until(lambda: student.training == 2, 60)
