"""The commands against a real Slurm: what ``start`` finds, and a ``status`` that does not wait."""

from __future__ import annotations

import os
import signal
import time

from tests.cluster.conftest import Person
from tests.patience import until
from tests.real.conftest import Sandbox, Student

HEALTHY_S = 0.5
FROZEN_S = 2.0


def quickest(person: Person, code: int, tries: int = 3) -> tuple[float, float]:
    """Seconds that ``status`` takes, and those it computes: the best of a few."""
    took = []
    for _ in range(tries):
        before, began = os.times(), time.monotonic()
        told = person.says("status")
        wall, after = time.monotonic() - began, os.times()
        assert told.returncode == code, told.stdout + told.stderr
        cpu = after.children_user - before.children_user
        took.append((wall, cpu + after.children_system - before.children_system))
    return min(took)


def test_partition_and_limit_are_judged_by_what_slurm_says_of_itself(student: Student) -> None:
    student.wants(partition="gpu-linuxlap", time_limit="9:00:00")
    said = student.says("start")
    assert said.returncode == 4
    assert "there is no partition gpu-linuxlap here; there are: gpu-linuxlab" in said.stderr
    student.wants(time_limit="9:00:00")
    assert "over the 4:00:00 that partition gpu-linuxlab allows" in student.says("start").stderr
    student.wants(qos="nosuch")
    assert student.says("start").returncode == 4
    assert not student.run.intent.exists()


def test_status_is_quick_and_does_not_wait_for_a_frozen_slurmctld(
    sandbox: Sandbox, student: Student
) -> None:
    """Also a run under /tmp is taken here: the nodes are this very host, by their boot time."""
    said = student.says("start")
    assert said.returncode == 0, said.stderr
    assert until(lambda: student.sees()["exit_code"] == 0, 60)
    healthy, cpu = quickest(student, 0)
    os.kill(student.controller, signal.SIGKILL)
    with sandbox.frozen("slurmctld"):
        student.run.status.unlink()
        frozen, _ = quickest(student, 22)
        text = student.says("status").stdout
    waited = frozen - healthy
    print(f"status: {healthy:.2f} s ({cpu:.2f} s of CPU), {frozen:.2f} s with slurmctld frozen")
    assert "2 of 2 slots give signs of life" in text
    assert healthy < HEALTHY_S or cpu < HEALTHY_S  # others use these cores too
    assert frozen < FROZEN_S or waited < FROZEN_S - HEALTHY_S
