"""scontrol's answers and orders."""

from __future__ import annotations

import pytest

from Daddy.cluster.orchestrator.actions import Amend
from Daddy.cluster.orchestrator.slurm_show import amendments, is_job, maintenance_begins

JOB = "JobId=17 JobName=daddy-tiny-000000-0123456789ab UserId=root(0) GroupId=root(0) QOS=students"
RESERVATION = (
    "ReservationName=mt StartTime=1795287908 EndTime=1795289708 Duration=00:30:00 Nodes=n[1-4] "
    "PartitionName=(null) Flags=MAINT,IGNORE_JOBS,SPEC_NODES,ALL_NODES TRES=cpu=32 Users=root "
    "State=INACTIVE"
)


def test_a_job_is_ours_by_id_and_name_together() -> None:
    name = "daddy-tiny-000000-0123456789ab"
    assert is_job(JOB, 17, name)
    assert not is_job(JOB, 18, name)
    assert not is_job(JOB, 17, "daddy-tiny-000000-ffffffffffff")
    assert not is_job("", 17, name)


def test_the_next_maintenance_that_is_not_over_counts() -> None:
    later = RESERVATION.replace("1795287908", "1795900000").replace("1795289708", "1795990000")
    both = f"{later}\n{RESERVATION}\n"
    assert maintenance_begins(both, "gpu-linuxlab", 1795280000.0) == 1795287908.0
    assert maintenance_begins(both, "gpu-linuxlab", 1795288000.0) == 1795287908.0
    assert maintenance_begins(both, "gpu-linuxlab", 1795289709.0) == 1795900000.0
    assert maintenance_begins("No reservations in the system\n", "gpu-linuxlab", 0.0) is None


def test_a_course_or_another_partitions_maintenance_is_no_concern() -> None:
    course = RESERVATION.replace("MAINT,", "")
    elsewhere = RESERVATION.replace("PartitionName=(null)", "PartitionName=cpu")
    assert maintenance_begins(f"{course}\n{elsewhere}", "gpu-linuxlab", 0.0) is None
    assert maintenance_begins(elsewhere, "cpu", 0.0) == 1795287908.0


@pytest.mark.parametrize(
    ("change", "commands"),
    [
        ({"exclude": ("n1", "n2")}, ["update JobId=17 ExcNodeList=n1,n2"]),
        ({"exclude": ()}, ["update JobId=17 ExcNodeList="]),
        ({"limit_s": 3700}, ["update JobId=17 TimeLimit=61"]),
        ({"hold": True}, ["uhold 17"]),
        ({"hold": False, "limit_s": 10}, ["update JobId=17 TimeLimit=1", "release 17"]),
        ({}, []),
    ],
)
def test_how_a_waiting_job_is_changed(change: dict[str, object], commands: list[str]) -> None:
    made = amendments(17, Amend("0123456789ab", 17, "because", **change))
    assert [" ".join(argv) for argv in made] == [f"scontrol {words}" for words in commands]
